// Notification of a thread's owner while the thread blocks, so that the owner can run another thread meanwhile.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/led_loop.h"
#include "runtime/net/held_writes.h"

namespace volador::internal {

// Owner of a pool thread; both functions are called on that thread and must not wait.
class ThreadOwner {
 public:
  virtual ~ThreadOwner() = default;
  virtual void on_blocked() = 0;
  virtual void on_unblocked() = 0;
};

// Null on threads outside a pool.
inline thread_local ThreadOwner* thread_owner = nullptr;

// Guards a wait that may be long.
class Blocking {
 public:
  // Whether the I/O loop's own thread leads during the wait (led_loop.h), or the wait handles that itself.
  enum class LoopLeads : uint8_t { kNow, kIfNeeded };

  explicit Blocking(LoopLeads loop = LoopLeads::kNow) : owner_(thread_owner) {
    net::write_held();  // The awaited result may depend on it.
    if (loop == LoopLeads::kNow) follower_.emplace();
    if (owner_ != nullptr) owner_->on_blocked();
  }
  ~Blocking() {
    if (owner_ != nullptr) owner_->on_unblocked();
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

 private:
  ThreadOwner* const owner_;
  std::optional<LedLoop::Follower> follower_;
};

// Whether this thread may run the I/O loop while it waits. A shared host's thread may not: it runs as the current
// actor.
inline bool may_run_loop() { return thread_owner == nullptr; }

}  // namespace volador::internal
