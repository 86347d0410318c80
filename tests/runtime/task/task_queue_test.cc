#include "runtime/task/task_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/random.h"

namespace volador {
namespace {

TEST(TaskQueue, ErasedTasksAreNeitherCountedNorServed) {
  TaskQueue queue;
  for (uint64_t id = 1; id <= 6; ++id) queue.push_back(TaskId{id});
  queue.erase(TaskId{1});
  queue.erase(TaskId{3});
  EXPECT_EQ(queue.size(), 4u);
  EXPECT_EQ(queue.front(), TaskId{2});
  EXPECT_EQ(queue.pop_front(), TaskId{2});
  EXPECT_EQ(queue.front(), TaskId{4});
  queue.push_front(TaskId{2});
  EXPECT_EQ(queue.take_all(), (std::vector{TaskId{2}, TaskId{4}, TaskId{5}, TaskId{6}}));
  EXPECT_TRUE(queue.empty());
}

TEST(TaskQueue, BehavesAsAPlainListUnderRandomOperations) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SeededRandom random(seed);
    TaskQueue queue;
    std::deque<TaskId> expected;
    uint64_t next = 1;
    for (int step = 0; step < 500; ++step) {
      const uint64_t act = random.next() % 8;
      if (act < 3) {
        queue.push_back(TaskId{next});
        expected.push_back(TaskId{next++});
      } else if (act < 4) {
        queue.push_front(TaskId{next});
        expected.push_front(TaskId{next++});
      } else if (expected.empty()) {
        continue;
      } else if (act < 5) {
        ASSERT_EQ(queue.pop_front(), expected.front());
        expected.pop_front();
      } else {
        const auto erased = expected.begin() + static_cast<std::ptrdiff_t>(random.next() % expected.size());
        queue.erase(*erased);
        expected.erase(erased);
      }
      ASSERT_EQ(queue.size(), expected.size()) << "seed " << seed;
      ASSERT_EQ(queue.empty(), expected.empty()) << "seed " << seed;
      if (expected.empty()) continue;
      ASSERT_EQ(queue.front(), expected.front()) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace volador
