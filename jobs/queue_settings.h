// Settings of the job queue: pools, projects, environments and preemption. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "jobs/queue/job_planner.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {

// Label of a node that names its pool.
inline constexpr std::string_view kPoolLabel = "pool";
// Pool of the nodes without this label.
inline constexpr std::string_view kDefaultPool = "default";

// The settings with their defaults. kInvalidArgument: a field breaks its rule; the message names the field, the value
// and the rule.
Result<v1::QueueSettings> checked_settings(const v1::QueueSettings& settings);

// What the settings say to the planner.
PlannerOptions planner_options(const v1::QueueSettings& settings);

// Whether jobs of the project may use the pool. kNotFound: no such pool; `pools`: those that nodes belong to.
// kPermissionDenied: it is for other projects.
Result<void> check_pool(const v1::QueueSettings& settings, const std::set<std::string>& pools, const std::string& pool,
                        const std::string& project);

// The environment that a job names: the source of a named environment, else `text`. kNotFound: `text` is a plain name,
// and no environment has it.
Result<std::string> resolved_environment(const v1::QueueSettings& settings, const std::string& text);

}  // namespace volador::jobs
