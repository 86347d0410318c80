// A bounded queue and its waiting callers. Pure: no clock, thread or I/O; events carry the time.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <optional>
#include <utility>
#include <vector>

namespace volador {

// Items and waiting callers are served in order of arrival. PutAnswer has set(uint64_t), the number of items added;
// GetAnswer has set(std::vector<T>); both have is_cancelled(): cancelled callers are skipped. Not thread safe.
template <class T, class PutAnswer, class GetAnswer>
class QueueCore {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr size_t kWaitingMax = 100'000;  // For each kind of caller.

  explicit QueueCore(size_t capacity) : capacity_(capacity) {}

  size_t size() const { return items_.size(); }
  size_t capacity() const { return capacity_; }

  // Replies once all items are in the queue, or at `deadline` with the number added. False: too many callers wait; no
  // reply.
  bool put(Time now, std::vector<T>&& items, std::optional<Time> deadline, const PutAnswer& answer) {
    if (!has_room(putting_)) return false;
    putting_.push_back({std::move(items), 0, deadline, answer});
    serve();
    if (deadline && *deadline <= now) expire(now);
    return true;
  }
  // Adds all items now or none.
  void try_put(Time now, std::vector<T>&& items, const PutAnswer& answer) {
    expire(now);
    const size_t count = items.size();
    if (!putting_.empty() || count > capacity_ - items_.size()) return answer.set(0);
    std::move(items.begin(), items.end(), std::back_inserter(items_));
    answer.set(count);
    serve();
  }
  // Replies with 1 to `max` items once there is one, or at `deadline` with none. False: too many callers wait; no
  // reply.
  bool get(Time now, size_t max, std::optional<Time> deadline, const GetAnswer& answer) {
    if (!has_room(getting_)) return false;
    getting_.push_back({max, deadline, answer});
    serve();
    if (deadline && *deadline <= now) expire(now);
    return true;
  }
  // Replies to callers whose deadline has passed.
  void expire(Time now) {
    std::erase_if(putting_, [&](const Put& put) {
      if (!put.deadline || *put.deadline > now) return false;
      put.answer.set(put.done);
      return true;
    });
    std::erase_if(getting_, [&](const Get& get) {
      if (!get.deadline || *get.deadline > now) return false;
      get.answer.set({});
      return true;
    });
    serve();  // For a put that waited behind a larger one.
  }
  // Returns the earliest deadline of the waiting callers; nothing if there is none. O(callers).
  std::optional<Time> next_deadline() const {
    std::optional<Time> first;
    const auto look = [&](const auto& waiting) {
      for (const auto& one : waiting) {
        if (one.deadline && (!first || *one.deadline < *first)) first = one.deadline;
      }
    };
    look(putting_);
    look(getting_);
    return first;
  }
  // Removes all waiting callers and calls `fail` with the answer of each.
  template <class Fail>
  void close(Fail&& fail) {
    for (const Put& put : putting_) fail(put.answer);
    for (const Get& get : getting_) fail(get.answer);
    putting_.clear();
    getting_.clear();
  }

 private:
  struct Put {
    std::vector<T> items;
    size_t done = 0;  // Number of leading items already in the queue.
    std::optional<Time> deadline;
    PutAnswer answer;
  };
  struct Get {
    size_t max = 1;
    std::optional<Time> deadline;
    GetAnswer answer;
  };

  template <class Waiting>
  static bool has_room(std::list<Waiting>& waiting) {
    if (waiting.size() < kWaitingMax) return true;
    std::erase_if(waiting, [](const Waiting& one) { return one.answer.is_cancelled(); });
    return waiting.size() < kWaitingMax;
  }

  void serve() {
    bool moved = true;
    while (moved) {
      moved = fill();
      moved = hand_out() || moved;
    }
  }
  // Moves items of waiting puts into the queue while there is room.
  bool fill() {
    bool moved = false;
    while (!putting_.empty()) {
      Put& put = putting_.front();
      if (!put.answer.is_cancelled()) {
        while (put.done < put.items.size() && items_.size() < capacity_) {
          items_.push_back(std::move(put.items[put.done++]));
          moved = true;
        }
        if (put.done < put.items.size()) return moved;
        put.answer.set(put.done);
      }
      putting_.pop_front();
    }
    return moved;
  }
  // Moves items to waiting gets.
  bool hand_out() {
    bool moved = false;
    while (!getting_.empty() && !items_.empty()) {
      const Get get = std::move(getting_.front());
      getting_.pop_front();
      if (get.answer.is_cancelled()) continue;
      const auto end = items_.begin() + static_cast<std::ptrdiff_t>(std::min(get.max, items_.size()));
      std::vector<T> out(std::make_move_iterator(items_.begin()), std::make_move_iterator(end));
      items_.erase(items_.begin(), end);
      get.answer.set(std::move(out));
      moved = true;
    }
    return moved;
  }

  const size_t capacity_;
  std::deque<T> items_;
  std::list<Put> putting_;
  std::list<Get> getting_;
};

}  // namespace volador
