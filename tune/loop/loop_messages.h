// Events and actions of the trial loop; trial_loop.h describes their order.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/language/reason.h"
#include "runtime/result.h"
#include "tune/loop/decision_record.h"
#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"

namespace volador::tune {

// ---- Events.

// The actor runs, setup has completed and the checkpoint of StartTrial, if any, is loaded.
struct TrialStarted {
  TrialId trial;
  int64_t attempt = 0;
  std::string node = {};
};
struct ResultReported {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;  // Step of the trial, counted from the checkpoint: its step + 1 is the first.
  Metrics metrics = {};
  std::chrono::nanoseconds duration{0};  // Duration of this step, measured where it ran.
  bool done = false;                     // The trainable reported that it is finished.
};
// The function returned, or the class has no more steps; the actor still answers StopTrial.
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
// The checkpoint does not count and the trial continues. (If save_checkpoint itself threw, the shell may report
// TrialFailed instead.)
struct CheckpointFailed {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  Reason error = {};
};
// Response to CloneCheckpoint: the copy is complete and durable.
struct CheckpointCloned {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  std::string location = {};
};
// Response to CloneCheckpoint: no copy was made; the trial continues unchanged.
struct CloneFailed {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  Reason error = {};
};
// A checkpoint has become unreadable: the next start uses the previous one. The failure of the attempt that tried to
// load it is reported separately.
struct CheckpointLost {
  TrialId trial;
  std::string location = {};
};
// The attempt has ended; its actor is gone or exits without another event.
struct TrialFailed {
  TrialId trial;
  int64_t attempt = 0;
  Reason error = {};
  bool counts =
      true;  // Whether it counts towards max_failures; false for failures outside the trial: lost node, lost driver.
};
// Response to StopTrial: the actor has exited and its resources are free.
struct TrialGone {
  TrialId trial;
  int64_t attempt = 0;
};
// The actor requested by StartTrial is pending: "for a CPU: 2 of 2 in use".
struct ActorWaiting {
  TrialId trial;
  int64_t attempt = 0;
  Reason reason = {};
};
// Number of trials that the cluster can run at once; 0: not known yet.
struct CapacityChanged {
  int64_t slots = 0;
};
// First: running trials finish the current step, save a checkpoint if they can, and stop; nothing starts. Second: all
// stop at once.
struct Interrupt {};
// Time has passed; needed only at next_wakeup().
struct Tick {};
// The experiment cannot continue (results storage full, cluster lost): everything stops at once and EndExperiment
// carries the error.
struct Abort {
  Error error;
};

// A new driver has replayed the journal of its predecessor: running attempts have ended without counting as failures,
// and undecided trials restart from their last checkpoints.
struct Resumed {};
// A valid checkpoint of this step that the loop did not request, found after a resume.
struct CheckpointFound {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  std::string location = {};
};
// New total number of trials, also after all had ended; -1: unlimited.
struct MoreSamples {
  int64_t total = 0;
};
// The user stops the experiment or one trial: running trials save a checkpoint after the current step if they can. A
// trial that cannot save one ends at once. Idempotent.
struct StopRequested {
  TrialId trial;
  bool whole = false;  // Stops the whole experiment; `trial` is ignored.
};
// The user pauses the experiment or one trial, releasing the actors: running trials save a checkpoint after the current
// step. A trial that cannot save runs to its end. While the whole experiment is paused nothing starts. The time budget
// keeps running. Idempotent.
struct PauseRequested {
  TrialId trial;
  bool whole = false;
};
// Ends a user's pause of the experiment and all its trials, or of one trial. Trials paused by their scheduler stay
// paused.
struct ResumeRequested {
  TrialId trial;
  bool whole = false;
};

// Total resources of the cluster, for schedulers that change resources.
struct ClusterChanged {
  std::map<std::string, int64_t> amounts = {};  // As in ResourceSet.
};
// No node can ever hold the resources that the scheduler has assigned to the trial; the attempt has not started.
struct ResourcesRefused {
  TrialId trial;
  int64_t attempt = 0;
  Reason reason = {};
};

// The user adds this configuration to those of the searcher, as the next trial. A repeated request id has no effect.
struct ConfigAdded {
  std::string request = {};                           // Request id; empty: none.
  Config config = {};                                 // Complete, in the form in which the space draws it.
  std::optional<TrialId> cloned_from = std::nullopt;  // The trial that it was derived from, if any.
};

// The user tags a trial, also one that has ended. Existing tags, and tags beyond kTagsMax, have no effect.
struct TrialTagged {
  TrialId trial;
  std::vector<std::string> tags = {};
};

// Failed trials are retried from their last checkpoint or from the start, with their failure count reset, also after
// all trials had ended. Scheduler and searcher no longer observe them: they run to their stop conditions.
struct RetryFailed {
  bool from_start = false;
};

// The journal stores the index: append new types at the end.
using Event =
    std::variant<TrialStarted, ResultReported, TrialFinished, CheckpointSaved, CheckpointFailed, CheckpointLost,
                 TrialFailed, TrialGone, ActorWaiting, CapacityChanged, Interrupt, Tick, Abort, CheckpointCloned,
                 CloneFailed, Resumed, CheckpointFound, MoreSamples, StopRequested, PauseRequested, ResumeRequested,
                 ClusterChanged, ResourcesRefused, ConfigAdded, RetryFailed, TrialTagged>;

// ---- Actions, to be executed in order.

// A new trial exists (params.json); StartTrial follows at once or later.
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
// Copies a checkpoint of another trial to this one. Its actor, if it has one, has no outstanding request at that time.
struct CloneCheckpoint {
  TrialId trial;
  int64_t attempt = 0;
  TrialId from;
  Checkpoint checkpoint;
};
// Ends the actor. at_once: even during a step; otherwise it has no outstanding request.
struct StopTrial {
  TrialId trial;
  int64_t attempt = 0;
  bool at_once = false;
};
struct DeleteCheckpoint {
  TrialId trial;
  Checkpoint checkpoint;
};
// A result that counts, for result.json: the steps of one attempt are contiguous.
struct RecordResult {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  Metrics result = {};    // With training_iteration, time_this_iter_s, time_total_s.
  bool replayed = false;  // The step was already recorded by an earlier attempt that failed later.
};
// The trial is now a copy of another: Trial::config is the new one, and its steps continue from the copied checkpoint.
struct TrialCloned {
  TrialId trial;
  TrialId from;
  int64_t had_step = 0;  // Steps that the trial itself had done.
  int64_t step = 0;      // Step of the copied checkpoint.
};
// The reason of a decision by the scheduler or by a condition of `stop`.
struct DecisionMade {
  DecisionRecord record;
};
// The trial's status is final.
struct TrialEnded {
  TrialId trial;
};
// A message to the user, emitted once: "trial 3f2a90c1 reported accuracy nan at step 3; NaN and infinities rank last."
struct Notice {
  Reason text;
};
// The last action, emitted once: no actor remains. `error`: why the experiment as a whole failed; failed trials do not
// count as such.
struct EndExperiment {
  std::optional<Error> error = std::nullopt;
  Reason reason = {};  // "all trials ended", "interrupted", "time budget of 600 s used up", …
};

using Action = std::variant<TrialAdded, StartTrial, Step, SaveCheckpoint, StopTrial, DeleteCheckpoint, RecordResult,
                            TrialEnded, Notice, EndExperiment, CloneCheckpoint, TrialCloned, DecisionMade>;
using Actions = std::vector<Action>;

}  // namespace volador::tune
