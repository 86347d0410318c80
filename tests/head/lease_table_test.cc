#include "head/nodes/lease_table.h"

#include <gtest/gtest.h>

namespace volador::head {
namespace {

using namespace std::chrono_literals;

const NodeId kFirst{{1}};
const NodeId kSecond{{2}};
constexpr BootTime kStart{1000s};

TEST(LeaseTableTest, ALeaseEndsItsSpanAfterTheLastAcknowledgement) {
  LeaseTable leases(4000ms);
  leases.acknowledged(kFirst, kStart);
  leases.acknowledged(kFirst, kStart + 1s);
  leases.acknowledged(kFirst, kStart);  // Late: no effect.
  EXPECT_TRUE(leases.ended(kStart + 4999ms).empty());
  EXPECT_EQ(leases.ended(kStart + 5000ms), std::vector{kFirst});
  EXPECT_EQ(leases.ends(kFirst), kStart + 5s);
}

TEST(LeaseTableTest, AnAwaitedNodeHasUntilTheWindowEnds) {
  LeaseTable leases(4000ms);
  leases.await(kSecond, kStart + 10s);
  leases.await(kFirst, kStart + 10s);
  EXPECT_TRUE(leases.ended(kStart + 9999ms).empty());
  EXPECT_EQ(leases.ended(kStart + 10s), (std::vector{kFirst, kSecond}));
}

TEST(LeaseTableTest, TheHeadsOwnPauseCountsAsHearingEverybody) {
  LeaseTable leases(4000ms);
  leases.acknowledged(kFirst, kStart);
  leases.own_pause(kStart + 30s);
  EXPECT_TRUE(leases.ended(kStart + 33s).empty());
  EXPECT_EQ(leases.ended(kStart + 34s), std::vector{kFirst});
}

TEST(LeaseTableTest, AForgottenNodeHasNoLease) {
  LeaseTable leases(4000ms);
  leases.acknowledged(kFirst, kStart);
  leases.forget(kFirst);
  leases.forget(kFirst);
  EXPECT_TRUE(leases.ended(kStart + 1h).empty());
  EXPECT_EQ(leases.ends(kFirst), BootTime{});
}

}  // namespace
}  // namespace volador::head
