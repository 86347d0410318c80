#include "runtime/store/large_copy.h"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

namespace volador {
namespace {

constexpr size_t kBoundary = size_t{64} << 10;  // Threads share neither pages nor cache lines.

}  // namespace

int copy_threads(size_t bytes, int granted) {
  if (bytes < kParallelCopyBytesMin) return 1;
  const auto shares = static_cast<int>(std::min<size_t>(bytes / kParallelCopyShareMin, kParallelCopyThreadsMax));
  return std::max(1, std::min(granted, shares));
}

void copy_large(std::byte* to, std::span<const std::byte> from, int granted) {
  const auto threads = static_cast<size_t>(copy_threads(from.size(), granted));
  const auto copy = [to, from](size_t begin, size_t end) {
    if (end > begin) std::memcpy(to + begin, from.data() + begin, end - begin);
  };
  const size_t share = (from.size() / threads + kBoundary - 1) / kBoundary * kBoundary;
  std::vector<std::jthread> others;
  size_t begun = std::min(share, from.size());  // The first share is copied by this thread.
  size_t mine = begun;
  for (; others.size() + 1 < threads && begun < from.size(); begun += std::min(share, from.size() - begun)) {
    try {
      others.emplace_back(copy, begun, begun + std::min(share, from.size() - begun));
    } catch (const std::system_error&) {
      break;
    }
  }
  copy(0, mine);
  copy(begun, from.size());
}

}  // namespace volador
