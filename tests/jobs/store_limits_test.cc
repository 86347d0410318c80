#include "jobs/store/store_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Result<StoreLimits> read_limits(std::string_view days, std::string_view size) {
  return store_limits({.unused_ms = int64_t{14} * 24 * 3'600'000, .bytes_max = 5}, "VOLADOR_ENVIRONMENT", days, size);
}

TEST(StoreLimitsTest, TextsChangeTheDefaults) {
  EXPECT_EQ(read_limits("", "").value().unused_ms, int64_t{14} * 24 * 3'600'000);
  EXPECT_EQ(read_limits("2", "1GiB").value().unused_ms, int64_t{2} * 24 * 3'600'000);
  EXPECT_EQ(read_limits("2", "1GiB").value().bytes_max, int64_t{1} << 30);
  EXPECT_THAT(read_limits("0", "").error().message, HasSubstr("VOLADOR_ENVIRONMENT_DAYS: expected 1 to"));
  EXPECT_THAT(read_limits("", "much").error().message, HasSubstr("VOLADOR_ENVIRONMENT_SIZE"));
}

TEST(StoreLimitsTest, UnusedEntriesAreRemoved) {
  const StoreLimits limits{.unused_ms = 100, .bytes_max = 1000};
  const auto removed = [&](std::vector<StoredEntry> stored) {
    return entries_to_remove(std::move(stored), limits, 1000);
  };
  EXPECT_THAT(removed({}), IsEmpty());
  // Too old, but one in use stays.
  EXPECT_THAT(
      removed({{.key = "a", .used_ms = 899}, {.key = "b", .used_ms = 900}, {.key = "c", .used_ms = 1, .in_use = true}}),
      ElementsAre("a"));
  // What a killed build has left goes, what is being built stays.
  EXPECT_THAT(
      removed({{.key = "a", .used_ms = 1000, .complete = false}, {.key = "b", .complete = false, .in_use = true}}),
      ElementsAre("a"));
  // The longest unused goes until the others fit; the space of one in use counts.
  EXPECT_THAT(removed({{.key = "a", .used_ms = 990, .bytes = 400},
                       {.key = "b", .used_ms = 980, .bytes = 400},
                       {.key = "c", .used_ms = 970, .bytes = 400, .in_use = true},
                       {.key = "d", .used_ms = 1000, .bytes = 100}}),
              ElementsAre("b"));
  EXPECT_THAT(
      removed({{.key = "a", .used_ms = 990, .bytes = 2000, .in_use = true}, {.key = "b", .used_ms = 1000, .bytes = 1}}),
      ElementsAre("b"));
}

}  // namespace
}  // namespace volador::jobs
