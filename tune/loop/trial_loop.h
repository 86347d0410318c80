// The loop of an experiment: events in, actions out. It decides which trial starts, steps, saves, stops and is tried
// again, and knows of no clock, thread, file or actor: the shell executes the actions and tells what came of them, with
// the time of it.
//
// What one attempt of a trial goes through, and who speaks:
//
//   loop: StartTrial ──▶ shell: TrialStarted ──▶ loop: Step ──▶ shell: ResultReported ─┬─▶ loop: Step …
//                          (ActorWaiting…)                                             ├─▶ loop: SaveCheckpoint ──▶
//                          shell: CheckpointSaved
//                                                                                      │          or CheckpointFailed
//                                                                                      ──▶ Step or StopTrial └─▶ loop:
//                                                                                      StopTrial ──▶ shell: TrialGone
//   shell, at any time: TrialFailed (its actor is gone too) instead of the answer due.
//
// A function trainable runs the same way: Step lets tune::report return and waits for the next report, SaveCheckpoint
// calls the function that was given to report. One request to a trial is under way at a time, StopTrial excepted, which
// may interrupt.
//
// A trial that its scheduler pauses goes through SaveCheckpoint and StopTrial as well; it starts again, on any node,
// when the scheduler says so. One that becomes a copy of another trial goes through CloneCheckpoint ──▶ CheckpointCloned
// or CloneFailed, paused or between two steps; then it starts from that checkpoint with its new configuration.
//
// Each start has an attempt number. An event of another attempt than the current one, a repeated one and one that was
// not asked for change nothing. An event costs O(1), a ranking and a place in the queue O(log trials).
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
  // kInvalidArgument: as of validate().
  [[nodiscard]] static Result<std::unique_ptr<TrialLoop>> create(LoopOptions options,
                                                                 std::unique_ptr<Searcher> searcher,
                                                                 std::unique_ptr<Scheduler> scheduler);
  ~TrialLoop();

  // First, once.
  [[nodiscard]] Actions begin(BootTime now);
  // now never goes back; wall: the same moment, for the times of trials. After EndExperiment events are ignored.
  [[nodiscard]] Actions handle(BootTime now, const Event& event, WallTime wall = {});
  // The memory of actions that are done, for the next ones; for who handles millions of events.
  void reuse(Actions&& done);
  // When a Tick is due at the latest; no value: none.
  std::optional<BootTime> next_wakeup() const;

  // All known trials by index. References live as long as the loop.
  const std::deque<Trial>& trials() const;
  const Trial* find(TrialId id) const;  // Null: there is none.
  // As tune/loop/best_trial.h says, by kLast or kAll. No value: no trial reported a number.
  std::optional<BestTrial> best(Scope scope = Scope::kLast) const;
  const Trial* best_trial() const;  // By kLast; null: as above.

  // How long the experiment still takes (tune/loop/time_left.h). O(trials), some milliseconds where there are many.
  std::optional<TimeLeft> time_left(BootTime now) const;

  using Counts = TrialCounts;
  Counts counts() const;
  bool ending() const;  // By interrupt, time budget or error: nothing starts any more.
  bool ended() const;   // EndExperiment was returned.
  bool paused() const;  // On request, as a whole: nothing starts.
  const LoopOptions& options() const;
  const Searcher& searcher() const;
  const Scheduler& scheduler() const;

  // Aborts where trials, queues and counts disagree. O(trials × checkpoints); for tests.
  void check_invariants() const;

 private:
  class Core;
  explicit TrialLoop(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace volador::tune
