// Prepares the memory of a template process for forks.
#pragma once

#include <chrono>
#include <cstddef>

namespace volador {

// Result of prepare_memory_for_forks().
struct PreparedMemory {
  size_t held_bytes = 0;  // Bytes in holes of the heap that are occupied permanently.
  size_t huge_pages = 0;  // Number of huge pages created now.
};

// A fork copies the page table entry by entry: 13,000 entries for the 52 MB heap of a program with LibTorch, more than
// half of the time of a clone. Each hole of the heap that a host fills also copies its page. Therefore the holes are
// allocated, and ranges of 2 MB that are at least three quarters full become huge pages with one entry each, as far as
// the kernel supports it and within time_max for each of the two steps (a system call, for up to 64 MB, is not
// interrupted). Memory that a fork writes is split again for that fork only. For single-threaded processes; the holes
// of allocators other than glibc's stay.
PreparedMemory prepare_memory_for_forks(std::chrono::milliseconds time_max);

}  // namespace volador
