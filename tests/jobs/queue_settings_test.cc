#include "jobs/queue_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "jobs/job_yaml.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

v1::QueueSettings sample_settings() {
  auto settings = settings_from_yaml(R"(preemption: urgent
pools:
  a100: {projects: [vision], note: the large ones}
  old:
projects:
  vision: {weight: 2, limits: {gpus: 16, memory: 512GiB}, urgent_jobs: 4, members: [mei, jo.kim]}
  speech: {limits: {gpus: 0}}
environments:
  cuda12: {source: /opt/conda/envs/cuda12}
maxima: {restarts: 5, graceful: 10min, duration: 2h}
private_jobs: true
)",
                                     "queue.yaml");
  EXPECT_TRUE(settings) << settings.error().message;
  auto checked = checked_settings(settings.value_or(v1::QueueSettings()));
  EXPECT_TRUE(checked) << checked.error().message;
  return checked.value_or(v1::QueueSettings());
}

std::string settings_error(const std::function<void(v1::QueueSettings&)>& change) {
  v1::QueueSettings settings = sample_settings();
  change(settings);
  const auto checked = checked_settings(settings);
  EXPECT_FALSE(checked);
  return checked ? std::string() : checked.error().message;
}

TEST(QueueSettingsTest, TheYamlFileIsReadAndWrittenAgain) {
  const v1::QueueSettings settings = sample_settings();
  ASSERT_EQ(settings.pools_size(), 2);
  EXPECT_EQ(settings.pools(0).name(), "a100");
  EXPECT_THAT(settings.pools(0).projects(), ElementsAre("vision"));
  EXPECT_EQ(settings.pools(1).name(), "old");
  EXPECT_EQ(settings.projects(0).limits().at("memory"), double{512} * (1 << 30));
  EXPECT_EQ(settings.projects(1).weight(), 1);
  EXPECT_EQ(settings.preemption(), "urgent");
  const auto again = settings_from_yaml(yaml_of(settings), "again.yaml");
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(checked_settings(*again)->DebugString(), settings.DebugString());
}

TEST(QueueSettingsTest, AnErrorOfTheFileHasItsLine) {
  const auto wrong = settings_from_yaml("projects:\n  vision: {wieght: 2}\n", "queue.yaml");
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().message, StartsWith("queue.yaml:2:12: there is no field \"wieght\"; did you mean weight?"));
  EXPECT_THAT(settings_from_yaml("pools: [a100]", "queue.yaml").error().message,
              StartsWith("queue.yaml:1:8: pools: expected a map by name"));
  EXPECT_THAT(settings_from_yaml("projects: {a: {limits: {gpus: many}}}", "q").error().message,
              HasSubstr("limits.gpus: expected a number, got \"many\""));
}

TEST(QueueSettingsTest, RulesOfTheFields) {
  EXPECT_THAT(settings_error([](auto& s) { s.add_pools()->set_name("a100"); }), HasSubstr("a100 is given twice"));
  EXPECT_THAT(settings_error([](auto& s) { s.add_pools(); }), HasSubstr("pools: expected a name"));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_projects(0)->set_weight(-1); }),
              HasSubstr("projects: vision: weight: expected above 0"));
  EXPECT_THAT(settings_error([](auto& s) { (*s.mutable_projects(0)->mutable_limits())["gpus"] = -2; }),
              HasSubstr("projects: vision: limits: expected"));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_projects(0)->set_urgent_jobs(-1); }), HasSubstr("urgent_jobs"));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_projects(0)->add_members("Mei"); }),
              HasSubstr("projects: vision: members: \"Mei\" is no name of a user"));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_projects(0)->add_members("@Eyes"); }),
              HasSubstr("projects: vision: members: \"Eyes\" is no name of a group"));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_maxima()->set_debug_s(-1); }),
              HasSubstr("maxima: debug_s: expected 0 (no limit) or more, got -1"));
  EXPECT_THAT(settings_error([](auto& s) { s.set_preemption("always"); }),
              HasSubstr("preemption: expected never, urgent or very_urgent, got \"always\""));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_environments(0)->set_source("cuda11"); }),
              HasSubstr("environments: cuda12: source: expected host, a path or an image"));
  EXPECT_THAT(settings_error([](auto& s) { s.mutable_environments(0)->set_name("host"); }),
              HasSubstr("other than host"));
}

TEST(QueueSettingsTest, ThePlannerGetsWeightsLimitsQuotasAndPreemption) {
  const PlannerOptions options = planner_options(sample_settings());
  EXPECT_EQ(options.weights.at("vision"), 2);
  EXPECT_EQ(options.limits.at("vision").get("gpus"), 16 * kUnit);
  EXPECT_EQ(options.limits.at("vision").get("memory"), int64_t{512} << 30);
  EXPECT_EQ(options.limits.at("speech").get("gpus"), 1);  // Less than what any job asks for.
  EXPECT_EQ(options.urgent_quota.at("vision"), 4);
  EXPECT_EQ(options.preempt_from, JobPriority::kUrgent);
  EXPECT_EQ(planner_options({}).preempt_from, std::nullopt);
}

TEST(QueueSettingsTest, AnExclusivePoolTakesItsProjectsOnly) {
  const v1::QueueSettings settings = sample_settings();
  EXPECT_TRUE(check_pool(settings, {}, "a100", "vision"));
  EXPECT_TRUE(check_pool(settings, {}, "default", "speech"));
  EXPECT_TRUE(check_pool(settings, {"spot"}, "spot", "speech"));
  const auto other = check_pool(settings, {}, "a100", "speech");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(other.error().message,
              HasSubstr("a100 takes jobs of vision only, and this job belongs to project speech"));
  const auto unknown = check_pool(settings, {"spot"}, "h100", "vision");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("there is no pool \"h100\"; the pools are a100, default, old, spot"));
}

TEST(QueueSettingsTest, ANamedEnvironmentIsResolved) {
  const v1::QueueSettings settings = sample_settings();
  EXPECT_EQ(*resolved_environment(settings, "cuda12"), "/opt/conda/envs/cuda12");
  EXPECT_EQ(*resolved_environment(settings, ""), "");
  EXPECT_EQ(*resolved_environment(settings, "host"), "host");
  EXPECT_EQ(*resolved_environment(settings, "requirements.txt"), "requirements.txt");
  const auto unknown = resolved_environment(settings, "cuda11");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message, HasSubstr("there is no environment \"cuda11\"; did you mean cuda12?"));
}

}  // namespace
}  // namespace volador::jobs
