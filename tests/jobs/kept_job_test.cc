// Jobs that are kept after a failure, for commands of users.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "jobs/log_policy.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

class KeptJobTest : public JobCoreTest {
 protected:
  KeptJobTest() {
    node("n0", 4);
    look();
    sent_.clear();
  }
  std::string kept() {
    v1::JobSpec spec = core_spec();
    spec.set_debug_s(60);
    const std::string id = running(spec);
    EXPECT_THAT(core_->watched_ranks(), SizeIs(1));
    deliver([&, from = actor(id)] { core_->on_log_matches(from, 0, {{.policy = kRankFailed, .line = "3"}}, now_); });
    return id;
  }
  void failed(const std::string& id) {
    EXPECT_EQ(state(id), "failed");
    EXPECT_EQ(job(id).exit_code(), 3);
    EXPECT_EQ(job(id).reason(), "on node n0: exited with code 3");
    EXPECT_EQ(job(id).debug_until_ms(), 0);
  }
};

TEST_F(KeptJobTest, AFailedJobIsKeptUntilItsTimeIsOver) {
  const std::string id = kept();
  EXPECT_EQ(state(id), "running");
  EXPECT_EQ(job(id).exit_code(), 3);
  EXPECT_EQ(job(id).debug_until_ms(), now_ + 60'000);
  EXPECT_EQ(job(id).reason(),
            "on node n0: exited with code 3; its nodes are kept for 1 min 0 s for `volador job attach`, or until it "
            "is stopped");
  EXPECT_TRUE(core_->rank_for_commands(id, 0, kCoreAnn));
  EXPECT_EQ(core_->deadline_ms(), now_ + 60'000);
  tick();
  EXPECT_THAT(kills(), IsEmpty());
  now_ += 60'000;
  tick();
  killed_and_gone(id);
  failed(id);
}

TEST_F(KeptJobTest, AStoppedOneHasFailed) {
  const std::string id = kept();
  ASSERT_TRUE(stop(id));
  killed_and_gone(id);
  failed(id);
}

TEST_F(KeptJobTest, AnotherHeadGoesOn) {
  const std::string id = kept();
  restart();
  connect();
  tell(actor(id), protocol::ALIVE);
  EXPECT_EQ(job(id).debug_until_ms(), now_ + 60'000);
  ASSERT_TRUE(stop(id));
  killed_and_gone(id);
  failed(id);
}

}  // namespace
}  // namespace volador::jobs
