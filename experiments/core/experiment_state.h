// The states of an experiment and what users and its search may change.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/result.h"

namespace volador::experiments {

enum class RunState : uint8_t {
  kActive,
  kPaused,
  kStoppingCanceled,
  kStoppingKilled,
  kStoppingCompleted,
  kStoppingError,
  kCanceled,
  kCompleted,
  kError,
  kDeleting,
  kDeleteFailed,
  kDeleted,
};
inline constexpr size_t kRunStates = 12;
// "ACTIVE", "STOPPING_CANCELED": as Determined's interfaces write them.
std::string_view to_string(RunState state);
std::optional<RunState> run_state_from(std::string_view name);

bool is_stopping(RunState state);
bool is_terminal(RunState state);      // kCanceled, kCompleted or kError.
RunState terminal_of(RunState state);  // The terminal state that a stopping one leads to; others unchanged.
// Whether an experiment may go from one state to another one.
bool may_become(RunState from, RunState to);

// What an active experiment does, from the furthest of its trials.
enum class ActivePhase : uint8_t { kQueued, kPulling, kStarting, kRunning };
std::string_view to_string(ActivePhase phase);  // "QUEUED".

enum class ExperimentCommand : uint8_t { kActivate, kPause, kCancel, kKill, kArchive, kUnarchive, kDelete };
inline constexpr size_t kExperimentCommands = 7;
std::string_view to_string(ExperimentCommand command);  // "activate".

// What the shell tells the trials that have not ended.
enum class TrialOrder : uint8_t {
  kNone,
  kActivate,
  kPause,   // Save a checkpoint and release the resources.
  kCancel,  // Save a checkpoint and end.
  kKill,    // End now.
};

class ExperimentMachine {
 public:
  ExperimentMachine() = default;
  explicit ExperimentMachine(RunState state, bool archived = false) : state_(state), archived_(archived) {}

  RunState state() const { return state_; }
  bool is_archived() const { return archived_; }

  // kInvalidArgument: the command does not fit the state; names both and what fits. A command whose effect is there
  // already has none: cancel and kill of an experiment that has ended, for example.
  [[nodiscard]] Result<TrialOrder> command(ExperimentCommand command);

  // The search has ended. No effect on an experiment that is stopping or has ended.
  TrialOrder search_ended(bool failure, bool cancel);
  // The experiment cannot go on: its trials are killed.
  TrialOrder fail();
  // All trials have ended: a stopping experiment has ended too.
  void trials_ended();
  // The files of a deleted experiment are gone, or could not be removed.
  void deletion_ended(bool succeeded);

 private:
  RunState state_ = RunState::kActive;
  bool archived_ = false;
};

}  // namespace volador::experiments
