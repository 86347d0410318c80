#include "tune/schedulers/percentile_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/schedulers/ranking.h"
#include "tune/schedulers/step_values.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct PercentileTrial {
  StepValues values;  // Up to steps_max.
  int64_t last_step = 0;
  double best = kNan;
  Decision decision = Decision::kContinue;
  bool complete = false;
};

// Values that completed trials reported at a step.
struct StepState {
  Ranking ranking;  // As reported; without NaN.
  int64_t trials = 0;
};

// Linear interpolation as in numpy.
double percentile_of(const Ranking& ranking, double percentile) {
  if (ranking.size() == 0) return kNan;
  const auto last = static_cast<double>(ranking.size() - 1);
  const double position = last * (percentile / 100);
  const double low = std::floor(position);
  const double a = ranking.at(static_cast<size_t>(low)), b = ranking.at(static_cast<size_t>(std::min(low + 1, last)));
  const double t = position - low;
  if (a == b) return a;  // Also for infinities.
  return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

}  // namespace

struct PercentileScheduler::State {
  PercentileOptions options;
  SchedulerContext context;
  std::unordered_map<TrialId, PercentileTrial> trials;
  std::vector<TrialId> order;  // In the order added.
  std::unordered_map<int64_t, StepState> steps;
  int64_t completed = 0;  // Trials that were not stopped by this scheduler.
  std::vector<DecisionRecord> decisions;

  State(const PercentileOptions& options_in, const SchedulerContext& context_in)
      : options(options_in), context(context_in) {}

  void report(TrialId id, PercentileTrial& trial, int64_t step, double value) {
    const int64_t before = trial.last_step;
    trial.last_step = step;
    if (step > options.steps_max) return;
    trial.values.emplace_back(step, value);
    note_best(trial, value);
    if (completed == 0 || completed < options.n_startup_trials || step < options.n_warmup_steps) return;
    // Once per interval, at its first report.
    const int64_t begin =
        (step - options.n_warmup_steps) / options.interval_steps * options.interval_steps + options.n_warmup_steps;
    if (before > 0 && before >= begin) return;
    judge(id, trial, step);
  }

  void note_best(PercentileTrial& trial, double value) const {
    if (std::isnan(trial.best) || (!std::isnan(value) && better(value, trial.best, context.mode))) trial.best = value;
  }

  void judge(TrialId id, PercentileTrial& trial, int64_t step) {
    const auto found = steps.find(step);
    const bool known = found != steps.end() && found->second.trials >= options.n_min_trials;
    const double percentile = context.mode == Mode::kMax ? 100 - options.percentile : options.percentile;
    const double cutoff = known ? percentile_of(found->second.ranking, percentile) : kNan;
    const bool nan = std::isnan(trial.best);
    if (!nan && std::isnan(cutoff)) return;
    const bool stops = nan || better(cutoff, trial.best, context.mode);
    if (stops) trial.decision = Decision::kStop;
    DecisionRecord& record = decisions.emplace_back(DecisionRecord{.trial = id,
                                                                   .step = step,
                                                                   .act = stops ? Act::kStopped : Act::kPassed,
                                                                   .rule = "percentile",
                                                                   .value = trial.best,
                                                                   .cutoff = cutoff});
    record.detail = nan ? reason("decision.no_number", step)
                        : reason("decision.percentile", step, format_value(trial.best), format_real(options.percentile),
                                 found->second.trials, format_value(cutoff));
  }

  void complete(PercentileTrial& trial) {
    trial.complete = true;
    if (trial.decision == Decision::kStop) return;
    ++completed;
    for (const auto& [step, value] : trial.values) {
      StepState& state = steps[step];
      ++state.trials;
      if (!std::isnan(value)) state.ranking.insert(value);
    }
  }

  Result<void> read(const Config& state) {
    const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("percentile", what); };
    const Config all = state["trials"];
    for (const Config& entry : all.items()) {
      auto id = TrialId::parse(entry.text("id"));
      if (!id) return make_error(id.error());
      PercentileTrial trial{.last_step = entry.integer("last_step")};
      const bool stopped = entry.boolean("stopped"), complete_in = entry.boolean("complete");
      if (stopped) trial.decision = Decision::kStop;
      auto values = step_values_from(entry["values"], std::min(options.steps_max, trial.last_step));
      if (!values) return refuse("steps out of order");
      trial.values = std::move(*values);
      for (const auto& [step, value] : trial.values) note_best(trial, value);
      if (complete_in) complete(trial);
      if (!trials.emplace(*id, std::move(trial)).second) return refuse("a trial stands in it twice");
      order.push_back(*id);
    }
    return {};
  }
};

PercentileScheduler::PercentileScheduler(const PercentileOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
PercentileScheduler::~PercentileScheduler() = default;

Result<std::unique_ptr<PercentileScheduler>> PercentileScheduler::create(const PercentileOptions& options,
                                                                         const SchedulerContext& context) {
  const auto refuse = [](std::string_view option, std::string_view rule, const std::string& got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("percentile_pruner.{}: expected {}, got {}", option, rule, got));
  };
  if (!(options.percentile >= 0 && options.percentile <= 100))
    return refuse("percentile", "0 to 100", format_real(options.percentile));
  if (options.n_startup_trials < 0)
    return refuse("n_startup_trials", "at least 0", std::to_string(options.n_startup_trials));
  if (options.n_warmup_steps < 0) return refuse("n_warmup_steps", "at least 0", std::to_string(options.n_warmup_steps));
  if (options.interval_steps < 1) return refuse("interval_steps", "at least 1", std::to_string(options.interval_steps));
  if (options.n_min_trials < 1) return refuse("n_min_trials", "at least 1", std::to_string(options.n_min_trials));
  if (options.steps_max < 1) return refuse("steps_max", "at least 1", std::to_string(options.steps_max));
  if (context.metric.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "percentile_pruner: it compares trials by a metric: set .metric to the name of one that the trials report");
  }
  return std::unique_ptr<PercentileScheduler>(new PercentileScheduler(options, context));
}

void PercentileScheduler::on_trial_add(TrialId trial) {
  if (state_->trials.try_emplace(trial).second) state_->order.push_back(trial);
}

Result<Decision> PercentileScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  const auto refuse = [&](std::string what) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("percentile_pruner: trial {} reported {}", to_string(report.trial), what));
  };
  if (found == state_->trials.end()) return refuse("before it was added");
  if (report.step < 1) return refuse(fmt::format("step {}, expected at least 1", report.step));
  PercentileTrial& trial = found->second;
  if (trial.complete || trial.decision != Decision::kContinue || report.step <= trial.last_step) return trial.decision;
  state_->report(report.trial, trial, report.step, result_or_nan(report.value));
  return trial.decision;
}

void PercentileScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found != state_->trials.end() && !found->second.complete) state_->complete(found->second);
}

std::vector<DecisionRecord> PercentileScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }

std::string PercentileScheduler::describe() const {
  const PercentileOptions& options = state_->options;
  return fmt::format("percentile {}, after {}", format_real(options.percentile),
                     counted(options.n_startup_trials, "trial"));
}

std::string PercentileScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const TrialId id : state_->order) {
    const PercentileTrial& trial = state_->trials.at(id);
    trials.push_back({{"id", to_string(id)},
                      {"last_step", trial.last_step},
                      {"stopped", trial.decision == Decision::kStop},
                      {"complete", trial.complete},
                      {"values", to_config(trial.values)}});
  }
  return Config{{"version", 1}, {"trials", std::move(trials)}}.to_json();
}

Result<void> PercentileScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("percentile", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void PercentileScheduler::check_invariants() const {
  int64_t completed = 0, values = 0, kept = 0;
  for (const auto& [id, trial] : state_->trials) {
    const bool counts = trial.complete && trial.decision != Decision::kStop;
    completed += counts;
    if (counts) values += static_cast<int64_t>(trial.values.size());
  }
  for (const auto& [step, state] : state_->steps) kept += state.trials;
  VOLADOR_CHECK(completed == state_->completed && values == kept,
                fmt::format("{} {} {} {}", completed, state_->completed, values, kept));
}

SchedulerFactory percentile_pruner(const PercentileOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto scheduler = PercentileScheduler::create(options, context);
    if (!scheduler) return make_error(scheduler.error());
    return std::unique_ptr<Scheduler>(std::move(*scheduler));
  };
}

}  // namespace volador::tune
