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
// Each start has an attempt number. An event of another attempt than the current one, a repeated one and one that was
// not asked for change nothing. An event costs O(1), a ranking O(log trials).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "tune/checkpoint_retention.h"
#include "tune/metrics.h"
#include "tune/scheduler.h"
#include "tune/searcher.h"
#include "tune/stopper.h"
#include "tune/trial.h"

namespace volador::tune {

struct LoopOptions {
  std::string metric = {};  // Ranks trials; empty: no ranking.
  Mode mode = Mode::kMax;
  uint64_t seed = 0;                  // Of the trials' ids.
  int64_t max_concurrent_trials = 0;  // 0: as many as the cluster takes.
  Stop stop = {};
  std::chrono::nanoseconds time_budget{
      0};  // Of the experiment, from begin(); then it ends as by an interrupt. 0: none.
  std::chrono::nanoseconds stop_grace =
      std::chrono::seconds(30);  // After the time budget, for steps under way and checkpoints.
  int64_t max_failures = 0;      // Tries again after as many failures of a trial; -1: always.
  CheckpointOptions checkpoint = {};
  bool can_checkpoint = true;  // Whether the trainable saves and loads; false: SaveCheckpoint is never asked for.
};

// ---- Events.

// The actor is there, setup is done and the checkpoint of StartTrial, if any, is loaded.
struct TrialStarted {
  TrialId trial;
  int64_t attempt = 0;
  std::string node = {};
};
struct ResultReported {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;  // Steps of the trial, counted on from the checkpoint: its step + 1 is the first.
  Metrics metrics = {};
  std::chrono::nanoseconds duration{0};  // Of this step, as measured beside it.
  bool done = false;                     // The trainable says that it is finished.
};
// The function returned, or the class has no more steps; its actor answers StopTrial still.
struct TrialFinished {
  TrialId trial;
  int64_t attempt = 0;
};
// The checkpoint is complete and durable.
struct CheckpointSaved {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  std::string location = {};
};
// It does not count; the trial goes on. (Where save_checkpoint itself threw, the shell may report TrialFailed instead.)
struct CheckpointFailed {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  std::string error = {};
};
// A checkpoint cannot be read any more: the next start uses the one before. The attempt it was meant for fails
// separately.
struct CheckpointLost {
  TrialId trial;
  std::string location = {};
};
// The attempt is over and its actor is gone, or going without a further word.
struct TrialFailed {
  TrialId trial;
  int64_t attempt = 0;
  std::string error = {};
  bool counts =
      true;  // Against max_failures; false where the trial is not to blame: its node was lost, the driver lost it.
};
// The answer to StopTrial: the actor is gone, its resources are free.
struct TrialGone {
  TrialId trial;
  int64_t attempt = 0;
};
// The actor that StartTrial asked for waits: "for a CPU: 2 of 2 in use".
struct ActorWaiting {
  TrialId trial;
  int64_t attempt = 0;
  std::string reason = {};
};
// How many trials the cluster holds at once; 0: not known yet.
struct CapacityChanged {
  int64_t slots = 0;
};
// Once: running trials checkpoint (where they can) after the step under way and stop; nothing starts. Twice: all stop
// at once.
struct Interrupt {};
// Time passed; needed at next_wakeup() only.
struct Tick {};
// The experiment cannot go on (no space for results, cluster lost): everything stops at once, the error stands in
// EndExperiment.
struct Abort {
  Error error;
};

using Event =
    std::variant<TrialStarted, ResultReported, TrialFinished, CheckpointSaved, CheckpointFailed, CheckpointLost,
                 TrialFailed, TrialGone, ActorWaiting, CapacityChanged, Interrupt, Tick, Abort>;

// ---- Actions, to be executed in order.

// A trial is known from here on (params.json); StartTrial follows at once or later.
struct TrialAdded {
  TrialId trial;
};
struct StartTrial {
  TrialId trial;
  int64_t attempt = 0;
  std::optional<Checkpoint> restore = std::nullopt;
};
struct Step {
  TrialId trial;
  int64_t attempt = 0;
};
struct SaveCheckpoint {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
};
// Ends the actor. at_once: also in the middle of a step; else no request to it is under way.
struct StopTrial {
  TrialId trial;
  int64_t attempt = 0;
  bool at_once = false;
};
struct DeleteCheckpoint {
  TrialId trial;
  Checkpoint checkpoint;
};
// A result that counts, for result.json: steps of one attempt are contiguous.
struct RecordResult {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  Metrics result = {};    // With training_iteration, time_this_iter_s, time_total_s.
  bool replayed = false;  // A step that was recorded before the failure of an earlier attempt already.
};
// The trial's status is final.
struct TrialEnded {
  TrialId trial;
};
// To be said to the user, once: "trial 3f2a90c1 reported accuracy nan at step 3; NaN ranks last."
struct Notice {
  std::string text;
};
// Once, last: no actor is left, nothing more follows. The error: why the experiment as a whole failed; failed trials
// are none.
struct EndExperiment {
  std::optional<Error> error = std::nullopt;
  std::string reason = {};  // "all trials ended", "interrupted", "time budget of 600 s used up", …
};

using Action = std::variant<TrialAdded, StartTrial, Step, SaveCheckpoint, StopTrial, DeleteCheckpoint, RecordResult,
                            TrialEnded, Notice, EndExperiment>;
using Actions = std::vector<Action>;

class TrialLoop {
 public:
  // kInvalidArgument: an option is out of range, or scheduler or searcher need a metric and there is none; the message
  // names it.
  [[nodiscard]] static Result<std::unique_ptr<TrialLoop>> create(LoopOptions options,
                                                                 std::unique_ptr<Searcher> searcher,
                                                                 std::unique_ptr<Scheduler> scheduler);
  ~TrialLoop();

  // First, once.
  [[nodiscard]] Actions begin(BootTime now);
  // now never goes back. After EndExperiment events are ignored.
  [[nodiscard]] Actions handle(BootTime now, const Event& event);
  // When a Tick is due at the latest; no value: none.
  std::optional<BootTime> next_wakeup() const;

  // All known trials by index. References live as long as the loop.
  const std::deque<Trial>& trials() const;
  const Trial* find(TrialId id) const;  // Null: there is none.
  // By the last value of the metric; equal ones by index. Null: no trial reported a number.
  const Trial* best_trial() const;

  struct Counts {
    int64_t by_status[kTrialStatuses] = {};
    int64_t operator[](TrialStatus status) const { return by_status[static_cast<int>(status)]; }
    int64_t known = 0;             // Their sum.
    std::optional<int64_t> total;  // How many there will be; no value: no end.
  };
  Counts counts() const;
  bool ending() const;  // By interrupt, time budget or error: nothing starts any more.
  bool ended() const;   // EndExperiment was returned.
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
