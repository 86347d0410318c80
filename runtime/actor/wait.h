// Waiting for several futures at once.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/actor/future.h"
#include "runtime/actor/lending.h"

namespace volador {

struct WaitOptions {
  size_t count = std::numeric_limits<size_t>::max();  // Enough when so many are ready; default: all.
  std::optional<std::chrono::nanoseconds> timeout = {};  // Default: none.
};

// Returns when `count` futures are ready or the timeout has passed: {ready, pending}, each in the order given, at most `count`
// ready. A future whose call failed is ready.
template <class T>
std::pair<std::vector<Future<T>>, std::vector<Future<T>>> wait(std::vector<Future<T>> futures, const WaitOptions& options = {}) {
  struct Count {
    std::mutex mutex;
    std::condition_variable changed;
    size_t ready = 0;
  };
  const auto count = std::make_shared<Count>();
  const size_t enough = std::min(options.count, futures.size());
  for (const Future<T>& future : futures) {
    future.when_ready([count] {
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
  std::pair<std::vector<Future<T>>, std::vector<Future<T>>> out;
  for (Future<T>& future : futures) {
    auto& side = out.first.size() < enough && future.is_ready() ? out.first : out.second;
    side.push_back(std::move(future));
  }
  return out;
}

}  // namespace volador
