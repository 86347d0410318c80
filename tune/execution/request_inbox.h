// What a runner is told from other threads: by its executor, by actors that print, and by people through the head.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "tune/execution/experiment_request.h"
#include "tune/execution/trial_executor.h"
#include "tune/loop/event_queue.h"

namespace volador::tune {

// Somebody wants a configuration tried, and has given it through the head.
struct AddAsked {
  std::string config;  // JSON.
  std::string request;
  std::optional<TrialId> like;  // Whose values it has where `config` has none.
};
using RunnerEvent = std::variant<ExecutorEvent, LogLine, AddAsked>;

// Where threads of the session leave requests and lines; closed before the runner goes.
class RequestInbox {
 public:
  explicit RequestInbox(EventQueue<RunnerEvent>& queue) : queue_(&queue) {}
  void put(const ExperimentRequest& request) {
    const auto act = request_act_of(request.act);
    const auto trial = request.trial.empty() ? std::optional<TrialId>() : to_optional(TrialId::parse(request.trial));
    if (!act || (!trial && !request.trial.empty())) return;
    const std::lock_guard<std::mutex> hold(mutex_);
    if (queue_ == nullptr) return;
    if (*act == RequestAct::kAdd) return queue_->push(AddAsked{request.config, request.request_id, trial});
    queue_->push(ExecutorEvent{event_of(*act, trial)});
  }
  // A line beyond those that wait is counted alone.
  void put(const LogLine& line) {
    constexpr size_t kBytesMax = size_t{16} << 20;
    const std::lock_guard<std::mutex> hold(mutex_);
    if (queue_ != nullptr) queue_->offer(line, sizeof line + line.text.size(), kBytesMax);
  }
  void close() {
    const std::lock_guard<std::mutex> hold(mutex_);
    queue_ = nullptr;
  }

 private:
  static std::optional<TrialId> to_optional(const Result<TrialId>& trial) {
    return trial ? std::optional(*trial) : std::nullopt;
  }

  std::mutex mutex_;
  EventQueue<RunnerEvent>* queue_;
};

}  // namespace volador::tune
