#include "head/scheduling/capacity_index.h"

#include <gtest/gtest.h>

#include "runtime/random.h"

namespace volador::head {
namespace {

const auto kAnyLabels = [](uint32_t) { return true; };
const auto kAnyNode = [](CapacityIndex::Slot) { return true; };

Capacity capacity(int64_t gpus, int64_t cpus, int64_t memory = 0) {
  return {.gpus = gpus * kUnit, .cpus = cpus * kUnit, .memory = memory, .custom = {}, .devices_free = gpus};
}
Demand demand(int64_t gpus, int64_t cpus, int64_t memory = 0) {
  return {.gpus = gpus * kUnit, .cpus = cpus * kUnit, .memory = memory, .custom = {}};
}

TEST(CapacityIndexTest, FindsTheFullestThatFitsAndTheFirstOfEquals) {
  CapacityIndex index;
  index.set(1, capacity(0, 8));
  index.set(2, capacity(0, 2));
  index.set(3, capacity(0, 2));
  index.set(4, capacity(2, 4));
  EXPECT_EQ(index.find(demand(0, 1), kAnyLabels, kAnyNode), 2u);
  EXPECT_EQ(index.find(demand(0, 3), kAnyLabels, kAnyNode), 1u);  // Not the one with GPUs.
  EXPECT_EQ(index.find(demand(1, 1), kAnyLabels, kAnyNode), 4u);
  EXPECT_EQ(index.find(demand(3, 1), kAnyLabels, kAnyNode), std::nullopt);
  index.set(2, capacity(0, 0));
  index.remove(3);
  index.remove(3);
  EXPECT_EQ(index.find(demand(0, 1), kAnyLabels, kAnyNode), 1u);
}

TEST(CapacityIndexTest, AFractionNeedsADeviceThatHasIt) {
  Capacity halves{.gpus = kUnit, .cpus = 0, .memory = 0, .custom = {}, .devices_free = 0, .largest_part = kUnit / 2};
  CapacityIndex index;
  index.set(1, halves);  // Two GPUs, half of each in use.
  EXPECT_EQ(index.find({.gpus = kUnit, .custom = {}}, kAnyLabels, kAnyNode), std::nullopt);
  EXPECT_EQ(index.find({.gpus = kUnit / 2, .custom = {}}, kAnyLabels, kAnyNode), 1u);
  EXPECT_EQ(index.find({.gpus = kUnit / 2 + 1, .custom = {}}, kAnyLabels, kAnyNode), std::nullopt);
}

TEST(CapacityIndexTest, AgreesWithLookingAtEveryNode) {
  SeededRandom random(11);
  CapacityIndex index;
  std::map<CapacityIndex::Slot, Capacity> all;
  for (int step = 0; step < 4000; ++step) {
    const auto slot = static_cast<CapacityIndex::Slot>(random.below(60));
    if (random.below(4) == 0) {
      index.remove(slot);
      all.erase(slot);
    } else {
      Capacity free = capacity(static_cast<int64_t>(random.below(3)), static_cast<int64_t>(random.below(4)),
                               static_cast<int64_t>(random.below(3)));
      if (random.below(3) == 0) free.custom = {static_cast<Amount>(random.below(3))};
      index.set(slot, free);
      all[slot] = free;
    }
    Demand wanted = demand(static_cast<int64_t>(random.below(3)), static_cast<int64_t>(random.below(4)),
                           static_cast<int64_t>(random.below(3)));
    if (random.below(3) == 0) wanted.custom = {static_cast<Amount>(random.below(3))};
    std::optional<CapacityIndex::Slot> best;
    for (const auto& [candidate, free] : all) {
      if (wanted.fits(free) && (!best || free < all.at(*best))) best = candidate;
    }
    ASSERT_EQ(index.find(wanted, kAnyLabels, kAnyNode), best);
    ASSERT_EQ(index.size(), all.size());
  }
}

}  // namespace
}  // namespace volador::head
