#include "experiments/core/experiment_state.h"

#include <fmt/format.h>

#include <array>

namespace volador::experiments {
namespace {

constexpr std::array<std::string_view, kRunStates> kStateNames = {
    "ACTIVE",         "PAUSED",   "STOPPING_CANCELED", "STOPPING_KILLED", "STOPPING_COMPLETED",
    "STOPPING_ERROR", "CANCELED", "COMPLETED",         "ERROR",           "DELETING",
    "DELETE_FAILED",  "DELETED"};
constexpr std::array<std::string_view, kExperimentCommands> kCommandNames = {"activate", "pause",     "cancel", "kill",
                                                                             "archive",  "unarchive", "delete"};

constexpr uint16_t bit(RunState state) { return static_cast<uint16_t>(1u << static_cast<unsigned>(state)); }
template <class... S>
constexpr uint16_t bits(S... states) {
  return static_cast<uint16_t>((0u | ... | bit(states)));
}

// By state: those that may follow. A stopping state may become a more severe one. STOPPING_ERROR may become active
// again, where a failed experiment is continued.
constexpr std::array<uint16_t, kRunStates> kNext = {
    bits(RunState::kPaused, RunState::kStoppingKilled, RunState::kStoppingCanceled, RunState::kStoppingCompleted,
         RunState::kStoppingError),
    bits(RunState::kActive, RunState::kStoppingKilled, RunState::kStoppingCanceled, RunState::kStoppingCompleted,
         RunState::kStoppingError),
    bits(RunState::kCanceled, RunState::kStoppingKilled, RunState::kStoppingError),
    bits(RunState::kCanceled, RunState::kStoppingError),
    bits(RunState::kCompleted, RunState::kStoppingError),
    bits(RunState::kActive, RunState::kError),
    bits(RunState::kDeleting),
    bits(RunState::kDeleting),
    bits(RunState::kDeleting),
    bits(RunState::kDeleted, RunState::kDeleteFailed),
    bits(RunState::kDeleting),
    0};

tl::unexpected<Error> refuse_command(ExperimentCommand command, RunState state, std::string_view rule) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: the experiment is {}: {}", to_string(command), to_string(state), rule));
}

}  // namespace

std::string_view to_string(RunState state) { return kStateNames[static_cast<size_t>(state)]; }
std::string_view to_string(ExperimentCommand command) { return kCommandNames[static_cast<size_t>(command)]; }
std::string_view to_string(ActivePhase phase) {
  constexpr std::array<std::string_view, 4> kNames = {"QUEUED", "PULLING", "STARTING", "RUNNING"};
  return kNames[static_cast<size_t>(phase)];
}

std::optional<RunState> run_state_from(std::string_view name) {
  for (size_t i = 0; i < kRunStates; ++i) {
    if (kStateNames[i] == name) return static_cast<RunState>(i);
  }
  return std::nullopt;
}

bool is_stopping(RunState state) { return state >= RunState::kStoppingCanceled && state <= RunState::kStoppingError; }
bool is_terminal(RunState state) { return state >= RunState::kCanceled && state <= RunState::kError; }
bool may_become(RunState from, RunState to) { return (kNext[static_cast<size_t>(from)] & bit(to)) != 0; }

RunState terminal_of(RunState state) {
  switch (state) {
    case RunState::kStoppingCanceled:
    case RunState::kStoppingKilled:
      return RunState::kCanceled;
    case RunState::kStoppingCompleted:
      return RunState::kCompleted;
    case RunState::kStoppingError:
      return RunState::kError;
    default:
      return state;
  }
}

Result<TrialOrder> ExperimentMachine::command(ExperimentCommand command) {
  const auto become = [this](RunState state, TrialOrder order) {
    state_ = state;
    return order;
  };
  switch (command) {
    case ExperimentCommand::kActivate:
      if (state_ == RunState::kActive) return TrialOrder::kNone;
      if (state_ != RunState::kPaused) return refuse_command(command, state_, "only a paused one can be activated");
      return become(RunState::kActive, TrialOrder::kActivate);
    case ExperimentCommand::kPause:
      if (state_ == RunState::kPaused) return TrialOrder::kNone;
      if (state_ != RunState::kActive) return refuse_command(command, state_, "only an active one can be paused");
      return become(RunState::kPaused, TrialOrder::kPause);
    case ExperimentCommand::kCancel:
      if (is_stopping(state_) || is_terminal(state_)) return TrialOrder::kNone;
      if (!may_become(state_, RunState::kStoppingCanceled))
        return refuse_command(command, state_, "it has ended and is deleted");
      return become(RunState::kStoppingCanceled, TrialOrder::kCancel);
    case ExperimentCommand::kKill:
      // What is stopping because of an error or its end is killed without another state.
      if (state_ == RunState::kStoppingCompleted || state_ == RunState::kStoppingError) return TrialOrder::kKill;
      if (state_ == RunState::kStoppingKilled || is_terminal(state_)) return TrialOrder::kNone;
      if (!may_become(state_, RunState::kStoppingKilled))
        return refuse_command(command, state_, "it has ended and is deleted");
      return become(RunState::kStoppingKilled, TrialOrder::kKill);
    case ExperimentCommand::kArchive:
    case ExperimentCommand::kUnarchive:
      if (!is_terminal(state_))
        return refuse_command(command, state_, "only one that is CANCELED, COMPLETED or ERROR can be archived");
      archived_ = command == ExperimentCommand::kArchive;
      return TrialOrder::kNone;
    case ExperimentCommand::kDelete:
      if (state_ == RunState::kDeleting || state_ == RunState::kDeleted) return TrialOrder::kNone;
      if (!may_become(state_, RunState::kDeleting))
        return refuse_command(command, state_, "cancel or kill it first, then delete it");
      return become(RunState::kDeleting, TrialOrder::kNone);
  }
  return TrialOrder::kNone;
}

TrialOrder ExperimentMachine::search_ended(bool failure, bool cancel) {
  const RunState next = failure  ? RunState::kStoppingError
                        : cancel ? RunState::kStoppingCanceled
                                 : RunState::kStoppingCompleted;
  if (is_stopping(state_) || !may_become(state_, next)) return TrialOrder::kNone;
  state_ = next;
  return failure ? TrialOrder::kKill : TrialOrder::kCancel;
}

TrialOrder ExperimentMachine::fail() {
  if (!may_become(state_, RunState::kStoppingError)) return TrialOrder::kNone;
  state_ = RunState::kStoppingError;
  return TrialOrder::kKill;
}

void ExperimentMachine::trials_ended() { state_ = terminal_of(state_); }

void ExperimentMachine::deletion_ended(bool succeeded) {
  if (state_ == RunState::kDeleting) state_ = succeeded ? RunState::kDeleted : RunState::kDeleteFailed;
}

}  // namespace volador::experiments
