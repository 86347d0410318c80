#include "jobs/job_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "jobs/job_yaml.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

JobSet set_of(const std::string& yaml) {
  const auto set = jobs_from_yaml(yaml, "jobs.yaml");
  EXPECT_TRUE(set) << set.error().message;
  return set.value_or(JobSet());
}

TEST(JobSetTest, OneDescriptionIsOneJob) {
  const auto jobs = jobs_of(set_of("{name: a, command: [x]}"), "u");
  ASSERT_TRUE(jobs);
  ASSERT_EQ(jobs->size(), 1u);
  EXPECT_EQ(jobs->front().name(), "a");
  EXPECT_THAT(jobs->front().batch(), IsEmpty());
}

TEST(JobSetTest, AnArrayIsABatchOfJobsThatDifferInTheirIndex) {
  JobSet set = set_of("{name: sweep, command: [x], output: /data/out}");
  set.array = 3;
  const auto jobs = jobs_of(set, "u");
  ASSERT_TRUE(jobs);
  ASSERT_EQ(jobs->size(), 3u);
  const v1::JobSpec& last = jobs->back();
  EXPECT_EQ(last.name(), "sweep-2");
  EXPECT_EQ(last.batch(), "sweep");
  EXPECT_EQ(last.batch_index(), 2);
  EXPECT_EQ(last.batch_size(), 3);
  EXPECT_EQ(last.output(), "/data/out/sweep-2");
  EXPECT_THAT(last.command(), ElementsAre("x"));
}

TEST(JobSetTest, TasksReplaceFieldsOfTheBase) {
  const auto jobs = jobs_of(set_of(R"(command: [base, words]
gpus: 1
env: {A: "1", B: "2"}
tasks:
  - {command: [one], env: {A: "3"}}
  - {gpus: 2}
)"),
                            "x1");
  ASSERT_TRUE(jobs);
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_THAT((*jobs)[0].command(), ElementsAre("one"));
  EXPECT_EQ((*jobs)[0].env().at("A"), "3");
  EXPECT_EQ((*jobs)[0].env().at("B"), "2");
  EXPECT_THAT((*jobs)[1].command(), ElementsAre("base", "words"));
  EXPECT_EQ((*jobs)[1].gpus(), 2);
  EXPECT_EQ((*jobs)[1].name(), "batch-x1-1");
}

TEST(JobSetTest, AlternativesShareAText) {
  const auto jobs = jobs_of(set_of("{command: [x], alternatives: [{gpus: 4, pool: a100}, {gpus: 8}]}"), "u7");
  ASSERT_TRUE(jobs);
  ASSERT_EQ(jobs->size(), 2u);
  EXPECT_EQ((*jobs)[0].one_of(), "u7");
  EXPECT_EQ((*jobs)[0].pool(), "a100");
  EXPECT_EQ((*jobs)[1].one_of(), "u7");
  EXPECT_EQ((*jobs)[1].gpus(), 8);
  EXPECT_THAT((*jobs)[1].batch(), IsEmpty());
}

TEST(JobSetTest, ErrorsHaveThePlaceOrTheRule) {
  EXPECT_THAT(jobs_from_yaml("command: [x]\ntasks:\n  - {gpu: 1}\n", "jobs.yaml").error().message,
              StartsWith("jobs.yaml:3:6: there is no field \"gpu\""));
  EXPECT_THAT(jobs_from_yaml("tasks: 3", "jobs.yaml").error().message,
              StartsWith("jobs.yaml:1:8: tasks: expected a list of maps"));
  JobSet both = set_of("{command: [x], tasks: [{gpus: 1}]}");
  both.array = 2;
  EXPECT_THAT(jobs_of(both, "u").error().message, HasSubstr("more than one of them"));
  JobSet many;
  many.array = 10'001;
  EXPECT_THAT(jobs_of(many, "u").error().message, HasSubstr("expected at most 10000 in a batch, got 10001"));
}

}  // namespace
}  // namespace volador::jobs
