#include "tune/loop/trial_table.h"

#include <fmt/format.h>

namespace volador::tune {

Trial& TrialTable::add(TrialId id, Config config) {
  const size_t index = trials_.size();
  Trial& trial = trials_.emplace_back();
  slots_.add();
  trial.id = id;
  trial.index = static_cast<int64_t>(index);
  trial.config = std::move(config);
  by_id_.insert(id, index);
  ++counts.known;
  ++counts.by_status[static_cast<int>(TrialStatus::kWaiting)];
  return trial;
}

const Trial* TrialTable::find(TrialId id) const {
  const size_t at = by_id_.find(id);
  return at == TrialIndex::kNone ? nullptr : &trials_[at];
}

Trial* TrialTable::current(TrialId id, int64_t attempt) {
  Trial* trial = find(id);
  return trial != nullptr && trial->attempt == attempt ? trial : nullptr;
}

void TrialTable::set_phase(Trial& trial, Phase phase) {
  Slot& state = slot(trial);
  live_ += int{is_live(phase)} - int{is_live(state.phase)};
  starting_ += int{phase == Phase::kStarting} - int{state.phase == Phase::kStarting};
  if (state.phase == Phase::kQueued) queue_.erase({state.priority, state.ticket});
  if (state.phase == Phase::kPaused) paused_.erase(trial.index);
  if (phase == Phase::kPaused) paused_.insert(trial.index);
  held_ += int{phase == Phase::kHeld} - int{state.phase == Phase::kHeld};
  state.phase = phase;
  clock.enter(trial.index, phase, trial.attempt, now);
}

void TrialTable::set_status(Trial& trial, TrialStatus status) {
  --counts.by_status[static_cast<int>(trial.status)];
  ++counts.by_status[static_cast<int>(status)];
  trial.status = status;
  if (status == TrialStatus::kRunning && trial.started == WallTime{}) trial.started = wall;
  trial.ended = has_ended(status) ? wall : WallTime{};
}

void TrialTable::enqueue(Trial& trial) {
  set_phase(trial, Phase::kQueued);
  set_status(trial, TrialStatus::kWaiting);
  Slot& state = slot(trial);
  state.ticket = ++tickets_;
  queue_.emplace(Place{state.priority, state.ticket}, trial.index);
}

void TrialTable::check_invariants() const {
  TrialCounts seen;
  int64_t live = 0;
  int64_t starting = 0;
  int64_t queued = 0;
  int64_t held = 0;
  VOLADOR_CHECK(slots_.size() == trials_.size() && by_id_.size() == trials_.size());
  for (size_t i = 0; i < trials_.size(); ++i) {
    const Trial& trial = trials_[i];
    const Slot& state = slots_[i];
    const std::string name =
        fmt::format("trial {} index {} phase {}", to_string(trial.id), i, static_cast<int>(state.phase));
    ++seen.known;
    ++seen.by_status[static_cast<int>(trial.status)];
    live += is_live(state.phase);
    starting += state.phase == Phase::kStarting;
    queued += state.phase == Phase::kQueued;
    held += state.phase == Phase::kHeld;
    VOLADOR_CHECK(paused_.contains(trial.index) == (state.phase == Phase::kPaused), name);
    VOLADOR_CHECK(state.phase != Phase::kQueued || queue_.contains({state.priority, state.ticket}), name);
    VOLADOR_CHECK(state.phase != Phase::kPaused || (trial.status == TrialStatus::kPaused && state.pause_step > 0),
                  name);
    const TrialStatus held_as = state.held ? TrialStatus::kPaused : TrialStatus::kWaiting;
    VOLADOR_CHECK(state.phase != Phase::kHeld || (trial.status == held_as && (state.held || state.backs_off)), name);
    VOLADOR_CHECK(state.phase != Phase::kQueued || !state.held, name);
    VOLADOR_CHECK(state.phase != Phase::kCloning || (state.clone && state.clone->checkpoint), name);
    VOLADOR_CHECK(!state.clone_due, name);
    VOLADOR_CHECK(trial.index == static_cast<int64_t>(i) && by_id_.find(trial.id) == i, name);
    VOLADOR_CHECK(has_ended(trial.status) == (state.phase == Phase::kDone), name);
    VOLADOR_CHECK(state.phase != Phase::kStepping || trial.status == TrialStatus::kRunning, name);
    VOLADOR_CHECK(trial.step <= trial.step_max && trial.attempt >= trial.failures + trial.losses, name);
    for (size_t c = 0; c < trial.checkpoints.size(); ++c) {
      VOLADOR_CHECK(trial.checkpoints[c].step <= trial.step_max &&
                        (c == 0 || trial.checkpoints[c - 1].step < trial.checkpoints[c].step),
                    name);
    }
  }
  VOLADOR_CHECK(live == live_ && starting == starting_,
                fmt::format("live {} {}, starting {} {}", live, live_, starting, starting_));
  VOLADOR_CHECK(held == held_, fmt::format("held {} {}", held, held_));
  VOLADOR_CHECK(queued == static_cast<int64_t>(queue_.size()), fmt::format("queued {} {}", queued, queue_.size()));
  for (int s = 0; s < kTrialStatuses; ++s) VOLADOR_CHECK(seen.by_status[s] == counts.by_status[s], std::to_string(s));
  VOLADOR_CHECK(seen.known == counts.known);
}

}  // namespace volador::tune
