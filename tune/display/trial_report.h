// Converts trials and rungs to the reports used by lists and dashboards.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/actor/session.h"
#include "tune/loop/best_trial.h"
#include "tune/loop/decision_record.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// Without actor and points.
TrialReport report_of(const Trial& trial);

// An empty trial id if there is no best trial.
BestReport report_of(const std::optional<BestTrial>& best);

// Limits the members to about `members_max` in total, the same number for each rung that trials have reached.
std::vector<RungReport> report_of(const std::vector<RungState>& rungs, size_t members_max);

}  // namespace volador::tune
