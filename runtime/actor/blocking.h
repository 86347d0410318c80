// A thread that waits for others says so to whoever shares threads out, who may let another one run meanwhile.
#pragma once

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

// A moment in which another thread of this process may bring what this one would sleep for: about what it costs to be
// woken up. True as soon as `reached()`.
template <class Reached>
bool look_for_a_moment(const Reached& reached) {
  constexpr int kLooks = 48;
  for (int look = 0; look < kLooks; ++look) {
    if (reached()) return true;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb");
#endif
  }
  return false;
}

// Around a wait that may be long.
class Blocking {
 public:
  Blocking() : owner_(thread_owner) {
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
