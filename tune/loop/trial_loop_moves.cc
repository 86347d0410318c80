// Transitions of one trial: starts, steps, checkpoints, pauses, failures, its end.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/quantities.h"
#include "tune/loop/trial_loop_core.h"
#include "tune/seconds.h"

namespace volador::tune {

void TrialLoop::Core::start(Trial& trial) {
  ++trial.attempt;
  rewind(trial);
  Slot& state = slot(trial);
  state.saving_step = 0;
  state.stop_at_once = state.pausing = false;
  table.set_phase(trial, Phase::kStarting);
  state.priority = 0;
  StartTrial action{trial.id, trial.attempt};
  if (const Checkpoint* last = trial.last_checkpoint()) action.restore = *last;
  emit(std::move(action));
}

void TrialLoop::Core::step(Trial& trial) {
  table.set_phase(trial, Phase::kStepping);
  emit(Step{trial.id, trial.attempt});
}

void TrialLoop::Core::save(Trial& trial) {
  slot(trial).saving_step = trial.step;
  table.set_phase(trial, Phase::kSaving);
  emit(SaveCheckpoint{trial.id, trial.attempt, trial.step});
}

void TrialLoop::Core::after_save(Trial& trial) {
  Slot& state = slot(trial);
  if (!state.verdict || (state.verdict_step > trial.step)) {
    if (!ending_ && wants_pause(trial)) return pause(trial);
    if (!ending_) return step(trial);
    state.verdict = Verdict{TrialStatus::kInterrupted, end_reason_};
  }
  stop(trial, std::move(state.verdict), false);
}

bool TrialLoop::Core::scheduler_pauses(const Trial& trial) {
  const int64_t step = slot(trial).pause_step;
  return step > 0 && trial.step >= step;
}

void TrialLoop::Core::pause(Trial& trial) {
  const Checkpoint* last = trial.last_checkpoint();
  if (last == nullptr || last->step != trial.step) return save(trial);
  stop(trial, std::nullopt, false);
  slot(trial).pausing = true;
}

bool TrialLoop::Core::leave(Trial& trial) {
  Slot& state = slot(trial);
  if (state.verdict) {
    finish(trial, std::move(*state.verdict));
    return true;
  }
  if (!state.pausing) return false;
  table.set_phase(trial, Phase::kPaused);
  if (state.pause_step == 0 || state.yields) {
    unpause(trial);  // It was resumed meanwhile.
    return true;
  }
  if (!scheduler_pauses(trial)) {
    await_place(trial);  // The user paused it on the way to that step.
    return true;
  }
  table.set_status(trial, TrialStatus::kPaused);
  trial.reason = because(reason("trial.paused", trial.step), state.why);
  if (state.clone) begin_clone(trial);
  return true;
}

void TrialLoop::Core::unpause(Trial& trial) {
  slot(trial).pause_step = 0;
  slot(trial).yields = false;
  await_place(trial);
}

void TrialLoop::Core::await_place(Trial& trial) {
  if (!slot(trial).held) return table.enqueue(trial);
  table.set_phase(trial, Phase::kHeld);
  table.set_status(trial, TrialStatus::kPaused);
  trial.reason = trial.step > 0 ? reason("trial.held", trial.step) : reason("trial.held_before");
}

bool TrialLoop::Core::hold(Trial& trial) {
  Slot& state = slot(trial);
  if (state.held || state.verdict || state.phase == Phase::kDone) return true;
  const bool starting = state.phase == Phase::kStarting;
  if (TrialTable::is_live(state.phase) && !starting && !options.can_checkpoint) return false;
  state.held = true;
  if (state.phase == Phase::kQueued || state.phase == Phase::kHeld) await_place(trial);
  if (starting) stop(trial, std::nullopt, true);
  if (starting) state.pausing = true;
  return true;
}

void TrialLoop::Core::release(Trial& trial) {
  if (!std::exchange(slot(trial).held, false) || slot(trial).phase != Phase::kHeld) return;
  if (slot(trial).backs_off) return table.set_status(trial, TrialStatus::kWaiting);
  trial.reason = holding ? reason("run.held") : reason("trial.resumed");
  table.enqueue(trial);
}

void TrialLoop::Core::release_all() {
  holding = false;
  for (Trial& trial : table.trials()) release(trial);
}

void TrialLoop::Core::keep(Trial& trial, int64_t step, const std::string& location) {
  Checkpoint checkpoint{
      .step = step, .attempt = trial.attempt, .location = location, .time_total_s = trial.time_total_s};
  if (const auto score = trial.last_result.get(options.checkpoint.score_attribute)) checkpoint.score = *score;
  trial.checkpoints.push_back(std::move(checkpoint));
  retire(trial);
  scheduler->on_checkpoint(trial.id, step);
}

void TrialLoop::Core::retire(Trial& trial) {
  for (Checkpoint& retired : retire_checkpoints(trial.checkpoints, options.checkpoint)) {
    emit(DeleteCheckpoint{trial.id, std::move(retired)});
  }
}

void TrialLoop::Core::obey(const EndOrder& order) {
  Trial* trial = ordered(order.trial);
  if (trial == nullptr || slot(*trial).verdict) return;
  Slot& state = slot(*trial);
  Verdict verdict = verdict_of(order.decision, *trial);
  if (!TrialTable::is_live(state.phase) && !is_copied(*trial)) return finish(*trial, std::move(verdict));
  state.verdict = std::move(verdict);  // Applied at the end of the current request.
  state.verdict_step = std::max<int64_t>(trial->step, 1);
}

bool TrialLoop::Core::stalls() const {
  const bool held = holding || table.any_held();
  return !ending_ && !held && table.live() == 0 && table.queue_empty() && table.any_paused() && clones_of_paused_ == 0;
}

void TrialLoop::Core::break_stall() {
  if (!stalls()) return;
  scheduler->on_no_more_trials();
  obey_scheduler();
  if (stalls()) obey(ResumeOrder{table.first_paused().id});
}

void TrialLoop::Core::conclude(Trial& trial, Verdict verdict, bool checkpoint) {
  const Checkpoint* last = trial.last_checkpoint();
  const bool there = last != nullptr && last->step == trial.step;
  slot(trial).verdict = std::move(verdict);
  if (checkpoint && options.can_checkpoint && !there && trial.step > 0 && !stopping_at_once_) return save(trial);
  stop(trial, std::move(slot(trial).verdict), false);
}

void TrialLoop::Core::stop(Trial& trial, std::optional<Verdict> verdict, bool at_once) {
  Slot& state = slot(trial);
  state.verdict = std::move(verdict);
  state.stop_at_once = at_once;
  table.set_phase(trial, Phase::kStopping);
  emit(StopTrial{trial.id, trial.attempt, at_once});
}

void TrialLoop::Core::fail(Trial& trial, bool counts_in) {
  slot(trial).clone.reset();
  ++(counts_in ? trial.failures : trial.losses);
  const int64_t most = counts_in ? options.max_failures : options.max_losses;
  const bool again = most < 0 || (counts_in ? trial.failures : trial.losses) <= most;
  if (!again && !counts_in) trial.error = reason("trial.lost", trial.error, trial.losses, options.max_losses);
  if (!again) return finish(trial, {TrialStatus::kFailed, trial.error});
  const Slot& state = slot(trial);
  if (ending_ && state.verdict && state.verdict_step == trial.step) return finish(trial, *state.verdict);
  if (ending_) return finish(trial, {TrialStatus::kInterrupted, end_reason_});
  rewind(trial);
  trial.reason = reason("trial.goes_on", trial.step, trial.error);
  if (counts_in && options.retry_backoff.count() > 0) return back_off(trial);
  await_place(trial);
}

void TrialLoop::Core::back_off(Trial& trial) {
  constexpr int64_t kDoublingsMax = 30;
  std::chrono::nanoseconds wait = options.retry_backoff;
  for (int64_t i = 1; i < std::min(trial.failures, kDoublingsMax) && wait < options.retry_backoff_max; ++i) wait *= 2;
  wait = std::min(wait, options.retry_backoff_max);
  Slot& state = slot(trial);
  state.backs_off = true;
  back_offs_.emplace(now_ + wait, trial.index);
  if (state.held) return await_place(trial);
  table.set_phase(trial, Phase::kHeld);
  table.set_status(trial, TrialStatus::kWaiting);
  trial.reason = reason("trial.backs_off", fmt::format("{}", seconds_of(wait)), trial.error);
}

void TrialLoop::Core::end_back_offs() {
  while (!back_offs_.empty() && back_offs_.begin()->first <= now_) {
    Trial& trial = table.at(back_offs_.begin()->second);
    back_offs_.erase(back_offs_.begin());
    Slot& state = slot(trial);
    if (!std::exchange(state.backs_off, false) || state.phase != Phase::kHeld || state.held) continue;
    trial.reason = reason("trial.goes_on", trial.step, trial.error);
    table.enqueue(trial);
  }
}

void TrialLoop::Core::resume(Trial& trial) {
  Slot& state = slot(trial);
  if (is_copied(trial)) return drop_clone(trial, "the driver ended");
  if (!TrialTable::is_live(state.phase)) return;
  state.clone.reset();
  if (state.phase == Phase::kStopping && leave(trial)) return;
  if (ending_) return finish(trial, {TrialStatus::kInterrupted, end_reason_});
  rewind(trial);
  trial.reason = reason("trial.driver_anew", trial.step);
  table.enqueue(trial);
}

void TrialLoop::Core::rewind(Trial& trial) {
  const Checkpoint* last = trial.last_checkpoint();
  trial.step = last != nullptr ? last->step : 0;
  trial.time_total_s = last != nullptr ? last->time_total_s : 0;
}

void TrialLoop::Core::finish(Trial& trial, Verdict verdict) {
  if (slot(trial).clone) take_clone(trial);
  table.set_phase(trial, Phase::kDone);
  table.set_status(trial, verdict.status);
  trial.reason = std::move(verdict.reason);
  slot(trial).why = {};
  slot(trial).backs_off = false;
  if (verdict.status == TrialStatus::kFailed) {
    scheduler->on_error(trial.id);
  } else {
    scheduler->on_complete(trial.id);
  }
  stopper_.on_complete(trial.id);
  std::optional<Observation> last;
  if (verdict.status != TrialStatus::kFailed && trial.step_max > 0) {
    last = Observation{trial.index, trial.step_max,
                       options.metric.empty() ? std::nullopt : trial.last_result.get(options.metric)};
    last->result = trial.last_result;
    add_goals(*last, trial);
  }
  searcher->on_complete(trial.index, last);
  emit(TrialEnded{trial.id});
  if (verdict.status == TrialStatus::kFailed && options.fail_fast && !ending_) {
    emit(Notice{reason("notice.fail_fast", to_string(trial.id), trial.error)});
    stop_all(reason("run.fail_fast", to_string(trial.id)));
  }
  const bool reported = trial.step_max > 0;  // A trial that was stopped by the user may not have.
  const bool whole = verdict.status == TrialStatus::kFinished || (verdict.status == TrialStatus::kStopped && reported);
  if (!whole) return;
  if (!stop_checked_) check_stop_metrics();
  for (const Objective& objective : options.goals.objectives) {
    if (!board_.reported(objective.metric) && !ending_) abort(board_.missing_error(objective.metric));
  }
  if (board_.missing() && !ending_) abort(board_.missing_error());
}

void TrialLoop::Core::add_goals(Observation& last, const Trial& trial) const {
  const auto value = [&trial](const std::string& name) {
    return trial.last_result.get(name).value_or(std::numeric_limits<double>::quiet_NaN());
  };
  for (const Objective& objective : options.goals.objectives) last.objectives.push_back(value(objective.metric));
  for (const std::string& constraint : options.goals.constraints) last.constraints.push_back(value(constraint));
}

void TrialLoop::Core::check_stop_metrics() {
  stop_checked_ = true;
  for (const Stop::Condition& condition : options.stop.conditions()) {
    const auto* threshold = std::get_if<Stop::Threshold>(&condition);
    if (threshold == nullptr || board_.reported(threshold->metric)) continue;
    emit(Notice{reason("notice.idle_threshold", threshold->metric, fmt::format("{}", threshold->value))});
  }
  for (const std::string& constraint : options.goals.constraints) {
    if (board_.reported(constraint)) continue;
    emit(Notice{reason("notice.idle_constraint", constraint)});
  }
}

bool TrialLoop::Core::awaits_save(const Trial& trial, int64_t step) {
  const Slot& state = slot(trial);
  return (state.phase == Phase::kSaving || state.phase == Phase::kStopping) && state.saving_step == step && step > 0;
}

}  // namespace volador::tune
