#include "jobs/job_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// ---- idempotence ----

// A history with all kinds of events; returns everything that a user, the journal and the head can see of it.
struct CoreHistory : JobCoreOnTwoNodesTest {
  void TestBody() override {}
  std::vector<std::string> play(bool twice) {
    twice_ = twice;
    v1::JobSpec pair = core_spec(4, 2);
    pair.set_max_restarts(1);
    pair.set_duration_s(100);
    const std::string first = submit(pair);
    const std::string second = submit(core_spec(2));
    ready(first);
    run(first);
    look();
    exits(first, 4, 1);
    killed(first, 0);
    process_ends(first, 0);
    ready(first);
    run(first);
    look();
    now_ += 100'000;
    tick();
    killed_and_gone(first);
    run(second);
    ends(actor(second), core_cause(CoreCause::NODE_LOST));
    look();
    run(second);
    stop(second);
    killed(second);
    process_ends(second);
    const std::string third = submit(core_spec(1));
    run(third);
    ends(actor(third), core_cause(CoreCause::SIGNALED, 9));
    std::vector<std::string> seen{state(first), state(second), state(third)};
    for (const std::string& id : {first, second, third}) seen.push_back(record(id).DebugString());
    for (const auto& each : sent_) seen.push_back(each.DebugString());
    return seen;
  }
};

TEST(JobCoreEventsTest, AnEventDeliveredTwiceChangesNothing) {
  const std::vector<std::string> once = CoreHistory().play(false);
  const std::vector<std::string> twice = CoreHistory().play(true);
  EXPECT_EQ(once[0], "expired");
  EXPECT_EQ(once[1], "stopped");
  EXPECT_EQ(once[2], "failed");
  EXPECT_EQ(once, twice);
}

TEST_F(JobCoreOnTwoNodesTest, AnOlderVersionOfAnActorIsIgnored) {
  const std::string id = running(core_spec(1));
  protocol::HeadMessage old;
  old.mutable_actor()->set_actor_id(raw(actor(id)));
  old.mutable_actor()->set_state(protocol::DEAD);
  old.mutable_actor()->set_version(version_ - 1);
  message(old);
  EXPECT_EQ(job(id).ranks(0).state(), "running");
  EXPECT_EQ(state(id), "running");
}

TEST_F(JobCoreOnTwoNodesTest, MessagesAboutOtherActorsAreIgnored) {
  const std::string id = running(core_spec(1));
  const size_t before = rows_written_;
  tell(new_id<ActorId>(random_), protocol::DEAD, core_cause(CoreCause::EXITED, 1));
  protocol::HeadMessage out;
  out.mutable_reply()->set_request_id("unknown");
  out.mutable_reply()->mutable_error()->set_code(2);
  message(out);
  EXPECT_EQ(rows_written_, before);
  EXPECT_EQ(state(id), "running");
}

// ---- restarts of the head ----

TEST_F(JobCoreOnTwoNodesTest, AQueuedJobGoesOnAfterARestart) {
  const std::string first = running(core_spec(4, 2));
  const std::string id = submit(core_spec(4));
  restart();
  EXPECT_TRUE(core_->any_open());
  EXPECT_EQ(state(id), "queued");
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("watch", "watch"));
  look();
  EXPECT_EQ(job(id).position(), 1);
  exits(first, 0, 0);
  exits(first, 0, 1);
  look();
  EXPECT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(submit(core_spec(1)), "job-3");
}

TEST_F(JobCoreOnTwoNodesTest, AJobQueuedAgainGoesOnAfterARestart) {
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_max_restarts(1);
  const std::string id = running(spec);
  exits(id, 1, 0);
  killed(id, 1);
  processes_.clear();
  core_->on_cluster(ClusterState{.view = {}, .addresses = {}, .gone = {actor(id, 1)}}, now_);
  settle();
  ASSERT_EQ(state(id), "queued");
  restart();
  connect();
  sent_.clear();
  look();
  EXPECT_THAT(sent_kinds(), ElementsAre("create_group", "find_group"));
  EXPECT_EQ(job(id).restarts(), 1);
  ready(id);
  EXPECT_EQ(job(id).ranks(0).attempt(), 2);
}

TEST_F(JobCoreOnTwoNodesTest, AJobThatIsPlacedIsRequestedAgainAfterARestart) {
  const std::string id = submit(core_spec(2));
  const std::vector<protocol::SpawnActor> before = spawns();
  restart();
  EXPECT_THAT(sent_, IsEmpty());
  look();
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("spawn"));
  EXPECT_EQ(spawns()[0].DebugString(), before[0].DebugString());
  run(id);
  EXPECT_EQ(state(id), "running");
  exits(id, 0);
  EXPECT_EQ(state(id), "succeeded");
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseGroupIsPendingIsRequestedAgainAfterARestart) {
  const std::string id = submit(core_spec(4, 2));
  const std::string group = record(id).group_id();
  restart();
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("create_group", "find_group"));
  EXPECT_EQ(sent_[0].create_group().spec().group_id(), group);
  sent_.clear();
  ready(id);
  EXPECT_THAT(spawns(), SizeIs(2));
  run(id);
  EXPECT_EQ(state(id), "running");
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseGroupIsPendingKeepsItsRoomAfterARestart) {
  submit(core_spec(4, 2));
  restart();
  connect();
  look();
  sent_.clear();
  const std::string second = submit(core_spec(4));
  EXPECT_THAT(spawns(), IsEmpty());
  EXPECT_EQ(job(second).position(), 1);
}

TEST_F(JobCoreOnTwoNodesTest, RanksOfAReadyGroupAreRequestedAgainAfterARestart) {
  const std::string id = submit(core_spec(4, 2));
  ready(id, {"elm", "oak"});
  const ActorId first = actor(id, 0);
  restart();
  look();
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("spawn", "spawn"));
  EXPECT_EQ(spawns()[0].spec().actor_id(), raw(first));
  EXPECT_EQ(start_of(spawns()[1]).env.at("MASTER_ADDR"), "elm.example");
  run(id);
  EXPECT_EQ(state(id), "running");
}

TEST_F(JobCoreOnTwoNodesTest, ARunningJobIsWatchedAfterARestart) {
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_duration_s(60);
  const std::string id = running(spec);
  restart();
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("watch", "watch"));
  EXPECT_EQ(core_->deadline_ms(), kCoreStart + 60'000);
  look();
  EXPECT_EQ(state(id), "running");
  exits(id, 0, 0);
  exits(id, 6, 1);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 6);
}

TEST_F(JobCoreOnTwoNodesTest, AnEndingJobIsEndedAgainAfterARestart) {
  const std::string id = running(core_spec(4, 2));
  stop(id);
  restart();
  EXPECT_TRUE(job(id).stopping());
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("watch", "watch", "kill", "kill"));
  killed(id, 0);
  killed(id, 1);
  EXPECT_THAT(core_->ending(), SizeIs(2));
  process_ends(id, 0);
  EXPECT_EQ(state(id), "running");
  process_ends(id, 1);
  EXPECT_EQ(state(id), "stopped");
}

TEST_F(JobCoreOnTwoNodesTest, AnEndedJobStaysEndedAfterARestart) {
  const std::string id = running(core_spec(1));
  exits(id, 3);
  const std::string before = job(id).DebugString();
  restart();
  EXPECT_FALSE(core_->any_open());
  connect();
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_THAT(spawns(), IsEmpty());
  EXPECT_EQ(job(id).DebugString(), before);
}

TEST_F(JobCoreOnTwoNodesTest, ALostConnectionIsTheSameWithoutARestart) {
  const std::string runs = running(core_spec(1));
  const std::string pending = submit(core_spec(2));
  const std::string queued = submit(core_spec(4, 2));
  EXPECT_EQ(job(queued).position(), 1);
  sent_.clear();
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("watch", "spawn"));
  EXPECT_EQ(spawns()[0].spec().actor_id(), raw(actor(pending)));
}

// Messages are dropped while there is no connection.
TEST_F(JobCoreOnTwoNodesTest, AGroupIsRemovedAlsoIfItsJobEndsWithoutAConnection) {
  const std::string id = submit(core_spec(4, 2));
  const std::string group = record(id).group_id();
  EXPECT_EQ(stop(id)->state(), "stopped");
  sent_.clear();
  restart();
  connect();
  ASSERT_THAT(sent_kinds(), ElementsAre("remove_group"));
  EXPECT_EQ(sent_[0].remove_group().group_id(), group);
}

TEST_F(JobCoreOnTwoNodesTest, TheNumberOfADeletedJobIsNotUsedAgain) {
  submit(core_spec(1));
  const std::string id = running(core_spec(1));
  exits(id, 0);
  EXPECT_TRUE(remove(id));
  restart();
  EXPECT_EQ(submit(core_spec(1)), "job-3");
}

TEST_F(JobCoreTest, UnreadableRowsAreRefused) {
  EXPECT_FALSE(core_->load(kJobsTable, "x", "no record"));
  EXPECT_FALSE(core_->load(kJobsTable, "x", ""));
  EXPECT_FALSE(core_->load("other", "x", ""));
  EXPECT_FALSE(core_->load(kJobsHeadTable, "driver", "short"));
}

TEST_F(JobCoreTest, AnotherProgramIsAnotherDriver) {
  EXPECT_TRUE(core_->driver().is_nil());
  core_->use_program("first");
  settle();
  const DriverId first = core_->driver();
  EXPECT_FALSE(first.is_nil());
  core_->use_program("first");
  settle();
  EXPECT_EQ(core_->driver(), first);
  EXPECT_EQ(rows_written_, 2U);
  restart();
  EXPECT_EQ(core_->driver(), first);
  core_->use_program("first");
  EXPECT_EQ(core_->driver(), first);
  core_->use_program("second");
  settle();
  const DriverId second = core_->driver();
  EXPECT_NE(second, first);
  restart();
  EXPECT_EQ(core_->driver(), second);
}

}  // namespace
}  // namespace volador::jobs
