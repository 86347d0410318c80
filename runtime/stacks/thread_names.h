// The threads of this process, as the kernel lists them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace volador::stacks {

struct ThreadRow {
  int id = 0;
  std::string name;              // As set for it; empty where it has ended.
  char state = '?';              // R running, S sleeping, D in a wait of the kernel that nothing interrupts, T stopped.
  uint64_t blocked_signals = 0;  // Bit n - 1: signal n.
};

std::string thread_name(int thread);
// By id; at most `most`. Those that end meanwhile are left out.
std::vector<ThreadRow> threads_of_this_process(size_t most);

}  // namespace volador::stacks
