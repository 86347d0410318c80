// What of a run's events and actions its callbacks are told. Of the runner's thread; costs nothing where there are
// none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tune/execution/callback_runner.h"
#include "tune/loop/loop_messages.h"
#include "tune/loop/trial_loop.h"

namespace volador::tune {

class RunCallbacks {
 public:
  explicit RunCallbacks(std::vector<std::shared_ptr<Callback>> callbacks) : runner_(std::move(callbacks)) {}

  void setup(ExperimentInfo info);
  // Around the loop's handling of an event: what it changed is told.
  void before(const Event& event, const TrialLoop& loop);
  void after(const Event& event);
  // Actions, on the way.
  void starts(const StartTrial& action);
  void result(const Trial& trial, const Metrics& result);
  void ended(const Trial& trial);
  // Last; returns when all was told.
  void end(const Analysis& analysis);

  // Waits until all so far was told.
  void drain() { runner_.drain(); }
  // What callbacks have called trials since, an event for each trial.
  std::vector<TrialTagged> take_tags();

  bool listens() const { return runner_.listens(); }
  std::vector<std::string> take_notices() { return runner_.take_notices(); }

 private:
  CallbackRunner runner_;
  const Trial* subject_ = nullptr;  // Of the event, where it is of the trial's current attempt.
  int64_t troubles_before_ = 0;     // Failures and losses of the event's trial.
  TrialStatus status_before_ = TrialStatus::kWaiting;
  std::unordered_map<TrialId, Checkpoint> restores_;  // Of attempts that have not begun.
};

}  // namespace volador::tune
