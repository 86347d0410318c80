#include "runtime/fork_memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace volador {
namespace {

using Steady = std::chrono::steady_clock;

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = 2 << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, since Linux 6.1; missing in older headers.

// Allocates the holes of the heap that malloc would still fill: larger requests come from the end of the heap or are
// mapped separately.
size_t hold_holes(Steady::time_point until) {
  constexpr size_t kBelowMapped = 120 << 10;
  constexpr size_t kSmallestRequest = 24;
  constexpr size_t kStep = 16;
  constexpr size_t kSmallSizes = 1024;
  constexpr size_t kThreadCache = 256 << 10;  // Maximum; mallinfo2 counts the thread cache as used.
  const auto heap = mallinfo2();
  const auto end = reinterpret_cast<uintptr_t>(sbrk(0)) - heap.keepcost;  // Later addresses are not holes.
  const size_t most =
      heap.fordblks == 0 ? 0 : heap.fordblks + kThreadCache;  // 0 with other allocators: `end` has no meaning.
  size_t held = 0;
  // Largest first, so that small allocations do not fragment them.
  for (size_t size = kBelowMapped; size >= kSmallestRequest;
       size = size > kSmallSizes ? std::max(size / 2, kSmallSizes) : size - std::min(size, kStep)) {
    while (held < most && Steady::now() < until) {
      void* hole = std::malloc(size);
      if (reinterpret_cast<uintptr_t>(hole) >= end) {
        std::free(hole);
        break;
      }
      held += malloc_usable_size(hole) + sizeof(size_t);
    }
  }
  return held;
}

struct Range {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// Returns private, writable, anonymous ranges, reduced to whole huge pages.
std::vector<Range> own_memory() {
  std::vector<Range> ranges;
  std::FILE* maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return ranges;
  char line[4096 + 128];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    char permissions[5] = "";
    unsigned long inode = 0;
    if (std::sscanf(line, "%lx-%lx %4s %*s %*s %lu", &begin, &end, permissions, &inode) != 4) continue;
    if (permissions[1] != 'w' || permissions[3] != 'p' || inode != 0) continue;
    begin = (begin + kHugePage - 1) / kHugePage * kHugePage;
    end = end / kHugePage * kHugePage;
    if (begin < end) ranges.push_back({begin, end});
  }
  std::fclose(maps);
  return ranges;
}

bool mostly_there(void* at) {
  unsigned char there[kHugePage / kPage];
  if (mincore(at, kHugePage, there) != 0) return false;
  const auto count =
      std::count_if(std::begin(there), std::end(there), [](unsigned char page) { return (page & 1) != 0; });
  return static_cast<size_t>(count) * 4 >= std::size(there) * 3;
}

// Each system call waits for every CPU, so a call covers many pages; the time is checked between calls.
size_t make_huge_pages(Steady::time_point until) {
  constexpr size_t kOfACall = 32 * kHugePage;
  size_t made = 0;
  for (const Range& range : own_memory()) {
    for (uintptr_t at = range.begin; at < range.end;) {
      uintptr_t end = at;
      while (end < range.end && end - at < kOfACall && mostly_there(reinterpret_cast<void*>(end))) end += kHugePage;
      if (end == at) {
        at += kHugePage;
        continue;
      }
      if (Steady::now() >= until) return made;
      if (madvise(reinterpret_cast<void*>(at), end - at, kCollapse) == 0)
        made += (end - at) / kHugePage;
      else if (errno != EINVAL && errno != EAGAIN)  // Not specific to this range or transient: probably no memory.
        return made;
      at = end;
    }
  }
  return made;
}

}  // namespace

PreparedMemory prepare_memory_for_forks(std::chrono::milliseconds time_max) {
  PreparedMemory prepared;
  prepared.held_bytes = hold_holes(Steady::now() + time_max);
  prepared.huge_pages = make_huge_pages(Steady::now() + time_max);
  return prepared;
}

}  // namespace volador
