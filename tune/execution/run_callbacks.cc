#include "tune/execution/run_callbacks.h"

#include <algorithm>
#include <utility>

namespace volador::tune {
namespace {

int64_t troubles_of(const Trial& trial) { return trial.failures + trial.losses; }

}  // namespace

void RunCallbacks::setup(ExperimentInfo info) {
  runner_.tell("setup", [info = std::move(info)](Callback& callback) { callback.setup(info); });
}

void RunCallbacks::before(const Event& event, const TrialLoop& loop) {
  if (!listens()) return;
  std::visit(
      [&](const auto& one) {
        if constexpr (requires { one.attempt; }) {
          const Trial* trial = loop.find(one.trial);
          subject_ = trial == nullptr || trial->attempt != one.attempt ? nullptr : trial;
          troubles_before_ = subject_ == nullptr ? 0 : troubles_of(*subject_);
          status_before_ = subject_ == nullptr ? TrialStatus::kWaiting : subject_->status;
        }
      },
      event);
}

void RunCallbacks::after(const Event& event) {
  const Trial* trial = std::exchange(subject_, nullptr);
  if (trial == nullptr) return;
  if (std::holds_alternative<TrialStarted>(event)) {
    if (status_before_ == TrialStatus::kRunning || trial->status != TrialStatus::kRunning) return;
    runner_.tell("on_trial_start", [copy = *trial](Callback& callback) { callback.on_trial_start(copy); });
    const auto restore = restores_.extract(trial->id);
    if (restore.empty()) return;
    runner_.tell("on_trial_restore", [copy = *trial, from = restore.mapped()](Callback& callback) {
      callback.on_trial_restore(copy, from);
    });
  }
  if (const auto* saved = std::get_if<CheckpointSaved>(&event)) {
    const auto found = std::find_if(trial->checkpoints.begin(), trial->checkpoints.end(),
                                    [&](const Checkpoint& one) { return one.step == saved->step; });
    if (found == trial->checkpoints.end()) return;  // It does not count, or others are better.
    runner_.tell("on_checkpoint",
                 [copy = *trial, kept = *found](Callback& callback) { callback.on_checkpoint(copy, kept); });
  }
  if (std::holds_alternative<TrialFailed>(event)) {
    if (has_ended(trial->status) || troubles_of(*trial) == troubles_before_) return;
    runner_.tell("on_trial_recover", [copy = *trial](Callback& callback) { callback.on_trial_recover(copy); });
  }
}

void RunCallbacks::starts(const StartTrial& action) {
  if (!listens()) return;
  restores_.erase(action.trial);
  if (action.restore) restores_.emplace(action.trial, *action.restore);
}

void RunCallbacks::result(const Trial& trial, const Metrics& result) {
  if (!listens()) return;
  runner_.tell_result([copy = trial, result](Callback& callback) { callback.on_trial_result(copy, result); });
}

void RunCallbacks::ended(const Trial& trial) {
  if (!listens()) return;
  if (trial.status == TrialStatus::kFailed) {
    return runner_.tell("on_trial_error", [copy = trial](Callback& callback) { callback.on_trial_error(copy); });
  }
  runner_.tell("on_trial_complete", [copy = trial](Callback& callback) { callback.on_trial_complete(copy); });
}

std::vector<TrialTagged> RunCallbacks::take_tags() {
  std::vector<TrialTagged> events;
  for (CallbackRunner::Tagged& one : runner_.take_tags()) {
    if (events.empty() || events.back().trial != one.trial) events.push_back({one.trial});
    events.back().tags.push_back(std::move(one.tag));
  }
  return events;
}

void RunCallbacks::end(const Analysis& analysis) {
  if (!listens()) return;
  runner_.tell("on_experiment_end", [analysis](Callback& callback) { callback.on_experiment_end(analysis); });
  runner_.drain();
}

}  // namespace volador::tune
