// Translates a run's events and actions into callback calls. On the runner's thread; costs nothing without callbacks.
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
  // Called around the loop's handling of an event to report its effects.
  void before(const Event& event, const TrialLoop& loop);
  void after(const Event& event);
  // Called when actions are executed.
  void starts(const StartTrial& action);
  void result(const Trial& trial, const Metrics& result);
  void ended(const Trial& trial);
  // Called last; returns after all calls were made.
  void end(const Analysis& analysis);

  // Waits until all queued calls were made.
  void drain() { runner_.drain(); }
  // Tags set by callbacks since the last call, one event per trial.
  std::vector<TrialTagged> take_tags();

  bool listens() const { return runner_.listens(); }
  std::vector<std::string> take_notices() { return runner_.take_notices(); }

 private:
  CallbackRunner runner_;
  const Trial* subject_ = nullptr;  // Trial of the event, if the event is from its current attempt.
  int64_t troubles_before_ = 0;     // Failures and losses of the event's trial.
  TrialStatus status_before_ = TrialStatus::kWaiting;
  std::unordered_map<TrialId, Checkpoint> restores_;  // For attempts that have not started.
};

}  // namespace volador::tune
