#include "worker/logs/log_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace volador::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int64_t> lines_of(std::string_view text, const LogWanted& wanted, int64_t first = 1) {
  std::vector<int64_t> found;
  find_lines(text, first, wanted, [&](int64_t line, std::string_view) { found.push_back(line); });
  return found;
}

TEST(LogSearch, FindsATextWhateverItsCaseAndALineOnce) {
  constexpr std::string_view kText = "loss 1\nLoss 2, loss 3\n\nno\nLOSS\nloss still being written";
  EXPECT_THAT(lines_of(kText, {.find = "loss"}), ElementsAre(1, 2, 5));
  EXPECT_THAT(lines_of(kText, {.find = "LOSS 2"}), ElementsAre(2));
  EXPECT_THAT(lines_of(kText, {.find = "loss"}, 100), ElementsAre(100, 101, 104));
  EXPECT_THAT(lines_of(kText, {.find = "1\nL"}), IsEmpty()) << "a line holds no line break";
  EXPECT_THAT(lines_of(kText, {}), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(lines_of("", {.find = "loss"}), IsEmpty());
}

TEST(LogSearch, HandsOutTheLineItself) {
  std::vector<std::string> texts;
  find_lines("one\ntwo words\n", 1, {.find = "wor"}, [&](int64_t, std::string_view line) { texts.emplace_back(line); });
  EXPECT_THAT(texts, ElementsAre("two words"));
}

TEST(LogSearch, TroubleIsAWholeWordOrALevelThatALineSays) {
  for (const std::string_view bad :
       {"RuntimeError: no", "an error", "ERROR", "Segmentation fault (core dumped)", "it failed.",
        "Traceback (most recent call last):", "killed by signal 9", "2026-11-23T01:26:28.123Z error head \"lost\""}) {
    EXPECT_EQ(tells_of_trouble(bad), bad != "RuntimeError: no") << bad << ": the word stands alone";
  }
  for (const std::string_view well : {"", "mirrors", "terror", "errors_total 0", "failedover", "loss 0.1",
                                      "2026-11-23T01:26:28.123Z info head \"retried\" error=\"timeout\""}) {
    EXPECT_FALSE(tells_of_trouble(well)) << well;
  }
  EXPECT_TRUE(tells_of_trouble("2026-11-23T01:26:28 error")) << "no line of Volador: its words count";
  EXPECT_THAT(lines_of("fine\nerror here\nfine too\nfatal\n", {.trouble = true}), ElementsAre(2, 4));
  EXPECT_THAT(lines_of("error a\nerror b\nb\n", {.find = "b", .trouble = true}), ElementsAre(2));
}

}  // namespace
}  // namespace volador::worker
