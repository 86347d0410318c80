// Selects the arenas to empty when an object store needs room: least recently used first. Room is released by whole
// arenas only, because parts of a sealed memfd cannot be released. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace volador::worker {

// An arena that could be emptied.
struct SpillCandidate {
  size_t index = 0;   // The caller's identifier.
  int64_t bytes = 0;  // Released when it is empty.
  uint64_t used = 0;  // Time of the last use of its objects; larger is later.
};

// Returns indices in the order of emptying: the least recently used ones until at least `missing` bytes are released,
// or all if they are not enough. Candidates made unnecessary by later, larger ones are omitted, most recently used
// first.
[[nodiscard]] std::vector<size_t> choose_spill(std::span<const SpillCandidate> candidates, int64_t missing);

}  // namespace volador::worker
