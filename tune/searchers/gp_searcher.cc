#include "tune/searchers/gp_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tune/searchers/ask_ahead.h"
#include "tune/searchers/box_ascent.h"
#include "tune/searchers/candidates.h"
#include "tune/searchers/gaussian_process.h"
#include "tune/searchers/model_searcher.h"
#include "tune/searchers/trial_history.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {

constexpr size_t kFitMax = 200;    // Trials used for fitting the length scales.
constexpr int64_t kRefitMax = 20;  // Results between fits.
// Starting points of the maximisation, as many as in Optuna: candidates, and those that are ascended from.
constexpr size_t kAcquisitionCandidates = 2'048;
constexpr size_t kSampledCandidates = 10'000;  // Without ascents, as in scikit-optimize.
constexpr size_t kNeighbours = 200;            // Candidates that are neighbours of the best trials.
constexpr size_t kStarts = 10;
static_assert(kStarts <= kPanel);
constexpr size_t kHedgedPoints = 128;  // Points that the functions nominate for their gains.
constexpr int kClimbs = 60;            // Maximum number of points evaluated by an ascent.
constexpr uint64_t kCellsTried = 16;   // Number of values of an ordered parameter up to which all are tried, besides
                                       // steps.

// ---- Model.

class GpModel final : public SearchModel {
 public:
  GpModel(const ModelContext& context, const GpOptions& options)
      : dimensions_(context.dimensions),
        seed_(context.seed),
        options_(options),
        apart_(apartness_of(dimensions_)),
        history_(dimensions_, context.objectives, options.history_max),
        process_(apart_) {
    lengths_.inverse_squares.assign(dimensions_.size(), 0);
    climbing_.low.assign(dimensions_.size(), 0);
    climbing_.high.assign(dimensions_.size(), 1);
    climbing_.judged_max = kClimbs;
  }

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    if (history_.ended_count() < options_.n_startup_trials || dimensions_.size() == 0)
      return {dimensions_.random_point(random)};
    history_.weigh(random);
    GpData data = data_of(static_cast<size_t>(options_.history_max));
    refit();
    process_.learn(data, lengths_);
    // Running trials count with the value that the model predicts.
    for (const auto& [other, point] : history_.running()) data.values.push_back(process_.mean(point));
    for (const auto& [other, point] : history_.running()) data.points.push_back(point);
    data.certain = history_.running().size();
    if (data.certain > 0) process_.learn(data, lengths_);
    return most_promising(data, criterion_for(data, random), random);
  }

  void taken(int64_t index, const Point& point) override { history_.taken(index, point); }
  void ended(int64_t index, double value) override { history_.ended(index, value); }
  void judged(int64_t index, const Outcome& outcome) override { history_.judged(index, outcome); }
  bool takes_goals() const override { return true; }

  std::string describe() const override { return "Gaussian process"; }

  Config state() const override {
    Config state = history_.state();
    state.set("fitted", fitted_);
    state.set("inverse_squares", SearchDimensions::to_text(lengths_.inverse_squares));
    state.set("signal", lengths_.signal);
    state.set("noise", lengths_.noise);
    return state;
  }

  Result<std::function<void()>> read(const Config& state) override {
    auto history = history_.read(state, describe());
    if (!history) return history;
    GpLengths lengths{.inverse_squares = {}, .signal = state.real("signal"), .noise = state.real("noise")};
    const auto reals = SearchDimensions::reals_from_text(state.text("inverse_squares"));
    const auto sane = [](double logarithm) { return std::abs(logarithm) <= 14; };
    if (!reals || reals->size() != dimensions_.size() || !std::all_of(reals->begin(), reals->end(), sane) ||
        !sane(lengths.signal) || !sane(lengths.noise))
      return snapshot_does_not_fit(describe(), "impossible lengths");
    lengths.inverse_squares = *reals;
    return [this, history = std::move(*history), lengths, fitted = state.integer("fitted")] {
      history();
      lengths_ = lengths;
      fitted_ = fitted;
    };
  }

 private:
  GpData data_of(size_t count) const {
    ModelData data = history_.data(count);
    return {.points = std::move(data.points), .values = std::move(data.values)};
  }

  void refit() {
    const int64_t ended = history_.ended_count();
    const int64_t wait = std::clamp<int64_t>(ended / 20, 1, kRefitMax);
    if (fitted_ > 0 && fitted_ <= ended && ended - fitted_ < wait) return;
    std::vector<GpLengths> starts = {lengths_};
    if (history_.kept_count() < 100) starts.push_back({.inverse_squares = std::vector<double>(dimensions_.size())});
    lengths_ = likeliest_lengths(apart_, data_of(kFitMax), starts);
    fitted_ = ended;
  }

  // ---- The acquisition function and its maximum.

  Criterion criterion_for(const GpData& data, Random& random) const {
    Acquisition function = options_.acquisition.function;
    if (function == Acquisition::kHedge) function = hedge_over(data).draw(random);
    return {options_.acquisition, function, *std::min_element(data.values.begin(), data.values.end())};
  }

  // Goes through the ended trials once more, from the end of the random ones on.
  AcquisitionHedge hedge_over(const GpData& data) const {
    AcquisitionHedge hedge(options_.acquisition);
    SeededRandom random(seed_);
    const auto beliefs = process_.beliefs_so_far(candidate_points(dimensions_, {}, {}, kHedgedPoints, 0, random));
    double best = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i + 1 < beliefs.size(); ++i) {
      best = std::min(best, data.values[i]);
      if (static_cast<int64_t>(i) + 1 >= options_.n_startup_trials) hedge.reward(beliefs[i], best, beliefs[i + 1]);
    }
    return hedge;
  }

  std::vector<Point> most_promising(const GpData& data, const Criterion& criterion, Random& random) const {
    std::vector<Point> out;
    if (auto all = counted_points(dimensions_)) {
      for (const auto& [score, index] : process_.most_promising(*all, criterion, all->size()))
        out.push_back(std::move((*all)[index]));
      return out;
    }
    const bool climbs = options_.optimizer == GpOptimizer::kAscent;
    auto points = candidate_points(dimensions_, data.points, data.values,
                                   climbs ? kAcquisitionCandidates : kSampledCandidates, kNeighbours, random);
    auto promising = process_.most_promising(points, criterion, kStarts);
    std::vector<std::pair<double, Point>> found;
    if (climbs) {
      draw_starts(promising, random);
      found = climbed(points, promising, criterion);
    }
    for (size_t i = found.size(); i < std::min(promising.size(), 4 * kStarts); ++i)
      found.emplace_back(promising[i].first, std::move(points[promising[i].second]));
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [promise, point] : found) out.push_back(std::move(point));
    return out;
  }

  // The most promising point comes first; others are drawn with probabilities that grow with their score, so that
  // starts lie near several local maxima.
  static void draw_starts(std::vector<std::pair<double, size_t>>& promising, Random& random) {
    for (size_t chosen = 1; chosen < std::min(kStarts, promising.size()); ++chosen) {
      double total = 0;
      for (size_t i = chosen; i < promising.size(); ++i) total += std::exp(promising[i].first - promising[0].first);
      double left = total * random.real();
      size_t i = chosen;
      while (i + 1 < promising.size() && (left -= std::exp(promising[i].first - promising[0].first)) > 0) ++i;
      std::rotate(promising.begin() + static_cast<ptrdiff_t>(chosen), promising.begin() + static_cast<ptrdiff_t>(i),
                  promising.begin() + static_cast<ptrdiff_t>(i) + 1);
    }
  }

  // Ascends from the first kStarts: numbers along the gradient, all ascents in parallel; then options and small ranges
  // one at a time. Returns each point found with its score.
  std::vector<std::pair<double, Point>> climbed(const std::vector<Point>& points,
                                                const std::vector<std::pair<double, size_t>>& starts,
                                                const Criterion& criterion) const {
    std::vector<std::pair<double, Point>> found;
    for (size_t i = 0; i < std::min(kStarts, starts.size()); ++i)
      found.emplace_back(starts[i].first, points[starts[i].second]);
    std::vector<bool> going(found.size(), true);
    for (int round = 0; round < 2 && std::find(going.begin(), going.end(), true) != going.end(); ++round) {
      climb_numbers(found, going, criterion);
      for (size_t i = 0; i < found.size(); ++i) {
        if (!going[i]) continue;
        auto& [promise, at] = found[i];
        bool changed = false;
        for (size_t d = 0; d < at.size(); ++d) changed = try_values(d, at, criterion, promise) || changed;
        going[i] = changed;
      }
    }
    return found;
  }

  void climb_numbers(std::vector<std::pair<double, Point>>& found, const std::vector<bool>& which,
                     const Criterion& criterion) const {
    std::vector<BoxAscent> climbs;
    std::vector<size_t> whose;
    for (size_t i = 0; i < found.size(); ++i) {
      if (!which[i]) continue;
      climbs.emplace_back(climbing_, found[i].second);
      whose.push_back(i);
    }
    for (;;) {
      std::vector<const Point*> at;
      std::vector<BoxAscent*> asking;
      for (BoxAscent& climb : climbs) {
        if (climb.done()) continue;
        at.push_back(&climb.at());
        asking.push_back(&climb);
      }
      if (at.empty()) break;
      const auto slopes = process_.slopes(at, criterion);
      for (size_t i = 0; i < asking.size(); ++i) asking[i]->told(slopes[i].value, slopes[i].by);
    }
    std::vector<Point> settled;
    for (const BoxAscent& climb : climbs) settled.push_back(dimensions_.settled(climb.best()));
    const auto promises = process_.scores(settled, criterion);
    for (size_t i = 0; i < whose.size(); ++i) found[whose[i]] = {promises[i], std::move(settled[i])};
  }

  bool try_values(size_t dimension, Point& at, const Criterion& criterion, double& promise) const {
    const uint64_t cells = dimensions_[dimension].cells;
    if (at[dimension] == kInactive || cells < 2) return false;
    const bool all = dimensions_[dimension].kind == SearchDimensions::Kind::kCategorical || cells <= kCellsTried;
    const uint64_t here = dimensions_.cell_of(dimension, at[dimension]);
    std::vector<Point> others;
    for (uint64_t cell = all || here == 0 ? 0 : here - 1; cell < cells && (all || cell <= here + 1); ++cell) {
      if (cell == here) continue;
      Point other = at;
      other[dimension] = dimensions_.middle(dimension, cell);
      for (double& coordinate : other) coordinate = coordinate == kInactive ? 0.5 : coordinate;
      others.push_back(dimensions_.settled(std::move(other)));
    }
    const auto [most, index] = process_.most_promising(others, criterion, 1).front();
    if (most <= promise) return false;
    promise = most;
    at = std::move(others[index]);
    return true;
  }

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const GpOptions options_;
  const std::vector<Apartness> apart_;
  BoxAscentOptions climbing_;
  TrialHistory history_;
  int64_t fitted_ = 0;  // Number of ended trials at the last fit.
  GpLengths lengths_;
  GaussianProcess process_;  // Process of the last proposal; a cache that only saves time.
};

Result<void> validate(const GpOptions& options) {
  const auto refuse = [](std::string_view option, int64_t least, int64_t got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("gp.{}: expected at least {}, got {}", option, least, got));
  };
  if (options.n_startup_trials < 2) return refuse("n_startup_trials", 2, options.n_startup_trials);
  if (options.history_max < 20) return refuse("history_max", 20, options.history_max);
  return validate(options.acquisition, "gp");
}

}  // namespace

SearcherFactory gp(const GpOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate(options));
    auto made = ModelSearcher::create(
        context, options.seed.value_or(context.seed),
        [options](const ModelContext& model) { return std::make_unique<GpModel>(model, options); });
    return made && context.ahead ? ask_ahead(std::move(*made)) : std::move(made);
  };
}

}  // namespace volador::tune
