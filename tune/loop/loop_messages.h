// What the loop of an experiment is told, and what it says: trial_loop.h has the order of it.
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
  Reason error = {};
};
// The answer to CloneCheckpoint: the copy is complete and durable.
struct CheckpointCloned {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  std::string location = {};
};
// There is no copy; the trial goes on as it is.
struct CloneFailed {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  Reason error = {};
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
  Reason error = {};
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
  Reason reason = {};
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

// The driver is another one, which has replayed the journal of its predecessor: attempts under way are over, through no fault of theirs;
// those that are not decided start again from what they saved.
struct Resumed {};
// A checkpoint that counts although it was not asked for: of a trial at this step, from before Resumed.
struct CheckpointFound {
  TrialId trial;
  int64_t attempt = 0;
  int64_t step = 0;
  std::string location = {};
};
// So many trials in all from here on, also where all had ended; -1: no end.
struct MoreSamples {
  int64_t total = 0;
};
// Somebody wants the experiment to end, or one trial of it: what runs saves a checkpoint where it can, after the step under way. A trial
// that cannot save one ends at once. Repeated: no effect.
struct StopRequested {
  TrialId trial;
  bool whole = false;  // The experiment; no trial is meant.
};
// Somebody wants the experiment, or one trial of it, to hold without an actor: what runs saves a checkpoint after the step under way. One
// that cannot save runs on to its end; of a whole experiment nothing more starts. The time budget runs on. Repeated: no effect.
struct PauseRequested {
  TrialId trial;
  bool whole = false;
};
// That is over: of the experiment and of each of its trials, or of one trial that was paused so. A trial that its scheduler paused waits on.
struct ResumeRequested {
  TrialId trial;
  bool whole = false;
};

// What the cluster has in all, for schedulers that change resources.
struct ClusterChanged {
  std::map<std::string, int64_t> amounts = {};  // As of ResourceSet.
};
// No node can ever hold what the trial asks for since its scheduler changed that; the attempt has not begun.
struct ResourcesRefused {
  TrialId trial;
  int64_t attempt = 0;
  Reason reason = {};
};

// Somebody wants this configuration tried besides those of the searcher, as the next trial. One whose request came before changes nothing.
struct ConfigAdded {
  std::string request = {};  // Its id; empty: it has none.
  Config config = {};        // Whole, as the space would draw it.
  std::optional<TrialId> cloned_from = std::nullopt;  // Whose values it has, some of them changed.
};

// Its user calls it so from here on; also of one that has ended, and when all have. Known ones, and those beyond kTagsMax, change nothing.
struct TrialTagged {
  TrialId trial;
  std::vector<std::string> tags = {};
};

// Trials that failed are tried again, from their last checkpoint or from nothing, with no failure counted so far; also where all had ended.
// Scheduler and searcher have done with them: they run to their stop conditions.
struct RetryFailed {
  bool from_start = false;
};

// The order is that of the journal: new ones go to the end.
using Event =
    std::variant<TrialStarted, ResultReported, TrialFinished, CheckpointSaved, CheckpointFailed, CheckpointLost,
                 TrialFailed, TrialGone, ActorWaiting, CapacityChanged, Interrupt, Tick, Abort, CheckpointCloned, CloneFailed,
                 Resumed, CheckpointFound, MoreSamples, StopRequested, PauseRequested, ResumeRequested,
                 ClusterChanged, ResourcesRefused, ConfigAdded, RetryFailed, TrialTagged>;

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
// Makes a checkpoint of another trial one of this trial. It may have an actor, to which no request is under way then.
struct CloneCheckpoint {
  TrialId trial;
  int64_t attempt = 0;
  TrialId from;
  Checkpoint checkpoint;
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
// The trial is a copy of another one from here on: Trial::config is the new one, its steps go on from the copied one's.
struct TrialCloned {
  TrialId trial;
  TrialId from;
  int64_t had_step = 0;  // What the trial itself had done.
  int64_t step = 0;      // Of the copied checkpoint.
};
// Why the scheduler, or a condition of `stop`, decided so about the trial.
struct DecisionMade {
  DecisionRecord record;
};
// The trial's status is final.
struct TrialEnded {
  TrialId trial;
};
// To be said to the user, once: "trial 3f2a90c1 reported accuracy nan at step 3; NaN and infinities rank last."
struct Notice {
  Reason text;
};
// Once, last: no actor is left, nothing more follows. The error: why the experiment as a whole failed; failed trials
// are none.
struct EndExperiment {
  std::optional<Error> error = std::nullopt;
  Reason reason = {};  // "all trials ended", "interrupted", "time budget of 600 s used up", …
};

using Action = std::variant<TrialAdded, StartTrial, Step, SaveCheckpoint, StopTrial, DeleteCheckpoint, RecordResult,
                            TrialEnded, Notice, EndExperiment, CloneCheckpoint, TrialCloned, DecisionMade>;
using Actions = std::vector<Action>;

}  // namespace volador::tune
