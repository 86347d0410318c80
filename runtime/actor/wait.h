// Waiting for several futures at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/actor/future.h"
#include "runtime/actor/lending.h"

namespace volador {

// Options of wait().
struct WaitOptions {
  size_t count = std::numeric_limits<size_t>::max();     // Number of ready things to wait for; default: all.
  std::optional<std::chrono::nanoseconds> timeout = {};  // Default: none.
};

namespace internal {

// Splits things by readiness, in the given order: {ready, pending}. `when_ready(thing, function)` calls the function
// once, on any thread, at once if it is ready.
template <class Thing, class WhenReady, class IsReady>
std::pair<std::vector<Thing>, std::vector<Thing>> wait_for_things(std::vector<Thing> things, const WaitOptions& options,
                                                                  WhenReady when_ready, IsReady is_ready) {
  struct Count {
    std::mutex mutex;
    std::condition_variable changed;
    size_t ready = 0;
  };
  const auto count = std::make_shared<Count>();
  const size_t enough = std::min(options.count, things.size());
  for (const Thing& thing : things) {
    when_ready(thing, [count] {
      const std::lock_guard<std::mutex> hold(count->mutex);
      ++count->ready;
      count->changed.notify_one();
    });
  }
  {
    std::unique_lock<std::mutex> hold(count->mutex);
    std::optional<std::chrono::steady_clock::time_point> deadline;
    if (options.timeout) deadline = std::chrono::steady_clock::now() + *options.timeout;
    wait_lending(count->changed, hold, deadline, [&] { return count->ready >= enough; });
  }
  std::pair<std::vector<Thing>, std::vector<Thing>> out;
  for (Thing& thing : things) {
    auto& side = out.first.size() < enough && is_ready(thing) ? out.first : out.second;
    side.push_back(std::move(thing));
  }
  return out;
}

}  // namespace internal

// Returns when `count` futures are ready or the timeout has passed: {ready, pending}, each in the given order, at most
// `count` ready. A failed future is ready.
template <class T>
std::pair<std::vector<Future<T>>, std::vector<Future<T>>> wait(std::vector<Future<T>> futures,
                                                               const WaitOptions& options = {}) {
  return internal::wait_for_things(
      std::move(futures), options,
      [](const Future<T>& future, auto function) { future.when_ready(std::move(function)); },
      [](const Future<T>& future) { return future.is_ready(); });
}

// Returns all values in the given order. Waits for each; throws the error of the first failed one in that order.
template <class T>
auto get(const std::vector<Future<T>>& futures) {
  if constexpr (std::is_void_v<T>) {
    for (const Future<T>& future : futures) future.get();
  } else {
    std::vector<T> values;
    values.reserve(futures.size());
    for (const Future<T>& future : futures) values.push_back(future.get());
    return values;
  }
}
// As get(), but throws kTimeout if not all are ready within `timeout`. Calls and tasks continue.
template <class T>
auto get(const std::vector<Future<T>>& futures, std::chrono::nanoseconds timeout) {
  const auto [ready, pending] = wait(futures, {.timeout = timeout});
  if (!pending.empty()) {
    throw Exception(Error{ErrorCode::kTimeout,
                          std::to_string(ready.size()) + " of " + std::to_string(futures.size()) +
                              " results are there; what makes the others goes on: wait longer, or end it by cancel()"});
  }
  return get(futures);
}

}  // namespace volador
