// A thread that waits for others says so to whoever shares threads out, who may let another one run meanwhile.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/led_loop.h"
#include "runtime/net/held_writes.h"

namespace volador::internal {

// Of the thread that runs on its behalf; both are called on that thread and must not wait.
class ThreadOwner {
 public:
  virtual ~ThreadOwner() = default;
  virtual void on_blocked() = 0;
  virtual void on_unblocked() = 0;
};

// Null on threads that belong to nobody in particular.
inline thread_local ThreadOwner* thread_owner = nullptr;

// Around a wait that may be long.
class Blocking {
 public:
  // Whether the I/O loop's own thread leads meanwhile (led_loop.h), or the wait sees to that itself.
  enum class LoopLeads : uint8_t { kNow, kIfNeeded };

  explicit Blocking(LoopLeads loop = LoopLeads::kNow) : owner_(thread_owner) {
    net::write_held();  // What it waits for may hang on that.
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

// Whether this thread may run the I/O loop while it waits: one of a shared host stands for the actor whose turn it is.
inline bool may_run_loop() { return thread_owner == nullptr; }

}  // namespace volador::internal
