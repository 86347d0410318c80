#include "tune/results/replay_audit.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tune/results/experiment_resume.h"

namespace volador::tune {
namespace {

using StepKey = std::pair<TrialId, int64_t>;  // Trial and step.

std::string words(const DecisionRecord& record) {
  return fmt::format("{}, {}", to_string(record.act), to_text(record));
}

void note(ReplayReport& report, std::string text) {
  ++report.differences;
  if (report.shown.size() < ReplayReport::kShownMax) report.shown.push_back(std::move(text));
}

void compare(ReplayReport& report, const DecisionRecord& recorded, std::multimap<StepKey, DecisionRecord>& made) {
  ++report.decisions;
  const auto [begin, end] = made.equal_range({recorded.trial, recorded.step});
  const auto same = std::find_if(begin, end, [&](const auto& entry) { return entry.second == recorded; });
  if (same != end) {
    made.erase(same);
    return;
  }
  const auto other = std::find_if(begin, end, [&](const auto& entry) { return entry.second.rule == recorded.rule; });
  note(report,
       fmt::format("trial {} after step {}: it was {}; now it would be {}", to_string(recorded.trial), recorded.step,
                   words(recorded), other == end ? "let go on without a word" : words(other->second)));
  if (other != end) made.erase(other);
}

}  // namespace

std::string ReplayReport::to_json() const {
  Config lines = Config::list({});
  for (const std::string& text : shown) lines.push_back(text);
  return Config{{"events", events},
                {"suggestions", suggestions},
                {"decisions", decisions},
                {"differences", differences},
                {"shown", lines}}
      .to_json();
}

Result<ReplayReport> ReplayReport::from_json(std::string_view json) {
  auto config = Config::from_json(json);
  if (!config) return make_error(config.error());
  try {
    ReplayReport report{config->integer("events"),
                        config->integer("suggestions"),
                        config->integer("decisions"),
                        config->integer("differences"),
                        {}};
    const Config lines = (*config)["shown"];
    for (const Config& line : lines.items()) report.shown.push_back(line.text());
    return report;
  } catch (const Exception& exception) {
    return make_error(exception.error());
  }
}

ReplayReport audit_replay(const JournalContents& journal, TrialLoop& loop, RecordingSearcher& searcher) {
  ReplayReport report;
  std::multimap<StepKey, DecisionRecord> made;
  const auto take = [&made](const Actions& actions) {
    for (const Action& action : actions) {
      const auto* decision = std::get_if<DecisionMade>(&action);
      if (decision != nullptr) made.emplace(StepKey(decision->record.trial, decision->record.step), decision->record);
    }
  };
  searcher.on_difference = [&](int64_t index, const Config& recorded, const Result<Suggestion>& now) {
    const bool proposes = now && now->kind == Suggestion::Kind::kConfig;
    note(report, fmt::format("trial {}, number {}: {} was suggested; now it would be {}",
                             to_string(TrialId::of(journal.header.trial_key(), index)), index + 1, recorded.to_json(),
                             proposes ? now->config.to_json()
                             : now    ? "none"
                                      : "an error: " + now.error().message));
  };
  take(loop.begin(BootTime{}));
  for (const JournalEvent& told : effective_events(journal.records)) {
    ++report.events;
    searcher.at(told.number);
    take(loop.handle(BootTime{} + told.at, told.event));
  }
  searcher.on_difference = nullptr;
  report.suggestions = std::min(static_cast<int64_t>(recorded_suggestions(journal.records).size()),
                                static_cast<int64_t>(loop.trials().size()));
  for (const JournalRecord& record : journal.records) {
    if (const auto* decision = std::get_if<JournalDecision>(&record)) compare(report, decision->record, made);
  }
  return report;
}

}  // namespace volador::tune
