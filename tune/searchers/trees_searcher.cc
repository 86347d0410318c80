#include "tune/searchers/trees_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tune/searchers/ask_ahead.h"
#include "tune/searchers/candidates.h"
#include "tune/searchers/gaussian_process.h"
#include "tune/searchers/model_searcher.h"
#include "tune/searchers/trial_history.h"

namespace volador::tune {
namespace {

constexpr size_t kTreeCandidates = 10'000;
constexpr size_t kTreeNeighbours = 1'000;  // Candidates that are neighbours of the best trials.
constexpr size_t kTreeProposals = 40;
// For the gains of the functions: models of the past, with fewer trees, and points that are nominated.
constexpr size_t kPastModels = 8;
constexpr int kPastTrees = 12;
constexpr size_t kNominated = 128;

class TreesModel final : public SearchModel {
 public:
  TreesModel(const ModelContext& context, const TreesOptions& options)
      : dimensions_(context.dimensions),
        seed_(context.seed),
        options_(options),
        apart_(apartness_of(dimensions_)),
        history_(dimensions_, context.objectives, options.history_max) {}

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    if (history_.ended_count() < options_.n_startup_trials || dimensions_.size() == 0)
      return {dimensions_.random_point(random)};
    history_.weigh(random);
    ModelData data = history_.data(static_cast<size_t>(options_.history_max));
    const AcquisitionHedge hedge = hedge_over(data);
    for (const auto& [other, point] : history_.running()) {
      data.points.push_back(point);
      data.values.push_back(0);
    }
    const TreeEnsemble ensemble = fitted(data, {.kind = options_.kind}, random.next());
    Acquisition function = options_.acquisition.function;
    if (function == Acquisition::kHedge) function = hedge.draw(random);
    const Criterion criterion(options_.acquisition, function,
                              *std::min_element(data.values.begin(), data.values.end()));
    auto counted = counted_points(dimensions_);
    const size_t kept = counted ? counted->size() : kTreeProposals;
    std::vector<Point> points =
        counted ? std::move(*counted)
                : candidate_points(dimensions_, data.points, data.values, kTreeCandidates, kTreeNeighbours, random);
    const PointBeliefs beliefs = ensemble.beliefs(points);
    return most_promising(std::move(points), beliefs, criterion, kept);
  }

  void taken(int64_t index, const Point& point) override { history_.taken(index, point); }
  void ended(int64_t index, double value) override { history_.ended(index, value); }
  void judged(int64_t index, const Outcome& outcome) override { history_.judged(index, outcome); }
  bool takes_goals() const override { return true; }
  std::string describe() const override { return "tree ensemble"; }
  Config state() const override { return history_.state(); }
  Result<std::function<void()>> read(const Config& state) override { return history_.read(state, describe()); }

 private:
  TreeEnsemble fitted(const ModelData& data, const TreeOptions& options, uint64_t seed) const {
    return {apart_, data.points, data.values, options, seed};
  }

  // Highest score first. Trees give many points the same score: their order is that of the points.
  static std::vector<Point> most_promising(std::vector<Point> points, const PointBeliefs& beliefs,
                                           const Criterion& criterion, size_t count) {
    std::vector<std::pair<double, size_t>> scores;
    for (size_t i = 0; i < points.size(); ++i)
      scores.emplace_back(-criterion.score(beliefs.means[i], beliefs.variances[i]), i);
    const size_t kept = std::min(count, points.size());
    std::partial_sort(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(kept), scores.end());
    std::vector<Point> out;
    for (size_t i = 0; i < kept; ++i) out.push_back(std::move(points[scores[i].second]));
    return out;
  }

  // Goes through the trials once more, from the end of the random ones on, in at most kPastModels steps.
  AcquisitionHedge hedge_over(const ModelData& data) const {
    AcquisitionHedge hedge(options_.acquisition);
    const size_t count = data.points.size(), first = static_cast<size_t>(options_.n_startup_trials);
    if (options_.acquisition.function != Acquisition::kHedge || count <= first) return hedge;
    SeededRandom random(seed_);
    const auto points = candidate_points(dimensions_, {}, {}, kNominated, 0, random);
    const size_t steps = std::min(kPastModels, count - first);
    PointBeliefs before;
    size_t known = 0;
    for (size_t step = 0; step <= steps; ++step) {
      const size_t then = first + (count - first) * step / steps;
      const auto end = static_cast<std::ptrdiff_t>(then);
      const ModelData past{{data.points.begin(), data.points.begin() + end},
                           {data.values.begin(), data.values.begin() + end}};
      PointBeliefs after = fitted(past, {.kind = options_.kind, .trees = kPastTrees}, random.next()).beliefs(points);
      if (known > 0) {
        const double best =
            *std::min_element(data.values.begin(), data.values.begin() + static_cast<std::ptrdiff_t>(known));
        hedge.reward(before, best, after, static_cast<double>(then - known));
      }
      before = std::move(after);
      known = then;
    }
    return hedge;
  }

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const TreesOptions options_;
  const std::vector<Apartness> apart_;
  TrialHistory history_;
};

Result<void> validate_trees(const TreesOptions& options) {
  const auto refuse = [](std::string_view option, int64_t least, int64_t got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("trees.{}: expected at least {}, got {}", option, least, got));
  };
  if (options.n_startup_trials < 1) return refuse("n_startup_trials", 1, options.n_startup_trials);
  if (options.history_max < 20) return refuse("history_max", 20, options.history_max);
  return validate(options.acquisition, "trees");
}

}  // namespace

SearcherFactory trees(const TreesOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate_trees(options));
    auto made = ModelSearcher::create(
        context, options.seed.value_or(context.seed),
        [options](const ModelContext& model) { return std::make_unique<TreesModel>(model, options); });
    return made && context.ahead ? ask_ahead(std::move(*made)) : std::move(made);
  };
}

}  // namespace volador::tune
