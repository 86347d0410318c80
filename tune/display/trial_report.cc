#include "tune/display/trial_report.h"

#include <algorithm>

namespace volador::tune {

TrialReport report_of(const Trial& trial) {
  TrialReport row;
  row.trial_id = to_string(trial.id);
  row.status = to_string(trial.status);
  row.node_name = trial.node;
  row.step = trial.step;
  row.config_json = trial.config.to_json();
  for (const auto& [name, value] : trial.last_result) row.metrics[name] = value;
  row.error = trial.error;
  row.reason = trial.reason;
  row.started_ms = unix_ms(trial.started);
  row.ended_ms = unix_ms(trial.ended);
  row.name = trial.name;
  row.tags = trial.tags;
  if (trial.cloned_from) row.cloned_from = to_string(*trial.cloned_from);
  return row;
}

BestReport report_of(const std::optional<BestTrial>& best) {
  if (!best) return {};
  const Trial& trial = *best->trial;
  return {to_string(trial.id), trial.name, best->value, best->step, trial.config.to_json()};
}

std::vector<RungReport> report_of(const std::vector<RungState>& rungs, size_t members_max) {
  std::vector<RungReport> reports;
  const auto reached = std::count_if(rungs.begin(), rungs.end(), [](const RungState& one) { return one.trials > 0; });
  const size_t share = members_max / static_cast<size_t>(std::max<std::ptrdiff_t>(reached, 1));
  for (const RungState& rung : rungs) {
    RungReport& one = reports.emplace_back(
        RungReport{.bracket = rung.bracket, .milestone = rung.milestone, .trials = rung.trials, .passed = rung.passed});
    one.cutoff = rung.cutoff;
    one.state = rung.state;
    one.awaited = rung.awaited;
    for (const RungMember& member : rung.members) {
      if (one.members.size() == share) break;
      one.members.push_back({to_string(member.trial), member.value, std::string(to_string(member.act))});
    }
  }
  return reports;
}

}  // namespace volador::tune
