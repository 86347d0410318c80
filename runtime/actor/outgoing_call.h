// An outgoing call on an actor: request, completion handler and progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/result.h"

namespace volador {

// State of one call, shared by its caller and its session.
class OutgoingCall {
 public:
  virtual ~OutgoingCall() = default;
  // Called once at its end, on a runtime thread that holds no lock.
  virtual void on_end(Result<std::string>&& result) = 0;

  // Members used at its end are adjacent: it happens on another thread, and each additional cache line costs.
  // Set by the session that carries it:
  bool ended = false;
  bool kept = false;  // For an actor with max_task_retries: the host keeps the reply until this process has it.
  // Set by the caller before start():
  bool may_repeat = true;  // False: not retried, even on an actor with max_task_retries.
  std::string arguments;
  std::shared_ptr<const void> pins;  // References in the arguments, held until the reply.
  ActorId target;
  uint64_t method = 0;
  std::chrono::nanoseconds timeout{0};  // 0: none.

  // Set by the session that carries it:
  uint64_t request_id = 0;  // Id for cancellation; set before start() returns.
  ActorId actor;            // Actor whose connection it uses; for a nested actor its owner.
  std::optional<BootTime> deadline;
  uint64_t timer = 0;
  // For a kept call, from its first transmission:
  int retries_left = 0;     // Further incarnations that may run it; -1: unlimited.
  uint64_t sent_epoch = 0;  // Incarnation that may have run it.
  uint64_t acknowledged = 0;
};

}  // namespace volador
