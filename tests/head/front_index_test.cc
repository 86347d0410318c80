#include "head/scheduling/front_index.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/random.h"

namespace volador::head {
namespace {

RequestOrder order(int32_t priority, uint64_t sequence) {
  return {.priority = priority, .sequence = sequence, .holder = {}};
}
Demand asks(Amount gpus, Amount cpus, Amount memory) {
  return {.gpus = gpus, .cpus = cpus, .memory = memory, .custom = {}};
}

TEST(FrontIndex, FindsTheFirstThatTheAmountsHold) {
  FrontIndex<int> index;
  EXPECT_EQ(index.next(nullptr, nullptr, {9, 9, 9}), nullptr);
  int shapes[4] = {};
  index.insert(order(0, 1), asks(0, 8, 1), &shapes[0]);
  index.insert(order(0, 2), asks(0, 1, 8), &shapes[1]);
  index.insert(order(5, 3), asks(2, 1, 1), &shapes[2]);  // A higher priority is served first.
  index.insert(order(0, 4), asks(0, 1, 1), &shapes[3]);
  EXPECT_EQ(index.next(nullptr, nullptr, {9, 9, 9})->shape, &shapes[2]);
  EXPECT_EQ(index.next(nullptr, nullptr, {0, 4, 4})->shape, &shapes[3]) << "each fits in one amount, not in all";
  EXPECT_EQ(index.next(nullptr, nullptr, {0, 0, 0}), nullptr);
  const auto first = order(0, 1);
  EXPECT_EQ(index.next(&first, nullptr, {9, 9, 9})->shape, &shapes[1]) << "after means after";
  const auto second = order(0, 2);
  EXPECT_EQ(index.next(&first, &second, {9, 9, 9}), nullptr) << "before means before";
  index.erase(order(0, 2));
  EXPECT_EQ(index.next(&first, nullptr, {9, 9, 9})->shape, &shapes[3]);
  EXPECT_EQ(index.size(), 3u);
}

TEST(FrontIndex, AgreesWithLookingAtEveryEntry) {
  SeededRandom random(3);
  FrontIndex<int> index;
  struct Less {
    bool operator()(const RequestOrder& a, const RequestOrder& b) const { return a < b; }
  };
  std::map<RequestOrder, Demand, Less> all;
  int shape = 0;
  for (int step = 0; step < 20'000; ++step) {
    // Grows to several blocks, and occasionally shrinks to nothing.
    const bool grows = (step / 2'000) % 3 != 2;
    const auto at = order(static_cast<int32_t>(random.below(3)), random.below(4'000));
    if (const auto known = all.find(at); known != all.end()) {
      index.erase(at);
      all.erase(known);
    } else if (grows) {
      const Demand demand = asks(random.below(4) == 0 ? kUnit : 0, static_cast<Amount>(random.below(100)),
                                 static_cast<Amount>(random.below(100)));
      index.insert(at, demand, &shape);
      all.emplace(at, demand);
    } else if (!all.empty()) {
      index.erase(all.begin()->first);
      all.erase(all.begin());
    }
    ASSERT_EQ(index.size(), all.size());

    const Amounts most{random.below(2) == 0 ? kUnit : 0, static_cast<Amount>(random.below(30)),
                       static_cast<Amount>(random.below(30))};
    const auto from = order(static_cast<int32_t>(random.below(3)), random.below(4'000));
    const auto until = order(static_cast<int32_t>(random.below(3)), random.below(4'000));
    const bool open_begin = random.below(2) == 0;
    const bool open_end = random.below(2) == 0;
    const RequestOrder* expected = nullptr;
    for (const auto& [key, demand] : all) {
      if ((!open_begin && !(from < key)) || (!open_end && !(key < until))) continue;
      if (!most.holds({demand.gpus, demand.cpus, demand.memory})) continue;
      expected = &key;
      break;
    }
    const auto* found = index.next(open_begin ? nullptr : &from, open_end ? nullptr : &until, most);
    ASSERT_EQ(found == nullptr, expected == nullptr) << step;
    if (found != nullptr) {
      ASSERT_FALSE(found->order < *expected || *expected < found->order) << step;
    }
  }
}

}  // namespace
}  // namespace volador::head
