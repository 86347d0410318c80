#include "jobs/job_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

}  // namespace
}  // namespace volador::jobs
