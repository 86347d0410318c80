#include "tune/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "tune/remaining_time.h"

namespace volador::tune {
namespace {

std::string parameter_text(const Config* value) {
  if (value == nullptr) return {};
  return value->kind() == Config::Kind::kReal ? format_value(value->real()) : to_text(*value);
}

// "2 of 2 CPUs, 0.5 of 1 GPU".
std::string resources_text(const ClusterTotals& totals) {
  std::string text;
  const auto part = [&](std::string_view name, std::string_view unit) {
    const Amount total = totals.total.get(name);
    if (total == 0) return;
    text += fmt::format("{}{} of {} {}{}", text.empty() ? "" : ", ", format_amount(totals.used.get(name)),
                        format_amount(total), unit, total == kUnit ? "" : "s");
  };
  part("cpus", "CPU");
  part("gpus", "GPU");
  return text;
}

}  // namespace

RunProgress::RunProgress(const RunOptions& options, const ResourceSet& resources, const ExperimentDirectory& directory)
    : options_(options), resources_(resources), directory_(directory) {
  for (const auto& variable : options_.space.variables()) parameters_.push_back(variable.path);
}

ProgressRow RunProgress::row_of(const TrialLoop& loop, const Trial& trial) const {
  ProgressRow row;
  row.trial = name_of(trial);
  row.status = trial.status;
  row.node = trial.node;
  row.step = trial.step;
  if (loop.scheduler().changes_resources())
    row.resources = to_string(trial.resources.empty() ? resources_ : trial.resources);
  if (!options_.metric.empty()) row.value = trial.last_result.get(options_.metric);
  for (const std::string& path : parameters_) row.parameters.push_back(parameter_text(trial.config.find(path)));
  row.error = trial.error;
  return row;
}

ProgressSnapshot RunProgress::snapshot(const TrialLoop& loop, const RunMoment& moment) const {
  ProgressSnapshot snapshot;
  snapshot.name = options_.name;
  snapshot.key = directory_.key();
  snapshot.scheduler = loop.scheduler().describe();
  snapshot.metric = options_.metric;
  snapshot.mode = options_.mode;
  const TrialLoop::Counts counts = loop.counts();
  std::copy(std::begin(counts.by_status), std::end(counts.by_status), std::begin(snapshot.counts));
  snapshot.trials_total = loop.ending() ? counts.known : counts.total;
  if (!loop.ended()) snapshot.resources = resources_text(moment.totals);
  snapshot.parameters = parameters_;
  snapshot.elapsed = moment.elapsed;
  snapshot.directory = display_path(directory_.path());
  snapshot.ending = loop.ended() ? "" : moment.ending;
  if (loop.paused() && !loop.ending())
    snapshot.ending = "paused on request; volador tune resume " + directory_.argument() + " goes on";
  snapshot.left = time_left(loop, moment);
  for (const Trial& trial : loop.trials()) {
    snapshot.rows.push_back(row_of(loop, trial));
    if (trial.status == TrialStatus::kWaiting && snapshot.waiting_reason.empty())
      snapshot.waiting_reason = trial.reason;
  }
  if (const Trial* best = loop.best_trial()) snapshot.best = row_of(loop, *best);
  return snapshot;
}

std::optional<std::chrono::nanoseconds> RunProgress::time_left(const TrialLoop& loop, const RunMoment& moment) const {
  if (loop.ending() || loop.ended() || loop.paused()) return std::nullopt;
  std::vector<const Trial*> trials;
  for (const Trial& trial : loop.trials()) trials.push_back(&trial);
  const TrialLoop::Counts counts = loop.counts();
  RunSoFar run = run_so_far(trials, counts.total ? std::optional(*counts.total - counts.known) : std::nullopt);
  run.slots = std::max<int64_t>(moment.slots, 0);
  const int64_t most = options_.max_concurrent_trials;
  if (most > 0) run.slots = run.slots == 0 ? most : std::min(run.slots, most);
  if (const std::chrono::nanoseconds budget = loop.options().time_budget; budget.count() > 0)
    run.budget_left = budget - moment.of_loop;
  return remaining_time(run);
}

}  // namespace volador::tune
