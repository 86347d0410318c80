// State machine of an experiment: events in, actions out. Decides which trial starts, steps, saves, stops and is
// retried. Uses no clock, thread, file or actor: the shell executes the actions and reports the outcomes as events with
// their time.
//
// Sequence of one attempt of a trial:
//
//   loop: StartTrial ──▶ shell: (ActorWaiting …) TrialStarted ──▶ loop: Step ──▶ shell: ResultReported, then one of
//       loop: Step …
//       loop: SaveCheckpoint ──▶ shell: CheckpointSaved or CheckpointFailed ──▶ loop: Step or StopTrial
//       loop: StopTrial ──▶ shell: TrialGone
//   shell, at any time: TrialFailed (the actor has exited too) instead of the pending response.
//
// A function trainable follows the same sequence: Step lets tune::report return and waits for the next report,
// SaveCheckpoint calls the function that was passed to report. A trial has one outstanding request at a time, except
// for StopTrial, which may interrupt another.
//
// A trial paused by its scheduler also goes through SaveCheckpoint and StopTrial; it restarts, on any node, when the
// scheduler resumes it. A trial that becomes a copy of another one goes through CloneCheckpoint ──▶ CheckpointCloned or
// CloneFailed, while paused or between two steps; then it starts from that checkpoint with its new configuration.
//
// Each start has an attempt number. Events of another attempt than the current one, repeated events and events that
// were not requested change nothing. An event costs O(1); ranking and queue operations cost O(log trials).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/result.h"
#include "tune/loop/best_trial.h"
#include "tune/loop/loop_messages.h"
#include "tune/loop/loop_options.h"
#include "tune/loop/trial.h"
#include "tune/loop/trial_counts.h"
#include "tune/schedulers/scheduler.h"
#include "tune/searchers/searcher.h"

namespace volador::tune {

class TrialLoop {
 public:
  // kInvalidArgument: as validate().
  [[nodiscard]] static Result<std::unique_ptr<TrialLoop>> create(LoopOptions options,
                                                                 std::unique_ptr<Searcher> searcher,
                                                                 std::unique_ptr<Scheduler> scheduler);
  ~TrialLoop();

  // Called first, once.
  [[nodiscard]] Actions begin(BootTime now);
  // `now` never decreases; `wall`: the same moment in wall time, for the times of trials. Ignores events after
  // EndExperiment.
  [[nodiscard]] Actions handle(BootTime now, const Event& event, WallTime wall = {});
  // Returns the memory of executed actions for reuse; an optimisation for callers that handle millions of events.
  void reuse(Actions&& done);
  // The latest time at which a Tick is due; no value: none.
  std::optional<BootTime> next_wakeup() const;

  // All known trials by index. References stay valid for the lifetime of the loop.
  const std::deque<Trial>& trials() const;
  const Trial* find(TrialId id) const;  // Null: not found.
  // The best trial as tune/loop/best_trial.h defines it, by kLast or kAll. No value: no trial reported a number.
  std::optional<BestTrial> best(Scope scope = Scope::kLast) const;
  const Trial* best_trial() const;  // By kLast; null: no trial reported a number.

  // Estimate of the remaining time (tune/loop/time_left.h). O(trials), some milliseconds for many trials.
  std::optional<TimeLeft> time_left(BootTime now) const;

  using Counts = TrialCounts;
  Counts counts() const;
  bool ending() const;  // By interrupt, time budget or error: nothing starts any more.
  bool ended() const;   // EndExperiment was returned.
  bool paused() const;  // The whole experiment is paused by the user: nothing starts.
  const LoopOptions& options() const;
  const Searcher& searcher() const;
  const Scheduler& scheduler() const;

  // Aborts if trials, queues and counts disagree. O(trials × checkpoints); for tests.
  void check_invariants() const;

 private:
  class Core;
  explicit TrialLoop(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace volador::tune
