// Waiting for several objects at once, and giving one up.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/actor/lending.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/wait.h"

namespace volador {

// Returns when `count` objects are on this node, in memory or on its disk, or the timeout has passed: {ready, pending}, each in the order
// given, at most `count` ready. What another process put on this node is ready; what lies on another node is ready once it was copied
// here, which begins when its reference comes. One that is lost is ready: its get() throws.
template <class T>
std::pair<std::vector<Ref<T>>, std::vector<Ref<T>>> wait(std::vector<Ref<T>> refs, const WaitOptions& options = {}) {
  struct Count {
    std::mutex mutex;
    std::condition_variable changed;
    size_t ready = 0;
  };
  const auto count = std::make_shared<Count>();
  const size_t enough = std::min(options.count, refs.size());
  for (const Ref<T>& ref : refs) {
    ref.any().when_ready([count] {
      const std::lock_guard<std::mutex> hold(count->mutex);
      ++count->ready;
      count->changed.notify_one();
    });
  }
  {
    std::unique_lock<std::mutex> hold(count->mutex);
    std::optional<std::chrono::steady_clock::time_point> deadline;
    if (options.timeout) deadline = std::chrono::steady_clock::now() + *options.timeout;
    internal::wait_lending(count->changed, hold, deadline, [&] { return count->ready >= enough; });
  }
  std::pair<std::vector<Ref<T>>, std::vector<Ref<T>>> out;
  for (Ref<T>& ref : refs) {
    auto& side = out.first.size() < enough && ref.any().is_ready() ? out.first : out.second;
    side.push_back(std::move(ref));
  }
  return out;
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
