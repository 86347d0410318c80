// Events for a runner from other threads: from its executor, from the output of actors, and from users through the
// head.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "tune/execution/experiment_request.h"
#include "tune/execution/trial_executor.h"
#include "tune/loop/event_queue.h"

namespace volador::tune {

// A user's request, received through the head, to try a configuration.
struct AddAsked {
  std::string config;  // JSON.
  std::string request;
  std::optional<TrialId> like;  // The trial that provides the values which `config` leaves out.
};
using RunnerEvent = std::variant<ExecutorEvent, LogLine, AddAsked>;

// Receives requests and log lines from threads of the session; closed before the runner is destroyed.
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
  // Lines above the limit of queued bytes are dropped and counted.
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
