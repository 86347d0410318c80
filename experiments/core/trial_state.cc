#include "experiments/core/trial_state.h"

#include <utility>

namespace volador::experiments {
namespace {

// Stopping states by how severe they are; 0: others.
int severity(RunState state) {
  switch (state) {
    case RunState::kStoppingCompleted:
      return 1;
    case RunState::kStoppingCanceled:
      return 2;
    case RunState::kStoppingKilled:
      return 3;
    case RunState::kStoppingError:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

TrialActions TrialMachine::allocate_if_wanted() {
  if (standing_.state != RunState::kActive || standing_.has_processes || !standing_.asked) return {};
  standing_.has_processes = true;
  return {.allocate = true};
}

TrialActions TrialMachine::transition(RunState state, std::optional<TrialExit> exit) {
  standing_.state = state;
  if (state == RunState::kActive) return allocate_if_wanted();
  if (state == RunState::kPaused) return {.preempt = standing_.has_processes};
  if (is_stopping(state)) {
    if (!standing_.has_processes) return transition(terminal_of(state));
    // A completed trial ends by itself.
    return {.preempt = state == RunState::kStoppingCanceled,
            .kill = state == RunState::kStoppingKilled || state == RunState::kStoppingError};
  }
  if (state == RunState::kError) exit = TrialExit::kErrored;
  if (state == RunState::kCanceled) exit = TrialExit::kUserCanceled;
  return {.exit = exit, .ended = true};
}

TrialActions TrialMachine::asked() {
  standing_.asked = true;
  return allocate_if_wanted();
}

TrialActions TrialMachine::completed() {
  standing_.asked = false;
  return standing_.closed ? become(RunState::kStoppingCompleted) : TrialActions();
}

TrialActions TrialMachine::closed() {
  standing_.closed = true;
  // What it was asked for before is still done.
  return standing_.asked ? TrialActions() : become(RunState::kStoppingCompleted);
}

TrialActions TrialMachine::become(RunState state) {
  if (is_terminal(standing_.state) || state > RunState::kStoppingError) return {};
  if (is_stopping(standing_.state) && severity(state) < severity(standing_.state)) return {};
  return transition(state);
}

// The processes of a stopping trial have ended.
TrialActions TrialMachine::stopped(ProcessEnd end) {
  const bool failed = end == ProcessEnd::kUserFailure || end == ProcessEnd::kUnrecoverable;
  const bool killed = standing_.state == RunState::kStoppingKilled;
  return transition(failed && !killed ? RunState::kError : terminal_of(standing_.state));
}

TrialActions TrialMachine::processes_ended(ProcessEnd end) {
  if (!std::exchange(standing_.has_processes, false)) return {};
  const bool failed = end == ProcessEnd::kUserFailure || end == ProcessEnd::kUnrecoverable;
  const bool failed_without_metric = failed && standing_.invalid == TrialExit::kMetricsUnavailable;
  if (standing_.invalid && end != ProcessEnd::kInfrastructure && !failed_without_metric)
    return transition(RunState::kCompleted, standing_.invalid);
  if (is_stopping(standing_.state)) return stopped(end);
  if (end == ProcessEnd::kUnrecoverable) return transition(RunState::kError);
  if (end == ProcessEnd::kUserRequestedStop) return transition(RunState::kCompleted, TrialExit::kUserRequestedStop);
  if (end == ProcessEnd::kUserFailure) {
    if (standing_.restarts >= max_restarts_) return transition(RunState::kError);
    ++standing_.restarts;
  }
  return allocate_if_wanted();
}

}  // namespace volador::experiments
