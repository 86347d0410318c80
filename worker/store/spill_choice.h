// Which arenas of an object store are emptied when room is wanted: those used least recently. Room comes back by whole arenas only, since
// the memory of a part cannot be returned (a sealed memfd refuses holes).
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace volador::worker {

struct SpillCandidate {
  size_t index = 0;   // Whatever the caller knows it by.
  int64_t bytes = 0;  // That come back when it is empty.
  uint64_t used = 0;  // When something in it was last used; larger is later.
};

// Indices, to be emptied in this order: the least recently used ones until at least `missing` bytes come back, all of them where they are
// not enough. One that turns out not to be needed because later ones bring enough is left out, the most recently used first.
[[nodiscard]] std::vector<size_t> choose_spill(std::span<const SpillCandidate> candidates, int64_t missing);

}  // namespace volador::worker
