#include "head/scheduling/resource_ledger.h"

#include <gtest/gtest.h>

#include "runtime/random.h"

namespace volador::head {
namespace {

const NodeId kLedgerNode{{1}};

ActorId holder(uint8_t number) { return ActorId{{number}}; }
ResourceSet asks(double cpus, double gpus = 0) { return *ResourceSet::from({.cpus = cpus, .gpus = gpus}); }

class ResourceLedgerTest : public testing::Test {
 protected:
  ResourceLedgerTest() { ledger.set_node(kLedgerNode, asks(4), {0, 1, 2}); }
  ~ResourceLedgerTest() override { ledger.check_invariants(); }
  ResourceLedger ledger;
};

TEST_F(ResourceLedgerTest, AFractionGoesOntoTheFullestDeviceThatHasIt) {
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(1), asks(0, 0.5)), std::vector{0});
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(2), asks(0, 0.7)), std::vector{1});
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(3), asks(0, 0.3)), std::vector{1});  // 0.7 in use is fuller than 0.5.
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(4), asks(0, 0.5)), std::vector{0});
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(5), asks(0, 1)), std::vector{2});
  EXPECT_FALSE(ledger.grant(kLedgerNode, holder(6), asks(0, 0.0001)));
}

TEST_F(ResourceLedgerTest, WholeDevicesComeFromThoseThatNobodyUses) {
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(1), asks(0, 0.1)), std::vector{0});
  EXPECT_EQ(ledger.grant(kLedgerNode, holder(2), asks(0, 2)), (std::vector{1, 2}));
  EXPECT_FALSE(ledger.grant(kLedgerNode, holder(3), asks(0, 1)));  // 0.9 is free.
  EXPECT_EQ(ledger.find(kLedgerNode)->devices_free(), 0);
  EXPECT_EQ(ledger.find(kLedgerNode)->largest_part(), 9 * kUnit / 10);
}

TEST_F(ResourceLedgerTest, NothingIsEverGrantedTwice) {
  EXPECT_TRUE(ledger.grant(kLedgerNode, holder(1), asks(3)));
  EXPECT_FALSE(ledger.grant(kLedgerNode, holder(1), asks(1)));
  EXPECT_FALSE(ledger.grant(kLedgerNode, holder(2), asks(1.0001)));
  EXPECT_EQ(ledger.release(holder(1)), kLedgerNode);
  EXPECT_EQ(ledger.release(holder(1)), std::nullopt);
  EXPECT_TRUE(ledger.used().empty());
}

TEST_F(ResourceLedgerTest, AdoptTakesExactlyTheDevicesOfTheEarlierGrant) {
  EXPECT_TRUE(ledger.adopt(kLedgerNode, holder(1), asks(1, 0.5), {2}));
  EXPECT_FALSE(ledger.adopt(kLedgerNode, holder(1), asks(1, 0.5), {2}));
  EXPECT_FALSE(ledger.adopt(kLedgerNode, holder(2), asks(0, 1), {2}));
  EXPECT_FALSE(ledger.adopt(kLedgerNode, holder(2), asks(0, 2), {1, 1}));
  EXPECT_FALSE(ledger.adopt(kLedgerNode, holder(2), asks(0, 1), {7}));
  EXPECT_FALSE(ledger.adopt(kLedgerNode, holder(2), asks(0, 1), {}));
  EXPECT_TRUE(ledger.adopt(kLedgerNode, holder(2), asks(0, 0.5), {2}));
  // CPUs lent by an earlier head while their holder waited are now held twice.
  EXPECT_TRUE(ledger.adopt(kLedgerNode, holder(3), asks(9), {}));
  EXPECT_LT(ledger.find(kLedgerNode)->free.get("cpus"), 0);
  EXPECT_FALSE(ledger.grant(kLedgerNode, holder(4), asks(1)).has_value());
  EXPECT_TRUE(ledger.grant(kLedgerNode, holder(4), {}).has_value());
}

TEST_F(ResourceLedgerTest, CpusAreLentOnceAndTakenBackOnce) {
  EXPECT_TRUE(ledger.grant(kLedgerNode, holder(1), asks(3, 1)).has_value());
  EXPECT_EQ(ledger.lend_cpus(holder(1)), kLedgerNode);
  EXPECT_EQ(ledger.lend_cpus(holder(1)), std::nullopt);
  EXPECT_EQ(ledger.used(), asks(0, 1));
  EXPECT_EQ(ledger.take_back_cpus(holder(1)), kLedgerNode);
  EXPECT_EQ(ledger.take_back_cpus(holder(1)), std::nullopt);
  EXPECT_EQ(ledger.used(), asks(3, 1));
  EXPECT_TRUE(ledger.grant(kLedgerNode, holder(2), {}).has_value());
  EXPECT_EQ(ledger.lend_cpus(holder(2)), std::nullopt) << "it holds none";
  ledger.lend_cpus(holder(1));
  ledger.release(holder(1));
  EXPECT_TRUE(ledger.used().empty());
}

TEST_F(ResourceLedgerTest, ANodeTakesItsGrantsWithIt) {
  ledger.grant(kLedgerNode, holder(1), asks(3, 1));
  ledger.remove_node(kLedgerNode);
  ledger.remove_node(kLedgerNode);
  EXPECT_TRUE(ledger.total().empty());
  EXPECT_TRUE(ledger.used().empty());
  EXPECT_EQ(ledger.node_of(holder(1)), std::nullopt);
}

TEST_F(ResourceLedgerTest, AnyOrderOfGrantsAndReleasesKeepsTheSums) {
  SeededRandom random(3);
  for (int step = 0; step < 2000; ++step) {
    const ActorId who = holder(static_cast<uint8_t>(random.below(12)));
    if (random.below(2) == 0) {
      const double gpus[] = {0, 0.1, 0.25, 0.5, 1, 2};
      ledger.grant(kLedgerNode, who, asks(static_cast<double>(random.below(8)) / 4, gpus[random.below(6)]));
    } else {
      ledger.release(who);
    }
    ledger.check_invariants();
  }
}

}  // namespace
}  // namespace volador::head
