// Waiting for several objects, and freeing objects.
#pragma once

#include <utility>
#include <vector>

#include "runtime/actor/ref.h"
#include "runtime/actor/wait.h"

namespace volador {

// Returns when `count` objects are on this node, in memory or on disk, or the timeout has passed: {ready, pending},
// each in the given order, at most `count` ready. Objects put on this node are ready; an object of another node is
// ready once it was copied here, which starts when its reference arrives. A lost object is ready: its get() throws.
template <class T>
std::pair<std::vector<Ref<T>>, std::vector<Ref<T>>> wait(std::vector<Ref<T>> refs, const WaitOptions& options = {}) {
  return internal::wait_for_things(
      std::move(refs), options, [](const Ref<T>& ref, auto function) { ref.any().when_ready(std::move(function)); },
      [](const Ref<T>& ref) { return ref.any().is_ready(); });
}

// Frees an object now, regardless of other references: its memory and disk space are released, and get() throws
// kObjectLost everywhere on its node. Current readers (an Array, a span) finish. Existing copies on other nodes stay
// readable until their last reference is gone. No effect on inline and empty references.
template <class T>
void free(const Ref<T>& ref) {
  ref.any().free();
}
template <class T>
void free(const std::vector<Ref<T>>& refs) {
  for (const Ref<T>& ref : refs) ref.any().free();
}

}  // namespace volador
