#include "tune/loop/stopper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "runtime/quantities.h"
#include "tune/overload.h"
#include "tune/refusal.h"
#include "tune/seconds.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

// Population statistics, as numpy's.
template <class Values>
double deviation(const Values& values) {
  double mean = 0;
  for (const double value : values) mean += value;
  mean /= static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// State of the counting conditions for one trial.
struct Seen {
  int64_t last_step = 0;
  struct Plateau {
    std::deque<double> last;  // At most num_results.
    int64_t results = 0;
  };
  std::map<size_t, Plateau> plateaus;  // By condition.
  std::map<size_t, int64_t> nans;      // Consecutive NaNs, by condition.
};

// State over all trials: the best values, best first, and the number of consecutive results at which they were close
// together.
struct Top {
  std::vector<double> best;
  int64_t flat = 0;
};

}  // namespace

struct Stopper::State {
  Stop stop;
  std::string metric;
  Mode mode = Mode::kMax;
  std::map<TrialId, Seen> trials;  // Only if `remembers`.
  std::map<size_t, Top> tops;

  // Whether some condition keeps state per trial; the others look at one result at a time.
  bool remembers = false;

  explicit State(Stop stop_in) : stop(std::move(stop_in)) {
    for (const Stop::Condition& condition : stop.conditions()) {
      remembers = remembers || std::holds_alternative<TrialPlateauOptions>(condition) ||
                  std::holds_alternative<ExperimentPlateauOptions>(condition) ||
                  std::holds_alternative<NanStopOptions>(condition);
    }
  }

  const std::string& named(const std::string& own) const { return own.empty() ? metric : own; }

  using Answer = std::optional<Outcome>;

  Answer check(const Stop::Threshold& threshold, size_t, const Query& query, Seen*) const {
    const std::optional<double> value = query.result.get(threshold.metric);
    if (!value || !is_result(*value)) return std::nullopt;
    Stop::Direction direction = threshold.direction;
    if (direction == Stop::Direction::kAuto) {
      const bool down = threshold.metric == metric && mode == Mode::kMin;
      direction = down ? Stop::Direction::kAtMost : Stop::Direction::kAtLeast;
    }
    const bool reached = direction == Stop::Direction::kAtLeast ? *value >= threshold.value : *value <= threshold.value;
    if (!reached) return std::nullopt;
    return Outcome{End::kFinish,
                   reason("trial.reached", threshold.metric, format_real(*value), format_real(threshold.value))};
  }
  Answer check(const Stop::MaxSteps& limit, size_t, const Query& query, Seen*) const {
    if (query.step < limit.steps) return std::nullopt;
    return Outcome{End::kFinish, reason("decision.steps_done", query.step)};
  }
  Answer check(const Stop::MaxTime& limit, size_t, const Query& query, Seen*) const {
    if (query.time_total_s < seconds_of(limit.time)) return std::nullopt;
    return Outcome{End::kFinish, reason("trial.ran", format_real(seconds_of(limit.time)))};
  }
  Answer check(const Stop::Function& function, size_t, const Query& query, Seen*) const {
    if (!function(query.trial, query.result)) return std::nullopt;
    return Outcome{End::kFinish, reason("trial.stop_function")};
  }
  Answer check(const Stop::AllFunction& all, size_t, const Query& query, Seen*) const {
    if (!all.function(query.trial, query.result)) return std::nullopt;
    return Outcome{End::kExperiment, reason("run.stop_function", to_string(query.trial))};
  }
  Answer check(const Stop::Timeout&, size_t, const Query&, Seen*) const {
    return std::nullopt;
  }  // Evaluated by the loop, which has a clock.

  Answer check(const NanStopOptions& options, size_t index, const Query& query, Seen* fresh) const {
    const std::optional<double> value = query.result.get(named(options.metric));
    if (!value || fresh == nullptr) return std::nullopt;
    int64_t& row = fresh->nans[index];
    row = std::isnan(*value) || (options.infinities && std::isinf(*value)) ? row + 1 : 0;
    if (row <= options.tolerated) return std::nullopt;
    const std::string& metric_named = named(options.metric);
    return Outcome{End::kStop, options.tolerated > 0
                                   ? reason("trial.no_numbers", metric_named, format_real(*value), query.step, row)
                                   : reason("trial.no_number", metric_named, format_real(*value), query.step)};
  }

  Answer check(const TrialPlateauOptions& options, size_t index, const Query& query, Seen* fresh) const {
    const std::optional<double> value = query.result.get(named(options.metric));
    if (!value || fresh == nullptr) return std::nullopt;
    Seen::Plateau& plateau = fresh->plateaus[index];
    plateau.last.push_back(*value);
    if (static_cast<int64_t>(plateau.last.size()) > options.num_results) plateau.last.pop_front();
    if (++plateau.results < options.grace_period) return std::nullopt;
    if (options.metric_threshold && better(*options.metric_threshold, *value, options.mode.value_or(mode)))
      return std::nullopt;
    const double spread = deviation(plateau.last);
    if (!(spread < options.std)) return std::nullopt;
    return Outcome{End::kFinish, reason("trial.plateau", named(options.metric), format_real(spread),
                                        plateau.last.size(), format_real(options.std))};
  }

  Answer check(const ExperimentPlateauOptions& options, size_t index, const Query& query, Seen* fresh) {
    const std::optional<double> value = query.result.get(named(options.metric));
    if (!value || !is_result(*value) || fresh == nullptr) return std::nullopt;
    Top& top = tops[index];
    const Mode direction = options.mode.value_or(mode);
    const auto before = [direction](double a, double b) { return better(a, b, direction); };
    top.best.insert(std::upper_bound(top.best.begin(), top.best.end(), *value, before), *value);
    if (static_cast<int64_t>(top.best.size()) > options.top) top.best.pop_back();
    const bool full = static_cast<int64_t>(top.best.size()) == options.top;
    const double spread = deviation(top.best);
    top.flat = full && spread <= options.std ? top.flat + 1 : 0;
    if (top.flat == 0 || top.flat < options.patience) return std::nullopt;
    return Outcome{End::kExperiment, reason("run.plateau", options.top, named(options.metric), format_real(spread),
                                            format_real(options.std))};
  }

  Config to_config() const;
  Result<void> read(const Config& state);
};

Stopper::Stopper(Stop stop, std::string metric, Mode mode) : state_(std::make_unique<State>(std::move(stop))) {
  state_->metric = std::move(metric);
  state_->mode = mode;
}
Stopper::~Stopper() = default;

std::optional<Stopper::Outcome> Stopper::check(const Query& query) {
  Seen* fresh = nullptr;
  if (state_->remembers) {
    Seen& seen = state_->trials[query.trial];
    if (query.step > seen.last_step) fresh = &seen;
    seen.last_step = std::max(seen.last_step, query.step);
  }
  // All conditions see the result; the first that applies provides the reason.
  std::optional<Outcome> first;
  const auto& conditions = state_->stop.conditions();
  for (size_t i = 0; i < conditions.size(); ++i) {
    auto outcome =
        std::visit([&](const auto& condition) { return state_->check(condition, i, query, fresh); }, conditions[i]);
    const bool graver = outcome && outcome->end == End::kExperiment && first && first->end != End::kExperiment;
    if (outcome && (!first || graver)) first = std::move(outcome);
  }
  return first;
}

void Stopper::on_complete(TrialId trial) {
  if (!state_->trials.empty()) state_->trials.erase(trial);
}

Config Stopper::State::to_config() const {
  Config all = Config::list({});
  for (const auto& [id, seen] : trials) {
    Config plateaus = Config::list({});
    for (const auto& [index, plateau] : seen.plateaus) {
      plateaus.push_back({{"condition", index},
                          {"results", plateau.results},
                          {"last", std::vector<double>(plateau.last.begin(), plateau.last.end())}});
    }
    Config nans = Config::list({});
    for (const auto& [index, row] : seen.nans) nans.push_back(Config::list({index, row}));
    all.push_back({{"id", to_string(id)}, {"last_step", seen.last_step}, {"plateaus", plateaus}, {"nans", nans}});
  }
  Config best = Config::list({});
  for (const auto& [index, top] : tops) best.push_back({{"condition", index}, {"flat", top.flat}, {"best", top.best}});
  return {{"version", 1}, {"trials", all}, {"tops", best}};
}

Result<void> Stopper::State::read(const Config& state) {
  const auto condition = [this](const Config& index) {
    const int64_t value = index.integer();
    if (value < 0 || value >= static_cast<int64_t>(stop.conditions().size())) {
      throw Exception(
          Error{ErrorCode::kInvalidArgument, fmt::format("condition {} of {}", value, stop.conditions().size())});
    }
    return static_cast<size_t>(value);
  };
  const Config all = state["trials"];
  for (const Config& entry : all.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    Seen& seen = trials[*id];
    seen.last_step = entry.integer("last_step");
    const Config plateaus = entry["plateaus"];
    for (const Config& one : plateaus.items()) {
      Seen::Plateau& plateau = seen.plateaus[condition(one["condition"])];
      plateau.results = one.integer("results");
      const Config last = one["last"];
      for (const Config& value : last.items()) plateau.last.push_back(value.real());
    }
    const Config nans = entry["nans"];
    for (const Config& one : nans.items()) seen.nans[condition(one[0])] = one[1].integer();
  }
  const Config best = state["tops"];
  for (const Config& one : best.items()) {
    Top& top = tops[condition(one["condition"])];
    top.flat = one.integer("flat");
    const Config values = one["best"];
    for (const Config& value : values.items()) top.best.push_back(value.real());
  }
  return {};
}

std::string Stopper::snapshot() const { return state_->to_config().to_json(); }

Result<void> Stopper::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->stop);
  fresh->metric = state_->metric;
  fresh->mode = state_->mode;
  VOLADOR_TRY(read_snapshot("stop", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

// ---- Construction.

Stop::Stop(std::initializer_list<std::pair<std::string, double>> thresholds) {
  for (const auto& [metric, value] : thresholds) conditions_.push_back(Threshold{metric, value});
}

std::optional<std::chrono::nanoseconds> Stop::timeout() const {
  std::optional<std::chrono::nanoseconds> shortest;
  for (const Condition& condition : conditions_) {
    const auto* timeout = std::get_if<Timeout>(&condition);
    if (timeout != nullptr && (!shortest || timeout->time < *shortest)) shortest = timeout->time;
  }
  return shortest;
}

namespace {

Result<void> check_time(std::string_view name, std::chrono::nanoseconds time) {
  if (time > std::chrono::nanoseconds::zero()) return {};
  return refuse(fmt::format("stop: {} is {} s, expected more than 0", name, format_real(seconds_of(time))));
}

Result<void> check_metric(std::string_view name, const std::string& own, std::string_view metric) {
  if (!own.empty() || !metric.empty()) return {};
  return refuse(fmt::format("stop.{}.metric: name the metric to look at, or set .metric of the experiment", name));
}

Result<void> check_spread(std::string_view name, double std, bool zero) {
  if (std::isfinite(std) && (std > 0 || (zero && std == 0))) return {};
  return refuse(fmt::format("stop.{}.std: expected a number {} 0, got {}", name, zero ? "of at least" : "above",
                            format_real(std)));
}

Result<void> check_count(std::string_view name, std::string_view option, int64_t value, int64_t least) {
  if (value >= least && value <= 1'000'000) return {};
  return refuse(fmt::format("stop.{}.{}: expected {} to 1000000, got {}", name, option, least, value));
}

// Steps after which the condition ends a trial, if it depends on steps only.
std::optional<double> step_limit(const Stop::Condition& condition) {
  if (const auto* limit = std::get_if<Stop::MaxSteps>(&condition)) return static_cast<double>(limit->steps);
  const auto* threshold = std::get_if<Stop::Threshold>(&condition);
  if (threshold == nullptr || threshold->metric != "training_iteration" ||
      threshold->direction == Stop::Direction::kAtMost)
    return std::nullopt;
  return threshold->value;
}

// Rejects two thresholds of one metric of which one never applies, or which every value satisfies.
Result<void> check_pair(const Stop::Threshold& a, const Stop::Threshold& b, std::string_view metric) {
  if (a.metric != b.metric) return {};
  const bool unknown = a.metric == metric && a.direction != b.direction &&
                       (a.direction == Stop::Direction::kAuto || b.direction == Stop::Direction::kAuto);
  if (unknown) return {};  // The direction is that of the mode.
  const bool a_above = a.direction != Stop::Direction::kAtMost, b_above = b.direction != Stop::Direction::kAtMost;
  if (a_above == b_above) {
    return refuse(
        fmt::format("stop.{}: the thresholds {} and {} stand beside each other, and one of them is always reached "
                    "first: leave the other one out",
                    a.metric, format_real(a.value), format_real(b.value)));
  }
  const double low = a_above ? a.value : b.value, high = a_above ? b.value : a.value;
  if (high < low) return {};
  return refuse(
      fmt::format("stop.{}: every value is at least {} or at most {}: each trial would end with its first result",
                  a.metric, format_real(low), format_real(high)));
}

Result<void> check_together(const std::vector<Stop::Condition>& conditions, std::string_view metric) {
  for (size_t i = 0; i < conditions.size(); ++i) {
    for (size_t j = i + 1; j < conditions.size(); ++j) {
      const auto first = step_limit(conditions[i]), second = step_limit(conditions[j]);
      if (first && second) {
        return refuse(fmt::format("stop: trials end after {} and after {}: leave one of them out",
                                  counted(format_real(*first), "step"), counted(format_real(*second), "step")));
      }
      const auto* a = std::get_if<Stop::Threshold>(&conditions[i]);
      const auto* b = std::get_if<Stop::Threshold>(&conditions[j]);
      if (a != nullptr && b != nullptr) VOLADOR_TRY(check_pair(*a, *b, metric));
    }
  }
  return {};
}

}  // namespace

std::optional<int64_t> Stop::steps_max() const {
  std::optional<int64_t> least;
  for (const Condition& condition : conditions_) {
    const auto steps = step_limit(condition);
    if (steps && *steps < 1e15) least = std::min(least.value_or(INT64_MAX), static_cast<int64_t>(std::ceil(*steps)));
  }
  return least;
}

Result<void> Stop::validate(std::string_view metric) const {
  for (const Condition& condition : conditions_) {
    const auto rules =
        Overload{[](const Threshold& threshold) -> Result<void> {
                   if (threshold.metric.empty()) return refuse("stop: a threshold needs the name of a metric");
                   if (!std::isnan(threshold.value)) return {};
                   return refuse(fmt::format(
                       "stop.{}: the threshold is nan, which no value reaches; stop_on_nan ends trials that report it",
                       threshold.metric));
                 },
                 [](const MaxSteps& limit) -> Result<void> {
                   if (limit.steps >= 1) return {};
                   return refuse(fmt::format("stop: max_steps is {}, expected at least 1", limit.steps));
                 },
                 [](const MaxTime& limit) { return check_time("max_time", limit.time); },
                 [](const Timeout& limit) { return check_time("timeout", limit.time); },
                 [](const Function& function) -> Result<void> {
                   if (function) return {};
                   return refuse("stop: stop_when got an empty function");
                 },
                 [](const AllFunction& all) -> Result<void> {
                   if (all.function) return {};
                   return refuse("stop: stop_all_when got an empty function");
                 },
                 [&](const TrialPlateauOptions& options) -> Result<void> {
                   VOLADOR_TRY(check_metric("trial_plateau", options.metric, metric));
                   VOLADOR_TRY(check_spread("trial_plateau", options.std, false));
                   VOLADOR_TRY(check_count("trial_plateau", "num_results", options.num_results, 2));
                   VOLADOR_TRY(check_count("trial_plateau", "grace_period", options.grace_period, 1));
                   if (!options.metric_threshold || !std::isnan(*options.metric_threshold)) return {};
                   return refuse("stop.trial_plateau.metric_threshold: nan is worse than every value; leave it out");
                 },
                 [&](const ExperimentPlateauOptions& options) -> Result<void> {
                   VOLADOR_TRY(check_metric("experiment_plateau", options.metric, metric));
                   VOLADOR_TRY(check_spread("experiment_plateau", options.std, true));
                   VOLADOR_TRY(check_count("experiment_plateau", "top", options.top, 2));
                   return check_count("experiment_plateau", "patience", options.patience, 0);
                 },
                 [&](const NanStopOptions& options) -> Result<void> {
                   VOLADOR_TRY(check_metric("stop_on_nan", options.metric, metric));
                   return check_count("stop_on_nan", "tolerated", options.tolerated, 0);
                 }};
    if (auto valid = std::visit(rules, condition); !valid) return valid;
  }
  return check_together(conditions_, metric);
}

Stop at_least(std::string metric, double value) {
  return Stop(Stop::Threshold{std::move(metric), value, Stop::Direction::kAtLeast});
}
Stop at_most(std::string metric, double value) {
  return Stop(Stop::Threshold{std::move(metric), value, Stop::Direction::kAtMost});
}
Stop max_steps(int64_t steps) { return Stop(Stop::MaxSteps{steps}); }
Stop max_time(std::chrono::nanoseconds time) { return Stop(Stop::MaxTime{time}); }
Stop timeout(std::chrono::nanoseconds time) { return Stop(Stop::Timeout{time}); }
Stop stop_when(Stop::Function function) { return Stop(std::move(function)); }
Stop stop_all_when(Stop::Function function) { return Stop(Stop::AllFunction{std::move(function)}); }
Stop stop_on_nan(NanStopOptions options) { return Stop(std::move(options)); }
Stop trial_plateau(TrialPlateauOptions options) { return Stop(std::move(options)); }
Stop experiment_plateau(ExperimentPlateauOptions options) { return Stop(std::move(options)); }

Stop any_of(std::initializer_list<Stop> stops) {
  Stop out;
  for (const Stop& stop : stops)
    out.conditions_.insert(out.conditions_.end(), stop.conditions_.begin(), stop.conditions_.end());
  return out;
}

}  // namespace volador::tune
