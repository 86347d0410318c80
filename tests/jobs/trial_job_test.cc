// Jobs with secrets, and jobs that run trials of experiments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class TrialJobTest : public JobCoreTest {
 protected:
  TrialJobTest() {
    node("n0", 4);
    look();
    sent_.clear();
  }
  static v1::JobSpec trial_spec() {
    v1::JobSpec spec = core_spec();
    spec.set_trial("57.1");
    (*spec.mutable_secrets())["TOKEN"] = "s3cret";
    return spec;
  }
};

TEST_F(TrialJobTest, SecretsReachTheCommandOnly) {
  const auto dry = try_submit(trial_spec(), kCoreAnn, true);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_THAT(dry->DebugString(), Not(HasSubstr("s3cret")));
  const auto reply = try_submit(trial_spec());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->job().spec().secrets().at("TOKEN"), "***");
  ASSERT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(start_of(spawns().front()).env.at("TOKEN"), "s3cret");
  EXPECT_EQ(job("job-1").spec().secrets().at("TOKEN"), "***");
  EXPECT_THAT(core_->list({}, kCoreRoot, now_).DebugString(), Not(HasSubstr("s3cret")));
  for (const v1::Job& told : trials_) EXPECT_THAT(told.DebugString(), Not(HasSubstr("s3cret")));
}

TEST_F(TrialJobTest, ASecondJobForTheSameRunIsTheFirstOne) {
  const std::string id = submit(trial_spec());
  EXPECT_EQ(submit(trial_spec()), id);
  EXPECT_EQ(core_->list({}, kCoreRoot, now_).total(), 1);
  restart();
  connect();
  EXPECT_EQ(submit(trial_spec()), id);
  v1::JobSpec next = trial_spec();
  next.set_trial("57.2");
  EXPECT_NE(submit(next), id);
}

TEST_F(TrialJobTest, EachChangeIsTold) {
  const std::string id = submit(trial_spec());
  ASSERT_THAT(trials_, Not(IsEmpty()));
  EXPECT_EQ(trials_.back().state(), "queued");
  trials_.clear();
  run(id);
  ASSERT_THAT(trials_, Not(IsEmpty()));
  EXPECT_EQ(trials_.back().state(), "running");
  trials_.clear();
  submit(core_spec());
  EXPECT_THAT(trials_, IsEmpty());
}

}  // namespace
}  // namespace volador::jobs
