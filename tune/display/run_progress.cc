#include "tune/display/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "runtime/quantities.h"

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
    text += fmt::format("{}{} of {}", text.empty() ? "" : ", ", format_amount(totals.used.get(name)),
                        counted(format_amount(total), unit));
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
  if (const auto found = trial.metrics.find(options_.metric); found != trial.metrics.end())
    row.value = found->second.last;
  row.parameters = parameters_of(trial);
  row.error = trial.error;
  return row;
}

std::vector<std::string> RunProgress::parameters_of(const Trial& trial) const {
  std::vector<std::string> texts;
  for (const std::string& path : parameters_) texts.push_back(parameter_text(trial.config.find(path)));
  return texts;
}

std::optional<ProgressBest> RunProgress::best_of(const TrialLoop& loop, Scope scope) const {
  const auto best = loop.best(scope);
  if (!best) return std::nullopt;
  return ProgressBest{name_of(*best->trial), best->value, best->step, parameters_of(*best->trial)};
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
  snapshot.left = moment.left;
  snapshot.goes_on = !loop.ended() && !loop.ending() && !loop.paused();
  for (const Trial& trial : loop.trials()) {
    snapshot.rows.push_back(row_of(loop, trial));
    if (trial.status == TrialStatus::kWaiting && snapshot.waiting_reason.empty())
      snapshot.waiting_reason = trial.reason;
  }
  snapshot.best = best_of(loop, Scope::kLast);
  snapshot.best_so_far = best_of(loop, Scope::kAll);
  return snapshot;
}

}  // namespace volador::tune
