// Leases, journal events and snapshots of a study.
#include <fmt/format.h>

#include <utility>

#include "runtime/quantities.h"
#include "tune/refusal.h"
#include "tune/study/shared_study.h"

namespace volador::tune {
namespace {

using State = StudyTrialState;
using Kind = StudyEvent::Kind;

struct SavedState {
  int64_t version = 1;
  int64_t created_ms = 0;
  std::vector<StudyTrial> trials;
  std::vector<int64_t> best;
  std::vector<StudyAnswer> answers;
  std::string searcher, scheduler;
  int64_t differences = 0;
};
VOLADOR_FIELDS(SavedState, version, created_ms, trials, best, answers, searcher, scheduler, differences);

}  // namespace

Reason reason_of(const StudyTrial& trial) {
  auto known = trial.why.empty() ? std::nullopt : Reason::from_json(trial.why);
  return known ? std::move(*known) : Reason(trial.reason);
}

// ---- Leases.

void SharedStudy::set_state(StudyTrial& trial, StudyTrialState state) {
  --counts_[static_cast<size_t>(trial.state)];
  ++counts_[static_cast<size_t>(state)];
  trial.state = state;
}

void SharedStudy::set_lease(StudyTrial& trial, int64_t from_ms) {
  if (trial.lease_ends_ms != 0) leases_.erase({trial.lease_ends_ms, trial.number});
  trial.lease_ends_ms = definition_.lease_s > 0 ? from_ms + definition_.lease_s * 1000 : 0;
  if (trial.lease_ends_ms != 0) leases_.insert({trial.lease_ends_ms, trial.number});
}

std::optional<int64_t> SharedStudy::deadline_ms() const {
  if (leases_.empty()) return std::nullopt;
  return leases_.begin()->first;
}

void SharedStudy::end_leases(int64_t now_ms) {
  StudyEvent event{.kind = Kind::kLeasesEnded, .at_ms = now_ms};
  for (const auto& [ends_ms, number] : leases_) {
    if (ends_ms > now_ms) break;
    event.numbers.push_back(number);
  }
  if (event.numbers.empty()) return;
  apply_leases_ended(event);
  events_.push_back(std::move(event));
}

void SharedStudy::apply_leases_ended(const StudyEvent& event) {
  for (const int64_t number : event.numbers) {
    StudyTrial& trial = trials_[static_cast<size_t>(number)];
    if (trial.attempt > definition_.max_retries) {
      end(trial, {State::kFail, {}, reason("study.given_up", trial.attempt, definition_.lease_s)}, event.at_ms);
      continue;
    }
    leases_.erase({std::exchange(trial.lease_ends_ms, 0), number});
    set_state(trial, State::kWaiting);
    trial.say(trial.worker.empty() ? reason("study.silent", definition_.lease_s)
                                   : reason("study.worker_silent", trial.worker, definition_.lease_s));
    waiting_.insert(number);
  }
}

void SharedStudy::resume(int64_t now_ms) {
  if (leases_.empty()) return;
  StudyEvent event{.kind = Kind::kResumed, .at_ms = now_ms};
  apply_resumed(event);
  events_.push_back(std::move(event));
}

void SharedStudy::apply_resumed(const StudyEvent& event) {
  for (const auto& [ends_ms, number] : std::set(leases_)) set_lease(trials_[static_cast<size_t>(number)], event.at_ms);
}

// ---- Persistence.

std::vector<StudyEvent> SharedStudy::take_events() { return std::exchange(events_, {}); }

Result<void> SharedStudy::replay(const StudyEvent& event) {
  const auto damaged = [this](std::string_view what) {
    return make_error(ErrorCode::kInternal,
                      fmt::format("study {}: its journal is damaged: {}", definition_.name, what));
  };
  const auto known = [this](int64_t number) { return number >= 0 && number < static_cast<int64_t>(trials_.size()); };
  if ((event.kind == Kind::kTold || event.kind == Kind::kReported) && event.numbers.size() != 1)
    return damaged("an event of several trials");
  size_t fresh = 0;
  for (const int64_t number : event.numbers) {
    if (known(number)) {
      if (trials_[static_cast<size_t>(number)].state >= State::kComplete)
        return damaged(fmt::format("trial {} goes on after its end", number));
      continue;
    }
    if (event.kind != Kind::kAsked || number != static_cast<int64_t>(trials_.size()) || fresh >= event.configs.size())
      return damaged(fmt::format("trial {} was not asked for", number));
    const Config& config = event.configs[fresh++];
    const auto now = searcher_->suggest(number);
    if (!now || now->kind != Suggestion::Kind::kConfig || !(now->config == config)) {
      ++differences_;
      searcher_->on_start(number, config);
    }
    add_trial(config);
  }
  switch (event.kind) {
    case Kind::kAsked:
      apply_asked(event);
      return {};
    case Kind::kTold:
      apply_told(event);
      return {};
    case Kind::kReported:
      apply_reported(event);
      return {};
    case Kind::kLeasesEnded:
      apply_leases_ended(event);
      return {};
    case Kind::kResumed:
      apply_resumed(event);
      return {};
  }
  return damaged("an event of a kind that is not known");
}

std::string SharedStudy::snapshot() const {
  return to_bytes(SavedState{.created_ms = created_ms_,
                             .trials = trials_,
                             .best = best_,
                             .answers = {answers_.begin(), answers_.end()},
                             .searcher = searcher_->snapshot(),
                             .scheduler = scheduler_ ? scheduler_->snapshot() : "",
                             .differences = differences_});
}

Result<SharedStudy> SharedStudy::restore(StudyDefinition definition, std::string_view snapshot) {
  auto saved = from_bytes<SavedState>(snapshot);
  if (!saved || saved->version != 1)
    return refuse(fmt::format("study {}: its stored state is torn or of another version", definition.name));
  auto study = create(std::move(definition), saved->created_ms);
  if (!study) return study;
  study->trials_ = std::move(saved->trials);
  for (StudyTrial& trial : study->trials_) {
    ++study->counts_[static_cast<size_t>(trial.state)];
    study->config_bytes_ += trial.config.to_json().size();
    if (trial.state == State::kWaiting) study->waiting_.insert(trial.number);
    if (trial.lease_ends_ms != 0) study->leases_.insert({trial.lease_ends_ms, trial.number});
  }
  study->best_ = std::move(saved->best);
  study->answers_ = {saved->answers.begin(), saved->answers.end()};
  study->differences_ = saved->differences;
  VOLADOR_TRY(study->searcher_->restore(saved->searcher));
  if (study->scheduler_) VOLADOR_TRY(study->scheduler_->restore(saved->scheduler));
  return study;
}

}  // namespace volador::tune
