// Jobs that leave nodes which fail or are drained, and go on elsewhere.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "jobs/job_core.h"
#include "jobs/job_spec.h"
#include "runtime/language/health_reason.h"
#include "runtime/node_health.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Nodes n0 to n2 with 4 GPUs each.
class ResumeTest : public JobCoreTest {
 protected:
  ResumeTest() {
    for (int i = 0; i < 3; ++i) node(fmt::format("n{}", i), 4);
    look();
    sent_.clear();
  }
  static v1::JobSpec resumable(int nodes, int resumes = 2) {
    v1::JobSpec spec = core_spec(4, nodes);
    spec.set_max_resumes(resumes);
    return spec;
  }
  PlanNode& at(const std::string& name) { return *std::ranges::find(nodes_, name, &PlanNode::name); }
  // The node drains: its actors are told, and nothing is placed there.
  void drains(const std::string& name) {
    at(name).takes_jobs = false;
    for (const auto& [id, process] : std::map(processes_)) {
      if (process.node != name) continue;
      protocol::HeadMessage out;
      out.mutable_actor()->set_actor_id(raw(id));
      out.mutable_actor()->set_state(protocol::ALIVE);
      out.mutable_actor()->set_version(++version_);
      out.mutable_actor()->set_node_name(name);
      out.mutable_actor()->set_node_leaves(true);
      message(out);
    }
    look();
  }
  static protocol::HealthProblem bad_gpu(int gpu) {
    protocol::HealthProblem problem;
    problem.set_code(std::string(health::kGpuMemory));
    problem.set_gpu(gpu);
    problem.set_detail("3");
    return problem;
  }
  static protocol::HealthProblem bad_network() {
    protocol::HealthProblem problem;
    problem.set_code(std::string(health::kNetworkDown));
    problem.set_subject("eth0");
    return problem;
  }
  // The actors on the node are told of its problems.
  void unhealthy(const std::string& name, const std::vector<protocol::HealthProblem>& problems) {
    problems_.erase(name);
    for (const protocol::HealthProblem& one : problems)
      problems_[name].push_back({.of_gpu = one.has_gpu(), .what = health_reason(one)});
    for (const auto& [id, process] : std::map(processes_)) {
      if (process.node != name) continue;
      protocol::HeadMessage out;
      out.mutable_actor()->set_actor_id(raw(id));
      out.mutable_actor()->set_state(protocol::ALIVE);
      out.mutable_actor()->set_version(++version_);
      out.mutable_actor()->set_node_name(name);
      out.mutable_actor()->mutable_problems()->Assign(problems.begin(), problems.end());
      message(out);
    }
    look();
  }
  void lose(const std::string& name) {
    std::erase_if(nodes_, [&](const PlanNode& each) { return each.name == name; });
    for (const auto& [id, process] : std::map(processes_)) {
      if (process.node == name) ends(id, core_cause(CoreCause::NODE_LOST, 0, "the node was lost"));
    }
  }
  std::vector<std::string> nodes_of(const std::string& id) {
    std::vector<std::string> out;
    const v1::Job shown = job(id);
    for (const v1::JobRank& rank : shown.ranks()) out.push_back(rank.node());
    return out;
  }
};

TEST_F(ResumeTest, ADrainedNodeIsLeftAfterTheJobHasSaved) {
  const std::string id = running(resumable(2));
  ASSERT_THAT(nodes_of(id), testing::ElementsAre("n0", "n1"));
  drains("n1");
  ASSERT_THAT(kills(), SizeIs(2)) << "all ranks are asked to save";
  EXPECT_EQ(kills()[0].grace_ms(), 30'000);
  EXPECT_EQ(state(id), "running") << "until it has saved";
  killed_and_gone(id);
  EXPECT_THAT(nodes_of(id), testing::ElementsAre("n0", "n2"));
  EXPECT_EQ(job(id).resumes(), 1);
  EXPECT_EQ(job(id).restarts(), 0);
  ready(id);
  run(id);
  EXPECT_EQ(state(id), "running");
}

TEST_F(ResumeTest, AJobWithoutResumesStaysOnADrainedNode) {
  const std::string id = running(core_spec(4, 2));
  drains("n1");
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_EQ(state(id), "running");
}

TEST_F(ResumeTest, AJobSavesAndLeavesANodeOrGpuWithAProblem) {
  const std::string id = running(resumable(2));
  at("n1").takes_jobs = false;
  unhealthy("n1", {bad_network()});
  ASSERT_THAT(kills(), SizeIs(2)) << "all ranks are asked to save";
  EXPECT_THAT(job(id).reason(), HasSubstr("node n1 has a problem: network card eth0 is down"));
  killed_and_gone(id);
  EXPECT_THAT(nodes_of(id), testing::ElementsAre("n0", "n2"));
  EXPECT_EQ(job(id).resumes(), 1);
  EXPECT_EQ(job(id).restarts(), 0);
  EXPECT_THAT(events_, testing::Contains("job leaves out a node job=" + id + " node=n1 why=network card eth0 is down"));
}

TEST_F(ResumeTest, OneProblemMovesAJobOnce) {
  const std::string id = running(resumable(1));
  unhealthy("n0", {bad_gpu(2)});
  ASSERT_THAT(kills(), SizeIs(1));
  unhealthy("n0", {bad_gpu(2)});
  EXPECT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(job(id).resumes(), 1);
}

TEST_F(ResumeTest, AJobWithoutResumesGoesOnWithAnEvent) {
  const std::string id = running(core_spec(4, 1));
  unhealthy("n0", {bad_gpu(2)});
  unhealthy("n0", {bad_gpu(2)});
  EXPECT_THAT(kills(), IsEmpty());
  EXPECT_EQ(state(id), "running");
  const std::string said = "job runs on a node that has a problem job=" + id +
                           " node=n0 why=GPU 2: memory errors that could not be corrected: 3";
  EXPECT_EQ(std::ranges::count(events_, said), 1);
  unhealthy("n0", {});
  unhealthy("n0", {bad_gpu(2)});
  EXPECT_EQ(std::ranges::count(events_, said), 2) << "it is a new problem";
}

TEST_F(ResumeTest, AProblemDoesNotFailAJobThatHasResumedAsOftenAsItMay) {
  const std::string id = running(resumable(1, 1));
  unhealthy("n0", {bad_gpu(0)});
  killed_and_gone(id);
  run(id);
  ASSERT_EQ(job(id).resumes(), 1);
  const std::string node = nodes_of(id).front();
  unhealthy(node, {bad_network()});
  EXPECT_EQ(state(id), "running");
  EXPECT_THAT(events_, testing::Contains(HasSubstr("job runs on a node that has a problem")));
}

TEST_F(ResumeTest, WhyAJobWaitsNamesTheProblem) {
  v1::JobSpec spec = core_spec(4, 3);
  at("n1").free.set("gpus", 3 * kUnit);
  others_["n1"].set("gpus", kUnit);
  problems_["n1"] = {{.of_gpu = true, .what = health_reason(bad_gpu(2))}};
  withheld_["n1"] = kUnit;
  look();
  const std::string id = submit(spec);
  look();
  EXPECT_EQ(state(id), "queued") << "a bad GPU is none that actors give back";
  EXPECT_THAT(job(id).reason(), HasSubstr("node n1 does not offer a GPU that has a problem (GPU 2: "));
  problems_.clear();
  withheld_.clear();
  others_.clear();
  look();
  EXPECT_FALSE(job(id).ranks().empty());
}

TEST_F(ResumeTest, ALostNodeCountsAsAResume) {
  const std::string id = running(resumable(2));
  lose("n0");
  ASSERT_THAT(kills(), SizeIs(1)) << "the other rank is asked to save";
  killed_and_gone(id);
  EXPECT_THAT(nodes_of(id), testing::ElementsAre("n1", "n2"));
  EXPECT_EQ(job(id).resumes(), 1);
  EXPECT_EQ(record(id).losses(), 0);
}

TEST_F(ResumeTest, BeyondItsResumesTheJobFails) {
  node("n3", 4);
  look();
  const std::string id = running(resumable(2, 1));
  lose("n0");
  killed_and_gone(id);
  ready(id);
  run(id);
  lose("n1");
  killed_and_gone(id);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).resumes(), 1);
  EXPECT_THAT(job(id).reason(), HasSubstr("it has resumed 1 time, as often as it may: "));
}

// Ranks that talk with a lost one often end before the head knows of the loss.
TEST_F(ResumeTest, AFailureBesideALostNodeIsTheNodesFault) {
  const std::string id = running(resumable(2));
  at("n0").takes_jobs = false;  // Its connection is lost.
  exits(id, 1, 1);
  killed(id, 0);
  EXPECT_EQ(state(id), "running") << "the process on the silent node may still run";
  std::erase_if(nodes_, [](const PlanNode& each) { return each.name == "n0"; });
  process_ends(id, 0);
  EXPECT_EQ(job(id).resumes(), 1);
  EXPECT_THAT(nodes_of(id), testing::ElementsAre("n1", "n2"));
  EXPECT_THAT(record(id).job().earlier(0).node(), "n0");
}

TEST_F(ResumeTest, AFailureOnSoundNodesIsFinal) {
  const std::string id = running(resumable(2));
  exits(id, 1, 1);
  killed_and_gone(id);
  EXPECT_EQ(state(id), "failed");
  EXPECT_EQ(job(id).exit_code(), 1);
}

TEST_F(ResumeTest, AnElasticJobGoesOnWithFewerNodes) {
  v1::JobSpec spec = resumable(3);
  spec.set_min_nodes(2);
  const std::string id = running(spec);
  EXPECT_EQ(job(id).nodes(), 3);
  drains("n2");
  killed_and_gone(id);
  EXPECT_EQ(job(id).nodes(), 2);
  EXPECT_EQ(job(id).resumes(), 1);
}

TEST_F(ResumeTest, TheMoveSurvivesARestartOfTheHead) {
  const std::string id = running(resumable(2));
  drains("n1");
  restart();
  look();
  connect();
  ASSERT_THAT(kills(), SizeIs(2));
  killed_and_gone(id);
  EXPECT_THAT(nodes_of(id), testing::ElementsAre("n0", "n2"));
  EXPECT_EQ(job(id).resumes(), 1);
}

TEST_F(ResumeTest, ResumesAndRestartsExcludeEachOther) {
  v1::JobSpec spec = resumable(1);
  spec.set_max_restarts(3);
  const auto refused = checked_spec(spec);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "max_resumes: a job either resumes or restarts, and max_restarts is 3; leave one out");
  spec.set_max_restarts(0);
  spec.set_max_resumes(-1);
  EXPECT_THAT(checked_spec(spec).error().message, HasSubstr("max_resumes: expected 0 to 1000, got -1"));
}

}  // namespace
}  // namespace volador::jobs
