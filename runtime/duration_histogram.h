// Histogram of durations in Prometheus' format. Thread safe, lock-free.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace volador {

class DurationHistogram {
 public:
  // Upper bounds of the buckets; longer durations are in an extra bucket.
  static constexpr std::array<std::chrono::microseconds, 13> kUpTo{
      std::chrono::microseconds(50),       std::chrono::microseconds(100),     std::chrono::microseconds(250),
      std::chrono::microseconds(500),      std::chrono::microseconds(1'000),   std::chrono::microseconds(2'000),
      std::chrono::microseconds(5'000),    std::chrono::microseconds(10'000),  std::chrono::microseconds(25'000),
      std::chrono::microseconds(50'000),   std::chrono::microseconds(100'000), std::chrono::microseconds(250'000),
      std::chrono::microseconds(1'000'000)};

  struct Counts {
    std::array<uint64_t, kUpTo.size() + 1> in{};  // Count of each bucket, not cumulative.
    uint64_t total = 0;
    double sum_s = 0;
  };

  void add(std::chrono::nanoseconds took) {
    size_t bucket = 0;
    while (bucket < kUpTo.size() && took > kUpTo[bucket]) ++bucket;
    in_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<uint64_t>(took.count() > 0 ? took.count() : 0), std::memory_order_relaxed);
  }

  Counts counts() const {
    Counts counts;
    for (size_t at = 0; at < in_.size(); ++at) counts.total += counts.in[at] = in_[at].load(std::memory_order_relaxed);
    counts.sum_s = static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9;
    return counts;
  }

 private:
  std::array<std::atomic<uint64_t>, kUpTo.size() + 1> in_{};
  std::atomic<uint64_t> sum_ns_{0};
};

}  // namespace volador
