// The states of a trial: when it gets resources, when it starts again and how it ends.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <optional>

#include "experiments/core/experiment_state.h"

namespace volador::experiments {

// Why the processes of a trial ended.
enum class ProcessEnd : uint8_t {
  kDone,               // By themselves: preempted, or there was nothing left to do.
  kUserFailure,        // The program failed. Counts as a restart.
  kInfrastructure,     // A node or an agent was lost, or the head started anew. Does not count.
  kUnrecoverable,      // Another try cannot succeed: no node can ever hold it, or a log policy cancels retries.
  kUserRequestedStop,  // The program asked to stop.
};

// How a trial left the search before its end.
enum class TrialExit : uint8_t {
  kErrored,
  kUserCanceled,
  kUserRequestedStop,
  kInvalidHp,
  kInitInvalidHp,
  kEarlyStopped,        // A rule of early stopping ended it.
  kMetricsUnavailable,  // It ended without the metric of the search.
};

struct TrialActions {
  bool allocate = false;                         // Ask for resources.
  bool preempt = false;                          // Ask the processes to save a checkpoint and end.
  bool kill = false;                             // End the processes now.
  std::optional<TrialExit> exit = std::nullopt;  // For the search; then its closed().
  bool ended = false;                            // The trial is terminal. Its search gets closed().
  bool operator==(const TrialActions&) const = default;
};

// What a trial is, to be kept over restarts of the head.
struct TrialStanding {
  RunState state = RunState::kActive;  // kActive or kPaused for a new one.
  int64_t restarts = 0;
  bool has_processes = false;  // It has, or has asked for, resources.
  bool asked = false;          // The search waits for a validation.
  bool closed = false;         // By the search.
  std::optional<TrialExit> invalid = std::nullopt;
  bool operator==(const TrialStanding&) const = default;
};

// States are those of experiments, without deletion. Events after the end have no effect.
class TrialMachine {
 public:
  // A failure after `max_restarts` restarts ends it.
  explicit TrialMachine(int64_t max_restarts, const TrialStanding& standing = {})
      : max_restarts_(max_restarts), standing_(standing) {}

  // The search waits for a validation; or the trial has completed what it was asked for; or it is closed.
  TrialActions asked();
  TrialActions completed();
  TrialActions closed();
  // kActive, kPaused or a stopping state: what the experiment's user or the experiment wants. A less severe state than
  // the trial's has no effect.
  TrialActions become(RunState state);
  // The program calls its hyperparameters invalid: it ends as soon as its processes have. The shell kills them 10 s
  // later, if they have not.
  void report_invalid_hp(bool at_init) {
    standing_.invalid = at_init ? TrialExit::kInitInvalidHp : TrialExit::kInvalidHp;
  }
  // It ends with this exit as soon as its processes have; without the metric only if they succeed.
  void report_exit(TrialExit exit) { standing_.invalid = exit; }
  TrialActions processes_ended(ProcessEnd end);

  RunState state() const { return standing_.state; }
  const TrialStanding& standing() const { return standing_; }

 private:
  TrialActions transition(RunState state, std::optional<TrialExit> exit = std::nullopt);
  TrialActions allocate_if_wanted();
  TrialActions stopped(ProcessEnd end);

  const int64_t max_restarts_;
  TrialStanding standing_;
};

}  // namespace volador::experiments
