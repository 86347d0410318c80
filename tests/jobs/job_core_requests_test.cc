#include "jobs/job_core.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "runtime/ids.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

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

}  // namespace
}  // namespace volador::jobs
