// Where the threads of this process are now, without a debugger: each is interrupted by a signal and unwinds its own
// stack.
//
// The signal is a real-time one that the program does not use; calls of the kernel that it interrupts go on by
// themselves (SA_RESTART), but for those that never do (sleeps and polls return EINTR earlier, as with any signal). A
// thread that blocks the signal, or waits in the kernel in a way that nothing interrupts, is listed without frames, and
// says why.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "runtime/stacks/thread_names.h"

namespace volador::stacks {

inline constexpr size_t kThreadsMax = 1000;
inline constexpr int kFramesMax = 64;  // Of a thread; the innermost.

struct ThreadStack {
  ThreadRow thread;
  std::vector<uintptr_t> frames;  // The innermost first; all but that one are where a call returns to.
  std::string note;               // Why there are none.
};

// Of all threads, that of the caller too; it takes at most about `patience`, and what was not asked by then says so.
// One caller at a time. kUnavailable: another one is at it, or the program has handlers for all real-time signals.
[[nodiscard]] Result<std::vector<ThreadStack>> capture(std::chrono::milliseconds patience);

}  // namespace volador::stacks
