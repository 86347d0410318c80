#include "jobs/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr int64_t kHour = int64_t{3600} * 1000;
constexpr int64_t kDay = 24 * kHour;
constexpr int64_t kMidnight = int64_t{20'000} * kDay;  // 2024-10-04.

UsageLedger::Run usage_run(int64_t from, int64_t to, const std::string& project = "vision") {
  return {.from_ms = from,
          .to_ms = to,
          .project = project,
          .owner = "ann",
          .held = *ResourceSet::from({.cpus = 4, .gpus = 0.5, .memory = int64_t{8} << 30})};
}

TEST(UsageLedgerTest, ARunOverMidnightCountsOnBothDays) {
  UsageLedger ledger;
  ledger.add(usage_run(kMidnight - kHour, kMidnight + 2 * kHour));
  const auto reply = ledger.usage("", "", {});
  ASSERT_TRUE(reply);
  ASSERT_THAT(reply->usage(), SizeIs(2));
  EXPECT_EQ(reply->usage(0).day(), "2024-10-03");
  EXPECT_DOUBLE_EQ(reply->usage(0).cpu_hours(), 4);
  EXPECT_DOUBLE_EQ(reply->usage(0).gpu_hours(), 0.5);
  EXPECT_DOUBLE_EQ(reply->usage(0).memory_gib_hours(), 8);
  EXPECT_EQ(reply->usage(0).attempts(), 0);
  EXPECT_EQ(reply->usage(1).day(), "2024-10-04");
  EXPECT_DOUBLE_EQ(reply->usage(1).cpu_hours(), 8);
  EXPECT_EQ(reply->usage(1).attempts(), 1);
}

TEST(UsageLedgerTest, RunningJobsCountSoFarButAreNotKept) {
  UsageLedger ledger;
  ledger.add(usage_run(kMidnight, kMidnight + kHour));
  const auto now =
      ledger.usage("", "", {usage_run(kMidnight, kMidnight + kHour), usage_run(kMidnight, kMidnight + kHour, "x")});
  ASSERT_TRUE(now);
  ASSERT_THAT(now->usage(), SizeIs(2));
  EXPECT_DOUBLE_EQ(now->usage(0).cpu_hours(), 8);
  EXPECT_EQ(now->usage(0).attempts(), 1);
  EXPECT_DOUBLE_EQ(ledger.usage("", "", {})->usage(0).cpu_hours(), 4);
}

TEST(UsageLedgerTest, DaysSelectRowsAndAreChecked) {
  UsageLedger ledger;
  for (int day = 0; day < 5; ++day) ledger.add(usage_run(kMidnight + day * kDay, kMidnight + day * kDay + kHour));
  EXPECT_THAT(ledger.usage("2024-10-05", "2024-10-06", {})->usage(), SizeIs(2));
  EXPECT_THAT(ledger.usage("2024-10-09", "", {})->usage(), IsEmpty());
  EXPECT_THAT(ledger.usage("yesterday", "", {}).error().message,
              HasSubstr("from_day: expected a day such as 2026-11-27, got \"yesterday\""));
  EXPECT_THAT(ledger.usage("", "2024-1-1", {}).error().message, HasSubstr("to_day"));
}

TEST(UsageLedgerTest, ChangedRowsAreWrittenOnceAndReadAgain) {
  UsageLedger ledger;
  ledger.add(usage_run(kMidnight, kMidnight + kHour));
  ledger.add(usage_run(kMidnight, kMidnight + kHour));
  const auto rows = ledger.take_changed();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_THAT(ledger.take_changed(), IsEmpty());
  UsageLedger again;
  ASSERT_TRUE(again.load(rows[0].second));
  EXPECT_FALSE(again.load("no row"));
  EXPECT_EQ(again.usage("", "", {})->SerializeAsString(), ledger.usage("", "", {})->SerializeAsString());
}

TEST(UsageLedgerTest, OldDaysAreDropped) {
  UsageLedger ledger;
  ledger.add(usage_run(kMidnight, kMidnight + kHour));
  (void)ledger.take_changed();
  ledger.add(usage_run(kMidnight + (kUsageDays + 1) * kDay, kMidnight + (kUsageDays + 1) * kDay + kHour));
  EXPECT_THAT(ledger.usage("", "", {})->usage(), SizeIs(1));
  EXPECT_THAT(ledger.take_removed(), SizeIs(1));
}

}  // namespace
}  // namespace volador::jobs
