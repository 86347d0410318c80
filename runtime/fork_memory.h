// Memory of a process that others are forked from: a template.
#pragma once

#include <chrono>
#include <cstddef>

namespace volador {

struct PreparedMemory {
  size_t held_bytes = 0;  // Of holes in the heap that nothing is put into any more.
  size_t huge_pages = 0;  // Put together now.
};

// A fork copies the page table entry by entry: 13,000 of them for the 52 MB heap of a program with LibTorch, more than
// half of the time of a clone. And each hole of the heap that a host fills copies its page. So the holes are held, and
// what fills 2 MB of memory to three quarters becomes a huge page, one entry, as far as the kernel can and within
// time_max for each of the two (a call of the kernel, of up to 64 MB, is not broken off). Memory that forks write is
// split again there, for them alone. For a process of one thread; other allocators than glibc's keep their holes.
PreparedMemory prepare_memory_for_forks(std::chrono::milliseconds time_max);

}  // namespace volador
