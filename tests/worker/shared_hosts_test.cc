#include "worker/core/shared_hosts.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/random.h"

namespace volador::worker {
namespace {

class SharedHostsTest : public ::testing::Test {
 protected:
  ~SharedHostsTest() override { hosts_.check_invariants(); }

  static protocol::StartHost order(const std::string& driver, const std::string& program) {
    protocol::StartHost start;
    start.mutable_spec()->set_driver_id(driver);
    start.mutable_program()->set_sha256(program);
    return start;
  }
  HostId add(const std::string& driver = "d", const std::string& program = "p") {
    const auto actor = new_id<HostId>(random_);
    hosts_.add(actor, order(driver, program));
    return actor;
  }

  SeededRandom random_{5};
  SharedHosts hosts_{3};
};

TEST_F(SharedHostsTest, ActorsOfOneDriverAndProgramShareAHost) {
  const HostId first = add();
  EXPECT_EQ(hosts_.process_of(first), first) << "it bears the id of its first actor";
  EXPECT_EQ(hosts_.process_of(add()), first);
  EXPECT_NE(hosts_.process_of(add("other driver")), first);
  EXPECT_NE(hosts_.process_of(add("d", "other program")), first);
}

TEST_F(SharedHostsTest, ARepeatedActorHasItsPlace) {
  const auto actor = new_id<HostId>(random_);
  EXPECT_TRUE(hosts_.add(actor, order("d", "p")).fresh);
  const auto again = hosts_.add(actor, order("d", "p"));
  EXPECT_FALSE(again.fresh);
  EXPECT_EQ(again.process, actor);
  EXPECT_EQ(hosts_.actors(actor), 1);
}

TEST_F(SharedHostsTest, AFullHostIsFollowedByAnother) {
  const HostId first = add();
  add();
  add();
  const HostId fourth = add();
  EXPECT_EQ(hosts_.process_of(fourth), fourth);
  EXPECT_EQ(hosts_.actors(first), 3);
  EXPECT_EQ(hosts_.process_of(add()), fourth);
}

TEST_F(SharedHostsTest, AnotherActorSpeaksWhereTheSpeakerEnds) {
  const HostId first = add(), second = add();
  EXPECT_EQ(hosts_.speaker(first), first);
  hosts_.silence(first);
  EXPECT_EQ(hosts_.speaker(first), second);
  EXPECT_EQ(hosts_.actors(first), 2) << "it is there until its end is certain";
  hosts_.remove(first);
  hosts_.remove(first);
  EXPECT_EQ(hosts_.actors(first), 1);
  hosts_.remove(second);
  EXPECT_EQ(hosts_.speaker(first), std::nullopt);
  const HostId third = add();
  EXPECT_EQ(hosts_.process_of(third), first) << "an empty host that is still there serves again";
  EXPECT_EQ(hosts_.speaker(first), third);
}

TEST_F(SharedHostsTest, AClosedHostTakesNoMoreActors) {
  const HostId first = add();
  hosts_.close(first);
  const HostId second = add();
  EXPECT_EQ(hosts_.process_of(second), second);
  EXPECT_EQ(hosts_.process_of(first), first);
}

TEST_F(SharedHostsTest, AHostThatIsGoneGivesUpItsActors) {
  const HostId first = add(), second = add();
  const auto gone = hosts_.remove_process(first);
  EXPECT_EQ(std::set<HostId>(gone.begin(), gone.end()), (std::set<HostId>{first, second}));
  EXPECT_EQ(hosts_.process_of(second), std::nullopt);
  EXPECT_TRUE(hosts_.remove_process(first).empty());
  const HostId third = add();
  EXPECT_EQ(hosts_.process_of(third), third);
}

}  // namespace
}  // namespace volador::worker
