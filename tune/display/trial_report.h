// Trials and rungs as lists and pages show them.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/actor/session.h"
#include "tune/loop/best_trial.h"
#include "tune/loop/decision_record.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// Without its actor and its points.
TrialReport report_of(const Trial& trial);

// Of no trial where there is no best one.
BestReport report_of(const std::optional<BestTrial>& best);

// With at most about `members_max` members together, the same number of each rung that somebody has reached.
std::vector<RungReport> report_of(const std::vector<RungState>& rungs, size_t members_max);

}  // namespace volador::tune
