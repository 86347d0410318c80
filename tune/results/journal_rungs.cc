#include "tune/results/journal_rungs.h"

#include <cmath>
#include <map>
#include <unordered_map>

namespace volador::tune {

std::vector<JournalRung> journal_rungs(const JournalContents& journal) {
  using Key = std::pair<int64_t, double>;
  std::map<Key, JournalRung> rungs;
  std::map<Key, std::unordered_map<TrialId, size_t>> places;
  for (const JournalRecord& record : journal.records) {
    const auto* decision = std::get_if<JournalDecision>(&record);
    if (decision == nullptr || !(decision->record.milestone > 0)) continue;
    const DecisionRecord& made = decision->record;
    const Key key{made.bracket, made.milestone};
    JournalRung& rung = rungs[key];
    rung.bracket = made.bracket;
    rung.milestone = made.milestone;
    if (std::isfinite(made.cutoff)) rung.cutoff = made.cutoff;
    const auto [place, fresh] = places[key].emplace(made.trial, rung.members.size());
    if (fresh) rung.members.push_back(made);
    DecisionRecord& member = rung.members[place->second];
    const double before = member.value;
    member = made;
    if (std::isnan(member.value)) member.value = before;
  }
  std::vector<JournalRung> out;
  for (auto& [key, rung] : rungs) out.push_back(std::move(rung));
  return out;
}

RungState state_of(const JournalRung& rung, Mode mode, bool ended) {
  RungState state{
      .bracket = rung.bracket, .milestone = rung.milestone, .trials = static_cast<int64_t>(rung.members.size())};
  state.cutoff = rung.cutoff;
  state.state = ended ? "decided" : "open";
  for (const DecisionRecord& member : rung.members) {
    const bool went_on = member.act == Act::kPassed || member.act == Act::kResumed || member.act == Act::kFinished ||
                         member.act == Act::kCloned;
    state.passed += went_on ? 1 : 0;
    state.members.push_back({.trial = member.trial, .value = member.value, .act = member.act});
  }
  keep_best(state.members, state.members.size(), mode);
  return state;
}

}  // namespace volador::tune
