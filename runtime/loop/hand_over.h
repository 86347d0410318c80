// Queue from several threads to one consumer, transferred in batches: one wake-up and one lock per batch for the
// consumer, and no allocation per item.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace volador {

// Multi-producer, single-consumer queue.
template <class Item>
class HandOver {
 public:
  // Any thread; items of one thread keep their order. True: the queue was empty, so the consumer must be notified.
  [[nodiscard]] bool put(Item item) {
    const std::lock_guard<std::mutex> hold(mutex_);
    items_.push_back(std::move(item));
    return items_.size() == 1;
  }
  // Swaps `batch` with all queued items; its memory is reused.
  void take(std::vector<Item>& batch) {
    batch.clear();
    const std::lock_guard<std::mutex> hold(mutex_);
    items_.swap(batch);
  }

 private:
  std::mutex mutex_;
  std::vector<Item> items_;
};

}  // namespace volador
