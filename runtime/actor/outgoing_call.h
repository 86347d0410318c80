// A call on its way to an actor: what is asked, who gets the answer, and how far it has come.
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

class OutgoingCall {
 public:
  virtual ~OutgoingCall() = default;
  // Its end, once, on a thread of the runtime that holds no lock.
  virtual void on_end(Result<std::string>&& result) = 0;

  // What its end looks at stands together: it comes on another thread, and each line of memory that has to follow it there costs.
  // Of the session that carries it:
  bool ended = false;
  bool kept = false;  // Of an actor with max_task_retries: its host keeps the answer until we have it.
  // Of who makes it, before it starts:
  bool may_repeat = true;  // False: also of an actor with max_task_retries it is not made again.
  std::string arguments;
  std::shared_ptr<const void> pins;  // What the arguments refer to, kept until the answer is there.
  ActorId target;
  uint64_t method = 0;
  std::chrono::nanoseconds timeout{0};  // 0: none.

  // Of the session that carries it:
  uint64_t request_id = 0;  // By which it is cancelled; set before start() returns.
  ActorId actor;            // Whose connection it takes: of a light actor its home.
  std::optional<BootTime> deadline;
  uint64_t timer = 0;
  // Of a kept one, from when it is sent first:
  int retries_left = 0;     // Further incarnations that may run it; -1: any number.
  uint64_t sent_epoch = 0;  // The incarnation that may have run it.
  uint64_t acknowledged = 0;
};

}  // namespace volador
