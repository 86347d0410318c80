// Stacks of this process's threads without a debugger: each thread is interrupted by a signal and unwinds its own
// stack.
//
// The signal is a real-time signal that the program does not use. Interrupted system calls are restarted (SA_RESTART),
// except those that never are (sleeps and polls return EINTR, as with any signal). A thread that blocks the signal or
// is in an uninterruptible wait is listed without frames, with a note.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "runtime/stacks/thread_names.h"

namespace volador::stacks {

inline constexpr size_t kThreadsMax = 1000;
inline constexpr int kFramesMax = 64;  // Per thread; the innermost ones.

// Stack of one thread.
struct ThreadStack {
  ThreadRow thread;
  std::vector<uintptr_t> frames;  // Innermost first; all others are return addresses.
  std::string note;               // Why frames is empty.
  uintptr_t handle = 0;           // Its pthread_self(); 0: it did not answer.
};

// Captures all threads including the caller's; takes at most about `patience`, and threads not reached by then have a
// note. One caller at a time. kUnavailable: a capture is running, or the program handles all real-time signals.
[[nodiscard]] Result<std::vector<ThreadStack>> capture(std::chrono::milliseconds patience);

}  // namespace volador::stacks
