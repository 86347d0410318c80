#include "tune/plots/journal_plots.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <map>
#include <unordered_map>

#include "tune/display/progress_table.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/journal_rungs.h"
#include "tune/seconds.h"

namespace volador::tune {
namespace {

std::optional<TrialStatus> status_of(Act act) {
  switch (act) {
    case Act::kStopped:
      return TrialStatus::kStopped;
    case Act::kFinished:
      return TrialStatus::kFinished;
    case Act::kPaused:
    case Act::kResized:  // This attempt ends and its slot is released, too.
      return TrialStatus::kPaused;
    case Act::kPassed:
    case Act::kResumed:
    case Act::kCloned:
      return std::nullopt;
  }
  return std::nullopt;
}

class Attempts {
 public:
  void tell(const JournalEvent& told) {
    at_ = seconds_of(told.at);
    std::visit([this](const auto& event) { on(event); }, told.event);
  }
  void tell(const JournalDecision& decision) {
    const DecisionRecord& record = decision.record;
    if (const auto status = status_of(record.act)) fates_[record.trial] = *status;
    if (record.act == Act::kResumed || record.act == Act::kCloned) fates_.erase(record.trial);
  }
  std::vector<GanttPlot::Bar> finish() {
    while (!open_.empty()) close(open_.begin()->first, TrialStatus::kRunning);
    return std::move(bars_);
  }

 private:
  struct Open {
    std::string node;
    int64_t attempt = 0;
    double begin = 0;
    int64_t step = 0;
  };

  void on(const TrialStarted& event) {
    close(event.trial, TrialStatus::kWaiting);
    open_[event.trial] = {event.node, event.attempt, at_, steps_[event.trial]};
    fates_.erase(event.trial);
  }
  void on(const ResultReported& event) {
    steps_[event.trial] = event.step;
    if (event.done) fates_[event.trial] = TrialStatus::kFinished;
  }
  void on(const TrialFinished& event) { fates_[event.trial] = TrialStatus::kFinished; }
  void on(const TrialFailed& event) {
    end(event.trial, event.attempt, event.counts ? TrialStatus::kFailed : TrialStatus::kWaiting);
  }
  void on(const TrialGone& event) {
    const auto fate = fates_.find(event.trial);
    end(event.trial, event.attempt,
        fate != fates_.end() ? fate->second
        : interrupted_       ? TrialStatus::kInterrupted
                             : TrialStatus::kFinished);
  }
  void on(const Interrupt&) { interrupted_ = true; }
  void on(const Abort&) { interrupted_ = true; }
  void on(const StopRequested& event) { interrupted_ = interrupted_ || event.whole; }
  void on(const Resumed&) {
    interrupted_ = false;
    while (!open_.empty()) close(open_.begin()->first, TrialStatus::kWaiting);
  }
  template <class T>
  void on(const T&) {}

  void end(TrialId trial, int64_t attempt, TrialStatus status) {
    const auto found = open_.find(trial);
    if (found != open_.end() && found->second.attempt == attempt) close(trial, status);
  }
  void close(TrialId trial, TrialStatus status) {
    const auto found = open_.find(trial);
    if (found == open_.end()) return;
    const Open& open = found->second;
    bars_.push_back({open.node, open.begin, at_, status,
                     fmt::format("trial {}, attempt {}: steps {} to {}, {}, {}", to_string(trial), open.attempt,
                                 open.step, steps_[trial], value_text(at_ - open.begin, Unit::kSeconds),
                                 status == TrialStatus::kWaiting ? "tried again" : std::string(to_string(status)))});
    open_.erase(found);
  }

  double at_ = 0;
  bool interrupted_ = false;
  std::map<TrialId, Open> open_;
  std::unordered_map<TrialId, TrialStatus> fates_;
  std::unordered_map<TrialId, int64_t> steps_;
  std::vector<GanttPlot::Bar> bars_;
};

}  // namespace

std::vector<RungsPlot::Rung> rungs_of(const JournalContents& journal) {
  std::vector<RungsPlot::Rung> out;
  for (const JournalRung& found : journal_rungs(journal)) {
    RungsPlot::Rung& rung = out.emplace_back(
        RungsPlot::Rung{.bracket = found.bracket, .milestone = found.milestone, .cutoff = found.cutoff});
    for (const DecisionRecord& made : found.members) {
      rung.members.push_back({.tip = fmt::format("trial {}: {} after step {}: {}", to_string(made.trial),
                                                 to_string(made.act), made.step, to_text(made)),
                              .value = made.value,
                              .act = made.act});
    }
  }
  return out;
}

std::vector<GanttPlot::Bar> attempts_of(const JournalContents& journal) {
  Attempts attempts;
  for (const JournalRecord& record : journal.records) {
    if (const auto* event = std::get_if<JournalEvent>(&record)) attempts.tell(*event);
    if (const auto* decision = std::get_if<JournalDecision>(&record)) attempts.tell(*decision);
  }
  return attempts.finish();
}

}  // namespace volador::tune
