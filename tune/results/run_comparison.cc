#include "tune/results/run_comparison.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::tune {
namespace {

double value_in(const Trial& trial, const Analysis::By& by) {
  return standing_of(trial.metrics.find(by.metric)->second, by.scope, *by.mode).value;
}

}  // namespace

Result<RunComparison> compare_runs(const std::vector<SavedRun>& runs, Analysis::By by) {
  VOLADOR_CHECK(!runs.empty());
  const ExperimentState& first = runs.front().analysis.state();
  if (by.metric.empty()) by.metric = first.metric;
  if (!by.mode) by.mode = first.mode;
  if (by.metric.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: the run has no metric to compare by: name one with --metric",
                                  runs.front().analysis.directory().string()));
  RunComparison comparison{.metric = by.metric, .mode = *by.mode, .parameters = {}, .rows = {}};
  std::vector<const Trial*> bests;
  for (const SavedRun& run : runs) {
    const ExperimentState& state = run.analysis.state();
    RunComparison::Row row{.run = &run, .time = state.written - state.started};
    try {
      row.best = &run.analysis.best_trial(by);
    } catch (const Exception& exception) {
      return make_error(exception.error().code,
                        fmt::format("{}: {}", run.analysis.directory().string(), exception.error().message));
    }
    row.value = value_in(*row.best, by);
    for (const Trial& trial : state.trials) row.steps += trial.step_max;
    bests.push_back(row.best);
    comparison.rows.push_back(row);
  }
  comparison.parameters = varying_parameters(bests);
  std::ranges::stable_sort(comparison.rows,
                           [&](const auto& a, const auto& b) { return better(a.value, b.value, comparison.mode); });
  return comparison;
}

}  // namespace volador::tune
