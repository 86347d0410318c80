// Copies of large values by several threads: one thread reaches about half of what a machine's memory can.
#pragma once

#include <cstddef>
#include <span>

namespace volador {

inline constexpr size_t kParallelCopyBytesMin = size_t{8} << 20;  // Below, threads cost more than they bring.
inline constexpr size_t kParallelCopyShareMin = size_t{4} << 20;  // Of one thread.
inline constexpr int kParallelCopyThreadsMax = 4;

// How many threads copy so many bytes, the calling one included, where `granted` CPUs may be used.
int copy_threads(size_t bytes, int granted);

// As memcpy; `to` has at least as many bytes. Returns when all are copied. A thread that cannot be made is done without.
void copy_large(std::byte* to, std::span<const std::byte> from, int granted);

}  // namespace volador
