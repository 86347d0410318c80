#include "tune/schedulers/wilcoxon_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "runtime/quantities.h"
#include "tune/display/progress_table.h"
#include "tune/schedulers/step_values.h"
#include "tune/schedulers/wilcoxon.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

struct WilcoxonTrial {
  StepValues values;  // Up to steps_max; without NaN. Cleared at the end of the trial, except for the best one.
  double sum = 0;
  int64_t last_step = 0;
  Decision decision = Decision::kContinue;
  bool complete = false;

  double mean() const { return sum / static_cast<double>(values.size()); }
};

}  // namespace

struct WilcoxonScheduler::State {
  WilcoxonOptions options;
  SchedulerContext context;
  std::unordered_map<TrialId, WilcoxonTrial> trials;
  std::vector<TrialId> order;   // In the order added.
  std::optional<TrialId> best;  // Among trials that completed without being stopped by this scheduler.
  std::vector<DecisionRecord> decisions;

  State(const WilcoxonOptions& options_in, const SchedulerContext& context_in)
      : options(options_in), context(context_in) {}

  void report(TrialId id, WilcoxonTrial& trial, int64_t step, double value) {
    trial.last_step = step;
    if (step > options.steps_max || std::isnan(value)) return;
    trial.values.emplace_back(step, value);
    trial.sum += value;
    if (best) judge(id, trial);
  }

  void judge(TrialId id, WilcoxonTrial& trial) {
    const WilcoxonTrial& other = trials.at(*best);
    std::vector<double> worse;  // Differences on the instances that both have.
    size_t at = 0;
    for (const auto& [step, value] : trial.values) {
      while (at < other.values.size() && other.values[at].first < step) ++at;
      if (at == other.values.size()) break;
      if (other.values[at].first != step) continue;
      const double difference = value - other.values[at].second;
      worse.push_back(context.mode == Mode::kMin ? difference : -difference);
    }
    if (static_cast<int64_t>(worse.size()) < std::max<int64_t>(2, options.n_startup_steps)) return;
    if (std::any_of(worse.begin(), worse.end(), [](double one) { return std::isnan(one); })) return;  // Infinities.
    const double p = wilcoxon_greater(worse);
    const bool mean_is_better = !better(trial.mean(), other.mean(), context.mode);  // Better or equal.
    const bool stops = p < options.p_threshold && mean_is_better;
    if (stops) trial.decision = Decision::kStop;
    DecisionRecord& record = decisions.emplace_back(DecisionRecord{.trial = id,
                                                                   .step = trial.last_step,
                                                                   .act = stops ? Act::kStopped : Act::kPassed,
                                                                   .rule = "Wilcoxon",
                                                                   .value = trial.mean(),
                                                                   .cutoff = other.mean(),
                                                                   .other = *best});
    record.detail = reason("decision.wilcoxon", fmt::format("{:.3g}", p), to_string(*best), worse.size(),
                           format_value(trial.mean()), format_value(other.mean()));
  }

  void complete(TrialId id, WilcoxonTrial& trial) {
    trial.complete = true;
    const bool counts = trial.decision != Decision::kStop && !trial.values.empty();
    const bool leads = counts && (!best || better(trial.mean(), trials.at(*best).mean(), context.mode));
    if (!leads) return trial.values.clear();
    if (best) trials.at(*best).values.clear();
    best = id;
  }

  Result<void> read(const Config& state) {
    const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("wilcoxon", what); };
    const Config all = state["trials"];
    for (const Config& entry : all.items()) {
      auto id = TrialId::parse(entry.text("id"));
      if (!id) return make_error(id.error());
      WilcoxonTrial trial{.sum = entry.real("sum"), .last_step = entry.integer("last_step")};
      if (entry.boolean("stopped")) trial.decision = Decision::kStop;
      trial.complete = entry.boolean("complete");
      auto values = step_values_from(entry["values"], std::min(options.steps_max, trial.last_step));
      const auto is_nan = [](const auto& one) { return std::isnan(one.second); };
      if (!values || std::any_of(values->begin(), values->end(), is_nan)) return refuse("steps out of order");
      trial.values = std::move(*values);
      if (!trials.emplace(*id, std::move(trial)).second) return refuse("a trial stands in it twice");
      order.push_back(*id);
    }
    if (state.text("best").empty()) return {};
    auto id = TrialId::parse(state.text("best"));
    if (!id) return make_error(id.error());
    const auto found = trials.find(*id);
    if (found == trials.end() || !found->second.complete || found->second.values.empty())
      return refuse("an unknown best trial");
    best = *id;
    return {};
  }
};

WilcoxonScheduler::WilcoxonScheduler(const WilcoxonOptions& options, const SchedulerContext& context)
    : state_(std::make_unique<State>(options, context)) {}
WilcoxonScheduler::~WilcoxonScheduler() = default;

Result<std::unique_ptr<WilcoxonScheduler>> WilcoxonScheduler::create(const WilcoxonOptions& options,
                                                                     const SchedulerContext& context) {
  const auto refuse = [](std::string_view option, std::string_view rule, const std::string& got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("wilcoxon_pruner.{}: expected {}, got {}", option, rule, got));
  };
  if (!(options.p_threshold >= 0 && options.p_threshold <= 1))
    return refuse("p_threshold", "0 to 1", format_real(options.p_threshold));
  if (options.n_startup_steps < 0)
    return refuse("n_startup_steps", "at least 0", std::to_string(options.n_startup_steps));
  if (options.steps_max < 1) return refuse("steps_max", "at least 1", std::to_string(options.steps_max));
  if (context.metric.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "wilcoxon_pruner: it compares trials by a metric: set .metric to the name of one that the trials report");
  }
  return std::unique_ptr<WilcoxonScheduler>(new WilcoxonScheduler(options, context));
}

void WilcoxonScheduler::on_trial_add(TrialId trial) {
  if (state_->trials.try_emplace(trial).second) state_->order.push_back(trial);
}

Result<Decision> WilcoxonScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  const auto refuse = [&](std::string what) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("wilcoxon_pruner: trial {} reported {}", to_string(report.trial), what));
  };
  if (found == state_->trials.end()) return refuse("before it was added");
  if (report.step < 1) return refuse(fmt::format("step {}, expected at least 1", report.step));
  WilcoxonTrial& trial = found->second;
  if (trial.complete || trial.decision != Decision::kContinue || report.step <= trial.last_step) return trial.decision;
  state_->report(report.trial, trial, report.step, result_or_nan(report.value));
  return trial.decision;
}

void WilcoxonScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found != state_->trials.end() && !found->second.complete) state_->complete(trial, found->second);
}

std::vector<DecisionRecord> WilcoxonScheduler::take_decisions() { return std::exchange(state_->decisions, {}); }

std::string WilcoxonScheduler::describe() const {
  return fmt::format("Wilcoxon p {}", format_real(state_->options.p_threshold));
}

std::string WilcoxonScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const TrialId id : state_->order) {
    const WilcoxonTrial& trial = state_->trials.at(id);
    trials.push_back({{"id", to_string(id)},
                      {"last_step", trial.last_step},
                      {"sum", trial.sum},
                      {"stopped", trial.decision == Decision::kStop},
                      {"complete", trial.complete},
                      {"values", to_config(trial.values)}});
  }
  return Config{{"version", 1}, {"best", state_->best ? to_string(*state_->best) : ""}, {"trials", std::move(trials)}}
      .to_json();
}

Result<void> WilcoxonScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>(state_->options, state_->context);
  VOLADOR_TRY(read_snapshot("wilcoxon", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void WilcoxonScheduler::check_invariants() const {
  for (const auto& [id, trial] : state_->trials) {
    const bool is_best = state_->best == id;
    VOLADOR_CHECK(!is_best || (trial.complete && trial.decision != Decision::kStop && !trial.values.empty()),
                  to_string(id));
    VOLADOR_CHECK(!trial.complete || is_best || trial.values.empty(), to_string(id));
  }
}

SchedulerFactory wilcoxon_pruner(const WilcoxonOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto scheduler = WilcoxonScheduler::create(options, context);
    if (!scheduler) return make_error(scheduler.error());
    return std::unique_ptr<Scheduler>(std::move(*scheduler));
  };
}

}  // namespace volador::tune
