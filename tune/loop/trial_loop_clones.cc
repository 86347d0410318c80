// Trials that become copies of others.
#include <fmt/format.h>

#include "tune/loop/trial_loop_core.h"

namespace volador::tune {

void TrialLoop::Core::obey(const CloneOrder& order) {
  Trial* trial = ordered(order.trial);
  if (trial == nullptr) return;
  Slot& state = slot(*trial);
  if (state.verdict || state.clone || state.phase == Phase::kQueued) return;
  if (state.clone_due) {
    state.clone = std::make_unique<Clone>(Clone{order, std::nullopt});
    return;
  }
  if (state.pause_step == 0 || state.yields) return;
  state.clone = std::make_unique<Clone>(Clone{order, std::nullopt});
  if (state.phase == Phase::kPaused) begin_clone(*trial);
}

bool TrialLoop::Core::clone(Trial& trial) {
  slot(trial).clone_due = true;
  obey_scheduler();
  slot(trial).clone_due = false;
  if (!slot(trial).clone) return false;
  begin_clone(trial);
  return true;
}

void TrialLoop::Core::begin_clone(Trial& trial) {
  Slot& state = slot(trial);
  const Trial* from = table.find(state.clone->order.from);
  const Checkpoint* checkpoint = from == nullptr ? nullptr : from->last_checkpoint();
  const bool paused = state.phase == Phase::kPaused;
  if (checkpoint == nullptr) return drop_clone(trial, reason("clone.no_checkpoint"));
  state.clone->checkpoint = *checkpoint;
  if (from == &trial && paused) return adopt(trial, checkpoint->location);
  clones_of_paused_ += paused;
  if (!paused) table.set_phase(trial, Phase::kCloning);
  emit(CloneCheckpoint{trial.id, trial.attempt, from->id, *checkpoint});
}

bool TrialLoop::Core::awaits_clone(const Trial& trial, int64_t step) {
  const Slot& state = slot(trial);
  const bool waits = state.phase == Phase::kCloning || state.phase == Phase::kPaused || state.phase == Phase::kStopping;
  return waits && state.clone && state.clone->checkpoint && state.clone->checkpoint->step == step;
}

bool TrialLoop::Core::is_copied(const Trial& trial) {
  const Slot& state = slot(trial);
  return state.phase == Phase::kPaused && state.clone && state.clone->checkpoint;
}

void TrialLoop::Core::adopt(Trial& trial, const std::string& location) {
  Slot& state = slot(trial);
  const Clone made = take_clone(trial);
  const int64_t had_step = trial.step;
  Checkpoint checkpoint = *made.checkpoint;
  checkpoint.attempt = trial.attempt;
  checkpoint.location = location;
  std::erase_if(trial.checkpoints, [&](Checkpoint& one) {
    if (one.step < checkpoint.step) return false;
    if (one.location != location) emit(DeleteCheckpoint{trial.id, std::move(one)});
    return true;
  });
  const int64_t step = checkpoint.step;
  trial.checkpoints.push_back(std::move(checkpoint));
  retire(trial);
  trial.config = made.order.config;
  trial.step_max = step;
  rewind(trial);
  state.pause_step = state.save_step = state.verdict_step = 0;
  if (state.phase != Phase::kQueued) state.priority = made.order.priority;
  stopper_.on_complete(trial.id);
  scheduler->on_cloned(made.order, step);
  emit(TrialCloned{trial.id, made.order.from, had_step, step});
  trial.reason = reason("trial.copy", to_string(made.order.from), step);
  go_on(trial, /*copied=*/true);
}

void TrialLoop::Core::drop_clone(Trial& trial, const Reason& why) {
  const Clone dropped = take_clone(trial);
  emit(Notice{reason("notice.not_copied", to_string(trial.id), to_string(dropped.order.from), why)});
  go_on(trial, /*copied=*/false);
}

Clone TrialLoop::Core::take_clone(Trial& trial) {
  Slot& state = slot(trial);
  clones_of_paused_ -= is_copied(trial) && state.clone->order.from != trial.id;
  Clone clone = std::move(*state.clone);
  state.clone.reset();
  return clone;
}

void TrialLoop::Core::go_on(Trial& trial, bool copied) {
  Slot& state = slot(trial);
  if (state.phase == Phase::kStopping) return;
  if (ending_ && !state.verdict) state.verdict = Verdict{TrialStatus::kInterrupted, end_reason_};
  if (state.phase == Phase::kPaused && state.verdict) return finish(trial, *state.verdict);
  if (state.phase == Phase::kPaused) return unpause(trial);
  if (state.verdict && !copied) return conclude(trial, *state.verdict, true);
  if (state.verdict) return stop(trial, state.verdict, false);
  if (!copied) return step(trial);
  stop(trial, std::nullopt, false);
  state.pausing = true;
}

}  // namespace volador::tune
