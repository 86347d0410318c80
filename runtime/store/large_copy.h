// Parallel copies of large values: one thread reaches about half of a machine's memory bandwidth.
#pragma once

#include <cstddef>
#include <span>

namespace volador {

inline constexpr size_t kParallelCopyBytesMin = size_t{8} << 20;  // Smaller copies use one thread.
inline constexpr size_t kParallelCopyShareMin = size_t{4} << 20;  // Minimum per thread.
inline constexpr int kParallelCopyThreadsMax = 4;

// Returns the number of threads, including the caller, for a copy of this size with `granted` CPUs.
int copy_threads(size_t bytes, int granted);

// As memcpy; `to` has at least as many bytes. Returns when the copy is complete. Uses fewer threads if some cannot be
// created.
void copy_large(std::byte* to, std::span<const std::byte> from, int granted);

}  // namespace volador
