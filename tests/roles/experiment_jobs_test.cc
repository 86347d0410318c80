#include "volador/roles/experiment_jobs.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"
#include "volador/roles/cluster_storage.h"

namespace volador {
namespace {

using experiments::ExperimentCore;

constexpr const char* kConfig =
    "name: digits\nentrypoint: python3 train.py\nsearcher: {name: single, metric: loss, max_length: {batches: 4}}\n";

// Experiments and their jobs on one thread, with jobs that the test answers for.
class ExperimentJobsTest : public testing::Test {
 protected:
  using Done = std::function<void(Result<v1::SubmitJobReply>)>;
  struct Submitted {
    security::Principal by;
    v1::JobSpec spec;
    Done done;
  };

  ExperimentJobsTest() {
    registry_.serve<v1::ListJobsRequest, v1::ListJobsReply>("Jobs/ListJobs",
                                                            [this](const auto&, const auto&, auto done) {
                                                              if (lists_) return done(*lists_);
                                                              done(make_error(ErrorCode::kUnavailable, "not yet"));
                                                            });
    registry_.serve<v1::StopJobRequest, v1::StopJobReply>(
        "Jobs/StopJob", [this](const security::Principal& by, const v1::StopJobRequest& request, auto done) {
          EXPECT_EQ(by.role, security::Role::kOperator);
          stopped_.push_back(request.job() + (request.now() ? " now" : ""));
          if (stop_error_) return done(make_error(*stop_error_));
          done(v1::StopJobReply());
        });
    registry_.serve<v1::RevokeTokenRequest, v1::RevokeTokenReply>(
        "Cluster/RevokeToken", [this](const auto&, const v1::RevokeTokenRequest& request, auto done) {
          revoked_.push_back(request.id());
          done(v1::RevokeTokenReply());
        });
    core_.start(0);
  }

  // Runs what was posted, and what the core wants done.
  void settle() {
    while (true) {
      experiments::ExperimentActions actions = core_.take();
      for (auto& job : actions.submit) jobs_.submit(std::move(job));
      for (const auto& stop : actions.stop) jobs_.stop(stop);
      for (const int64_t experiment : actions.garbage) jobs_.collect_garbage(experiment);
      for (const std::string& token : actions.revoke) jobs_.revoke(token);
      if (posted_.empty()) return;
      auto posted = std::exchange(posted_, {});
      for (const auto& function : posted) function();
    }
  }
  // Runs what waits, whatever its time.
  void wait() {
    auto waiting = std::exchange(waiting_, {});
    for (const auto& function : waiting) function();
    settle();
  }
  int64_t create() {
    v1::CreateExperimentRequest request;
    request.set_config(kConfig);
    const auto made = core_.create(request, {.token_id = "t1", .user = "mei"}, {"id", "text"},
                                   {.nodes = {{.cpus = 4, .gpus = 0, .pool = "default"}}}, 1);
    EXPECT_TRUE(made.has_value()) << made.error().message;
    settle();
    return made ? made->experiment().id() : 0;
  }
  static v1::Job job_of(const Submitted& submitted, const std::string& state, const std::string& id = "job-1") {
    v1::Job job;
    job.set_id(id);
    *job.mutable_spec() = submitted.spec;
    job.set_state(state);
    return job;
  }
  void answer(const Submitted& submitted, const std::string& state) {
    v1::SubmitJobReply reply;
    *reply.mutable_job() = job_of(submitted, state);
    submitted.done(std::move(reply));
    settle();
  }
  v1::TrialInfo trial(int64_t id = 1) { return core_.trial(id, {.token_id = "t1", .user = "mei"}).value(); }

  SeededRandom random_{1};
  operations::Registry registry_;
  ExperimentCore core_{{}, random_, {.name = "defaults", .text = experiment_defaults("/checkpoints").value()}};
  std::deque<std::function<void()>> posted_, waiting_;
  std::vector<Submitted> submitted_;
  std::vector<std::string> stopped_, revoked_;
  std::optional<v1::ListJobsReply> lists_ = v1::ListJobsReply();
  std::optional<Error> stop_error_;
  int tokens_ = 0;
  ExperimentJobs jobs_{{.registry = registry_,
                        .submit =
                            [this](const security::Principal& by, v1::SubmitJobRequest request, Done done) {
                              submitted_.push_back({by, request.spec(), std::move(done)});
                            },
                        .core = core_,
                        .post = [this](std::function<void()> function) { posted_.push_back(std::move(function)); },
                        .later = [this](std::chrono::milliseconds,
                                        std::function<void()> function) { waiting_.push_back(std::move(function)); },
                        .now_ms = [] { return int64_t{1000}; },
                        .env =
                            [] {
                              return std::vector<std::pair<std::string, std::string>>{{"ADDED", "1"}};
                            },
                        .token =
                            [this](const std::string&, auto done) {
                              const std::string id = "gc" + std::to_string(++tokens_);
                              done(std::pair(id, id + " text"));
                            },
                        .seen = [](const v1::Job&) {}}};
};

TEST_F(ExperimentJobsTest, ATrialIsSubmittedAsItsCreatorWithTheVariablesOfTheHead) {
  create();
  ASSERT_EQ(submitted_.size(), 1U);
  const Submitted& one = submitted_[0];
  EXPECT_EQ(one.by.token_id, "t1");
  EXPECT_EQ(one.by.user, "mei");
  EXPECT_EQ(one.by.role, security::Role::kDriver);
  EXPECT_EQ(one.spec.trial(), "1.1");
  EXPECT_EQ(one.spec.env().at("ADDED"), "1");
  EXPECT_EQ(one.spec.secrets().at("VOLADOR_TOKEN"), "text");
  answer(one, "queued");
  EXPECT_EQ(trial().job(), "job-1");
}

TEST_F(ExperimentJobsTest, AJobThatCannotBeSubmittedNowIsSubmittedAgain) {
  create();
  // No node can hold it: nodes may come back.
  for (const ErrorCode code : {ErrorCode::kUnavailable, ErrorCode::kInfeasible}) {
    submitted_.back().done(make_error(code, "not now"));
    submitted_.clear();
    settle();
    ASSERT_TRUE(core_.deadline_ms());
    core_.on_tick(*core_.deadline_ms());
    settle();
    ASSERT_EQ(submitted_.size(), 1U);
    EXPECT_EQ(submitted_[0].spec.trial(), "1.1");
  }
  submitted_[0].done(make_error(ErrorCode::kPermissionDenied, "the project is closed"));
  settle();
  EXPECT_EQ(trial().state(), "ERROR");
}

TEST_F(ExperimentJobsTest, AStopBeforeTheJobIsKnownIsMadeUpFor) {
  const int64_t experiment = create();
  v1::ChangeExperimentRequest kill;
  kill.set_id(experiment);
  kill.set_command("kill");
  ASSERT_TRUE(core_.change(kill, {.token_id = "t1", .user = "mei"}, 2));
  settle();
  EXPECT_TRUE(stopped_.empty());
  answer(submitted_[0], "queued");
  ASSERT_FALSE(stopped_.empty());
  EXPECT_EQ(stopped_[0], "job-1 now");
  jobs_.on_job(job_of(submitted_[0], "stopped"));
  settle();
  EXPECT_EQ(trial().state(), "CANCELED");
}

TEST_F(ExperimentJobsTest, AStopThatTheJobsCannotTakeNowIsRepeated) {
  const int64_t experiment = create();
  answer(submitted_[0], "running");
  stop_error_ = Error{ErrorCode::kUnavailable, "the store is full"};
  v1::ChangeExperimentRequest kill;
  kill.set_id(experiment);
  kill.set_command("kill");
  ASSERT_TRUE(core_.change(kill, {.token_id = "t1", .user = "mei"}, 2));
  settle();
  EXPECT_EQ(stopped_.size(), 1U);
  wait();
  EXPECT_EQ(stopped_.size(), 2U);
  stop_error_ = Error{ErrorCode::kNotFound, "there is no such job"};
  wait();
  EXPECT_EQ(trial().state(), "CANCELED");
}

TEST_F(ExperimentJobsTest, AfterARestartJobsAreLookedUpAndLostSubmissionsSentAgain) {
  create();
  jobs_.recover();
  settle();
  ASSERT_EQ(submitted_.size(), 2U) << "the head has no job of this run: the submission was lost";
  EXPECT_EQ(submitted_[1].spec.trial(), "1.1");
  v1::ListJobsReply found;
  *found.add_jobs() = job_of(submitted_[0], "running", "job-7");
  lists_.reset();
  jobs_.recover();
  settle();
  EXPECT_EQ(trial().job(), "");
  lists_ = found;
  wait();
  EXPECT_EQ(trial().job(), "job-7");
  EXPECT_EQ(submitted_.size(), 2U);
  lists_ = v1::ListJobsReply();
  jobs_.recover();
  settle();
  ASSERT_EQ(submitted_.size(), 3U) << "its job is gone: the next run begins";
  EXPECT_EQ(submitted_[2].spec.trial(), "1.2");
  EXPECT_EQ(trial().restarts(), 0);
}

TEST_F(ExperimentJobsTest, OneJobAtATimeCollectsGarbageAndAFailedOneIsFollowedByAnother) {
  const int64_t experiment = create();
  jobs_.recover();
  settle();
  answer(submitted_.back(), "running");
  const experiments::ExperimentRequester owner{.token_id = "t1", .user = "mei"};
  v1::StartTrialRunRequest start;
  start.set_trial(1);
  start.set_run(1);
  ASSERT_TRUE(core_.start_run(start, owner, 3));
  const auto report = [&](const std::string& id, int64_t batches) {
    v1::ReportCheckpointRequest request;
    request.set_trial(1);
    request.set_run(1);
    request.mutable_checkpoint()->set_id(id);
    request.mutable_checkpoint()->set_batches(batches);
    EXPECT_TRUE(core_.report_checkpoint(request, owner, 4));
  };
  for (int number = 0; number < 4; ++number)
    report("0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6" + std::to_string(number), number + 1);
  const auto remove = [&](int number) {
    v1::DeleteCheckpointsRequest request;
    request.add_ids("0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6" + std::to_string(number));
    EXPECT_TRUE(core_.delete_checkpoints(request, owner));
    settle();
  };
  submitted_.clear();
  remove(0);
  ASSERT_EQ(submitted_.size(), 1U);
  EXPECT_EQ(submitted_[0].spec.trial(), "garbage-" + std::to_string(experiment) + ".1");
  EXPECT_EQ(submitted_[0].spec.secrets().at("VOLADOR_TOKEN"), "gc1 text");
  answer(submitted_[0], "queued");
  remove(1);
  EXPECT_EQ(submitted_.size(), 1U) << "one at a time";
  jobs_.on_job(job_of(submitted_[0], "failed"));
  settle();
  EXPECT_EQ(submitted_.size(), 1U) << "after a pause";
  wait();
  ASSERT_EQ(submitted_.size(), 2U);
  EXPECT_EQ(submitted_[1].spec.trial(), "garbage-" + std::to_string(experiment) + ".2");
  EXPECT_EQ(submitted_[1].spec.secrets().at("VOLADOR_TOKEN"), "gc2 text");
}

}  // namespace
}  // namespace volador
