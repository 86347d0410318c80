// Implementation of the loop that trial_loop.h describes: one class, whose functions are grouped in trial_loop.cc (the
// experiment), trial_loop_events.cc (events), trial_loop_moves.cc (transitions of a trial) and trial_loop_clones.cc.
#pragma once

#include <limits>
#include <map>
#include <set>
#include <string>

#include "tune/loop/metric_board.h"
#include "tune/loop/time_left.h"
#include "tune/loop/trial_loop.h"
#include "tune/loop/trial_table.h"

namespace volador::tune {

class TrialLoop::Core {
 public:
  Core(LoopOptions options_in, std::unique_ptr<Searcher> searcher_in, std::unique_ptr<Scheduler> scheduler_in)
      : options(std::move(options_in)),
        searcher(std::move(searcher_in)),
        scheduler(std::move(scheduler_in)),
        stopper_(options.stop, options.metric, options.mode),
        board_(options.metric, options.mode) {}

  Actions begin(BootTime now);
  Actions handle(BootTime now, const Event& event);
  void reuse(Actions&& done) {
    done.clear();
    if (out_.empty() && out_.capacity() < done.capacity()) out_ = std::move(done);
  }
  std::optional<BootTime> next_wakeup() const;
  bool ending() const { return ending_; }
  const Trial* find(TrialId id) const { return table.find(id); }
  std::optional<BestTrial> best(Scope scope) const;
  std::optional<TimeLeft> time_left(BootTime now) const;
  void check_invariants() const;

  const LoopOptions options;
  const std::unique_ptr<Searcher> searcher;
  const std::unique_ptr<Scheduler> scheduler;
  TrialTable table;
  bool ended = false;
  bool holding = false;  // The user paused the experiment; nothing starts.

 private:
  // ---- Events.

  void on(const TrialStarted& event);
  void on(const ResultReported& event);
  void on(const TrialFinished& event);
  void on(const CheckpointSaved& event);
  void on(const CheckpointFailed& event);
  void on(const CheckpointFound& event);
  void on(const CheckpointCloned& event);
  void on(const CloneFailed& event);
  void on(const CheckpointLost& event);
  void on(const TrialFailed& event);
  void on(const TrialGone& event);
  void on(const ActorWaiting& event);
  void on(const CapacityChanged& event);

  void on(const Interrupt&);
  void on(const Tick&) {}

  void on(const Resumed&);
  void on(const MoreSamples& event);
  void on(const ConfigAdded& event);
  void on(const RetryFailed& event);
  void on(const TrialTagged& event);
  void on(const StopRequested& event);
  void on(const PauseRequested& event);
  void on(const ResumeRequested& event);
  void on(const ClusterChanged& event);
  void on(const ResourcesRefused& event);
  void on(const Abort& event) { abort(event.error); }

  // ---- Results.

  void count(Trial& trial, const ResultReported& event, bool replayed);
  // Returns a verdict if the trial ends with this result.
  std::optional<Verdict> judge(const Trial& trial, const ResultReported& event, bool replayed);
  // Moves the reason from the slot into the verdict; called once per decision.
  Verdict verdict_of(Decision decision, const Trial& trial);

  // ---- Transitions of one trial.

  void start(Trial& trial);
  void step(Trial& trial);
  void save(Trial& trial);
  void after_save(Trial& trial);

  // ---- Pausing.

  // True also after a failure on the way there, once the lost steps have been repeated.
  bool scheduler_pauses(const Trial& trial);
  bool wants_pause(const Trial& trial) { return slot(trial).held || scheduler_pauses(trial); }

  void pause(Trial& trial);
  // Handles the exit of an actor after a pause. Returns false if the exit was not part of a pause.
  bool leave(Trial& trial);
  void unpause(Trial& trial);
  // Enqueues the trial, or holds it while the user has paused it.
  void await_place(Trial& trial);
  // Returns false if the trial runs and would lose its progress.
  bool hold(Trial& trial);
  void release(Trial& trial);
  void release_all();

  // ---- Decision records.

  void note_decisions();
  void note_stop(const Trial& trial, Act act, const Reason& reason);
  void obey_scheduler();
  Trial* ordered(TrialId id);
  void obey(const ResumeOrder& order);
  void obey(const ResourcesOrder& order);

  // ---- Copies.

  // Orders for a trial that is paused or pausing; clone() below handles a trial whose decision was kClone.
  void obey(const CloneOrder& order);
  // Returns false if the order that must accompany kClone is missing.
  bool clone(Trial& trial);
  void begin_clone(Trial& trial);
  bool awaits_clone(const Trial& trial, int64_t step);
  // The trial has no actor and its copy is in progress.
  bool is_copied(const Trial& trial);
  // The copy is complete: the trial's own results from that step on no longer count.
  void adopt(Trial& trial, const std::string& location);
  void drop_clone(Trial& trial, const Reason& why);
  Clone take_clone(Trial& trial);
  // Continues after a copy was made or failed.
  void go_on(Trial& trial, bool copied);

  // ---- Checkpoints and ends.

  void keep(Trial& trial, int64_t step, const std::string& location);
  void retire(Trial& trial);
  void obey(const EndOrder& order);
  // Returns true if nothing runs and nothing can be started, so that paused trials would wait without end.
  bool stalls() const;
  void break_stall();
  // Ends a trial between two requests, after a checkpoint if one is wanted and none exists for this step.
  void conclude(Trial& trial, Verdict verdict, bool checkpoint);
  // Without a verdict the trial counts as failed with its current error.
  void stop(Trial& trial, std::optional<Verdict> verdict, bool at_once);
  void fail(Trial& trial, bool counts_in);
  // Requeues the trial after the delay of retry_backoff.
  void back_off(Trial& trial);
  void end_back_offs();
  // Returns whether the trial requested a checkpoint after this result.
  bool asks_for_checkpoint(const Metrics& metrics);
  void resume(Trial& trial);
  // Resets the trial to the state from which the next start begins.
  void rewind(Trial& trial);
  void finish(Trial& trial, Verdict verdict);
  void add_goals(Observation& last, const Trial& trial) const;
  // Warns once, when the first trial ends, about stop thresholds whose metric no trial reports.
  void check_stop_metrics();

  // ---- The experiment.

  void spend_time();
  Actions settle();
  bool room() const;
  RunPace pace(BootTime now) const;
  int64_t slots_at_once() const;
  void fill();
  // Adds the next trial to the queue, if the searcher has one.
  bool suggest();
  // Graceful: current steps finish and trials that can checkpoint do so. `unstarted`: status given to trials that have
  // never started.
  void stop_all(Reason reason, TrialStatus unstarted = TrialStatus::kInterrupted);
  void stop_all_at_once();
  void abort(Error error);

  // ---- Bookkeeping.

  Trial* current(TrialId id, int64_t attempt) { return table.current(id, attempt); }
  Slot& slot(const Trial& trial) { return table.slot(trial); }
  bool awaits_save(const Trial& trial, int64_t step);
  template <class T>
  void emit(T action) {
    out_.emplace_back(std::move(action));
  }

  bool begun_ = false;
  BootTime started_{}, now_{};
  int64_t slots_ = 0;             // Number of trials that the cluster can run; 0: unknown.
  int64_t clones_of_paused_ = 0;  // Copies in progress for trials without an actor.
  bool exhausted_ = false, told_exhausted_ = false, searcher_waits_ = false;
  bool ending_ = false, stopping_at_once_ = false, budget_used_ = false;
  int64_t added_ = 0;                      // Number of configurations added by users
  std::set<std::string> added_requests_;   // and the ids of their requests.
  std::deque<ConfigAdded> added_waiting_;  // Added configurations without a trial yet; the searcher proposes them in
                                           // this order.
  std::multimap<BootTime, int64_t> back_offs_;  // Trials by index; some may have ended meanwhile.
  Metrics::Names asked_names_;                  // Names of the last report, and
  bool asks_ = false;                           // whether they include "should_checkpoint".
  int interrupts_ = 0;
  Reason end_reason_;
  std::optional<Error> error_;
  Stopper stopper_;
  MetricBoard board_;
  Metrics like_;  // A result with the names of the last one.
  bool nan_notice_ = false, stop_checked_ = false;
  Actions out_;
};

}  // namespace volador::tune
