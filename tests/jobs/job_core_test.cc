#include "jobs/job_core.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "jobs/job_spec.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/random.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Two nodes with 4 GPUs each.
class JobCoreOnTwoNodesTest : public JobCoreTest {
 protected:
  explicit JobCoreOnTwoNodesTest(JobLimits limits = {}) : JobCoreTest(limits) {
    node("oak", 4);
    node("elm", 4);
    look();
    sent_.clear();
  }
};

// ---- starts ----

TEST_F(JobCoreOnTwoNodesTest, AJobOnOneNodeBecomesOneActor) {
  v1::JobSpec spec = core_spec(2);
  spec.set_cpus(3);
  spec.set_memory_bytes(1 << 30);
  (*spec.mutable_env())["SEED"] = "5";
  spec.set_setup("pip list");
  spec.set_files_sha256("0102" + std::string(56, '0') + "feff");
  const auto reply = try_submit(spec, kCoreAnn, false, 4711);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->job().id(), "job-1");
  EXPECT_EQ(reply->job().owner(), "ann");
  ASSERT_THAT(sent_kinds(), ElementsAre("spawn"));
  const protocol::SpawnActor spawn = spawns().front();
  EXPECT_EQ(spawn.request_id(), spawn.spec().actor_id());
  EXPECT_EQ(id_from_raw<ActorId>(spawn.spec().actor_id()), actor("job-1"));
  EXPECT_EQ(volador::resources_of(spawn.spec().resources()),
            *ResourceSet::from({.cpus = 3, .gpus = 2, .memory = 1 << 30}));
  EXPECT_TRUE(spawn.spec().detached());
  EXPECT_EQ(spawn.spec().class_name(), command_class());
  EXPECT_EQ(spawn.spec().display(), "job-1");
  EXPECT_EQ(spawn.spec().max_restarts(), 0);
  EXPECT_EQ(spawn.spec().files_sha256(),
            std::string("\x01\x02", 2) + std::string(28, '\0') + std::string("\xfe\xff", 2));
  EXPECT_EQ(spawn.spec().files_bytes(), 4711);
  EXPECT_TRUE(spawn.spec().group_id().empty());
  const CommandStart start = start_of(spawn);
  EXPECT_EQ(start.job, "job-1");
  EXPECT_THAT(start.command, ElementsAre("python3", "train.py"));
  EXPECT_EQ(start.setup, "pip list");
  EXPECT_EQ(start.env.at("SEED"), "5");
  EXPECT_EQ(start.env.at("VOLADOR_JOB_RANK"), "0");
  EXPECT_TRUE(core_->needs_files(spec.files_sha256()));
  EXPECT_EQ(state("job-1"), "queued");
  run("job-1");
  EXPECT_EQ(state("job-1"), "running");
  EXPECT_EQ(job("job-1").started_ms(), now_);
  EXPECT_EQ(job("job-1").ranks(0).state(), "running");
}

TEST_F(JobCoreOnTwoNodesTest, RanksKnowTheirPeersByNameAndLaunchersUseTheNames) {
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_mode("mpi");
  const std::string id = submit(spec);
  sent_.clear();
  ready(id, {"elm", "oak"});
  ASSERT_THAT(spawns(), SizeIs(2));
  for (const auto& spawn : spawns()) {
    const CommandStart start = start_of(spawn);
    EXPECT_THAT(start.peer_names, ElementsAre("server1", "server2"));
    EXPECT_THAT(start.peer_nodes, ElementsAre("elm", "oak"));
    EXPECT_THAT(start.peer_addresses, ElementsAre("elm.example", "oak.example"));
    EXPECT_THAT(start.peer_actors, ElementsAre(to_string(actor(id, 0)), to_string(actor(id, 1))));
    EXPECT_EQ(start.files.at("hostfile"), "server1 slots=4\nserver2 slots=4\n");
    EXPECT_EQ(start.command.empty(), start.rank != 0);
  }
}

TEST_F(JobCoreOnTwoNodesTest, AJobOnTwoNodesGetsAGroupAndThenItsRanks) {
  const std::string id = submit(core_spec(4, 2));
  ASSERT_THAT(sent_kinds(), ElementsAre("create_group", "find_group"));
  const protocol::CreateGroup create = sent_[0].create_group();
  EXPECT_EQ(create.request_id(), create.spec().group_id());
  EXPECT_EQ(create.spec().strategy(), protocol::STRICT_SPREAD);
  EXPECT_TRUE(create.spec().detached());
  ASSERT_EQ(create.spec().bundles_size(), 2);
  for (const auto& bundle : create.spec().bundles())
    EXPECT_EQ(volador::resources_of(bundle), *ResourceSet::from({.cpus = 1, .gpus = 4}));
  EXPECT_EQ(sent_[1].find_group().group_id(), create.spec().group_id());
  EXPECT_TRUE(sent_[1].find_group().when_ready());
  sent_.clear();
  ready(id, {"elm", "oak"});
  ASSERT_THAT(sent_kinds(), ElementsAre("spawn", "spawn"));
  for (int rank = 0; rank < 2; ++rank) {
    const protocol::SpawnActor spawn = spawns()[static_cast<size_t>(rank)];
    EXPECT_EQ(spawn.spec().group_id(), create.spec().group_id());
    EXPECT_EQ(spawn.spec().bundle(), rank);
    const CommandStart start = start_of(spawn);
    EXPECT_EQ(start.rank, rank);
    EXPECT_EQ(start.env.at("MASTER_ADDR"), "elm.example");
    EXPECT_EQ(start.env.at("RANK"), std::to_string(rank));
    EXPECT_EQ(start.env.at("WORLD_SIZE"), "2");
    EXPECT_EQ(start.env.at("VOLADOR_JOB_HOSTS"), "elm.example,oak.example");
  }
  EXPECT_EQ(job(id).ranks(0).node(), "elm");
  EXPECT_EQ(job(id).ranks(1).node(), "oak");
}

TEST_F(JobCoreOnTwoNodesTest, AJobRunsWhenAllItsRanksRun) {
  const std::string id = submit(core_spec(4, 2));
  ready(id);
  tell(actor(id, 0), protocol::ALIVE);
  EXPECT_EQ(state(id), "queued");
  tell(actor(id, 1), protocol::STARTING);
  EXPECT_EQ(state(id), "queued");
  now_ += 10;
  tell(actor(id, 1), protocol::ALIVE);
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(job(id).started_ms(), now_);
}

TEST_F(JobCoreOnTwoNodesTest, AReplyWithAPendingGroupStartsNothing) {
  const std::string id = submit(core_spec(4, 2));
  sent_.clear();
  protocol::HeadMessage out;
  out.mutable_reply()->set_request_id(record(id).group_id());
  out.mutable_reply()->mutable_group()->set_state(protocol::GROUP_PENDING);
  message(out);
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(JobCoreOnTwoNodesTest, AJobWithoutRoomWaitsAndSaysFor) {
  running(core_spec(4));
  running(core_spec(3));
  const std::string id = submit(core_spec(2));
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(state(id), "queued");
  EXPECT_EQ(job(id).position(), 1);
  EXPECT_THAT(job(id).reason(), HasSubstr("gpus 2"));
  const std::string next = submit(core_spec(4));
  EXPECT_EQ(job(next).position(), 2);
  EXPECT_THAT(job(next).reason(), HasSubstr(id));
}

TEST_F(JobCoreOnTwoNodesTest, AQueuedJobStartsWhenRoomIsFree) {
  const std::string first = running(core_spec(4, 2));
  const std::string id = submit(core_spec(4));
  exits(first, 0, 0);
  EXPECT_THAT(spawns(), IsEmpty());
  exits(first, 0, 1);
  EXPECT_TRUE(looks_);
  look();
  EXPECT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(job(id).position(), 0);
}

TEST_F(JobCoreOnTwoNodesTest, ARoomIsGivenToOneJobOfAView) {
  const std::string first = submit(core_spec(4, 2));
  const std::string second = submit(core_spec(4));
  EXPECT_EQ(job(second).position(), 1);
  EXPECT_THAT(spawns(), IsEmpty());
  look();
  EXPECT_EQ(job(second).position(), 1);
}

// The actor starts after the view was read: the view still shows its room as free.
TEST_F(JobCoreOnTwoNodesTest, ARoomStaysTakenUntilAViewShowsTheActors) {
  node("fir", 8);
  look();
  const std::string first = submit(core_spec(8));
  run(first);
  sent_.clear();
  const std::string second = submit(core_spec(8));
  EXPECT_THAT(spawns(), IsEmpty());
  EXPECT_EQ(job(second).position(), 1);
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseRoomOnlyActorsUseGoesToTheHeadsScheduler) {
  others_["oak"] = *ResourceSet::from({.gpus = 3});
  others_["elm"] = *ResourceSet::from({.gpus = 3});
  look();
  const std::string id = submit(core_spec(4));
  ASSERT_THAT(sent_kinds(), ElementsAre("spawn"));
  EXPECT_EQ(state(id), "queued");
  EXPECT_EQ(job(id).position(), 0);
  EXPECT_THAT(job(id).reason(), HasSubstr("actors and trials use"));
  // The head's scheduler has to make the room of the next one too: the other node has no job.
  const std::string second = submit(core_spec(4));
  EXPECT_EQ(job(second).position(), 0);
  // The rooms of both nodes are spoken for.
  const std::string third = submit(core_spec(4));
  EXPECT_EQ(job(third).position(), 1);
  EXPECT_THAT(spawns(), SizeIs(2));
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseRoomJobsUseStaysInTheQueue) {
  running(core_spec(4));
  running(core_spec(1));
  others_["elm"] = *ResourceSet::from({.gpus = 1});
  look();
  const std::string id = submit(core_spec(4));
  EXPECT_THAT(spawns(), IsEmpty());
  EXPECT_EQ(job(id).position(), 1);
}

TEST_F(JobCoreTest, BeforeTheFirstViewJobsWaitAndALookIsWanted) {
  const std::string id = submit(core_spec(64));
  EXPECT_TRUE(looks_);
  EXPECT_THAT(sent_, IsEmpty());
  node("oak", 64);
  look();
  EXPECT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(job(id).position(), 0);
}

TEST_F(JobCoreTest, AJobSubmittedToAClusterWithoutNodesWaits) {
  look();
  const auto reply = try_submit(core_spec(1));
  ASSERT_TRUE(reply) << reply.error().message;
  node("oak", 4);
  look();
  EXPECT_THAT(spawns(), SizeIs(1));
}

// ---- ends ----

TEST_F(JobCoreOnTwoNodesTest, ExitCodeZeroIsSuccess) {
  const std::string id = running(core_spec(1));
  now_ += 5000;
  exits(id, 0);
  EXPECT_EQ(state(id), "succeeded");
  EXPECT_EQ(job(id).exit_code(), 0);
  EXPECT_EQ(job(id).ended_ms(), now_);
  EXPECT_EQ(job(id).ranks(0).state(), "ended");
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_FALSE(core_->any_open());
}

TEST_F(JobCoreOnTwoNodesTest, AnotherExitCodeIsFailure) {
  const std::string id = running(core_spec(1));
  exits(id, 3);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 3);
  EXPECT_EQ(job(id).ranks(0).exit_code(), 3);
  EXPECT_THAT(job(id).reason(), HasSubstr("exited with code 3"));
}

TEST_F(JobCoreOnTwoNodesTest, ASignalIsExitCode128AndItsNumber) {
  const std::string id = running(core_spec(1));
  ends(actor(id), core_cause(CoreCause::SIGNALED, 11));
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 139);
  EXPECT_EQ(job(id).ranks(0).exit_code(), 139);
  EXPECT_THAT(job(id).reason(), HasSubstr("signal 11"));
}

TEST_F(JobCoreOnTwoNodesTest, AnActorWithoutMemoryFailsAsIfKilled) {
  const std::string id = running(core_spec(1));
  ends(actor(id), core_cause(CoreCause::OUT_OF_MEMORY, 0, "the node has no memory left"));
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 137);
  EXPECT_EQ(job(id).reason(), "the node has no memory left");
}

TEST_F(JobCoreOnTwoNodesTest, AFailedJobRestartsUpToItsLimit) {
  v1::JobSpec spec = core_spec(1);
  spec.set_max_restarts(2);
  const std::string id = running(spec);
  for (int restart = 1; restart <= 2; ++restart) {
    const ActorId before = actor(id);
    exits(id, restart);
    EXPECT_EQ(state(id), "queued");
    EXPECT_EQ(job(id).restarts(), restart);
    EXPECT_EQ(job(id).ended_ms(), 0);
    sent_.clear();
    look();
    EXPECT_THAT(spawns(), SizeIs(1));
    EXPECT_NE(actor(id), before);
    EXPECT_EQ(job(id).ranks(0).attempt(), restart + 1);
    run(id);
    EXPECT_EQ(state(id), "running");
  }
  exits(id, 9);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 9);
  EXPECT_EQ(job(id).restarts(), 2);
  ASSERT_EQ(job(id).earlier_size(), 2);
  EXPECT_EQ(job(id).earlier(0).exit_code(), 1);
  EXPECT_EQ(job(id).earlier(1).exit_code(), 2);
  EXPECT_EQ(job(id).earlier(1).attempt(), 2);
}

TEST_F(JobCoreOnTwoNodesTest, ARestartedJobHasNoExitCodeYet) {
  v1::JobSpec spec = core_spec(1);
  spec.set_max_restarts(1);
  const std::string id = running(spec);
  exits(id, 7);
  look();
  run(id);
  ASSERT_EQ(state(id), "running");
  EXPECT_EQ(job(id).exit_code(), 0);
}

TEST_F(JobCoreOnTwoNodesTest, ASuccessAfterARestartLeavesNoExitCode) {
  v1::JobSpec spec = core_spec(1);
  spec.set_max_restarts(1);
  const std::string id = running(spec);
  exits(id, 7);
  look();
  run(id);
  exits(id, 0);
  EXPECT_EQ(state(id), "succeeded");
  EXPECT_EQ(job(id).exit_code(), 0);
  EXPECT_EQ(job(id).reason(), "");
}

TEST_F(JobCoreOnTwoNodesTest, ALostNodeIsNoRestart) {
  const std::string id = running(core_spec(1));
  for (int i = 0; i < 3; ++i) {
    ends(actor(id), core_cause(i == 1 ? CoreCause::LEASE_LOST : CoreCause::NODE_LOST, 0, "the node is gone"));
    EXPECT_EQ(state(id), "queued");
    EXPECT_EQ(job(id).restarts(), 0);
    look();
    run(id);
    EXPECT_EQ(state(id), "running");
  }
  EXPECT_EQ(record(id).losses(), 3);
}

class JobCoreWithFewLossesTest : public JobCoreOnTwoNodesTest {
 protected:
  JobCoreWithFewLossesTest() : JobCoreOnTwoNodesTest(JobLimits{.losses = 2}) {}
};

TEST_F(JobCoreWithFewLossesTest, AJobThatLosesItsNodesTooOftenFails) {
  v1::JobSpec spec = core_spec(1);
  spec.set_max_restarts(5);
  const std::string id = running(spec);
  for (int i = 0; i < 2; ++i) {
    ends(actor(id), core_cause(CoreCause::NODE_LOST));
    look();
    run(id);
    EXPECT_EQ(state(id), "running");
  }
  ends(actor(id), core_cause(CoreCause::NODE_LOST, 0, "node oak was lost"));
  EXPECT_EQ(state(id), "failed");
  EXPECT_THAT(job(id).reason(), HasSubstr("node oak was lost"));
}

TEST_F(JobCoreOnTwoNodesTest, AKilledActorStopsItsJob) {
  v1::JobSpec spec = core_spec(1);
  spec.set_max_restarts(5);
  const std::string id = running(spec);
  killed(id);
  EXPECT_EQ(state(id), "running");
  EXPECT_THAT(core_->ending(), ElementsAre(actor(id)));
  look();
  EXPECT_EQ(state(id), "running");
  process_ends(id);
  EXPECT_EQ(state(id), "stopped");
  EXPECT_EQ(job(id).restarts(), 0);
  EXPECT_THAT(core_->ending(), IsEmpty());
}

TEST_F(JobCoreOnTwoNodesTest, OneFailedRankEndsTheOthersAndTheJobWaitsForTheirProcesses) {
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_graceful_s(11);
  const std::string id = running(spec);
  const ActorId other = actor(id, 0);
  exits(id, 5, 1);
  EXPECT_EQ(state(id), "running");
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].actor_id(), raw(other));
  EXPECT_EQ(kills()[0].grace_ms(), 11'000);
  EXPECT_TRUE(kills()[0].no_restart());
  killed(id, 0);
  EXPECT_EQ(state(id), "running");
  EXPECT_THAT(core_->ending(), ElementsAre(other));
  look();
  EXPECT_EQ(state(id), "running");
  sent_.clear();
  process_ends(id, 0);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 5);
  EXPECT_THAT(job(id).reason(), HasSubstr("rank 1 on node"));
  EXPECT_EQ(job(id).ranks(0).exit_code(), 0);
  EXPECT_THAT(job(id).ranks(0).reason(), HasSubstr("ended with the job"));
  EXPECT_THAT(sent_kinds(), ElementsAre("unwatch", "unwatch", "remove_group"));
}

TEST_F(JobCoreOnTwoNodesTest, AJobOnTwoNodesSucceedsWhenAllRanksDo) {
  const std::string id = running(core_spec(4, 2));
  exits(id, 0, 1);
  EXPECT_EQ(state(id), "running");
  exits(id, 0, 0);
  EXPECT_EQ(state(id), "succeeded");
  EXPECT_THAT(sent_kinds(), ElementsAre("unwatch", "unwatch", "remove_group"));
}

TEST_F(JobCoreOnTwoNodesTest, WhereTheFirstRankLeadsItsSuccessEndsTheOthersAtOnce) {
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_mode("mpi");
  const std::string id = running(spec);
  exits(id, 0, 0);
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].actor_id(), raw(actor(id, 1)));
  EXPECT_EQ(kills()[0].grace_ms(), 0);
  killed_and_gone(id);
  EXPECT_EQ(state(id), "succeeded");
}

TEST_F(JobCoreOnTwoNodesTest, AnActorThatTheHeadRefusesFailsTheJobWithItsMessage) {
  const std::string id = submit(core_spec(1));
  protocol::HeadMessage out;
  out.mutable_reply()->set_request_id(raw(actor(id)));
  out.mutable_reply()->mutable_error()->set_code(static_cast<int>(ErrorCode::kInfeasible));
  out.mutable_reply()->mutable_error()->set_message("no node has a licence");
  message(out);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).reason(), "no node has a licence");
}

TEST_F(JobCoreOnTwoNodesTest, ARankThatTheHeadRefusesIsShownAsEnded) {
  const std::string id = submit(core_spec(1));
  protocol::HeadMessage out;
  out.mutable_reply()->set_request_id(raw(actor(id)));
  out.mutable_reply()->mutable_error()->set_code(static_cast<int>(ErrorCode::kInfeasible));
  out.mutable_reply()->mutable_error()->set_message("no node has a licence");
  message(out);
  EXPECT_EQ(job(id).ranks(0).state(), "ended");
  EXPECT_EQ(job(id).ranks(0).reason(), "no node has a licence");
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseGroupTheHeadRefusesSaysWhy) {
  const std::string id = submit(core_spec(4, 2));
  protocol::HeadMessage out;
  out.mutable_reply()->set_request_id(record(id).group_id());
  out.mutable_reply()->mutable_error()->set_code(static_cast<int>(ErrorCode::kInfeasible));
  out.mutable_reply()->mutable_error()->set_message("the group was removed");
  message(out);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).reason(), "the group was removed");
}

// ---- stop ----

TEST_F(JobCoreOnTwoNodesTest, AQueuedJobStopsAtOnce) {
  running(core_spec(4, 2));
  const std::string id = submit(core_spec(4));
  const auto reply = stop(id);
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->state(), "stopped");
  EXPECT_THAT(reply->reason(), HasSubstr("token ann"));
  EXPECT_EQ(reply->started_ms(), 0);
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseGroupIsPendingStopsAtOnceAndRemovesIt) {
  const std::string id = submit(core_spec(4, 2));
  const std::string group = record(id).group_id();
  sent_.clear();
  EXPECT_EQ(stop(id)->state(), "stopped");
  ASSERT_THAT(sent_kinds(), ElementsAre("remove_group"));
  EXPECT_EQ(sent_[0].remove_group().group_id(), group);
  // The answer arrives too late.
  protocol::HeadMessage out;
  out.mutable_reply()->set_request_id(group);
  out.mutable_reply()->mutable_group()->set_state(protocol::GROUP_READY);
  sent_.clear();
  message(out);
  EXPECT_THAT(sent_, IsEmpty());
}

TEST_F(JobCoreOnTwoNodesTest, AJobWhoseActorIsPendingStopsWhenTheActorIsGone) {
  const std::string id = submit(core_spec(1));
  sent_.clear();
  EXPECT_EQ(stop(id)->state(), "queued");
  EXPECT_TRUE(job(id).stopping());
  ASSERT_THAT(sent_kinds(), ElementsAre("kill"));
  killed_and_gone(id);
  EXPECT_EQ(state(id), "stopped");
}

TEST_F(JobCoreOnTwoNodesTest, ARunningJobStopsWithinItsGracefulTime) {
  v1::JobSpec spec = core_spec(1);
  spec.set_graceful_s(9);
  spec.set_max_restarts(3);
  const std::string id = running(spec);
  EXPECT_EQ(stop(id)->state(), "running");
  EXPECT_TRUE(job(id).stopping());
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].grace_ms(), 9000);
  // A repeated request changes nothing.
  EXPECT_TRUE(stop(id));
  EXPECT_THAT(kills(), SizeIs(1));
  killed(id);
  EXPECT_EQ(state(id), "running");
  process_ends(id);
  EXPECT_EQ(state(id), "stopped");
  EXPECT_FALSE(job(id).stopping());
  EXPECT_THAT(job(id).reason(), HasSubstr("token ann"));
  EXPECT_EQ(job(id).restarts(), 0);
}

TEST_F(JobCoreOnTwoNodesTest, AStoppedJobThatExitsByItselfIsStopped) {
  const std::string id = running(core_spec(1));
  stop(id);
  exits(id, 0);
  EXPECT_EQ(state(id), "stopped");
}

TEST_F(JobCoreOnTwoNodesTest, StopNowKillsAtOnceAlsoWhatIsEnding) {
  const std::string id = running(core_spec(1));
  stop(id);
  killed(id);
  sent_.clear();
  EXPECT_TRUE(stop(id, true));
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].grace_ms(), 0);
  const std::string other = running(core_spec(1));
  EXPECT_TRUE(stop(other, true));
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].grace_ms(), 0);
}

TEST_F(JobCoreOnTwoNodesTest, AJobStoppedWhileItEndsForARestartIsNotRestarted) {
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_max_restarts(3);
  const std::string id = running(spec);
  exits(id, 1, 0);
  EXPECT_TRUE(stop(id));
  killed_and_gone(id);
  EXPECT_EQ(state(id), "stopped");
  look();
  EXPECT_THAT(spawns(), IsEmpty());
}

TEST_F(JobCoreOnTwoNodesTest, StoppingAnEndedJobChangesNothing) {
  const std::string id = running(core_spec(1));
  exits(id, 3);
  const size_t before = rows_written_;
  EXPECT_EQ(stop(id)->state(), "failed");
  EXPECT_EQ(rows_written_, before);
}

// ---- time limits ----

TEST_F(JobCoreOnTwoNodesTest, AJobExpiresAtItsLimit) {
  v1::JobSpec spec = core_spec(1);
  spec.set_duration_s(60);
  spec.set_max_restarts(3);
  const std::string id = running(spec);
  EXPECT_EQ(core_->deadline_ms(), kCoreStart + 60'000);
  now_ = kCoreStart + 59'999;
  tick();
  EXPECT_THAT(kills(), IsEmpty());
  now_ = kCoreStart + 60'000;
  tick();
  EXPECT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(core_->deadline_ms(), std::nullopt);
  EXPECT_TRUE(job(id).stopping());
  killed_and_gone(id);
  EXPECT_EQ(state(id), "expired");
  EXPECT_THAT(job(id).reason(), HasSubstr("maximum running time"));
  EXPECT_EQ(job(id).restarts(), 0);
}

TEST_F(JobCoreOnTwoNodesTest, AnExtendedJobExpiresLater) {
  v1::JobSpec spec = core_spec(1);
  spec.set_duration_s(60);
  const std::string id = running(spec);
  ASSERT_TRUE(extend(id, 100));
  now_ = kCoreStart + 60'000;
  tick();
  EXPECT_THAT(kills(), IsEmpty());
  ASSERT_TRUE(extend(id, 0));
  EXPECT_EQ(core_->deadline_ms(), std::nullopt);
  now_ = kCoreStart + 100'000'000;
  tick();
  EXPECT_THAT(kills(), IsEmpty());
  ASSERT_TRUE(extend(id, 70));
  tick();
  EXPECT_THAT(kills(), SizeIs(1));
  const auto late = extend(id, 1'000'000);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(JobCoreOnTwoNodesTest, ExtendRefusesATimeOutOfRange) {
  const std::string id = running(core_spec(1));
  EXPECT_THAT(extend(id, -1).error().message, HasSubstr("duration_s: expected 0 (unlimited)"));
  EXPECT_THAT(extend(id, kDurationMaxS + 1).error().message, HasSubstr(std::to_string(kDurationMaxS + 1)));
}

TEST_F(JobCoreOnTwoNodesTest, TheTimeLimitOfARestartedJobBeginsAgain) {
  v1::JobSpec spec = core_spec(1);
  spec.set_duration_s(60);
  spec.set_max_restarts(1);
  const std::string id = running(spec);
  now_ = kCoreStart + 50'000;
  exits(id, 1);
  look();
  run(id);
  now_ = kCoreStart + 70'000;
  tick();
  EXPECT_EQ(state(id), "running");
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_EQ(core_->deadline_ms(), kCoreStart + 110'000);
}

// ---- requests ----

TEST_F(JobCoreOnTwoNodesTest, AnUrgentJobComesFirst) {
  running(core_spec(4, 2));
  const std::string first = submit(core_spec(4));
  const std::string second = submit(core_spec(4));
  ASSERT_TRUE(set_priority(second, "urgent"));
  EXPECT_EQ(job(second).position(), 1);
  EXPECT_EQ(job(first).position(), 2);
  exits("job-1", 0, 0);
  exits("job-1", 0, 1);
  nodes_[1].takes_jobs = false;
  look();
  EXPECT_EQ(job(second).position(), 0);
  EXPECT_EQ(job(first).position(), 1);
}

TEST_F(JobCoreOnTwoNodesTest, OnlyOperatorsSetVeryUrgent) {
  running(core_spec(4, 2));
  const std::string id = submit(core_spec(4));
  const auto refused = set_priority(id, "very_urgent");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(job(id).spec().priority(), "normal");
  const auto done = set_priority(id, "very_urgent", kCoreRoot);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->spec().priority(), "very_urgent");
  EXPECT_THAT(set_priority(id, "huge").error().message, HasSubstr("huge"));
}

TEST_F(JobCoreOnTwoNodesTest, OnlyOperatorsSubmitVeryUrgentJobs) {
  v1::JobSpec spec = core_spec(1);
  spec.set_priority("very_urgent");
  EXPECT_TRUE(try_submit(spec, kCoreRoot));
  const auto refused = try_submit(spec, kCoreAnn);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("very_urgent"));
}

TEST_F(JobCoreOnTwoNodesTest, OnlyQueuedJobsChangeTheirPriority) {
  const std::string id = running(core_spec(1));
  const auto refused = set_priority(id, "urgent");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("running"));
}

TEST_F(JobCoreOnTwoNodesTest, ATokenChangesItsOwnJobsAndAnOperatorAll) {
  running(core_spec(4, 2));
  const std::string id = submit(core_spec(4));
  for (const Error& error : {stop(id, false, kCoreBen).error(), set_priority(id, "urgent", kCoreBen).error(),
                             extend(id, 60, kCoreBen).error(), remove(id, kCoreBen).error()}) {
    EXPECT_EQ(error.code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(error.message, HasSubstr("token ann, this request comes with token ben"));
  }
  EXPECT_TRUE(set_priority(id, "urgent", kCoreRoot));
  EXPECT_TRUE(extend(id, 60, kCoreRoot));
  EXPECT_TRUE(stop(id, false, kCoreRoot));
  EXPECT_TRUE(remove(id, kCoreRoot));
}

TEST_F(JobCoreOnTwoNodesTest, AJobIsDeletedOnlyAfterItsEnd) {
  const std::string id = running(core_spec(1));
  const auto refused = remove(id);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("it is running; stop it first"));
  exits(id, 0);
  EXPECT_TRUE(remove(id));
  EXPECT_EQ(core_->get(id, kCoreRoot, now_).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(remove(id).error().code, ErrorCode::kNotFound);
  for (const auto& [key, value] : rows_) EXPECT_NE(key.first, kJobsTable);
}

TEST_F(JobCoreOnTwoNodesTest, AJobIsFoundByIdNumberAndName) {
  v1::JobSpec spec = core_spec(1);
  spec.set_name("digits");
  submit(spec);
  submit(core_spec(1));
  EXPECT_EQ(job("job-1").spec().name(), "digits");
  EXPECT_EQ(job("1").id(), "job-1");
  EXPECT_EQ(job("digits").id(), "job-1");
  EXPECT_EQ(job("job-2").spec().name(), "job-2");
  for (const char* unknown : {"job-3", "3", "digit", "", "-1", "job-", "job-1x"}) {
    const auto missing = core_->get(unknown, kCoreRoot, now_);
    ASSERT_FALSE(missing) << unknown;
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(missing.error().message, HasSubstr(fmt::format("no job \"{}\"", unknown)));
  }
  submit(spec);
  const auto several = core_->get("digits", kCoreRoot, now_);
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(several.error().message, HasSubstr("the name of 2 jobs, from job-1 to job-3"));
}

TEST_F(JobCoreOnTwoNodesTest, ListsAreFilteredAndHaveTheNewestFirst) {
  v1::JobSpec vision = core_spec(1);
  vision.set_name("resnet a");
  vision.set_project("vision");
  const std::string ended = running(vision);
  exits(ended, 0);
  vision.set_name("resnet b");
  running(vision, kCoreBen);
  submit(core_spec(4, 2));
  v1::ListJobsRequest all;
  EXPECT_THAT(listed(all), ElementsAre("job-3", "job-2", "job-1"));
  v1::ListJobsRequest open;
  open.set_state("open");
  EXPECT_THAT(listed(open), ElementsAre("job-3", "job-2"));
  v1::ListJobsRequest succeeded;
  succeeded.set_state("succeeded");
  EXPECT_THAT(listed(succeeded), ElementsAre("job-1"));
  v1::ListJobsRequest named;
  named.set_name("resnet");
  EXPECT_THAT(listed(named), ElementsAre("job-2", "job-1"));
  v1::ListJobsRequest project;
  project.set_project("default");
  EXPECT_THAT(listed(project), ElementsAre("job-3"));
  v1::ListJobsRequest owned;
  owned.set_owner("ben");
  EXPECT_THAT(listed(owned), ElementsAre("job-2"));
  v1::ListJobsRequest limited;
  limited.set_limit(2);
  EXPECT_THAT(listed(limited), ElementsAre("job-3", "job-2"));
  EXPECT_EQ(core_->list(limited, kCoreRoot, now_).total(), 3);
}

TEST_F(JobCoreOnTwoNodesTest, ADryRunForeseesTheStartAndLeavesNothingBehind) {
  const auto now = try_submit(core_spec(4), kCoreAnn, true);
  ASSERT_TRUE(now);
  EXPECT_TRUE(now->job().start().now());
  EXPECT_EQ(now->job().id(), "");
  EXPECT_EQ(now->job().spec().graceful_s(), kGracefulDefaultS);
  EXPECT_THAT(rows_, IsEmpty());
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_THAT(listed({}), IsEmpty());
  EXPECT_FALSE(core_->any_open());
  v1::JobSpec spec = core_spec(4, 2);
  spec.set_duration_s(100);
  running(spec);
  const size_t rows = rows_written_;
  const auto later = try_submit(core_spec(4), kCoreAnn, true);
  ASSERT_TRUE(later);
  EXPECT_FALSE(later->job().start().now());
  EXPECT_EQ(later->job().start().likely_ms(), kCoreStart + 100'000);
  EXPECT_EQ(rows_written_, rows);
  EXPECT_EQ(submit(core_spec(1)), "job-2");
}

TEST_F(JobCoreOnTwoNodesTest, WhatCanNeverRunIsRefused) {
  for (const v1::JobSpec& spec : {core_spec(5), core_spec(1, 3)}) {
    const auto refused = try_submit(spec);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  }
  EXPECT_THAT(try_submit(core_spec(5)).error().message, HasSubstr("needs 5 GPUs"));
  v1::JobSpec named = core_spec(1);
  named.add_node_names("ash");
  EXPECT_EQ(try_submit(named).error().code, ErrorCode::kInfeasible);
  v1::JobSpec labelled = core_spec(1);
  (*labelled.mutable_labels())["zone"] = "a";
  EXPECT_EQ(try_submit(labelled).error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(try_submit(v1::JobSpec()).error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(rows_, IsEmpty());
  EXPECT_EQ(submit(core_spec(1)), "job-1");
}

TEST_F(JobCoreOnTwoNodesTest, AJobRunsOnlyOnItsNodes) {
  v1::JobSpec spec = core_spec(1);
  spec.add_node_names("elm");
  submit(spec);
  ASSERT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(spawns()[0].spec().wishes().node(), "elm");
  EXPECT_FALSE(spawns()[0].spec().wishes().node_preferred());
}

TEST_F(JobCoreOnTwoNodesTest, LabelsOfAJobAreRulesOfItsActorOrGroup) {
  for (PlanNode& each : nodes_) each.labels["zone"] = "a";
  look();
  v1::JobSpec spec = core_spec(1);
  (*spec.mutable_labels())["zone"] = "a";
  submit(spec);
  ASSERT_THAT(spawns(), SizeIs(1));
  ASSERT_EQ(spawns()[0].spec().wishes().labels_size(), 1);
  EXPECT_EQ(spawns()[0].spec().wishes().labels(0).key(), "zone");
  spec.set_nodes(2);
  sent_.clear();
  submit(spec);
  ASSERT_THAT(sent_kinds(), ElementsAre("create_group", "find_group"));
  ASSERT_EQ(sent_[0].create_group().spec().labels_size(), 1);
  EXPECT_EQ(sent_[0].create_group().spec().labels(0).values(0), "a");
}

// ---- limits ----

class JobCoreWithLimitsTest : public JobCoreOnTwoNodesTest {
 protected:
  JobCoreWithLimitsTest() : JobCoreOnTwoNodesTest(JobLimits{.open = 3, .ended = 2}) {}
};

TEST_F(JobCoreWithLimitsTest, TooManyOpenJobsAreRefused) {
  for (int i = 0; i < 3; ++i) submit(core_spec(4));
  const auto refused = try_submit(core_spec(1));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(refused.error().message, HasSubstr("3 jobs"));
  stop("job-3");
  EXPECT_EQ(submit(core_spec(1)), "job-4");
}

TEST_F(JobCoreWithLimitsTest, TheOldestEndedJobsAreDropped) {
  const std::string first = running(core_spec(1));
  const std::string second = running(core_spec(1));
  const std::string third = running(core_spec(1));
  for (const std::string& id : {second, third, first}) {
    ++now_;
    exits(id, 0);
  }
  EXPECT_THAT(listed({}), ElementsAre(third, first));
  restart();
  EXPECT_THAT(listed({}), ElementsAre(third, first));
  look();
  ++now_;
  exits(running(core_spec(1)), 0);
  EXPECT_THAT(listed({}), ElementsAre("job-4", first));
}

TEST_F(JobCoreWithLimitsTest, TheNumberOfADroppedJobIsNotUsedAgain) {
  for (int i = 0; i < 3; ++i) running(core_spec(1));
  for (const char* id : {"job-3", "job-1", "job-2"}) {
    ++now_;
    exits(id, 0);
  }
  EXPECT_THAT(listed({}), ElementsAre("job-2", "job-1"));
  restart();
  EXPECT_EQ(submit(core_spec(1)), "job-4");
}

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
