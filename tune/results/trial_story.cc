#include "tune/results/trial_story.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/quantities.h"
#include "tune/results/saved_run.h"

namespace volador::tune {
namespace {

// By act.
constexpr std::string_view kDecided[] = {"story.passed",  "story.stopped", "story.finished", "story.paused",
                                         "story.resumed", "story.cloned",  "story.resized"};

class Teller {
 public:
  Teller(TrialStory& story, const JournalHeader& header, size_t others_max)
      : story_(story), mode_(header.mode == "min" ? Mode::kMin : Mode::kMax), others_max_(others_max) {}

  void tell(const JournalEvent& told) {
    at_ = told.at;
    times_.push_back(told.at);
    reports_ += std::holds_alternative<ResultReported>(told.event);
    std::visit([this](const auto& event) { on(event); }, told.event);
  }

  void tell(const JournalSuggestion& suggestion) {
    const auto added = std::ranges::find(added_, suggestion.config, &ConfigAdded::config);
    const bool is_added = added != added_.end();
    const auto from = is_added ? added->cloned_from : std::nullopt;
    if (is_added) added_.erase(added);
    if (suggestion.index != story_.index) return;
    story_.reports_known = reports_;
    if (from) return say(reason("story.cloned_on_request", story_.index + 1, to_string(*from)));
    if (is_added) return say(reason("story.added", story_.index + 1));
    say(reports_ == 0 ? reason("story.suggested_first", story_.searcher, story_.index + 1)
                      : reason("story.suggested", story_.searcher, story_.index + 1, reports_));
  }

  void tell(const JournalDecision& decision) {
    any_decision_ = true;
    decisions_.push_back(&decision);
  }

  // Runs after all events: decisions of one event are compared with each other.
  void tell_decisions() {
    for (size_t i = 0; i < decisions_.size(); ++i) {
      const DecisionRecord& record = decisions_[i]->record;
      if (record.trial != story_.trial) continue;
      TrialStory::Moment moment{
          .at = time_of(*decisions_[i]),
          .text = reason(kDecided[static_cast<size_t>(record.act)], record.step, reason_of(record)),
          .decision = record};
      add_others(moment, i);
      story_.moments.push_back(std::move(moment));
    }
    std::ranges::stable_sort(story_.moments, {}, &TrialStory::Moment::at);
  }

  bool any_decision() const { return any_decision_; }

 private:
  void say(Reason text) { story_.moments.push_back({.at = at_, .text = std::move(text)}); }

  void on(const TrialStarted& event) {
    if (event.trial != story_.trial) return;
    Reason runs =
        event.node.empty() ? reason("story.runs", event.attempt) : reason("story.runs_on", event.attempt, event.node);
    say(saved_ > 0 ? reason("story.from", std::move(runs), saved_) : std::move(runs));
  }
  void on(const ResultReported& event) {
    if (event.trial != story_.trial) return;
    story_.step = event.step;
    story_.last_result = event.metrics;
  }
  void on(const CheckpointSaved& event) {
    if (event.trial == story_.trial) saved_ = event.step;
  }
  void on(const CheckpointCloned& event) {
    if (event.trial == story_.trial) saved_ = event.step;
  }
  void on(const TrialFinished& event) {
    if (event.trial == story_.trial) say(reason("story.returned"));
  }
  void on(const TrialFailed& event) {
    if (event.trial != story_.trial) return;
    Reason failed = reason("story.failed", event.attempt, story_.step, event.error);
    say(event.counts ? std::move(failed) : reason("story.no_fault", std::move(failed)));
  }
  void on(const CheckpointFailed& event) {
    if (event.trial == story_.trial) say(reason("story.checkpoint_failed", event.step, event.error));
  }
  void on(const CheckpointLost& event) {
    if (event.trial == story_.trial) say(reason("story.checkpoint_lost", event.location));
  }
  void on(const CloneFailed& event) {
    if (event.trial == story_.trial) say(reason("story.not_copied", event.error));
  }
  void on(const ResourcesRefused& event) {
    if (event.trial == story_.trial) say(reason("story.no_room", event.reason));
  }
  void on(const TrialTagged& event) {
    if (event.trial == story_.trial) say(reason("story.tagged", fmt::format("{}", fmt::join(event.tags, ", "))));
  }
  void on(const Interrupt&) { say(reason("story.run_interrupted")); }
  void on(const StopRequested& event) {
    if (event.whole) say(reason("story.run_stop_asked"));
    if (!event.whole && event.trial == story_.trial) say(reason("story.stop_asked"));
  }
  void on(const PauseRequested& event) {
    if (event.whole) say(reason("story.run_pause_asked"));
    if (!event.whole && event.trial == story_.trial) say(reason("story.pause_asked"));
  }
  void on(const ResumeRequested& event) {
    if (event.whole) say(reason("story.run_resume_asked"));
    if (!event.whole && event.trial == story_.trial) say(reason("story.resume_asked"));
  }
  void on(const Abort& event) { say(reason("story.run_failed", event.error.message)); }
  void on(const Resumed&) { say(reason("story.run_resumed")); }
  void on(const MoreSamples& event) {
    say(event.total < 0 ? reason("story.endless") : reason("story.more_samples", event.total));
  }
  void on(const ConfigAdded& event) {
    if (event.request.empty() || added_requests_.insert(event.request).second) added_.push_back(event);
  }
  template <class T>
  void on(const T&) {}

  std::chrono::nanoseconds time_of(const JournalDecision& decision) const {
    const auto event = static_cast<size_t>(std::max<int64_t>(decision.event, 0));
    return times_.empty() ? std::chrono::nanoseconds(0) : times_[std::min(event, times_.size() - 1)];
  }

  // With rungs: trials judged at the rung before this one or together with it; without rungs: the latest decision of
  // each trial.
  void add_others(TrialStory::Moment& moment, size_t own) {
    const DecisionRecord& record = *moment.decision;
    if (record.of == 0) return;
    std::map<TrialId, const DecisionRecord*> latest;
    for (size_t i = 0; i < decisions_.size() && (i <= own || decisions_[i]->event == decisions_[own]->event); ++i) {
      const DecisionRecord& other = decisions_[i]->record;
      if (other.trial == record.trial || other.rule != record.rule || other.of == 0) continue;
      if (other.bracket == record.bracket && other.milestone == record.milestone) latest[other.trial] = &other;
    }
    for (const auto& [id, other] : latest) moment.others.push_back(*other);
    std::ranges::stable_sort(moment.others,
                             [this](const auto& a, const auto& b) { return better(a.value, b.value, mode_); });
    if (moment.others.size() <= others_max_) return;
    moment.others_left_out = moment.others.size() - others_max_;
    moment.others.resize(others_max_);
  }

  TrialStory& story_;
  const Mode mode_;
  const size_t others_max_;
  std::chrono::nanoseconds at_{0};
  std::vector<std::chrono::nanoseconds> times_;  // Times of the events.
  std::vector<const JournalDecision*> decisions_;
  int64_t reports_ = 0, saved_ = 0;
  bool any_decision_ = false;
  std::vector<ConfigAdded> added_;  // Without a trial yet.
  std::set<std::string> added_requests_;
};

}  // namespace

Result<TrialStory> tell_story(const JournalContents& journal, std::string_view id, size_t others_max) {
  const std::vector<Trial> trials = suggested_trials(journal);
  const auto trial = find_trial(trials, id);
  if (!trial) return make_error(trial.error());
  const JournalHeader& header = journal.header;
  TrialStory story{.trial = (*trial)->id, .index = (*trial)->index, .config = (*trial)->config};
  story.searcher = header.searcher;
  story.scheduler = header.scheduler;
  story.metric = header.metric;
  story.mode = header.mode;
  Teller teller(story, header, others_max);
  bool program_known = false;
  for (const JournalRecord& record : journal.records) {
    program_known = program_known || std::holds_alternative<JournalProgram>(record);
    if (const auto* event = std::get_if<JournalEvent>(&record)) teller.tell(*event);
    if (const auto* suggestion = std::get_if<JournalSuggestion>(&record)) teller.tell(*suggestion);
    if (const auto* decision = std::get_if<JournalDecision>(&record)) teller.tell(*decision);
  }
  teller.tell_decisions();
  if (!program_known && !teller.any_decision()) story.notice = reason("story.no_reasons");
  return story;
}

}  // namespace volador::tune
