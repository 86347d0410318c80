#include "worker/store/spill_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace volador::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SpillChoice, TakesTheLeastRecentlyUsedUntilThereIsEnough) {
  const std::vector<SpillCandidate> arenas{{0, 10, 7}, {1, 10, 2}, {2, 10, 5}};
  EXPECT_THAT(choose_spill(arenas, 15), ElementsAre(1, 2));
  EXPECT_THAT(choose_spill(arenas, 10), ElementsAre(1));
  EXPECT_THAT(choose_spill(arenas, 0), IsEmpty());
}

TEST(SpillChoice, TakesAllWhereTheyAreNotEnough) {
  const std::vector<SpillCandidate> arenas{{0, 10, 7}, {1, 10, 2}};
  EXPECT_THAT(choose_spill(arenas, 1000), ElementsAre(1, 0));
  EXPECT_THAT(choose_spill({}, 1), IsEmpty());
}

TEST(SpillChoice, LeavesWhatALaterLargeOneMakesNeedless) {
  const std::vector<SpillCandidate> arenas{{0, 1, 1}, {1, 1, 2}, {2, 100, 3}};
  EXPECT_THAT(choose_spill(arenas, 50), ElementsAre(2));
  EXPECT_THAT(choose_spill(arenas, 101), ElementsAre(0, 2));
}

TEST(SpillChoice, GivesEnoughAndNothingNeedlessForAnyCandidates) {
  const auto seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < 2000; ++round) {
    std::vector<SpillCandidate> arenas(random() % 12);
    for (size_t i = 0; i < arenas.size(); ++i) arenas[i] = {i, 1 + static_cast<int64_t>(random() % 50), random() % 20};
    const auto missing = static_cast<int64_t>(random() % 200);
    const auto chosen = choose_spill(arenas, missing);
    int64_t sum = 0;
    for (const size_t index : chosen) sum += arenas[index].bytes;
    const int64_t all = std::accumulate(arenas.begin(), arenas.end(), int64_t{0},
                                        [](int64_t total, const SpillCandidate& one) { return total + one.bytes; });
    ASSERT_GE(sum, std::min(all, missing)) << "seed " << seed;
    if (all < missing) continue;
    for (const size_t index : chosen) ASSERT_LT(sum - arenas[index].bytes, missing) << "seed " << seed;
  }
}

}  // namespace
}  // namespace volador::worker
