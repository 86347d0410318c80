#include "tune/searchers/trial_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "tune/snapshot.h"

namespace volador::tune {
namespace {

constexpr double kWorstObjective = std::numeric_limits<double>::infinity();
constexpr double kSumShare = 0.05;  // Weight of the sum of the weighted objectives beside the largest.
constexpr double kWorstKept = 1;    // Upper bound of the value of feasible trials.
constexpr double kTailReach = 4;  // Values worse than the median by more than this multiple of its distance to the best
                                  // are clipped.

}  // namespace

void TrialHistory::judged(int64_t index, const Outcome& outcome) {
  has_goals_ = true;
  note_end(index, outcome);
}

void TrialHistory::note_end(int64_t index, const Outcome& outcome) {
  const auto found = running_.find(index);
  if (found == running_.end()) return;
  trials_.push_back({index, std::move(found->second), outcome.values.front(), outcome});
  running_.erase(found);
  ++ended_;
  if (static_cast<int64_t>(trials_.size()) > kept_max_) forget_one();
}

// Objectives, each scaled to [0, 1], get new random weights for each proposal: the largest weighted one plus a small
// fraction of their sum (ParEGO, Knowles, IEEE TEVC 10, 2006). Trials that violate a constraint rank behind all feasible
// ones, by their violation.
void TrialHistory::weigh(Random& random) {
  if (!has_goals_) return;
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
  std::vector<double> low(objectives_, kWorstObjective), high(objectives_, -kWorstObjective);
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

double TrialHistory::rank_of(const Trial& trial) {
  return std::isnan(trial.value) ? std::numeric_limits<double>::infinity() : trial.value;
}

std::vector<size_t> TrialHistory::kept(size_t count) const {
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

void TrialHistory::forget_one() {
  std::vector<double> values;
  for (const Trial& trial : trials_) values.push_back(rank_of(trial));
  const auto half = static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), values.begin() + half, values.end());
  const double median = values[static_cast<size_t>(half)];
  const auto oldest =
      std::find_if(trials_.begin(), trials_.end(), [&](const Trial& one) { return rank_of(one) >= median; });
  trials_.erase(oldest == trials_.end() ? trials_.begin() : oldest);
}

ModelData TrialHistory::data(size_t count) const {
  const std::vector<size_t> which = kept(count);
  ModelData data;
  std::vector<double> finite;
  for (const size_t i : which) {
    if (std::isfinite(trials_[i].value)) finite.push_back(trials_[i].value);
  }
  std::sort(finite.begin(), finite.end());
  if (finite.empty()) finite = {0};
  // Outliers would hide all differences among good values.
  const double median = finite[finite.size() / 2];
  const double low = finite.front();
  const double high = std::min(finite.back(), median + kTailReach * (median - low) + 1e-300);
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

Config TrialHistory::state() const {
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
  return {{"trials", std::move(trials)}, {"running", std::move(running)}, {"ended", ended_}};
}

Result<std::function<void()>> TrialHistory::read(const Config& state, const std::string& owner) {
  const auto refuse = [&] { return snapshot_does_not_fit(owner, "a point of another space, or impossible numbers"); };
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
  const int64_t count = state.integer("ended");
  if (count < static_cast<int64_t>(trials.size()) || (count > 0 && trials.empty())) return refuse();
  return [this, trials = std::move(trials), running = std::move(running), count, has_goals]() mutable {
    trials_ = std::move(trials);
    running_ = std::move(running);
    ended_ = count;
    has_goals_ = has_goals;
  };
}

}  // namespace volador::tune
