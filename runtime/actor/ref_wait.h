// Waiting for several objects at once, and giving one up.
#pragma once

#include <utility>
#include <vector>

#include "runtime/actor/ref.h"
#include "runtime/actor/wait.h"

namespace volador {

// Returns when `count` objects are on this node, in memory or on its disk, or the timeout has passed: {ready, pending}, each in the order
// given, at most `count` ready. What another process put on this node is ready; what lies on another node is ready once it was copied
// here, which begins when its reference comes. One that is lost is ready: its get() throws.
template <class T>
std::pair<std::vector<Ref<T>>, std::vector<Ref<T>>> wait(std::vector<Ref<T>> refs, const WaitOptions& options = {}) {
  return internal::wait_for_things(
      std::move(refs), options, [](const Ref<T>& ref, auto function) { ref.any().when_ready(std::move(function)); },
      [](const Ref<T>& ref) { return ref.any().is_ready(); });
}

// Gives an object up now, whoever else refers to it: its memory and disk space go to others, and get() throws kObjectLost everywhere on
// its node. Those that read it at this moment (an Array, a span) read on. Copies on other nodes that have come already stay readable
// there until their last reference goes. Small values, which travel inside their references, and empty references: nothing happens.
template <class T>
void free(const Ref<T>& ref) {
  ref.any().free();
}
template <class T>
void free(const std::vector<Ref<T>>& refs) {
  for (const Ref<T>& ref : refs) ref.any().free();
}

}  // namespace volador
