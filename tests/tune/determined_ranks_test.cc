#include "tune/determined/determined_ranks.h"

#include <gtest/gtest.h>

#include "tune/determined/determined_random.h"

namespace volador::tune::determined {
namespace {

// A sorted vector, searched from its start.
TEST(DeterminedRanks, AreThoseOfAPlainList) {
  for (const auto ties : {RankedEntries::Ties::kAfter, RankedEntries::Ties::kBefore}) {
    Random dice(3);
    RankedEntries entries;
    std::vector<RankedEntry> plain;
    for (uint32_t trial = 0; trial < 4000; ++trial) {
      const RankedEntry entry{static_cast<double>(dice.below(500)), trial, false};
      size_t rank = 0;
      while (rank < plain.size() && (ties == RankedEntries::Ties::kAfter ? plain[rank].metric <= entry.metric
                                                                         : plain[rank].metric < entry.metric))
        ++rank;
      plain.insert(plain.begin() + static_cast<ptrdiff_t>(rank), entry);
      ASSERT_EQ(entries.insert(entry, ties), rank);
      if (dice.below(10) == 0) {
        const auto gone = static_cast<uint32_t>(dice.below(trial + 1));
        std::erase_if(plain, [&](const RankedEntry& one) { return one.trial == gone; });
        entries.erase(gone);
      }
      ASSERT_EQ(entries.size(), plain.size());
      if (plain.empty()) continue;
      const auto pick = static_cast<size_t>(dice.below(static_cast<int64_t>(plain.size())));
      ASSERT_EQ(entries.at(pick).trial, plain[pick].trial);
    }
    std::vector<uint32_t> order;
    entries.each([&](const RankedEntry& one) { order.push_back(one.trial); });
    ASSERT_EQ(order.size(), plain.size());
    for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], plain[i].trial);
  }
}

}  // namespace
}  // namespace volador::tune::determined
