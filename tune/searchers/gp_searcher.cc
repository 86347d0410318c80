#include "tune/searchers/gp_searcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "tune/searchers/ask_ahead.h"
#include "tune/searchers/box_ascent.h"
#include "tune/searchers/gaussian_process.h"
#include "tune/searchers/model_searcher.h"
#include "tune/searchers/sobol_searcher.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {

constexpr size_t kFitMax = 200;    // Trials used for fitting the length scales.
constexpr int64_t kRefitMax = 20;  // Results between fits.
// Starting points of the maximisation, as many as in Optuna: candidates, and those that are ascended from.
constexpr size_t kAcquisitionCandidates = 2'048;
constexpr size_t kNeighbours = 200;  // Candidates that are neighbours of the best trials.
constexpr size_t kStarts = 10;
static_assert(kStarts <= kPanel);
constexpr int kClimbs = 60;              // Maximum number of points evaluated by an ascent.
constexpr uint64_t kCountedMax = 1'000;  // Size of a space in which all configurations are compared.
constexpr uint64_t kCellsTried = 16;     // Number of values of an ordered parameter up to which all are tried, besides
                                         // steps.

// ---- Model.

class GpModel final : public SearchModel {
 public:
  GpModel(const ModelContext& context, const GpOptions& options)
      : dimensions_(context.dimensions),
        seed_(context.seed),
        objectives_(context.objectives),
        options_(options),
        apart_(apartness_of(dimensions_)),
        process_(apart_) {
    lengths_.inverse_squares.assign(dimensions_.size(), 0);
    climbing_.low.assign(dimensions_.size(), 0);
    climbing_.high.assign(dimensions_.size(), 1);
    climbing_.judged_max = kClimbs;
  }

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    if (ended_ < options_.n_startup_trials || dimensions_.size() == 0) return {dimensions_.random_point(random)};
    if (has_goals_) weigh(random);
    GpData data = data_of(kept(static_cast<size_t>(options_.history_max)));
    refit();
    process_.learn(data, lengths_);
    // Running trials count with the value that the model predicts.
    for (const auto& [other, point] : running_) data.values.push_back(process_.mean(point));
    for (const auto& [other, point] : running_) data.points.push_back(point);
    data.certain = running_.size();
    if (!running_.empty()) process_.learn(data, lengths_);
    return climb(data, *std::min_element(data.values.begin(), data.values.end()), random);
  }

  void taken(int64_t index, const Point& point) override { running_.insert_or_assign(index, point); }

  void ended(int64_t index, double value) override { note_end(index, {{value}, 0}); }

  void judged(int64_t index, const Outcome& outcome) override {
    has_goals_ = true;
    note_end(index, outcome);
  }

  bool takes_goals() const override { return true; }

  void note_end(int64_t index, const Outcome& outcome) {
    const auto found = running_.find(index);
    if (found == running_.end()) return;
    trials_.push_back({index, std::move(found->second), outcome.values.front(), outcome});
    running_.erase(found);
    ++ended_;
    if (static_cast<int64_t>(trials_.size()) > options_.history_max) forget_one();
  }

  std::string describe() const override { return "Gaussian process"; }

  Config state() const override {
    const auto list = [](const auto& all, const auto& entry) {
      Config out = Config::list({});
      for (const auto& one : all) out.push_back(entry(one));
      return out;
    };
    Config trials = list(trials_, [this](const Trial& one) {
      Config entry = {{"index", one.index}, {"point", SearchDimensions::to_text(one.point)}, {"value", one.value}};
      if (has_goals_) entry.set("values", one.outcome.values);
      if (has_goals_) entry.set("violation", one.outcome.violation);
      return entry;
    });
    Config running = list(running_, [](const auto& one) {
      return Config{{"index", one.first}, {"point", SearchDimensions::to_text(one.second)}};
    });
    return {{"trials", std::move(trials)},
            {"running", std::move(running)},
            {"ended", ended_},
            {"fitted", fitted_},
            {"inverse_squares", SearchDimensions::to_text(lengths_.inverse_squares)},
            {"signal", lengths_.signal},
            {"noise", lengths_.noise}};
  }

  Result<std::function<void()>> read(const Config& state) override {
    const auto refuse = [&] {
      return snapshot_does_not_fit(describe(), "a point of another space, or impossible numbers");
    };
    std::vector<Trial> trials;
    std::map<int64_t, Point> running;
    bool has_goals = false;
    const Config ended = state["trials"];
    for (const Config& entry : ended.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return refuse();
      Trial trial{entry.integer("index"), std::move(*point), entry.real("value"), {}};
      trial.outcome.values = {trial.value};
      if (entry.contains("values")) {
        const Config values = entry["values"];
        trial.outcome.values.clear();
        for (const Config& value : values.items()) trial.outcome.values.push_back(value.real());
        trial.outcome.violation = entry.real("violation");
        has_goals = true;
      }
      if (trial.outcome.values.size() != objectives_ || !(trial.outcome.violation >= 0)) return refuse();
      trials.push_back(std::move(trial));
    }
    const Config others = state["running"];
    for (const Config& entry : others.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return refuse();
      running.emplace(entry.integer("index"), std::move(*point));
    }
    GpLengths lengths{.inverse_squares = {}, .signal = state.real("signal"), .noise = state.real("noise")};
    const auto reals = SearchDimensions::reals_from_text(state.text("inverse_squares"));
    const int64_t count = state.integer("ended");
    const auto sane = [](double logarithm) { return std::abs(logarithm) <= 14; };
    if (!reals || reals->size() != dimensions_.size() || !std::all_of(reals->begin(), reals->end(), sane))
      return refuse();
    if (!sane(lengths.signal) || !sane(lengths.noise)) return refuse();
    if (count < static_cast<int64_t>(trials.size()) || (count > 0 && trials.empty())) return refuse();
    lengths.inverse_squares = *reals;
    return [this, trials = std::move(trials), running = std::move(running), lengths, count, has_goals,
            fitted = state.integer("fitted")]() mutable {
      trials_ = std::move(trials);
      running_ = std::move(running);
      lengths_ = lengths;
      ended_ = count;
      fitted_ = fitted;
      has_goals_ = has_goals;
    };
  }

 private:
  struct Trial {
    int64_t index;
    Point point;
    double value;  // NaN: failed. With goals: by the weights of the last proposal.
    Outcome outcome;
  };

  // Assigns a single value to each trial of a run with several objectives or constraints. Objectives, each scaled to
  // [0, 1], get new random weights for each proposal: the largest weighted one plus a small fraction of their sum
  // (ParEGO, Knowles, IEEE TEVC 10, 2006). Trials that violate a constraint rank behind all feasible ones, by their
  // violation.
  void weigh(Random& random) {
    std::vector<double> weights(objectives_, 1);
    if (objectives_ > 1) {
      double total = 0;
      for (double& weight : weights) total += weight = -std::log(1 - random.real());
      for (double& weight : weights) weight /= total;
    }
    const auto is_whole = [](const Trial& trial) {
      const auto nan = [](double value) { return std::isnan(value); };
      return std::none_of(trial.outcome.values.begin(), trial.outcome.values.end(), nan);
    };
    std::vector<double> low(objectives_, kInfinite), high(objectives_, -kInfinite);
    double most_violation = 0;
    for (const Trial& trial : trials_) {
      if (!is_whole(trial)) continue;
      if (std::isfinite(trial.outcome.violation)) most_violation = std::max(most_violation, trial.outcome.violation);
      for (size_t i = 0; i < objectives_ && trial.outcome.violation == 0; ++i) {
        low[i] = std::min(low[i], trial.outcome.values[i]);
        high[i] = std::max(high[i], trial.outcome.values[i]);
      }
    }
    for (Trial& trial : trials_) {
      const Outcome& outcome = trial.outcome;
      if (!is_whole(trial)) {
        trial.value = std::numeric_limits<double>::quiet_NaN();
      } else if (outcome.violation > 0) {
        const double share = most_violation > 0 ? std::min(outcome.violation / most_violation, 2.0) : 2;
        trial.value = kWorstKept + share;
      } else {
        double largest = 0, sum = 0;
        for (size_t i = 0; i < objectives_; ++i) {
          const double range = high[i] - low[i];
          const double weighed = range > 0 ? weights[i] * (outcome.values[i] / range - low[i] / range) : 0;
          largest = std::max(largest, weighed);
          sum += weighed;
        }
        trial.value = (largest + kSumShare * sum) / (1 + kSumShare);
      }
    }
  }

  // ---- Data.

  static double rank_of(const Trial& trial) {
    return std::isnan(trial.value) ? std::numeric_limits<double>::infinity() : trial.value;
  }
  // Returns the trials of the model, half the best and half the newest, in the order in which they ended.
  std::vector<size_t> kept(size_t count) const {
    std::vector<size_t> order(trials_.size());
    std::iota(order.begin(), order.end(), 0);
    if (order.size() <= count) return order;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank_of(trials_[a]) < rank_of(trials_[b]); });
    const auto half = static_cast<ptrdiff_t>(count / 2);
    std::sort(order.begin() + half, order.end(), std::greater<>());
    order.resize(count);
    std::sort(order.begin(), order.end());
    return order;
  }
  void forget_one() {
    std::vector<double> values;
    for (const Trial& trial : trials_) values.push_back(rank_of(trial));
    const auto half = static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), values.begin() + half, values.end());
    const double median = values[static_cast<size_t>(half)];
    const auto oldest =
        std::find_if(trials_.begin(), trials_.end(), [&](const Trial& one) { return rank_of(one) >= median; });
    trials_.erase(oldest == trials_.end() ? trials_.begin() : oldest);
  }

  GpData data_of(const std::vector<size_t>& which) const {
    GpData data;
    std::vector<double> finite;
    for (const size_t i : which) {
      if (std::isfinite(trials_[i].value)) finite.push_back(trials_[i].value);
    }
    std::sort(finite.begin(), finite.end());
    if (finite.empty()) finite = {0};
    // Outliers would hide all differences among good values.
    const double median = finite[finite.size() / 2];
    const double low = finite.front();
    const double high = std::min(finite.back(), median + kTail * (median - low) + 1e-300);
    double sum = 0, squares = 0;
    std::vector<double> values;
    for (const size_t i : which) {
      const double value = std::isnan(trials_[i].value) ? high : std::clamp(trials_[i].value, low, high);
      values.push_back(value);
      data.points.push_back(trials_[i].point);
      sum += value / static_cast<double>(which.size());
    }
    for (const double value : values) squares += (value - sum) * (value - sum) / static_cast<double>(which.size());
    const double deviation = squares > 0 && std::isfinite(squares) ? std::sqrt(squares) : 1;
    for (const double value : values) {
      const double scaled = (value - sum) / deviation;
      data.values.push_back(std::isfinite(scaled) ? std::clamp(scaled, -1e3, 1e3) : 0);
    }
    return data;
  }

  void refit() {
    const int64_t wait = std::clamp<int64_t>(ended_ / 20, 1, kRefitMax);
    if (fitted_ > 0 && fitted_ <= ended_ && ended_ - fitted_ < wait) return;
    std::vector<GpLengths> starts = {lengths_};
    if (trials_.size() < 100) starts.push_back({.inverse_squares = std::vector<double>(dimensions_.size())});
    lengths_ = likeliest_lengths(apart_, data_of(kept(kFitMax)), starts);
    fitted_ = ended_;
  }

  // ---- Maximising the improvement.

  std::vector<Point> climb(const GpData& data, double best, Random& random) const {
    const auto count = dimensions_.count();
    const bool all = count && *count <= kCountedMax;
    std::vector<Point> points = all ? all_points(*count) : beginnings(data, random);
    auto promising = process_.most_improving(points, best, all ? points.size() : kStarts);
    std::vector<Point> out;
    if (!all) {
      draw_starts(promising, random);
      auto found = climbed(points, promising, best);
      for (size_t i = kStarts; i < std::min(promising.size(), 4 * kStarts); ++i)
        found.emplace_back(promising[i].first, std::move(points[promising[i].second]));
      std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
      for (auto& [promise, point] : found) out.push_back(std::move(point));
      return out;
    }
    for (const auto& [promise, index] : promising) out.push_back(std::move(points[index]));
    return out;
  }

  // The most promising point comes first; others are drawn with probabilities that grow with their improvement, so that
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

  std::vector<Point> all_points(uint64_t count) const {
    std::vector<Point> out;
    for (uint64_t number = 0; number < count; ++number) out.push_back(dimensions_.numbered(number));
    return out;
  }

  // Random points, and neighbours of the best ones.
  std::vector<Point> beginnings(const GpData& data, Random& random) const {
    std::vector<Point> out;
    const SobolSequence sequence(std::min(dimensions_.size(), kSobolDimensionsMax), random.next());
    for (size_t i = 0; i < kAcquisitionCandidates - kNeighbours; ++i) {
      Point point(dimensions_.size());
      for (size_t d = 0; d < point.size(); ++d)
        point[d] = d < kSobolDimensionsMax ? sequence.coordinate(static_cast<int64_t>(i), d) : random.real();
      out.push_back(dimensions_.settled(std::move(point)));
    }
    std::vector<size_t> order(data.points.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return data.values[a] < data.values[b]; });
    for (size_t i = 0; i < kNeighbours; ++i) {
      Point point = data.points[order[i % std::min<size_t>(5, order.size())]];
      const double reach = std::pow(10, -0.5 - 2.5 * random.real());
      for (double& coordinate : point) {
        if (coordinate == kInactive || random.below(3) == 0) {
          coordinate = random.below(8) == 0 || coordinate == kInactive ? random.real() : coordinate;
          continue;
        }
        coordinate = std::clamp(coordinate + reach * (2 * random.real() - 1), 0.0, 1.0);
      }
      out.push_back(dimensions_.settled(std::move(point)));
    }
    return out;
  }

  // Ascends from the first kStarts: numbers along the gradient, all ascents in parallel; then options and small ranges
  // one at a time. Returns each point found with its improvement.
  std::vector<std::pair<double, Point>> climbed(const std::vector<Point>& points,
                                                const std::vector<std::pair<double, size_t>>& starts,
                                                double best) const {
    std::vector<std::pair<double, Point>> found;
    for (size_t i = 0; i < std::min(kStarts, starts.size()); ++i)
      found.emplace_back(starts[i].first, points[starts[i].second]);
    std::vector<bool> going(found.size(), true);
    for (int round = 0; round < 2 && std::find(going.begin(), going.end(), true) != going.end(); ++round) {
      climb_numbers(found, going, best);
      for (size_t i = 0; i < found.size(); ++i) {
        if (!going[i]) continue;
        auto& [promise, at] = found[i];
        bool changed = false;
        for (size_t d = 0; d < at.size(); ++d) changed = try_values(d, at, best, promise) || changed;
        going[i] = changed;
      }
    }
    return found;
  }

  void climb_numbers(std::vector<std::pair<double, Point>>& found, const std::vector<bool>& which, double best) const {
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
      const auto slopes = process_.slopes(at, best);
      for (size_t i = 0; i < asking.size(); ++i) asking[i]->told(slopes[i].value, slopes[i].by);
    }
    std::vector<Point> settled;
    for (const BoxAscent& climb : climbs) settled.push_back(dimensions_.settled(climb.best()));
    const auto promises = process_.log_improvements(settled, best);
    for (size_t i = 0; i < whose.size(); ++i) found[whose[i]] = {promises[i], std::move(settled[i])};
  }

  bool try_values(size_t dimension, Point& at, double best, double& promise) const {
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
    const auto [most, index] = process_.most_improving(others, best, 1).front();
    if (most <= promise) return false;
    promise = most;
    at = std::move(others[index]);
    return true;
  }

  static constexpr double kInfinite = std::numeric_limits<double>::infinity();
  static constexpr double kSumShare = 0.05;  // Weight of the sum of the weighted objectives beside the largest.
  static constexpr double kWorstKept = 1;    // Upper bound of the value of feasible trials.
  static constexpr double kTail = 4;  // Values worse than the median by more than this multiple of its distance to the
                                      // best are clipped.

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const size_t objectives_;
  const GpOptions options_;
  const std::vector<Apartness> apart_;
  BoxAscentOptions climbing_;
  std::vector<Trial> trials_;  // Ended trials, in order.
  std::map<int64_t, Point> running_;
  bool has_goals_ = false;
  int64_t ended_ = 0, fitted_ = 0;  // Ended trials in total, and at the last fit.
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
  return {};
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
