// A thread that waits for others says so to whoever shares threads out, who may let another one run meanwhile.
#pragma once

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
  Blocking() : owner_(thread_owner) {
    net::write_held();  // What it waits for may hang on that.
    if (owner_ != nullptr) owner_->on_blocked();
  }
  ~Blocking() {
    if (owner_ != nullptr) owner_->on_unblocked();
  }
  Blocking(const Blocking&) = delete;
  Blocking& operator=(const Blocking&) = delete;

 private:
  ThreadOwner* const owner_;
};

}  // namespace volador::internal
