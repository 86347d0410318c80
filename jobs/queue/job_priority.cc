#include <fmt/format.h>

#include <algorithm>

#include "jobs/queue/job_planner.h"
#include "jobs/queue/planner_state.h"

namespace volador::jobs {

std::string_view to_string(JobPriority priority) {
  switch (priority) {
    case JobPriority::kNormal:
      return "normal";
    case JobPriority::kUrgent:
      return "urgent";
    case JobPriority::kVeryUrgent:
      return "very_urgent";
  }
  return "normal";
}

Result<JobPriority> parse_job_priority(std::string_view text) {
  for (const auto priority : {JobPriority::kNormal, JobPriority::kUrgent, JobPriority::kVeryUrgent}) {
    if (text == to_string(priority)) return priority;
  }
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("priority: expected normal, urgent or very_urgent, got \"{}\"", text));
}

bool counts_as_urgent(JobPriority priority) { return priority == JobPriority::kUrgent; }

size_t priority_index(JobPriority priority) {
  return static_cast<size_t>(std::clamp(static_cast<int>(priority), 0, static_cast<int>(kJobPriorities) - 1));
}

}  // namespace volador::jobs
