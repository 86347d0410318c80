// The threads of this process, as the kernel lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volador::stacks {

// State of a thread.
struct ThreadRow {
  int id = 0;
  std::string name;              // Empty if the thread has ended.
  char state = '?';              // R running, S sleeping, D uninterruptible wait, T stopped.
  uint64_t blocked_signals = 0;  // Bit n - 1: signal n.
};

std::string thread_name(int thread);
// Sorted by id; at most `most`. Threads that end meanwhile are omitted.
std::vector<ThreadRow> threads_of_this_process(size_t most);

}  // namespace volador::stacks
