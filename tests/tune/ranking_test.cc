#include "tune/schedulers/ranking.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "runtime/random.h"
#include "tune/loop/metric_board.h"
#include "tune/loop/trial_index.h"

namespace volador::tune {
namespace {

TEST(Ranking, RanksAndSelectsAsASortedListDoes) {
  for (const uint64_t seed : {1, 2, 3}) {
    SeededRandom random(seed);
    Ranking ranking;
    std::vector<double> sorted;
    for (int i = 0; i < 6'000; ++i) {
      const double key = seed == 1   ? random.real()
                         : seed == 2 ? static_cast<double>(random.below(20))
                                     : static_cast<double>(-i);
      ranking.insert(key);
      sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), key), key);
      const double asked = random.below(2) == 0 ? key : random.real() * 20;
      const auto smaller = std::lower_bound(sorted.begin(), sorted.end(), asked) - sorted.begin();
      ASSERT_EQ(ranking.rank(asked), static_cast<size_t>(smaller)) << "seed " << seed << ", " << i;
      const size_t at = random.below(sorted.size());
      ASSERT_EQ(ranking.at(at), sorted[at]) << "seed " << seed << ", " << i;
    }
    EXPECT_EQ(ranking.size(), sorted.size());
    EXPECT_EQ(ranking.at(0), sorted.front());
    EXPECT_EQ(ranking.at(sorted.size() - 1), sorted.back());
  }
}

TEST(Ranking, OfNothingKnowsNobody) {
  const Ranking ranking;
  EXPECT_EQ(ranking.size(), 0U);
  EXPECT_EQ(ranking.rank(1), 0U);
}

TEST(MetricBoard, KnowsTheLeaderWhateverItsRivalsReport) {
  for (const Mode mode : {Mode::kMax, Mode::kMin}) {
    SeededRandom random(5);
    MetricBoard board("m", mode);
    std::vector<double> last, best;
    EXPECT_FALSE(board.best());
    EXPECT_FALSE(board.best(Scope::kAll));
    for (int i = 0; i < 3'000; ++i) {
      const auto index = random.below(200);
      const double value = random.below(10) == 0 ? std::nan("") : static_cast<double>(random.below(30));
      if (last.size() <= index) last.resize(index + 1, std::nan("")), best.resize(index + 1, std::nan(""));
      last[index] = value;
      if (better(value, best[index], mode)) best[index] = value;
      EXPECT_EQ(board.add(static_cast<int64_t>(index), {{"m", value}}), !std::isnan(value));
      const auto first_of_the_best = [mode](const std::vector<double>& values) {
        std::optional<int64_t> lead;
        for (size_t k = 0; k < values.size(); ++k) {
          if (std::isnan(values[k])) continue;
          if (!lead || better(values[k], values[static_cast<size_t>(*lead)], mode)) lead = static_cast<int64_t>(k);
        }
        return lead;
      };
      ASSERT_EQ(board.best(), first_of_the_best(last)) << i;
      ASSERT_EQ(board.best(Scope::kAll), first_of_the_best(best)) << i;
      board.check_invariants();
    }
  }
}

TEST(MetricBoard, RemembersEveryNameThatWasReported) {
  MetricBoard board("accuracy", Mode::kMax);
  board.add(0, {{"loss", 1}});
  board.add(1, {{"loss", 1}, {"recall", 2}});
  board.add(0, {{"loss", 1}});
  EXPECT_TRUE(board.missing());
  EXPECT_TRUE(board.reported("recall"));
  EXPECT_FALSE(board.reported("accuracy"));
}

TEST(TrialIndex, FindsEachTrialWhereItWasPut) {
  TrialIndex index;
  for (size_t i = 0; i < 10'000; ++i) EXPECT_TRUE(index.insert(TrialId::of(3, static_cast<int64_t>(i)), i));
  EXPECT_FALSE(index.insert(TrialId::of(3, 7), 9));
  EXPECT_EQ(index.find(TrialId::of(3, 7)), 7U);
  EXPECT_EQ(index.find(TrialId::of(3, 10'000)), TrialIndex::kNone);
  EXPECT_EQ(index.size(), 10'000U);
}

}  // namespace
}  // namespace volador::tune
