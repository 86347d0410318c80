// Event handlers of the trial loop.
#include <fmt/format.h>

#include "runtime/quantities.h"
#include "tune/execution/trial_tags.h"
#include "tune/loop/trial_loop_core.h"
#include "tune/seconds.h"

namespace volador::tune {

void TrialLoop::Core::on(const TrialStarted& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr || slot(*trial).phase != Phase::kStarting) return;
  table.set_status(*trial, TrialStatus::kRunning);
  trial->node = event.node;
  trial->reason = {};
  step(*trial);
}

void TrialLoop::Core::on(const ResultReported& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr || slot(*trial).phase != Phase::kStepping || event.step <= trial->step) return;
  if (event.step != trial->step + 1) {
    trial->error = fmt::format("it reported step {} after step {}; steps must be contiguous", event.step, trial->step);
    return stop(*trial, std::nullopt, true);
  }
  const bool replayed = event.step <= trial->step_max;
  table.clock.step_done(trial->index, now_);
  count(*trial, event, replayed);
  if (options.strict_metric && board_.missing() && (scheduler->needs_metric() || searcher->needs_metric()))
    return abort(board_.missing_error());
  auto verdict = judge(*trial, event, replayed);
  if (slot(*trial).phase != Phase::kStepping) return;  // The experiment was aborted meanwhile.
  const bool due = (options.checkpoint.frequency > 0 && trial->step % options.checkpoint.frequency == 0) ||
                   slot(*trial).save_step == trial->step || asks_for_checkpoint(event.metrics);
  const bool clone_due = std::exchange(slot(*trial).clone_due, false);
  if (verdict) {
    slot(*trial).verdict_step = trial->step;
    return conclude(*trial, std::move(*verdict), due || options.checkpoint.at_end);
  }
  if (ending_) return conclude(*trial, {TrialStatus::kInterrupted, end_reason_}, true);
  if (clone_due && clone(*trial)) return;
  if (wants_pause(*trial)) return pause(*trial);
  if (due) return save(*trial);
  step(*trial);
}

bool TrialLoop::Core::asks_for_checkpoint(const Metrics& metrics) {
  if (!(metrics.names() == asked_names_)) {
    asked_names_ = metrics.names();
    asks_ = metrics.contains("should_checkpoint");
  }
  return asks_ && options.can_checkpoint && metrics.get("should_checkpoint").value_or(0) != 0;
}

void TrialLoop::Core::on(const TrialFinished& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr || slot(*trial).phase != Phase::kStepping) return;
  stop(*trial, Verdict{TrialStatus::kFinished, reason("trial.returned")}, false);
}

void TrialLoop::Core::on(const CheckpointSaved& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr || !awaits_save(*trial, event.step)) return;
  Slot& state = slot(*trial);
  state.saving_step = 0;
  keep(*trial, event.step, event.location);
  if (state.phase == Phase::kSaving) after_save(*trial);
}

void TrialLoop::Core::on(const CheckpointFailed& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr || !awaits_save(*trial, event.step)) return;
  Slot& state = slot(*trial);
  state.saving_step = 0;
  if (!state.save_notice) {
    state.save_notice = true;
    emit(Notice{reason("notice.checkpoint_failed", to_string(trial->id), event.step, event.error)});
  }
  if (state.phase != Phase::kSaving) return;
  if (!wants_pause(*trial) || state.verdict || ending_) return after_save(*trial);
  if (state.held && !scheduler_pauses(*trial)) {
    state.held = false;
    emit(Notice{reason("notice.pause_failed", to_string(trial->id))});
    return after_save(*trial);
  }
  // A pause without a checkpoint would lose its progress.
  trial->error = reason("trial.not_paused", event.step, event.error);
  stop(*trial, std::nullopt, false);
}

void TrialLoop::Core::on(const CheckpointFound& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr || !TrialTable::is_live(slot(*trial).phase)) return;
  if (awaits_save(*trial, event.step))
    return on(CheckpointSaved{event.trial, event.attempt, event.step, event.location});
  const Checkpoint* last = trial->last_checkpoint();
  if (event.step != trial->step || event.step < 1 || (last != nullptr && last->step >= event.step)) return;
  keep(*trial, event.step, event.location);
}

void TrialLoop::Core::on(const CheckpointCloned& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial != nullptr && awaits_clone(*trial, event.step)) adopt(*trial, event.location);
}

void TrialLoop::Core::on(const CloneFailed& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial != nullptr && awaits_clone(*trial, event.step)) drop_clone(*trial, event.error);
}

void TrialLoop::Core::on(const CheckpointLost& event) {
  Trial* const found = table.find(event.trial);
  if (found == nullptr) return;
  Trial& trial = *found;
  const size_t lost =
      std::erase_if(trial.checkpoints, [&](const Checkpoint& one) { return one.location == event.location; });
  if (lost == 0) return;
  emit(Notice{reason(trial.checkpoints.empty() ? "notice.checkpoints_lost" : "notice.checkpoint_lost",
                     to_string(trial.id), event.location)});
  if (!TrialTable::is_live(slot(trial).phase) && slot(trial).phase != Phase::kDone) rewind(trial);
}

void TrialLoop::Core::on(const TrialFailed& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr) return;
  const Phase phase = slot(*trial).phase;
  if (!TrialTable::is_live(phase)) return;
  if (phase == Phase::kStopping && leave(*trial)) return;
  if (phase != Phase::kStopping || trial->error.empty()) trial->error = event.error;
  fail(*trial, event.counts);
}

void TrialLoop::Core::on(const TrialGone& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr) return;
  const Phase phase = slot(*trial).phase;
  if (!TrialTable::is_live(phase)) return;
  if (phase == Phase::kStopping && leave(*trial)) return;
  if (phase != Phase::kStopping) trial->error = reason("trial.actor_ended");
  fail(*trial, true);
}

void TrialLoop::Core::on(const ActorWaiting& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial != nullptr && slot(*trial).phase == Phase::kStarting) trial->reason = event.reason;
}

void TrialLoop::Core::on(const Interrupt&) {
  ++interrupts_;
  if (interrupts_ == 1) {
    stop_all(reason("run.interrupted"));
  } else {
    stop_all_at_once();
  }
}

void TrialLoop::Core::on(const CapacityChanged& event) {
  slots_ = std::max<int64_t>(event.slots, 0);
  table.clock.set_slots(slots_at_once(), now_);
}

void TrialLoop::Core::on(const Resumed&) {
  slots_ = 0;
  table.clock.set_slots(slots_at_once(), now_);
  release_all();  // Restarting the program ends a user's pause.
  for (Trial& trial : table.trials()) resume(trial);
}

void TrialLoop::Core::on(const MoreSamples& event) {
  if (event.total >= 0 && event.total + added_ <= table.size()) return;
  table.counts.total = event.total < 0 ? std::nullopt : std::optional<int64_t>(event.total + added_);
  exhausted_ = told_exhausted_ = ended = false;
}

void TrialLoop::Core::on(const RetryFailed& event) {
  if (ending_) return emit(Notice{reason("notice.not_retried", end_reason_)});
  for (Trial& trial : table.trials()) {
    if (trial.status != TrialStatus::kFailed) continue;
    if (event.from_start) {
      for (Checkpoint& checkpoint : std::exchange(trial.checkpoints, {}))
        emit(DeleteCheckpoint{trial.id, std::move(checkpoint)});
    }
    trial.failures = trial.losses = 0;
    Slot& state = slot(trial);
    state.verdict.reset();
    state.verdict_step = state.pause_step = state.save_step = 0;
    state.clone_due = state.yields = state.held = false;
    rewind(trial);
    trial.reason = reason("trial.tried_again", trial.step, trial.error);
    table.enqueue(trial);
    ended = false;
  }
}

void TrialLoop::Core::on(const ConfigAdded& event) {
  if (!event.request.empty() && added_requests_.contains(event.request)) return;
  if (ending_) return emit(Notice{reason("notice.not_added_late", event.config.to_json())});
  if (!searcher->add(event.config)) return emit(Notice{reason("notice.not_added", event.config.to_json())});
  if (!event.request.empty()) added_requests_.insert(event.request);
  ++added_;
  added_waiting_.push_back({{}, event.config, event.cloned_from});
  if (table.counts.total) ++*table.counts.total;
  exhausted_ = told_exhausted_ = false;
  if (event.cloned_from)
    return emit(Notice{reason("notice.cloned", event.config.to_json(), to_string(*event.cloned_from))});
  emit(Notice{reason("notice.added", event.config.to_json())});
}

void TrialLoop::Core::on(const TrialTagged& event) {
  Trial* const trial = table.find(event.trial);
  if (trial == nullptr) return;
  for (const std::string& tag : event.tags) add_tag(trial->tags, tag);
}

void TrialLoop::Core::on(const StopRequested& event) {
  if (event.whole) return stop_all(reason("trial.stopped"));
  Trial* trial = ordered(event.trial);
  if (trial == nullptr || slot(*trial).verdict) return;
  Verdict verdict{TrialStatus::kStopped, reason("trial.stopped")};
  note_stop(*trial, Act::kStopped, verdict.reason);
  const Phase phase = slot(*trial).phase;
  if (!TrialTable::is_live(phase) && !is_copied(*trial)) return finish(*trial, std::move(verdict));
  if (phase == Phase::kStarting || (phase == Phase::kStepping && !options.can_checkpoint))
    return stop(*trial, std::move(verdict), true);
  slot(*trial).verdict = std::move(verdict);  // Applied at the end of the current request.
  slot(*trial).verdict_step = std::max<int64_t>(trial->step, 1);
}

void TrialLoop::Core::on(const PauseRequested& event) {
  if (ending_) return;
  if (!event.whole) {
    Trial* trial = ordered(event.trial);
    if (trial != nullptr && !hold(*trial)) emit(Notice{reason("notice.cannot_pause", to_string(trial->id))});
  } else if (!std::exchange(holding, true)) {
    for (Trial& trial : table.trials()) (void)hold(trial);
  }
}

void TrialLoop::Core::on(const ResumeRequested& event) {
  if (event.whole) return release_all();
  if (Trial* trial = ordered(event.trial)) release(*trial);
}

void TrialLoop::Core::on(const ClusterChanged& event) {
  ResourceSet total;
  for (const auto& [name, amount] : event.amounts) total.set(name, amount);
  scheduler->on_cluster(total);
}

void TrialLoop::Core::on(const ResourcesRefused& event) {
  Trial* trial = current(event.trial, event.attempt);
  if (trial == nullptr) return;
  if (slot(*trial).phase == Phase::kStopping) return on(TrialGone{event.trial, event.attempt});
  if (slot(*trial).phase != Phase::kStarting) return;
  emit(Notice{reason("notice.no_room", to_string(trial->id), trial->resources, event.reason)});
  trial->resources = {};
  scheduler->on_resources_refused(trial->id);
  rewind(*trial);
  await_place(*trial);
}

void TrialLoop::Core::count(Trial& trial, const ResultReported& event, bool replayed) {
  const double duration = seconds_of(event.duration);
  trial.step = event.step;
  trial.step_max = std::max(trial.step_max, trial.step);
  trial.time_total_s += duration;
  trial.last_result.take(event.metrics,
                         {{"training_iteration", static_cast<double>(trial.step)},
                          {"time_this_iter_s", duration},
                          {"time_total_s", trial.time_total_s}},
                         like_);
  if (!(like_.names() == trial.last_result.names())) like_ = trial.last_result;
  for (const auto& [name, value] : event.metrics) {
    if (replayed) break;
    auto summary = trial.metrics.find(name);
    if (summary == trial.metrics.end()) summary = trial.metrics.emplace(name, MetricSummary()).first;
    summary->second.add(value, trial.step);
  }
  if (!board_.add(trial.index, trial.last_result, !replayed) && !nan_notice_) {
    nan_notice_ = true;
    emit(Notice{reason("notice.not_finite", to_string(trial.id), options.metric,
                       fmt::format("{}", *trial.last_result.get(options.metric)), trial.step)});
  }
  emit(RecordResult{trial.id, trial.attempt, trial.step, trial.last_result, replayed});
}

std::optional<Verdict> TrialLoop::Core::judge(const Trial& trial, const ResultReported& event, bool replayed) {
  const Slot& state = slot(trial);
  // Decided before an attempt failed on its way out: the same verdict again, once the lost steps have been repeated.
  if (state.verdict && state.verdict_step > 0 && trial.step >= state.verdict_step) return state.verdict;
  const auto value = trial.last_result.get(options.metric);
  Decision decision = Decision::kContinue;
  if (!replayed) {
    searcher->on_result({.index = trial.index, .step = trial.step, .value = value, .result = trial.last_result});
    if (value || !scheduler->needs_metric()) {
      auto decided = scheduler->on_report({.trial = trial.id,
                                           .step = trial.step,
                                           .value = value.value_or(std::numeric_limits<double>::quiet_NaN()),
                                           .time_total_s = trial.time_total_s,
                                           .others_wait = !table.queue_empty() || table.starting() > 0,
                                           .result = trial.last_result});
      if (!decided) {
        abort(decided.error());
        return std::nullopt;
      }
      decision = *decided;
      note_decisions();
      if (decision == Decision::kPause) slot(trial).pause_step = trial.step;
      if (decision == Decision::kCheckpoint) slot(trial).save_step = trial.step;
      slot(trial).clone_due = decision == Decision::kClone;
    }
  }
  if (event.done) return Verdict{TrialStatus::kFinished, reason("trial.done")};
  try {
    const Stopper::Query query{trial.id, trial.step, trial.time_total_s, trial.last_result};
    if (auto outcome = stopper_.check(query)) {
      if (outcome->end != Stopper::End::kExperiment) {
        const bool stopped = outcome->end == Stopper::End::kStop;
        note_stop(trial, stopped ? Act::kStopped : Act::kFinished, outcome->reason);
        return Verdict{stopped ? TrialStatus::kStopped : TrialStatus::kFinished, std::move(outcome->reason)};
      }
      stop_all(std::move(outcome->reason), TrialStatus::kUnstarted);
      return std::nullopt;
    }
  } catch (const std::exception& error) {
    abort({ErrorCode::kApplication,
           fmt::format("the function of stop_when threw for trial {}: {}", to_string(trial.id), error.what())});
    return std::nullopt;
  }
  if (decision == Decision::kFinish || decision == Decision::kStop) return verdict_of(decision, trial);
  return std::nullopt;
}

Verdict TrialLoop::Core::verdict_of(Decision decision, const Trial& trial) {
  if (decision == Decision::kFinish) return {TrialStatus::kFinished, reason("decision.steps_done", trial.step)};
  Reason why = std::exchange(slot(trial).why, {});
  if (!why.empty()) return {TrialStatus::kStopped, reason("trial.others_better", std::move(why))};
  return {TrialStatus::kStopped,
          reason("decision.by", reason("decision.others_better", trial.step), scheduler->describe())};
}

void TrialLoop::Core::note_decisions() {
  for (DecisionRecord& record : scheduler->take_decisions()) {
    const Trial* trial = table.find(record.trial);
    if (trial == nullptr) continue;
    if (record.act == Act::kStopped || record.act == Act::kPaused) slot(*trial).why = reason_of(record);
    emit(DecisionMade{std::move(record)});
  }
}

void TrialLoop::Core::note_stop(const Trial& trial, Act act, const Reason& reason) {
  emit(DecisionMade{{.trial = trial.id, .step = trial.step, .act = act, .rule = "stop", .detail = reason}});
}

void TrialLoop::Core::obey_scheduler() {
  note_decisions();
  for (auto orders = scheduler->take_orders(); !orders.empty(); orders = scheduler->take_orders()) {
    for (const Order& order : orders) {
      std::visit([this](const auto& one) { obey(one); }, order);
    }
  }
}

Trial* TrialLoop::Core::ordered(TrialId id) {
  Trial* const trial = table.find(id);
  return trial == nullptr || ending_ || slot(*trial).phase == Phase::kDone ? nullptr : trial;
}

void TrialLoop::Core::obey(const ResumeOrder& order) {
  Trial* trial = ordered(order.trial);
  if (trial == nullptr) return;
  Slot& state = slot(*trial);
  if (state.clone) return;  // It continues as a copy once that is complete.
  if (state.phase != Phase::kQueued) state.priority = order.priority;
  if (state.phase == Phase::kPaused) return unpause(*trial);
  if (order.yields && state.pause_step > 0) {
    state.yields = true;
  } else {
    state.pause_step = 0;
  }
}

void TrialLoop::Core::obey(const ResourcesOrder& order) {
  Trial* trial = ordered(order.trial);
  if (trial != nullptr && !slot(*trial).verdict) trial->resources = order.resources;
}

}  // namespace volador::tune
