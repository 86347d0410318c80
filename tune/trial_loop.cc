#include "tune/trial_loop.h"

#include <fmt/format.h>

#include <limits>

#include "tune/metric_board.h"
#include "tune/seconds.h"
#include "tune/trial_table.h"

namespace volador::tune {
namespace {

constexpr int64_t kAheadMax = 64;                        // Trials asked for beyond what the cluster holds.
constexpr int64_t kCopiesMax = 1024;                     // Trials asked for at once where they become copies of each other.
constexpr int64_t kAheadUnknown = 16;                    // The same while nothing is known of the cluster.
constexpr std::chrono::milliseconds kSearcherPause{50};  // Between questions to a searcher that said kWait.

}  // namespace

class TrialLoop::Core {
 public:
  Core(LoopOptions options_in, std::unique_ptr<Searcher> searcher_in, std::unique_ptr<Scheduler> scheduler_in)
      : options(std::move(options_in)),
        searcher(std::move(searcher_in)),
        scheduler(std::move(scheduler_in)),
        stopper_(options.stop, options.metric, options.mode),
        board_(options.metric, options.mode) {}

  Actions begin(BootTime now) {
    VOLADOR_CHECK(!begun_);
    begun_ = true;
    started_ = now_ = now;
    return settle();
  }

  Actions handle(BootTime now, const Event& event) {
    VOLADOR_CHECK(begun_);
    if (ended && !std::holds_alternative<MoreSamples>(event)) return {};
    now_ = now;
    spend_time();
    std::visit([this](const auto& one) { on(one); }, event);
    return ended ? Actions() : settle();
  }

  std::optional<BootTime> next_wakeup() const {
    if (ended || !begun_) return std::nullopt;
    std::optional<BootTime> at;
    if (options.time_budget.count() > 0 && !stopping_at_once_) {
      if (!ending()) at = started_ + options.time_budget;
      if (budget_used_) at = started_ + options.time_budget + options.stop_grace;
    }
    if (searcher_waits_ && (!at || now_ + kSearcherPause < *at)) at = now_ + kSearcherPause;
    return at;
  }

  bool ending() const { return ending_; }
  const Trial* find(TrialId id) const { return table.find(id); }
  const Trial* best_trial() const {
    const std::optional<int64_t> best = board_.best();
    return best ? &table.at(*best) : nullptr;
  }
  void check_invariants() const;

  const LoopOptions options;
  const std::unique_ptr<Searcher> searcher;
  const std::unique_ptr<Scheduler> scheduler;
  TrialTable table;
  bool ended = false;
  bool holding = false;  // On request; nothing starts.

 private:
  // ---- Events.

  void on(const TrialStarted& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr || slot(*trial).phase != Phase::kStarting) return;
    table.set_status(*trial, TrialStatus::kRunning);
    trial->node = event.node;
    trial->reason.clear();
    step(*trial);
  }

  void on(const ResultReported& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr || slot(*trial).phase != Phase::kStepping || event.step <= trial->step) return;
    if (event.step != trial->step + 1) {
      trial->error =
          fmt::format("it reported step {} after step {}; steps must be contiguous", event.step, trial->step);
      return stop(*trial, std::nullopt, true);
    }
    const bool replayed = event.step <= trial->step_max;
    count(*trial, event, replayed);
    if (board_.missing() && (scheduler->needs_metric() || searcher->needs_metric()))
      return abort(board_.missing_error());
    auto verdict = judge(*trial, event, replayed);
    if (slot(*trial).phase != Phase::kStepping) return;  // The experiment was aborted meanwhile.
    const bool due = (options.checkpoint.frequency > 0 && trial->step % options.checkpoint.frequency == 0) ||
                     slot(*trial).save_step == trial->step;
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

  void on(const TrialFinished& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr || slot(*trial).phase != Phase::kStepping) return;
    stop(*trial, Verdict{TrialStatus::kFinished, "it returned"}, false);
  }

  void on(const CheckpointSaved& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr || !awaits_save(*trial, event.step)) return;
    Slot& state = slot(*trial);
    state.saving_step = 0;
    keep(*trial, event.step, event.location);
    if (state.phase == Phase::kSaving) after_save(*trial);
  }

  void on(const CheckpointFailed& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr || !awaits_save(*trial, event.step)) return;
    Slot& state = slot(*trial);
    state.saving_step = 0;
    if (!state.save_notice) {
      state.save_notice = true;
      emit(Notice{fmt::format("trial {}: the checkpoint at step {} failed and does not count; the trial goes on: {}",
                              to_string(trial->id), event.step, event.error)});
    }
    if (state.phase != Phase::kSaving) return;
    if (!wants_pause(*trial) || state.verdict || ending_) return after_save(*trial);
    if (state.held && !scheduler_pauses(*trial)) {
      state.held = false;
      emit(Notice{fmt::format("trial {} is not paused, its checkpoint failed; it goes on", to_string(trial->id))});
      return after_save(*trial);
    }
    // Without its checkpoint a pause would cost it what it has done.
    trial->error = fmt::format("it was to pause after step {}, and its checkpoint failed: {}", event.step, event.error);
    stop(*trial, std::nullopt, false);
  }

  void on(const CheckpointFound& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr || !TrialTable::is_live(slot(*trial).phase)) return;
    if (awaits_save(*trial, event.step)) return on(CheckpointSaved{event.trial, event.attempt, event.step, event.location});
    const Checkpoint* last = trial->last_checkpoint();
    if (event.step != trial->step || event.step < 1 || (last != nullptr && last->step >= event.step)) return;
    keep(*trial, event.step, event.location);
  }

  void on(const CheckpointCloned& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial != nullptr && awaits_clone(*trial, event.step)) adopt(*trial, event.location);
  }

  void on(const CloneFailed& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial != nullptr && awaits_clone(*trial, event.step)) drop_clone(*trial, event.error);
  }

  void on(const CheckpointLost& event) {
    Trial* const found = table.find(event.trial);
    if (found == nullptr) return;
    Trial& trial = *found;
    const size_t lost =
        std::erase_if(trial.checkpoints, [&](const Checkpoint& one) { return one.location == event.location; });
    if (lost == 0) return;
    emit(Notice{fmt::format("trial {}: its checkpoint {} cannot be read; {}", to_string(trial.id), event.location,
                            trial.checkpoints.empty() ? "it would start anew" : "the one before is used")});
    if (!TrialTable::is_live(slot(trial).phase) && slot(trial).phase != Phase::kDone) rewind(trial);
  }

  void on(const TrialFailed& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr) return;
    const Phase phase = slot(*trial).phase;
    if (!TrialTable::is_live(phase)) return;
    if (phase == Phase::kStopping && leave(*trial)) return;
    if (phase != Phase::kStopping || trial->error.empty()) trial->error = event.error;
    fail(*trial, event.counts);
  }

  void on(const TrialGone& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial == nullptr) return;
    const Phase phase = slot(*trial).phase;
    if (!TrialTable::is_live(phase)) return;
    if (phase == Phase::kStopping && leave(*trial)) return;
    if (phase != Phase::kStopping) trial->error = "its actor ended";
    fail(*trial, true);
  }

  void on(const ActorWaiting& event) {
    Trial* trial = current(event.trial, event.attempt);
    if (trial != nullptr && slot(*trial).phase == Phase::kStarting) trial->reason = event.reason;
  }

  void on(const CapacityChanged& event) { slots_ = std::max<int64_t>(event.slots, 0); }

  void on(const Interrupt&) {
    ++interrupts_;
    if (interrupts_ == 1) {
      stop_all("interrupted");
    } else {
      stop_all_at_once();
    }
  }

  void on(const Tick&) {}

  void on(const Resumed&) {
    slots_ = 0;
    release_all();  // Whoever starts the program again wants it to go on.
    for (Trial& trial : table.trials()) resume(trial);
  }

  void on(const MoreSamples& event) {
    if (event.total >= 0 && event.total <= table.size()) return;
    table.counts.total = event.total < 0 ? std::nullopt : std::optional<int64_t>(event.total);
    exhausted_ = told_exhausted_ = ended = false;
  }

  void on(const StopRequested& event) {
    if (event.whole) return stop_all("stopped on request");
    Trial* trial = ordered(event.trial);
    if (trial == nullptr || slot(*trial).verdict) return;
    Verdict verdict{TrialStatus::kStopped, "stopped on request"};
    note_stop(*trial, Act::kStopped, verdict.reason);
    const Phase phase = slot(*trial).phase;
    if (!TrialTable::is_live(phase) && !is_copied(*trial)) return finish(*trial, std::move(verdict));
    if (phase == Phase::kStarting || (phase == Phase::kStepping && !options.can_checkpoint)) return stop(*trial, std::move(verdict), true);
    slot(*trial).verdict = std::move(verdict);  // At the end of what is under way.
    slot(*trial).verdict_step = std::max<int64_t>(trial->step, 1);
  }

  void on(const PauseRequested& event) {
    if (ending_) return;
    if (!event.whole) {
      Trial* trial = ordered(event.trial);
      if (trial != nullptr && !hold(*trial))
        emit(Notice{fmt::format("trial {} is not paused: it saves no checkpoint; it goes on", to_string(trial->id))});
    } else if (!std::exchange(holding, true)) {
      for (Trial& trial : table.trials()) (void)hold(trial);
    }
  }

  void on(const ResumeRequested& event) {
    if (event.whole) return release_all();
    if (Trial* trial = ordered(event.trial)) release(*trial);
  }

  void on(const Abort& event) { abort(event.error); }

  // ---- What a result means.

  void count(Trial& trial, const ResultReported& event, bool replayed) {
    const double duration = seconds_of(event.duration);
    trial.step = event.step;
    trial.step_max = std::max(trial.step_max, trial.step);
    trial.time_total_s += duration;
    trial.last_result = event.metrics;
    trial.last_result.set("training_iteration", static_cast<double>(trial.step));
    trial.last_result.set("time_this_iter_s", duration);
    trial.last_result.set("time_total_s", trial.time_total_s);
    for (const auto& [name, value] : event.metrics) {
      if (replayed) break;
      auto summary = trial.metrics.find(name);
      if (summary == trial.metrics.end()) summary = trial.metrics.emplace(name, MetricSummary()).first;
      summary->second.add(value);
    }
    if (!board_.add(trial.index, trial.last_result) && !nan_notice_) {
      nan_notice_ = true;
      emit(Notice{fmt::format("trial {} reported {} nan at step {}; NaN ranks last", to_string(trial.id),
                              options.metric, trial.step)});
    }
    emit(RecordResult{trial.id, trial.attempt, trial.step, trial.last_result, replayed});
  }

  // Whether the trial ends with this result.
  std::optional<Verdict> judge(const Trial& trial, const ResultReported& event, bool replayed) {
    const Slot& state = slot(trial);
    // Decided before an attempt failed on its way out: the same again, once the steps are made up for.
    if (state.verdict && state.verdict_step > 0 && trial.step >= state.verdict_step) return state.verdict;
    const auto value = trial.last_result.get(options.metric);
    Decision decision = Decision::kContinue;
    if (!replayed) {
      searcher->on_result({trial.index, trial.step, value});
      if (value || !scheduler->needs_metric()) {
        auto decided = scheduler->on_report({.trial = trial.id,
                                             .step = trial.step,
                                             .value = value.value_or(std::numeric_limits<double>::quiet_NaN()),
                                             .time_total_s = trial.time_total_s,
                                             .others_wait = !table.queue_empty() || table.starting() > 0});
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
    if (event.done) return Verdict{TrialStatus::kFinished, "it is done"};
    try {
      const Stopper::Query query{trial.id, trial.step, trial.time_total_s, trial.last_result};
      if (auto outcome = stopper_.check(query)) {
        if (outcome->end != Stopper::End::kExperiment) {
          const bool stopped = outcome->end == Stopper::End::kStop;
          note_stop(trial, stopped ? Act::kStopped : Act::kFinished, outcome->reason);
          return Verdict{stopped ? TrialStatus::kStopped : TrialStatus::kFinished, std::move(outcome->reason)};
        }
        stop_all(std::move(outcome->reason));
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

  Verdict verdict_of(Decision decision, const Trial& trial) const {
    if (decision == Decision::kFinish) return {TrialStatus::kFinished, fmt::format("{} steps done", trial.step)};
    const std::string& why = table.slot(trial).why;
    if (!why.empty()) return {TrialStatus::kStopped, "others do better: " + why};
    return {TrialStatus::kStopped, fmt::format("others do better at step {} ({})", trial.step, scheduler->describe())};
  }

  // ---- Moves of one trial.

  void start(Trial& trial) {
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

  void step(Trial& trial) {
    table.set_phase(trial, Phase::kStepping);
    emit(Step{trial.id, trial.attempt});
  }

  void save(Trial& trial) {
    slot(trial).saving_step = trial.step;
    table.set_phase(trial, Phase::kSaving);
    emit(SaveCheckpoint{trial.id, trial.attempt, trial.step});
  }

  void after_save(Trial& trial) {
    Slot& state = slot(trial);
    if (!state.verdict || (state.verdict_step > trial.step)) {
      if (!ending_ && wants_pause(trial)) return pause(trial);
      if (!ending_) return step(trial);
      state.verdict = Verdict{TrialStatus::kInterrupted, end_reason_};
    }
    stop(trial, state.verdict, false);
  }

  // ---- Pausing.

  // Also after a failure on its way there, once the steps are made up for.
  bool scheduler_pauses(const Trial& trial) {
    const int64_t step = slot(trial).pause_step;
    return step > 0 && trial.step >= step;
  }
  bool wants_pause(const Trial& trial) { return slot(trial).held || scheduler_pauses(trial); }

  void pause(Trial& trial) {
    const Checkpoint* last = trial.last_checkpoint();
    if (last == nullptr || last->step != trial.step) return save(trial);
    stop(trial, std::nullopt, false);
    slot(trial).pausing = true;
  }

  // Its actor is gone as it should be. False: that was no way to end.
  bool leave(Trial& trial) {
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
      await_place(trial);  // Held on its way to that step.
      return true;
    }
    table.set_status(trial, TrialStatus::kPaused);
    trial.reason = fmt::format("paused after step {}{}{}", trial.step, state.why.empty() ? "" : ": ", state.why);
    if (state.clone) begin_clone(trial);
    return true;
  }

  void unpause(Trial& trial) {
    slot(trial).pause_step = 0;
    slot(trial).yields = false;
    await_place(trial);
  }

  // In the queue, or out of it as long as its user wants.
  void await_place(Trial& trial) {
    if (!slot(trial).held) return table.enqueue(trial);
    table.set_phase(trial, Phase::kHeld);
    table.set_status(trial, TrialStatus::kPaused);
    trial.reason = trial.step > 0 ? fmt::format("paused on request after step {}", trial.step) : "paused on request before its first step";
  }

  // False: it runs, and would lose what it has done.
  bool hold(Trial& trial) {
    Slot& state = slot(trial);
    if (state.held || state.verdict || state.phase == Phase::kDone) return true;
    const bool starting = state.phase == Phase::kStarting;
    if (TrialTable::is_live(state.phase) && !starting && !options.can_checkpoint) return false;
    state.held = true;
    if (state.phase == Phase::kQueued) await_place(trial);
    if (starting) stop(trial, std::nullopt, true);
    if (starting) state.pausing = true;
    return true;
  }

  void release(Trial& trial) {
    if (!std::exchange(slot(trial).held, false) || slot(trial).phase != Phase::kHeld) return;
    trial.reason = holding ? "the experiment is paused" : "resumed on request";
    table.enqueue(trial);
  }

  void release_all() {
    holding = false;
    for (Trial& trial : table.trials()) release(trial);
  }

  // ---- Why.

  void note_decisions() {
    for (DecisionRecord& record : scheduler->take_decisions()) {
      const Trial* trial = table.find(record.trial);
      if (trial == nullptr) continue;
      if (record.act == Act::kStopped || record.act == Act::kPaused) slot(*trial).why = to_text(record);
      emit(DecisionMade{std::move(record)});
    }
  }

  void note_stop(const Trial& trial, Act act, const std::string& reason) {
    emit(DecisionMade{{.trial = trial.id, .step = trial.step, .act = act, .rule = "stop", .detail = reason}});
  }

  void obey_scheduler() {
    note_decisions();
    for (auto orders = scheduler->take_orders(); !orders.empty(); orders = scheduler->take_orders()) {
      for (const Order& order : orders) {
        std::visit([this](const auto& one) { obey(one); }, order);
      }
    }
  }

  Trial* ordered(TrialId id) {
    Trial* const trial = table.find(id);
    return trial == nullptr || ending_ || slot(*trial).phase == Phase::kDone ? nullptr : trial;
  }

  void obey(const ResumeOrder& order) {
    Trial* trial = ordered(order.trial);
    if (trial == nullptr) return;
    Slot& state = slot(*trial);
    if (state.clone) return;  // It goes on as a copy, once that is made.
    if (state.phase != Phase::kQueued) state.priority = order.priority;
    if (state.phase == Phase::kPaused) return unpause(*trial);
    if (order.yields && state.pause_step > 0) {
      state.yields = true;
    } else {
      state.pause_step = 0;
    }
  }

  // ---- Copies.

  // Of a trial that is paused, or will be; of one that was told kClone clone() below takes it.
  void obey(const CloneOrder& order) {
    Trial* trial = ordered(order.trial);
    if (trial == nullptr) return;
    Slot& state = slot(*trial);
    if (state.verdict || state.clone || state.phase == Phase::kQueued) return;
    if (state.clone_due) {
      state.clone = Clone{order, std::nullopt};
      return;
    }
    if (state.pause_step == 0 || state.yields) return;
    state.clone = Clone{order, std::nullopt};
    if (state.phase == Phase::kPaused) begin_clone(*trial);
  }

  // False: the order that should have come with kClone did not.
  bool clone(Trial& trial) {
    slot(trial).clone_due = true;
    obey_scheduler();
    slot(trial).clone_due = false;
    if (!slot(trial).clone) return false;
    begin_clone(trial);
    return true;
  }

  void begin_clone(Trial& trial) {
    Slot& state = slot(trial);
    const Trial* from = table.find(state.clone->order.from);
    const Checkpoint* checkpoint = from == nullptr ? nullptr : from->last_checkpoint();
    const bool paused = state.phase == Phase::kPaused;
    if (checkpoint == nullptr) return drop_clone(trial, "that one has no checkpoint");
    state.clone->checkpoint = *checkpoint;
    if (from == &trial && paused) return adopt(trial, checkpoint->location);
    clones_of_paused_ += paused;
    if (!paused) table.set_phase(trial, Phase::kCloning);
    emit(CloneCheckpoint{trial.id, trial.attempt, from->id, *checkpoint});
  }

  bool awaits_clone(const Trial& trial, int64_t step) {
    const Slot& state = slot(trial);
    const bool waits = state.phase == Phase::kCloning || state.phase == Phase::kPaused || state.phase == Phase::kStopping;
    return waits && state.clone && state.clone->checkpoint && state.clone->checkpoint->step == step;
  }

  // It has no actor, and its copy is being made.
  bool is_copied(const Trial& trial) {
    const Slot& state = slot(trial);
    return state.phase == Phase::kPaused && state.clone && state.clone->checkpoint;
  }

  // The copy is there: what the trial had done from that step on counts no more.
  void adopt(Trial& trial, const std::string& location) {
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
    trial.reason = fmt::format("a copy of trial {} at step {}", to_string(made.order.from), step);
    go_on(trial, /*copied=*/true);
  }

  void drop_clone(Trial& trial, const std::string& why) {
    const Clone dropped = take_clone(trial);
    emit(Notice{fmt::format("trial {}: it cannot go on as a copy of trial {}: {}; it goes on as it is", to_string(trial.id),
                            to_string(dropped.order.from), why)});
    go_on(trial, /*copied=*/false);
  }

  Clone take_clone(Trial& trial) {
    Slot& state = slot(trial);
    clones_of_paused_ -= is_copied(trial) && state.clone->order.from != trial.id;
    Clone clone = std::move(*state.clone);
    state.clone.reset();
    return clone;
  }

  // After a copy was made, or not.
  void go_on(Trial& trial, bool copied) {
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

  void keep(Trial& trial, int64_t step, const std::string& location) {
    Checkpoint checkpoint{.step = step, .attempt = trial.attempt, .location = location, .time_total_s = trial.time_total_s};
    if (const auto score = trial.last_result.get(options.checkpoint.score_attribute)) checkpoint.score = *score;
    trial.checkpoints.push_back(std::move(checkpoint));
    retire(trial);
    scheduler->on_checkpoint(trial.id, step);
  }

  void retire(Trial& trial) {
    for (Checkpoint& retired : retire_checkpoints(trial.checkpoints, options.checkpoint)) {
      emit(DeleteCheckpoint{trial.id, std::move(retired)});
    }
  }

  void obey(const EndOrder& order) {
    Trial* trial = ordered(order.trial);
    if (trial == nullptr || slot(*trial).verdict) return;
    Slot& state = slot(*trial);
    Verdict verdict = verdict_of(order.decision, *trial);
    if (!TrialTable::is_live(state.phase) && !is_copied(*trial)) return finish(*trial, std::move(verdict));
    state.verdict = std::move(verdict);  // At the end of what is under way.
    state.verdict_step = std::max<int64_t>(trial->step, 1);
  }

  bool stalls() const {
    const bool held = holding || table.any_held();
    return !ending_ && !held && table.live() == 0 && table.queue_empty() && table.any_paused() && clones_of_paused_ == 0;
  }

  // Nothing runs and nothing can be started: whatever waits for company waits in vain.
  void break_stall() {
    if (!stalls()) return;
    scheduler->on_no_more_trials();
    obey_scheduler();
    if (stalls()) obey(ResumeOrder{table.first_paused().id});
  }

  // Ends a trial between two requests, after a checkpoint where one is wanted and there is none of this step.
  void conclude(Trial& trial, Verdict verdict, bool checkpoint) {
    const Checkpoint* last = trial.last_checkpoint();
    const bool there = last != nullptr && last->step == trial.step;
    slot(trial).verdict = verdict;
    if (checkpoint && options.can_checkpoint && !there && trial.step > 0 && !stopping_at_once_) return save(trial);
    stop(trial, std::move(verdict), false);
  }

  // Without a verdict the trial counts as failed with the error it has.
  void stop(Trial& trial, std::optional<Verdict> verdict, bool at_once) {
    Slot& state = slot(trial);
    state.verdict = std::move(verdict);
    state.stop_at_once = at_once;
    table.set_phase(trial, Phase::kStopping);
    emit(StopTrial{trial.id, trial.attempt, at_once});
  }

  void fail(Trial& trial, bool counts_in) {
    slot(trial).clone.reset();
    ++(counts_in ? trial.failures : trial.losses);
    const int64_t most = counts_in ? options.max_failures : options.max_losses;
    const bool again = most < 0 || (counts_in ? trial.failures : trial.losses) <= most;
    if (!again && !counts_in)
      trial.error += fmt::format(" (lost {} times; max_losses is {})", trial.losses, options.max_losses);
    if (!again) return finish(trial, {TrialStatus::kFailed, trial.error});
    const Slot& state = slot(trial);
    if (ending_ && state.verdict && state.verdict_step == trial.step) return finish(trial, *state.verdict);
    if (ending_) return finish(trial, {TrialStatus::kInterrupted, end_reason_});
    rewind(trial);
    trial.reason = fmt::format("to go on from step {} after: {}", trial.step, trial.error);
    await_place(trial);
  }

  void resume(Trial& trial) {
    Slot& state = slot(trial);
    if (is_copied(trial)) return drop_clone(trial, "the driver ended");
    if (!TrialTable::is_live(state.phase)) return;
    state.clone.reset();
    if (state.phase == Phase::kStopping && leave(trial)) return;
    if (ending_) return finish(trial, {TrialStatus::kInterrupted, end_reason_});
    rewind(trial);
    trial.reason = fmt::format("to go on from step {}: its driver was started again", trial.step);
    table.enqueue(trial);
  }

  // Back to what the next start begins from.
  void rewind(Trial& trial) {
    const Checkpoint* last = trial.last_checkpoint();
    trial.step = last != nullptr ? last->step : 0;
    trial.time_total_s = last != nullptr ? last->time_total_s : 0;
  }

  void finish(Trial& trial, Verdict verdict) {
    if (slot(trial).clone) take_clone(trial);
    table.set_phase(trial, Phase::kDone);
    table.set_status(trial, verdict.status);
    trial.reason = std::move(verdict.reason);
    scheduler->on_complete(trial.id);
    stopper_.on_complete(trial.id);
    std::optional<Observation> last;
    if (verdict.status != TrialStatus::kFailed && trial.step_max > 0) {
      last = Observation{trial.index, trial.step_max,
                         options.metric.empty() ? std::nullopt : trial.last_result.get(options.metric)};
      add_goals(*last, trial);
    }
    searcher->on_complete(trial.index, last);
    emit(TrialEnded{trial.id});
    const bool reported = trial.step_max > 0;  // One that was stopped on request may not have.
    const bool whole = verdict.status == TrialStatus::kFinished || (verdict.status == TrialStatus::kStopped && reported);
    if (!whole) return;
    if (!stop_checked_) check_stop_metrics();
    for (const Objective& objective : options.goals.objectives) {
      if (!board_.reported(objective.metric) && !ending_) abort(board_.missing_error(objective.metric));
    }
    if (board_.missing() && !ending_) abort(board_.missing_error());
  }

  void add_goals(Observation& last, const Trial& trial) const {
    const auto value = [&trial](const std::string& name) {
      return trial.last_result.get(name).value_or(std::numeric_limits<double>::quiet_NaN());
    };
    for (const Objective& objective : options.goals.objectives) last.objectives.push_back(value(objective.metric));
    for (const std::string& constraint : options.goals.constraints) last.constraints.push_back(value(constraint));
  }

  // A threshold of a metric that nobody reports would never stop anything: said once, when the first trial is through.
  void check_stop_metrics() {
    stop_checked_ = true;
    for (const Stop::Condition& condition : options.stop.conditions()) {
      const auto* threshold = std::get_if<Stop::Threshold>(&condition);
      if (threshold == nullptr || board_.reported(threshold->metric)) continue;
      emit(Notice{fmt::format("stop: no trial has reported \"{}\" so far; its threshold {} stops nothing",
                              threshold->metric, threshold->value)});
    }
    for (const std::string& constraint : options.goals.constraints) {
      if (board_.reported(constraint)) continue;
      emit(Notice{fmt::format("constraints: no trial has reported \"{}\" so far; one that does not counts as worse than any that violates it", constraint)});
    }
  }

  // ---- The experiment.

  void spend_time() {
    if (options.time_budget.count() == 0) return;
    if (!ending_ && now_ >= started_ + options.time_budget) {
      budget_used_ = true;
      stop_all(fmt::format("the time budget of {} s is used up", seconds_of(options.time_budget)));
    }
    if (budget_used_ && !stopping_at_once_ && now_ >= started_ + options.time_budget + options.stop_grace)
      stop_all_at_once();
  }

  Actions settle() {
    obey_scheduler();
    fill();
    if (exhausted_ && !told_exhausted_) {
      told_exhausted_ = true;
      scheduler->on_no_more_trials();
      obey_scheduler();
      fill();
    }
    if (break_stall(); !table.queue_empty()) fill();
    if (table.live() == 0 && table.queue_empty() && !table.any_paused() && !table.any_held() && (exhausted_ || ending_)) {
      ended = true;
      emit(EndExperiment{error_, ending_ ? end_reason_ : "all trials ended"});
    }
    return std::exchange(out_, {});
  }

  bool room() const {
    if (options.max_concurrent_trials > 0 && table.live() >= options.max_concurrent_trials) return false;
    const int64_t ahead = searcher->learns() ? 1 : (slots_ == 0 ? kAheadUnknown : std::min(slots_, kAheadMax));
    const int64_t free = std::max<int64_t>(slots_ - (table.live() - table.starting()), 0);
    return table.starting() < free + ahead;
  }

  void fill() {
    searcher_waits_ = false;
    if (holding) return;
    while (!ending_ && scheduler->clones() && table.size() < kCopiesMax && suggest()) {
    }
    while (!ending_ && room()) {
      if (!table.queue_empty()) {
        start(table.front());
        continue;
      }
      if (!suggest()) return;
    }
  }

  // Adds the next trial to the queue, if there is one now.
  bool suggest() {
    const int64_t index = table.size();
    const std::optional<int64_t> total = table.counts.total;
    if (exhausted_ || index >= kTrialsMax || (total && index >= *total)) {
      exhausted_ = true;
      return false;
    }
    auto suggestion = searcher->suggest(index);
    if (!suggestion) {
      abort(suggestion.error());
      return false;
    }
    if (suggestion->kind != Suggestion::Kind::kConfig) {
      searcher_waits_ = suggestion->kind == Suggestion::Kind::kWait;
      exhausted_ = suggestion->kind == Suggestion::Kind::kExhausted;
      return false;
    }
    const TrialId id = TrialId::of(options.seed, index);
    scheduler->on_trial_config(id, suggestion->config);
    Trial& trial = table.add(id, std::move(suggestion->config));
    table.enqueue(trial);
    scheduler->on_trial_add(trial.id);
    emit(TrialAdded{trial.id});
    if (total && index + 1 == *total) exhausted_ = true;
    return true;
  }

  // Graceful: steps under way end, trials that can checkpoint do so.
  void stop_all(std::string reason) {
    if (ending_) return;
    ending_ = true;
    end_reason_ = std::move(reason);
    for (Trial& trial : table.trials()) {
      const Phase phase = slot(trial).phase;
      if (is_copied(trial)) continue;  // Its checkpoint is about to be another one's.
      if (phase != Phase::kDone && !TrialTable::is_live(phase)) finish(trial, {TrialStatus::kInterrupted, end_reason_});
      const bool nothing_to_save = phase == Phase::kStepping && !options.can_checkpoint;
      if (phase == Phase::kStarting || nothing_to_save)
        stop(trial, Verdict{TrialStatus::kInterrupted, end_reason_}, true);
      if (phase == Phase::kStopping && !slot(trial).verdict)
        slot(trial).verdict = Verdict{TrialStatus::kInterrupted, end_reason_};
    }
  }

  void stop_all_at_once() {
    stop_all("interrupted");
    if (stopping_at_once_) return;
    stopping_at_once_ = true;
    for (Trial& trial : table.trials()) {
      Slot& state = slot(trial);
      if (state.phase == Phase::kStopping) {
        if (!state.stop_at_once) emit(StopTrial{trial.id, trial.attempt, true});
        state.stop_at_once = true;
      } else if (state.phase == Phase::kStepping || state.phase == Phase::kSaving || state.phase == Phase::kCloning) {
        const bool decided = state.phase == Phase::kSaving && state.verdict && state.verdict_step == trial.step;
        stop(trial, decided ? *state.verdict : Verdict{TrialStatus::kInterrupted, end_reason_}, true);
      }
    }
  }

  void abort(Error error) {
    if (!error_) error_ = std::move(error);
    stop_all(error_->message);
    stop_all_at_once();
  }

  // ---- Bookkeeping.

  Trial* current(TrialId id, int64_t attempt) { return table.current(id, attempt); }
  Slot& slot(const Trial& trial) { return table.slot(trial); }
  bool awaits_save(const Trial& trial, int64_t step) {
    const Slot& state = slot(trial);
    return (state.phase == Phase::kSaving || state.phase == Phase::kStopping) && state.saving_step == step && step > 0;
  }
  template <class T>
  void emit(T action) {
    out_.emplace_back(std::move(action));
  }

  bool begun_ = false;
  BootTime started_{}, now_{};
  int64_t slots_ = 0;  // The cluster holds that many; 0: unknown.
  int64_t clones_of_paused_ = 0;  // Copies being made of which no actor tells.
  bool exhausted_ = false, told_exhausted_ = false, searcher_waits_ = false;

  bool ending_ = false, stopping_at_once_ = false, budget_used_ = false;
  int interrupts_ = 0;
  std::string end_reason_;
  std::optional<Error> error_;

  Stopper stopper_;
  MetricBoard board_;
  bool nan_notice_ = false, stop_checked_ = false;
  Actions out_;
};

void TrialLoop::Core::check_invariants() const {
  table.check_invariants();
  board_.check_invariants();
  const TrialCounts& counts = table.counts;
  VOLADOR_CHECK(!counts.total || counts.known <= *counts.total);
  VOLADOR_CHECK(options.max_concurrent_trials == 0 || table.live() <= options.max_concurrent_trials,
                std::to_string(table.live()));
  VOLADOR_CHECK(!ended || (table.live() == 0 && table.queue_empty() && !table.any_paused() && !table.any_held()));
  scheduler->check_invariants();
}

Result<std::unique_ptr<TrialLoop>> TrialLoop::create(LoopOptions options, std::unique_ptr<Searcher> searcher,
                                                     std::unique_ptr<Scheduler> scheduler) {
  VOLADOR_CHECK(searcher != nullptr && scheduler != nullptr);
  VOLADOR_TRY(validate(options, *searcher, *scheduler));
  if (const auto timeout = options.stop.timeout();
      timeout && (options.time_budget.count() == 0 || *timeout < options.time_budget))
    options.time_budget = *timeout;
  auto core = std::make_unique<Core>(std::move(options), std::move(searcher), std::move(scheduler));
  core->table.counts.total = core->searcher->total();
  return std::unique_ptr<TrialLoop>(new TrialLoop(std::move(core)));
}

TrialLoop::TrialLoop(std::unique_ptr<Core> core) : core_(std::move(core)) {}
TrialLoop::~TrialLoop() = default;

Actions TrialLoop::begin(BootTime now) { return core_->begin(now); }
Actions TrialLoop::handle(BootTime now, const Event& event) { return core_->handle(now, event); }
std::optional<BootTime> TrialLoop::next_wakeup() const { return core_->next_wakeup(); }
const std::deque<Trial>& TrialLoop::trials() const { return core_->table.trials(); }
const Trial* TrialLoop::find(TrialId id) const { return core_->find(id); }
const Trial* TrialLoop::best_trial() const { return core_->best_trial(); }
TrialLoop::Counts TrialLoop::counts() const { return core_->table.counts; }
bool TrialLoop::ending() const { return core_->ending(); }
bool TrialLoop::ended() const { return core_->ended; }
bool TrialLoop::paused() const { return core_->holding; }
const LoopOptions& TrialLoop::options() const { return core_->options; }
const Searcher& TrialLoop::searcher() const { return *core_->searcher; }
const Scheduler& TrialLoop::scheduler() const { return *core_->scheduler; }
void TrialLoop::check_invariants() const { core_->check_invariants(); }

}  // namespace volador::tune
