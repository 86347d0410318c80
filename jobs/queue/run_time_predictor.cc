#include "jobs/queue/run_time_predictor.h"

#include <algorithm>
#include <cmath>

namespace volador::jobs {

int64_t raised_prediction(int64_t predicted_ms, int64_t elapsed_ms, int64_t limit_ms) {
  if (predicted_ms <= 0) return 0;
  int64_t raised = predicted_ms;
  while (raised <= elapsed_ms) raised += std::max<int64_t>(1, raised / 2);
  return limit_ms > 0 ? std::min(raised, limit_ms) : raised;
}

void RunTimePredictor::LastRuns::add(Run run) {
  runs[1] = runs[0];
  runs[0] = run;
  count = std::min(count + 1, 2);
}

int64_t RunTimePredictor::LastRuns::mean(int64_t limit_ms) const {
  double run_sum = 0;
  double fraction_sum = 0;
  bool limited = limit_ms > 0;
  for (int i = 0; i < count; ++i) {
    const Run& run = runs[static_cast<size_t>(i)];
    run_sum += static_cast<double>(run.run_ms);
    limited = limited && run.limit_ms > 0;
    if (run.limit_ms > 0) fraction_sum += static_cast<double>(run.run_ms) / static_cast<double>(run.limit_ms);
  }
  const double mean = limited ? static_cast<double>(limit_ms) * fraction_sum / count : run_sum / count;
  const int64_t result = std::max<int64_t>(1, std::llround(mean));
  return limit_ms > 0 ? std::min(result, limit_ms) : result;
}

void RunTimePredictor::record(std::string_view owner, std::string_view project, int64_t run_ms, int64_t limit_ms) {
  if (run_ms < 0) return;
  by_owner_[std::string(owner)].add({.run_ms = run_ms, .limit_ms = limit_ms});
  by_project_[std::string(project)].add({.run_ms = run_ms, .limit_ms = limit_ms});
}

int64_t RunTimePredictor::predict(std::string_view owner, std::string_view project, int64_t limit_ms) const {
  if (const auto known = by_owner_.find(owner); known != by_owner_.end()) return known->second.mean(limit_ms);
  if (const auto known = by_project_.find(project); known != by_project_.end()) return known->second.mean(limit_ms);
  return 0;
}

}  // namespace volador::jobs
