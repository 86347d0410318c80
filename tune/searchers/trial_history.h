// Trials of a searcher that fits a model to them: which ones it keeps, one value for each of them, and the form in which
// models take them. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/random.h"
#include "tune/loop/objectives.h"
#include "tune/space/config.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

struct ModelData {
  std::vector<Point> points;
  std::vector<double> values;  // Standardised to mean 0 and deviation 1; lower is better.
};

class TrialHistory {
 public:
  // Keeps `kept_max` ended trials: when there are more, the oldest of the worse half is forgotten.
  TrialHistory(const SearchDimensions& dimensions, size_t objectives, int64_t kept_max)
      : dimensions_(dimensions), objectives_(objectives), kept_max_(kept_max) {}

  // As SearchModel's. Trials that were not taken are ignored.
  void taken(int64_t index, const Point& point) { running_.insert_or_assign(index, point); }
  void ended(int64_t index, double value) { note_end(index, {{value}, 0}); }
  void judged(int64_t index, const Outcome& outcome);

  // In a run with several objectives or with constraints: gives each trial one value, by weights drawn anew. Without
  // them nothing happens, and nothing is drawn.
  void weigh(Random& random);

  const std::map<int64_t, Point>& running() const { return running_; }
  int64_t ended_count() const { return ended_; }  // In total.
  size_t kept_count() const { return trials_.size(); }

  // Returns at most `count` ended trials, half the best and half the newest, in the order in which they ended. Values
  // far worse than the median are clipped. Failed trials count as the worst.
  ModelData data(size_t count) const;

  // state() returns a map with "trials", "running" and "ended". read() returns the function that applies it; `owner` is
  // the model in messages; may throw the exceptions of Config's accessors.
  Config state() const;
  [[nodiscard]] Result<std::function<void()>> read(const Config& state, const std::string& owner);

 private:
  struct Trial {
    int64_t index;
    Point point;
    double value;  // NaN: failed. With goals: by the weights of the last call of weigh().
    Outcome outcome;
  };

  void note_end(int64_t index, const Outcome& outcome);
  std::vector<size_t> kept(size_t count) const;
  void forget_one();
  static double rank_of(const Trial& trial);

  const SearchDimensions& dimensions_;
  const size_t objectives_;
  const int64_t kept_max_;
  std::vector<Trial> trials_;  // Ended trials, in order.
  std::map<int64_t, Point> running_;
  bool has_goals_ = false;
  int64_t ended_ = 0;
};

}  // namespace volador::tune
