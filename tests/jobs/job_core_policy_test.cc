// What the settings of the queue do to jobs: pools, limits, preemption, environments; and batches and alternatives.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "jobs/job_core.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Node oak with 4 GPUs, and ash with 4 GPUs in pool a100.
class JobCorePolicyTest : public JobCoreTest {
 protected:
  JobCorePolicyTest() {
    node("oak", 4);
    node("ash", 4, 64, "a100");
    look();
    sent_.clear();
  }

  static v1::JobSpec in_pool(const std::string& pool, double gpus = 1) {
    v1::JobSpec spec = core_spec(gpus);
    spec.set_pool(pool);
    return spec;
  }
  static v1::JobSpec of_project(const std::string& project, double gpus = 1) {
    v1::JobSpec spec = core_spec(gpus);
    spec.set_project(project);
    return spec;
  }
  static v1::JobSpec with_priority(const std::string& priority, double gpus = 1) {
    v1::JobSpec spec = core_spec(gpus);
    spec.set_priority(priority);
    return spec;
  }
  std::string node_of(const std::string& id) { return job(id).ranks_size() > 0 ? job(id).ranks(0).node() : ""; }
};

// ---- pools ----

TEST_F(JobCorePolicyTest, AJobRunsOnNodesOfItsPool) {
  const std::string first = submit(core_spec(4));
  EXPECT_EQ(node_of(first), "oak");
  ASSERT_THAT(spawns(), SizeIs(1));
  const auto rules = spawns()[0].spec().wishes().labels();
  ASSERT_EQ(rules.size(), 1);
  EXPECT_EQ(rules[0].key(), "pool");
  EXPECT_EQ(rules[0].op(), protocol::LabelRule::NOT_IN);
  EXPECT_THAT(rules[0].values(), ElementsAre("a100"));
  sent_.clear();
  const std::string second = submit(in_pool("a100", 4));
  EXPECT_EQ(node_of(second), "ash");
  ASSERT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(spawns()[0].spec().wishes().labels(0).op(), protocol::LabelRule::IN);
  EXPECT_THAT(spawns()[0].spec().wishes().labels(0).values(), ElementsAre("a100"));
}

TEST_F(JobCorePolicyTest, APoolThatIsBlockedDoesNotDelayAnother) {
  running(core_spec(4));
  const std::string waits = submit(core_spec(4));
  EXPECT_EQ(state(waits), "queued");
  EXPECT_EQ(node_of(submit(in_pool("a100", 1))), "ash");
}

TEST_F(JobCorePolicyTest, AnUnknownOrClosedPoolIsRefusedAtSubmission) {
  EXPECT_THAT(try_submit(in_pool("h100")).error().message,
              HasSubstr("there is no pool \"h100\"; the pools are a100, default"));
  queue_settings("pools: {a100: {projects: [vision]}}");
  EXPECT_THAT(try_submit(in_pool("a100")).error().message, HasSubstr("a100 takes jobs of vision only"));
  v1::JobSpec spec = in_pool("a100");
  spec.set_project("vision");
  EXPECT_TRUE(try_submit(spec));
}

// ---- limits ----

TEST_F(JobCorePolicyTest, AProjectHoldsNoMoreThanItsLimit) {
  queue_settings("projects: {vision: {limits: {gpus: 3}}}");
  const std::string first = running(of_project("vision", 2));
  const std::string second = submit(of_project("vision", 2));
  EXPECT_EQ(state(second), "queued");
  EXPECT_THAT(job(second).reason(),
              HasSubstr("its project may hold gpus 3 and holds gpus 2; this job needs gpus 2 more"));
  EXPECT_EQ(node_of(submit(of_project("speech", 2))), "oak");  // It does not wait behind the limit of another project.
  queue_settings("projects: {vision: {limits: {gpus: 4}}}");
  exits(first, 0);
  process_ends(first);
  look();
  EXPECT_FALSE(node_of(second).empty());
}

TEST_F(JobCorePolicyTest, WhatExceedsALimitAloneIsRefused) {
  queue_settings("projects: {vision: {limits: {gpus: 3}}, none: {limits: {gpus: 0}}}");
  const auto refused = try_submit(of_project("vision", 4));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(refused.error().message, HasSubstr("vision"));
  EXPECT_FALSE(try_submit(of_project("none", 1)));
  EXPECT_TRUE(try_submit(of_project("none", 0)));
}

TEST_F(JobCorePolicyTest, UrgentJobsOfAProjectHaveALimit) {
  queue_settings("projects: {default: {urgent_jobs: 1}}");
  EXPECT_TRUE(try_submit(with_priority("urgent", 4)));
  const std::string normal = submit(core_spec(4));
  const auto second = try_submit(with_priority("urgent"));
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("1"));
  EXPECT_FALSE(set_priority(normal, "urgent"));
  EXPECT_EQ(job(normal).spec().priority(), "normal");
}

// ---- preemption ----

TEST_F(JobCorePolicyTest, AnUrgentJobPreemptsANormalOneThatComesBack) {
  queue_settings("preemption: urgent");
  const std::string old = running(core_spec(2));
  ++now_;
  v1::JobSpec saving = core_spec(2);
  saving.set_stop_signal("USR1");
  saving.set_graceful_s(45);
  const std::string victim = running(saving);
  const std::string later = submit(core_spec(2));
  ++now_;
  const std::string urgent = submit(with_priority("urgent", 2));
  EXPECT_EQ(state(urgent), "queued");
  // The newer of the two ends, with its signal and all of its graceful time.
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].actor_id(), raw(actor(victim)));
  EXPECT_EQ(kills()[0].grace_ms(), 45'000);
  EXPECT_EQ(job(victim).preemptions(), 1);
  EXPECT_THAT(job(victim).reason(), HasSubstr("made room for " + urgent));
  look();
  tick();
  EXPECT_THAT(kills(), SizeIs(1)) << "one round of preemption is enough";
  killed_and_gone(victim);
  EXPECT_FALSE(node_of(urgent).empty());
  EXPECT_EQ(state(victim), "queued");
  EXPECT_EQ(job(victim).restarts(), 0);
  EXPECT_LT(job(victim).position(), job(later).position()) << "it has its old place";
  EXPECT_EQ(state(old), "running");
  // It runs again when the urgent one has ended.
  run(urgent);
  look();
  exits(urgent, 0);
  process_ends(urgent);
  look();
  EXPECT_FALSE(node_of(victim).empty());
  EXPECT_EQ(job(victim).ranks(0).attempt(), 2);
}

TEST_F(JobCorePolicyTest, WithoutTheSettingNothingIsPreempted) {
  running(core_spec(4));
  submit(with_priority("urgent", 4));
  EXPECT_THAT(kills(), IsEmpty());
  queue_settings("preemption: very_urgent");
  look();
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_TRUE(try_submit(with_priority("very_urgent", 4), kCoreRoot));
  EXPECT_THAT(kills(), SizeIs(1));
}

TEST_F(JobCorePolicyTest, APreemptedJobComesBackAfterARestartOfTheHead) {
  queue_settings("preemption: urgent");
  const std::string victim = running(core_spec(4));
  const std::string urgent = submit(with_priority("urgent", 4));
  ASSERT_THAT(kills(), SizeIs(1));
  restart();
  connect();
  look();
  EXPECT_THAT(kills(), SizeIs(1)) << "the request is sent again";
  killed_and_gone(victim);
  EXPECT_EQ(state(victim), "queued");
  EXPECT_FALSE(node_of(urgent).empty());
}

// ---- what ranks get ----

TEST_F(JobCorePolicyTest, TheRankGetsSignalEnvironmentAndTask) {
  queue_settings("environments: {cuda12: {source: /opt/conda/envs/cuda12}}");
  v1::JobSpec spec = core_spec();
  spec.set_stop_signal("SIGUSR1");
  spec.set_environment("cuda12");
  spec.set_batch("sweep");
  spec.set_batch_index(2);
  spec.set_batch_size(5);
  spec.set_output("/data/out/sweep-2");
  const std::string id = submit(spec);
  EXPECT_EQ(job(id).spec().stop_signal(), "USR1");
  const CommandStart start = start_of(spawns().at(0));
  EXPECT_EQ(start.stop_signal, SIGUSR1);
  EXPECT_EQ(start.environment, "/opt/conda/envs/cuda12");
  EXPECT_EQ(start.env.at("VOLADOR_TASK_INDEX"), "2");
  EXPECT_EQ(start.env.at("VOLADOR_TASK_COUNT"), "5");
  EXPECT_EQ(start.output, "/data/out/sweep-2");
  spec.set_environment("cuda11");
  EXPECT_THAT(try_submit(spec).error().message, HasSubstr("there is no environment \"cuda11\""));
  spec.set_environment("");
  spec.set_stop_signal("KILL");
  EXPECT_THAT(try_submit(spec).error().message, HasSubstr("stop_signal: expected TERM, INT, USR1, USR2 or HUP"));
}

// ---- alternatives ----

TEST_F(JobCorePolicyTest, TheFirstAlternativeThatStartsStopsTheOthers) {
  running(core_spec(4));
  running(in_pool("a100", 4));
  v1::JobSpec one = core_spec(4);
  one.set_one_of("x");
  v1::JobSpec two = in_pool("a100", 4);
  two.set_one_of("x");
  const std::string first = submit(one);
  const std::string second = submit(two);
  const std::string others = submit(two, kCoreBen);  // The same text of another owner.
  EXPECT_EQ(state(first), "queued");
  exits("job-2", 0);
  process_ends("job-2");
  look();
  EXPECT_EQ(node_of(second), "ash");
  EXPECT_EQ(state(first), "stopped");
  EXPECT_THAT(job(first).reason(), HasSubstr("its alternative " + second + " started first"));
  EXPECT_EQ(state(others), "queued");
}

TEST_F(JobCorePolicyTest, AnAlternativeThatComesLateDoesNotRun) {
  v1::JobSpec one = core_spec(1);
  one.set_one_of("x");
  const std::string first = submit(one);
  EXPECT_FALSE(node_of(first).empty());
  const std::string second = submit(one);
  EXPECT_EQ(state(second), "stopped");
  EXPECT_THAT(spawns(), SizeIs(1));
}

TEST_F(JobCorePolicyTest, NeverDoTwoAlternativesRun) {
  // Both fit in the same pass.
  running(core_spec(4));
  running(in_pool("a100", 4));
  v1::JobSpec one = core_spec(2);
  one.set_one_of("x");
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(submit(one));
  sent_.clear();
  exits("job-1", 0);
  process_ends("job-1");
  look();
  EXPECT_THAT(spawns(), SizeIs(1));
  int stopped = 0;
  for (const std::string& id : ids) stopped += state(id) == "stopped" ? 1 : 0;
  EXPECT_EQ(stopped, 2);
}

// ---- usage ----

TEST_F(JobCorePolicyTest, UsageCountsEveryAttemptAndSurvivesARestart) {
  v1::JobSpec spec = of_project("vision", 2);
  spec.set_cpus(4);
  spec.set_max_restarts(1);
  const std::string id = running(spec);
  now_ += 1'800'000;
  EXPECT_DOUBLE_EQ(core_->usage({}, now_)->usage(0).gpu_hours(), 1) << "it runs, and there was no later view";
  exits(id, 1);
  process_ends(id);
  look();
  run(id);
  look();
  now_ += 3'600'000;
  exits(id, 0);
  process_ends(id);
  EXPECT_EQ(job(id).ran_ms(), 5'400'000);
  restart();
  const auto usage = core_->usage({}, now_);
  ASSERT_THAT(usage->usage(), SizeIs(1));
  EXPECT_DOUBLE_EQ(usage->usage(0).gpu_hours(), 3);
  EXPECT_DOUBLE_EQ(usage->usage(0).cpu_hours(), 6);
  EXPECT_EQ(usage->usage(0).attempts(), 2);
  EXPECT_EQ(usage->usage(0).owner(), "ann");
}

TEST_F(JobCorePolicyTest, UsageHasWhatNothingUsedBetweenViewsOfTheCluster) {
  look();
  const double gpus = [&] {
    double sum = 0;
    for (const PlanNode& each : nodes_) sum += static_cast<double>(each.total.get("gpus")) / double{kUnit};
    return sum;
  }();
  looks_ = false;
  for (int minute = 1; minute <= 6; ++minute) {
    now_ += 60'000;
    tick();
    EXPECT_TRUE(looks_) << "a view is asked for each minute";
    look();
    looks_ = false;
    tick();
    EXPECT_FALSE(looks_);
  }
  running(of_project("vision", 2));
  now_ += 60'000;
  look();
  const auto idle = [&] {
    const auto usage = core_->usage({}, now_);
    EXPECT_EQ(usage->usage(0).project(), "");
    EXPECT_EQ(usage->usage(0).attempts(), 0);
    return usage->usage(0).gpu_hours();
  };
  EXPECT_NEAR(idle(), (6 * gpus + gpus - 2) / 60, 1e-9);
  restart();
  EXPECT_NEAR(idle(), 5 * gpus / 60, 1e-9) << "it is kept every five minutes";
  now_ += 3'600'000;
  look();
  EXPECT_NEAR(idle(), 5 * gpus / 60, 1e-9) << "what was free while the head was away is not known";
}

// ---- state ----

TEST_F(JobCorePolicyTest, TheQueueShowsPoolsAndProjects) {
  queue_settings("{pools: {a100: {projects: [vision]}}, projects: {vision: {weight: 2, limits: {gpus: 4}}}}");
  running(of_project("vision", 3));
  submit(of_project("vision", 4));
  const v1::GetQueueReply queue = core_->queue();
  ASSERT_EQ(queue.pools_size(), 2);
  EXPECT_EQ(queue.pools(0).pool().name(), "a100");
  EXPECT_THAT(queue.pools(0).nodes(), ElementsAre("ash"));
  EXPECT_EQ(queue.pools(1).free().at("gpus"), 1);
  EXPECT_EQ(queue.pools(1).running(), 1);
  EXPECT_EQ(queue.pools(1).queued(), 1);
  ASSERT_EQ(queue.projects_size(), 1);
  EXPECT_EQ(queue.projects(0).used().at("gpus"), 3);
  EXPECT_EQ(queue.projects(0).project().weight(), 2);
}

TEST_F(JobCorePolicyTest, SettingsSurviveARestartAndHaveAVersion) {
  queue_settings("preemption: urgent");
  restart();
  look();
  EXPECT_EQ(core_->queue().settings().preemption(), "urgent");
  EXPECT_EQ(core_->queue().settings().version(), 1);
  v1::QueueSettings stale;
  stale.set_version(7);
  EXPECT_THAT(core_->set_queue(stale).error().message, HasSubstr("the settings are at version 1"));
}

}  // namespace
}  // namespace volador::jobs
