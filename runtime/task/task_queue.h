// Queue of tasks that wait for a runner. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_set>
#include <utility>
#include <vector>

namespace volador {

enum class TaskId : uint64_t {};

// All functions take amortized constant time, including erase() in the middle: a program may cancel 100,000 tasks one
// by one.
class TaskQueue {
 public:
  bool empty() const { return ids_.empty(); }
  size_t size() const { return ids_.size() - erased_.size(); }
  TaskId front() const { return ids_.front(); }
  void push_back(TaskId id) { ids_.push_back(id); }
  void push_front(TaskId id) { ids_.push_front(id); }
  TaskId pop_front() {
    const TaskId id = ids_.front();
    ids_.pop_front();
    drop_erased();
    return id;
  }
  // The task must be in the queue and must not be added again.
  void erase(TaskId id) {
    erased_.insert(id);
    drop_erased();
  }
  std::vector<TaskId> take_all() {
    std::vector<TaskId> all;
    all.reserve(size());
    while (!empty()) all.push_back(pop_front());
    return all;
  }

 private:
  // Maintains that the first task is not erased, and that at most half of them are.
  void drop_erased() {
    while (!ids_.empty() && !erased_.empty() && erased_.erase(ids_.front()) != 0) ids_.pop_front();
    if (erased_.size() * 2 <= ids_.size()) return;
    std::erase_if(ids_, [this](TaskId id) { return erased_.contains(id); });
    erased_.clear();
  }

  std::deque<TaskId> ids_;
  std::unordered_set<TaskId> erased_;  // Erased tasks still in ids_.
};

}  // namespace volador
