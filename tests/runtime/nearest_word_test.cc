#include "runtime/nearest_word.h"

#include <gtest/gtest.h>

#include <vector>

namespace volador {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("port", "prot"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("start", "start"), 0u);
}

TEST(EditDistance, IsSymmetric) {
  const std::vector<std::string> words{"", "a", "start", "status", "stop", "strat"};
  for (const auto& a : words)
    for (const auto& b : words) EXPECT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << " " << b;
}

TEST(NearestWord, NamesWhatWasMeantAndNothingElse) {
  const std::vector<std::string> words{"start", "stop", "status", "list", "logs"};
  EXPECT_EQ(nearest_word("strat", words), "start");
  EXPECT_EQ(nearest_word("sttus", words), "status");
  EXPECT_EQ(nearest_word("log", words), "logs");
  EXPECT_EQ(nearest_word("explain", words), std::nullopt);
  EXPECT_EQ(nearest_word("x", words), std::nullopt);
  EXPECT_EQ(nearest_word(std::string(100'000, 's'), words), std::nullopt);
  EXPECT_EQ(did_you_mean("lsit", words), "; did you mean list?");
  EXPECT_EQ(did_you_mean("zzzzz", words), "");
}

}  // namespace
}  // namespace volador
