#include "runtime/store/free_list.h"

#include <gtest/gtest.h>

#include <map>

#include "runtime/random.h"

namespace volador {
namespace {

TEST(FreeList, RangesAreAlignedAndDoNotOverlap) {
  FreeList list(1024);
  EXPECT_EQ(list.allocate(1), 0u);
  EXPECT_EQ(list.allocate(65), 64u);
  EXPECT_EQ(list.allocate(10), 192u);
  EXPECT_EQ(list.used(), 256u);
}

TEST(FreeList, TheSmallestHoleThatFitsIsTaken) {
  FreeList list(1024);
  const auto a = list.allocate(256);
  const auto b = list.allocate(64);
  ASSERT_TRUE(list.allocate(64));
  list.free(*a);
  list.free(*b);
  ASSERT_TRUE(list.allocate(640)) << "neighbours were not joined, or the wrong hole was taken before";
  EXPECT_EQ(list.allocate(320), 0u);
}

TEST(FreeList, NothingIsGivenWhereNothingFits) {
  FreeList list(256);
  EXPECT_FALSE(list.allocate(257));
  ASSERT_TRUE(list.allocate(256));
  EXPECT_FALSE(list.allocate(1));
}

TEST(FreeList, RandomUseKeepsItsInvariants) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    FreeList list(1 << 16);
    std::map<size_t, size_t> taken;
    for (int step = 0; step < 500; ++step) {
      if (taken.empty() || random.below(3) > 0) {
        const size_t bytes = 1 + random.below(4000);
        const auto offset = list.allocate(bytes);
        if (!offset) continue;
        const auto next = taken.lower_bound(*offset);
        ASSERT_TRUE(next == taken.end() || *offset + bytes <= next->first);
        ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= *offset);
        taken.emplace(*offset, bytes);
      } else {
        auto gone = taken.begin();
        std::advance(gone, static_cast<long>(random.below(taken.size())));
        list.free(gone->first);
        taken.erase(gone);
      }
      list.check_invariants();
    }
    for (const auto& [offset, bytes] : taken) list.free(offset);
    list.check_invariants();
    EXPECT_TRUE(list.is_empty());
    EXPECT_TRUE(list.allocate(1 << 16)) << "the holes were not joined again";
  }
}

}  // namespace
}  // namespace volador
