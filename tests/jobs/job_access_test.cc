// Who may do what with a job: the table of docs/guides/users.md, and its limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jobs/job_access.h"
#include "jobs/job_spec.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using ::testing::HasSubstr;

const Requester kMei{.token_id = "t-mei", .user = "mei"};
const Requester kMeiElsewhere{.token_id = "t-mei-2", .user = "mei"};
const Requester kKim{.token_id = "t-kim", .user = "kim"};
const Requester kRoot{.token_id = "root", .operates = true};

class JobAccessTest : public JobCoreTest {
 protected:
  JobAccessTest() {
    node("oak", 4);
    look();
  }

  static v1::JobSpec named(const std::string& name) {
    v1::JobSpec spec = core_spec();
    spec.set_name(name);
    return spec;
  }

  std::string job_with(const std::string& access, const std::string& project = "") {
    v1::JobSpec spec = named("secret-" + access);
    spec.set_access(access);
    spec.set_project(project);
    return submit(spec, kMei);
  }
  void set(const std::function<void(v1::QueueSettings&)>& change) {
    v1::QueueSettings settings = core_->queue().settings();
    change(settings);
    const auto changed = core_->set_queue(settings);
    ASSERT_TRUE(changed) << changed.error().message;
    settle();
  }
  bool lists(const std::string& job, const Requester& by) {
    const auto reply = core_->list({}, by, now_);
    EXPECT_EQ(reply.total(), reply.jobs_size()) << "jobs that are not shown are not counted";
    for (const v1::Job& each : reply.jobs()) {
      if (each.id() == job) return true;
    }
    return false;
  }
  // What each of the eight operations answers: "yes", "refused" or "unknown".
  template <class T>
  static std::string outcome(const Result<T>& result) {
    if (result || result.error().code == ErrorCode::kInvalidArgument) return "yes";  // Its state does not allow it.
    return result.error().code == ErrorCode::kPermissionDenied ? "refused" : "unknown";
  }
  std::vector<std::string> matrix(const std::string& access) {
    const std::string job = job_with(access);
    std::vector<std::string> out;
    const auto seen = core_->get(job, kKim, now_);
    out.push_back(outcome(seen));
    out.push_back(outcome(core_->get("secret-" + access, kKim, now_)));
    out.push_back(lists(job, kKim) ? "yes" : "unknown");
    // A clone is what the requester reads, submitted again.
    out.push_back(seen ? outcome(try_submit(seen->spec(), kKim)) : "unknown");
    out.push_back(outcome(extend(job, 60, kKim)));
    out.push_back(outcome(set_priority(job, "urgent", kKim)));
    out.push_back(outcome(stop(job, true, kKim)));
    out.push_back(outcome(remove(job, kKim)));
    return out;
  }
};

TEST_F(JobAccessTest, OthersMayReadWriteOrNeither) {
  using ::testing::ElementsAre;
  // See, find by its name, list, clone, extend, set the priority, stop, delete.
  EXPECT_THAT(matrix("none"),
              ElementsAre("unknown", "unknown", "unknown", "unknown", "unknown", "unknown", "unknown", "unknown"));
  EXPECT_THAT(matrix("read"), ElementsAre("yes", "yes", "yes", "yes", "refused", "refused", "refused", "refused"));
  EXPECT_THAT(matrix("write"), ElementsAre("yes", "yes", "yes", "yes", "yes", "yes", "yes", "yes"));
}

TEST_F(JobAccessTest, OwnerAndOperatorsHaveAllAccess) {
  for (const std::string access : {"none", "read", "write"}) {
    for (const Requester& by : {kMeiElsewhere, kRoot}) {
      const std::string job = job_with(access);
      EXPECT_TRUE(core_->get(job, by, now_));
      EXPECT_TRUE(lists(job, by));
      EXPECT_TRUE(extend(job, 60, by));
      EXPECT_TRUE(stop(job, true, by)) << "any token of the user is the owner's";
    }
  }
}

TEST_F(JobAccessTest, OnlyTheOwnerAndOperatorsRunCommands) {
  // The job does not run, which those who may are told (kInvalidArgument).
  const auto code = [&](const std::string& access, const Requester& by) {
    return core_->rank_for_commands(job_with(access), 0, by).error().code;
  };
  for (const std::string access : {"none", "read", "write"}) {
    EXPECT_EQ(code(access, kMeiElsewhere), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(access, kRoot), ErrorCode::kInvalidArgument);
    EXPECT_EQ(code(access, kKim), access == "none" ? ErrorCode::kNotFound : ErrorCode::kPermissionDenied);
  }
}

TEST_F(JobAccessTest, TheErrorOfAHiddenJobIsThatOfNone) {
  const std::string job = job_with("none");
  std::string hidden = core_->get(job, kKim, now_).error().message;
  std::string none = core_->get("job-999", kKim, now_).error().message;
  EXPECT_EQ(hidden.replace(hidden.find(job), job.size(), "X"), none.replace(none.find("job-999"), 7, "X"));
  const auto refused = stop(job_with("read"), false, kKim);
  EXPECT_THAT(refused.error().message, HasSubstr("submitted by user mei"));
  EXPECT_THAT(refused.error().message, HasSubstr("comes with a token of user kim"));
}

TEST_F(JobAccessTest, TheActorsOfAJobAreToldWithWhatDecidesWhoSeesThem) {
  v1::JobSpec spec = named("secret");
  spec.set_access("none");
  spec.set_max_restarts(1);
  const std::string id = running(spec, kMei);
  const ActorId first = actor(id);
  ASSERT_TRUE(actors_.contains(1));
  EXPECT_EQ(actors_[1].actors, std::vector<ActorId>{first});
  EXPECT_EQ(access_to(actors_[1].access, {}, kKim), JobAccess::kNone);
  EXPECT_EQ(access_to(actors_[1].access, {}, kMeiElsewhere), JobAccess::kWrite);
  EXPECT_TRUE(actors_[1].access.spec().command().empty());
  exits(id, 1);
  look();
  run(id);
  const ActorId second = actor(id);
  EXPECT_EQ(actors_[1].actors, (std::vector<ActorId>{first, second})) << "what it printed before stays the job's";
  actors_.clear();
  restart();
  EXPECT_EQ(actors_[1].actors, (std::vector<ActorId>{first, second}));
  connect();
  exits(id, 0);
  look();
  ASSERT_TRUE(remove(id, kMei));
  settle();
  EXPECT_TRUE(actors_[1].actors.empty()) << "there is no job any more that says who may see them";
}

TEST_F(JobAccessTest, EventsOfAHiddenJobHaveNothingOfItsOutput) {
  for (const std::string access : {"none", "read"}) {
    v1::JobSpec spec = named("secret-" + access);
    spec.set_access(access);
    v1::LogPolicy& policy = *spec.add_log_policies();
    policy.set_pattern("hush");
    policy.set_action("notify");
    const std::string id = running(spec, kMei);
    core_->on_log_matches(actor(id), 0, {{.policy = 0, .line = "hush, a secret"}}, now_);
    std::string text;
    for (const JobEvent& event : core_->take().events) {
      text += event.text;
      for (const auto& [name, value] : event.fields) text += " " + name + "=" + value;
    }
    EXPECT_THAT(text, HasSubstr("job alert job=" + id));
    EXPECT_EQ(text.find("hush") == std::string::npos, access == "none") << text;
  }
}

TEST_F(JobAccessTest, AnEarlierJobWithoutTheFieldIsRead) {
  v1::Job job;
  job.set_owner("t-mei");
  EXPECT_EQ(access_to(job, {}, kKim), JobAccess::kRead);
  EXPECT_EQ(access_to(job, {}, {.token_id = "t-mei"}), JobAccess::kWrite);
}

TEST_F(JobAccessTest, AProjectWithMembersIsForThem) {
  set([](v1::QueueSettings& settings) {
    v1::Project& project = *settings.add_projects();
    project.set_name("vision");
    project.add_members("mei");
  });
  const std::string job = job_with("write", "vision");
  EXPECT_FALSE(core_->get(job, kKim, now_)) << "others of the project are its members";
  v1::JobSpec spec = named("other");
  spec.set_project("vision");
  const auto refused = try_submit(spec, kKim);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(refused.error().message, HasSubstr("project: vision takes jobs of its members only, and kim is none"));
  EXPECT_THAT(refused.error().message, HasSubstr("volador job queue --apply"));
  EXPECT_THAT(try_submit(spec, {.token_id = "t-1"}).error().message, HasSubstr("token t-1 has no user"));
  EXPECT_TRUE(try_submit(spec, kRoot));
  set([](v1::QueueSettings& settings) { settings.mutable_projects(0)->add_members("kim"); });
  EXPECT_TRUE(core_->get(job, kKim, now_));
  EXPECT_TRUE(try_submit(spec, kKim));
}

TEST_F(JobAccessTest, AProjectMayNameAGroupOfUsers) {
  set([](v1::QueueSettings& settings) {
    v1::Project& project = *settings.add_projects();
    project.set_name("vision");
    project.add_members("@eyes");
  });
  Requester kim = kKim;
  v1::JobSpec spec = named("other");
  spec.set_project("vision");
  EXPECT_FALSE(try_submit(spec, kim));
  kim.groups = {"ears", "eyes"};
  EXPECT_TRUE(try_submit(spec, kim));
  EXPECT_FALSE(try_submit(spec, {.token_id = "t-1", .groups = {"eyes"}})) << "without a user";
  EXPECT_FALSE(try_submit(spec, {.token_id = "t-2", .user = "eyes"})) << "a user of the group's name";
}

TEST_F(JobAccessTest, PrivateJobsAreForOwnersAndOperators) {
  const std::string job = job_with("write");
  set([](v1::QueueSettings& settings) { settings.set_private_jobs(true); });
  EXPECT_FALSE(core_->get(job, kKim, now_));
  EXPECT_TRUE(core_->get(job, kMei, now_));
  EXPECT_TRUE(core_->get(job, kRoot, now_));
}

TEST_F(JobAccessTest, EventsDoNotNameAHiddenJob) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = named("secret");
  request.mutable_spec()->set_access("none");
  ASSERT_TRUE(core_->submit(request, kMei, 0, now_));
  const JobActions actions = core_->take();
  EXPECT_FALSE(actions.events.empty());
  for (const JobEvent& event : actions.events) {
    for (const auto& [field, value] : event.fields)
      EXPECT_THAT(value, ::testing::Not(HasSubstr("secret"))) << event.text << " " << field;
  }
}

TEST_F(JobAccessTest, NothingExceedsTheMaxima) {
  set([](v1::QueueSettings& settings) {
    v1::JobMaxima& maxima = *settings.mutable_maxima();
    maxima.set_restarts(2);
    maxima.set_graceful_s(60);
    maxima.set_duration_s(3600);
  });
  const auto refusal = [this](const std::function<void(v1::JobSpec&)>& change, const Requester& by = kMei) {
    v1::JobSpec spec = named("j");
    spec.set_duration_s(3600);
    change(spec);
    const auto submitted = try_submit(spec, by);
    return submitted ? std::string("none") : submitted.error().message;
  };
  EXPECT_EQ(refusal([](auto&) {}), "none");
  EXPECT_THAT(refusal([](auto& spec) { spec.set_max_restarts(3); }), HasSubstr("max_restarts: at most 2"));
  EXPECT_THAT(refusal([](auto& spec) { spec.set_max_restarts(3); }, kRoot), HasSubstr("max_restarts: at most 2"));
  EXPECT_THAT(refusal([](auto& spec) { spec.set_graceful_s(61); }), HasSubstr("graceful_s: at most 60"));
  EXPECT_THAT(refusal([](auto& spec) { spec.set_duration_s(3601); }), HasSubstr("duration_s: at most 3600"));
  EXPECT_THAT(refusal([](auto& spec) { spec.set_duration_s(0); }), HasSubstr("got 0 (unlimited)"));
  v1::JobSpec spec = named("j");
  spec.set_duration_s(60);
  EXPECT_THAT(extend(submit(spec, kMei), 7200, kMei).error().message, HasSubstr("duration_s: at most 3600"));
}

TEST(JobAccessSpecTest, TheFieldHasThreeValues) {
  v1::JobSpec spec;
  spec.add_command("true");
  EXPECT_EQ(checked_spec(spec)->access(), "read") << "the default";
  spec.set_access("all");
  EXPECT_THAT(checked_spec(spec).error().message, HasSubstr("access: expected none, read or write, got \"all\""));
}

}  // namespace
}  // namespace volador::jobs
