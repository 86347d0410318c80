// Items on their way from some threads to one other, handed over in batches: one wake-up and one lock a batch for the
// taker, and no allocation an item.
#pragma once

#include <mutex>
#include <utility>
#include <vector>

namespace volador {

template <class Item>
class HandOver {
 public:
  // Any thread; one thread's items keep their order. True: nothing waited before, so the taker must be told.
  [[nodiscard]] bool put(Item item) {
    const std::lock_guard<std::mutex> hold(mutex_);
    items_.push_back(std::move(item));
    return items_.size() == 1;
  }
  // Replaces `batch`, which lends its memory to the next one, by all that waits.
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
