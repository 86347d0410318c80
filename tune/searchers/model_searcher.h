// Common base of searchers that learn a model: bookkeeping of trials and their points, no duplicate configurations,
// snapshots; one model per grid point.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tune/loop/objectives.h"
#include "tune/searchers/searcher.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

// Model of the quality of points: lower values are better. Deterministic; randomness comes from seed and index.
class SearchModel {
 public:
  virtual ~SearchModel() = default;

  // Returns settled points for trial `index`, best first; never empty. Other attempts draw other points: the searcher
  // retries if all of them were proposed before. Does not change the model; only taken() and ended() do.
  virtual std::vector<Point> propose(int64_t index, int attempt) = 0;
  // taken(): trial `index` runs with this point. ended(): it ended with `value`; NaN: it failed, or reported no number.
  virtual void taken(int64_t index, const Point& point) = 0;
  virtual void ended(int64_t index, double value) = 0;
  // As ended(), in a run with several objectives or with constraints.
  virtual void judged(int64_t index, const Outcome& outcome) { ended(index, outcome.values.front()); }
  // A running trial reported `value` at `step`; NaN: it reported no number. Steps are in order, each once.
  virtual void reported(int64_t /*index*/, int64_t /*step*/, double /*value*/) {}
  // Trials of earlier runs, oldest first, passed before any other call; by default treated as own trials with negative
  // indices.
  struct Lesson {
    Point point;
    std::vector<std::pair<int64_t, double>> curve;  // Lower values are better, as everywhere in this class.
    Outcome outcome;
  };
  virtual void warm_up(const std::vector<Lesson>& lessons, bool has_goals);
  // Whether judged() uses more than the first objective.
  virtual bool takes_goals() const { return false; }

  virtual std::string describe() const = 0;
  // state() returns a map. read() validates a state and returns the function that applies it; may throw the exceptions
  // of Config's accessors.
  virtual Config state() const = 0;
  [[nodiscard]] virtual Result<std::function<void()>> read(const Config& state) = 0;
};

struct ModelContext {
  const SearchDimensions& dimensions;  // Must outlive the model.
  uint64_t seed = 0;
  size_t objectives = 1;
};
using ModelFactory = std::function<std::unique_ptr<SearchModel>(const ModelContext&)>;

// In a finite space no configuration is proposed twice until all were. The model receives the last reported value of
// each trial. Trials cycle through the points of the grid, each searched with its own model.
class ModelSearcher final : public Searcher {
 public:
  // kInvalidArgument: invalid space or num_samples, or more than kGridMax grid points.
  [[nodiscard]] static Result<std::unique_ptr<Searcher>> create(const SearchContext& context, uint64_t seed,
                                                                const ModelFactory& make_model);
  static constexpr int64_t kGridMax = 1'000;

  Result<Suggestion> suggest(int64_t index) override;
  Result<void> learn(const std::vector<EarlierTrial>& trials) override;
  // Results of a configuration outside the space are ignored.
  bool skip(int64_t index, const Config& config) override;
  void on_start(int64_t index, const Config& config) override;
  void on_result(const Observation& observation) override;
  void on_complete(int64_t index, const std::optional<Observation>& last) override;
  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return true; }
  bool needs_metric() const override { return true; }
  bool takes_goals() const override { return branches_[0].model->takes_goals(); }
  std::string describe() const override { return branches_[0].model->describe(); }
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;

 private:
  struct Branch {  // State of one grid point.
    std::unique_ptr<SearchDimensions> dimensions;
    std::unique_ptr<SearchModel> model;
    std::map<int64_t, Point> running;       // By the trial's number within the branch.
    std::unordered_set<uint64_t> proposed;  // Numbers of the proposed points; only in a discrete space.
  };
  ModelSearcher() = default;
  Point choose(Branch& branch, int64_t number) const;
  Point unused_point(const Branch& branch, int64_t number) const;
  Outcome outcome_of_last(const std::optional<Observation>& last) const;
  static bool is_new(const Branch& branch, const Point& point);
  static void begin(Branch& branch, int64_t number, Point point);
  [[nodiscard]] static Result<std::function<void()>> read_branch(Branch& branch, const Config& state);

  uint64_t seed_ = 0;
  double sign_ = 1;
  Goals goals_;
  std::optional<int64_t> total_;
  std::vector<Branch> branches_;
};

// Random numbers for a trial, independent of those of other trials and attempts.
SeededRandom model_random(uint64_t seed, int64_t index, int attempt);

}  // namespace volador::tune
