#include "jobs/job_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

v1::JobSpec yaml_spec(const std::string& text) {
  const auto spec = jobs_from_yaml(text, "job.yaml");
  EXPECT_TRUE(spec) << spec.error().message;
  return spec ? spec->base : v1::JobSpec();
}

std::string yaml_error(const std::string& text) {
  const auto spec = jobs_from_yaml(text, "job.yaml");
  EXPECT_FALSE(spec) << text;
  if (spec) return {};
  EXPECT_EQ(spec.error().code, ErrorCode::kInvalidArgument);
  return spec.error().message;
}

TEST(JobYamlTest, EveryFieldIsRead) {
  const v1::JobSpec spec = yaml_spec(R"(# A job.
name: digits
command: [python3, train.py, "--lr=0.1"]
setup: pip install -r requirements.txt
env:
  SEED: 5
  EMPTY: ""
nodes: 2
cpus: 1.5
gpus: 4
memory: 16GiB
resources: {licence: 2, disk: 0.5}
mode: torchrun
parameter_servers: 1
priority: urgent
duration: 1h30m
max_restarts: 3
graceful: 90s
directory: src
node_names: [oak, elm]
labels: {zone: a}
project: vision
isolated: true
environment: uv.lock
mounts: [/data:/data:ro]
shm: 2GiB
note: |
  first
  second
)");
  EXPECT_EQ(spec.name(), "digits");
  EXPECT_THAT(spec.command(), ElementsAre("python3", "train.py", "--lr=0.1"));
  EXPECT_EQ(spec.setup(), "pip install -r requirements.txt");
  EXPECT_EQ(spec.env().at("SEED"), "5");
  EXPECT_EQ(spec.env().at("EMPTY"), "");
  EXPECT_EQ(spec.nodes(), 2);
  EXPECT_EQ(spec.cpus(), 1.5);
  EXPECT_EQ(spec.gpus(), 4);
  EXPECT_EQ(spec.memory_bytes(), int64_t{16} << 30);
  EXPECT_EQ(spec.resources().at("licence"), 2);
  EXPECT_EQ(spec.resources().at("disk"), 0.5);
  EXPECT_EQ(spec.mode(), "torchrun");
  EXPECT_EQ(spec.parameter_servers(), 1);
  EXPECT_EQ(spec.priority(), "urgent");
  EXPECT_EQ(spec.duration_s(), 5400);
  EXPECT_EQ(spec.max_restarts(), 3);
  EXPECT_EQ(spec.graceful_s(), 90);
  EXPECT_EQ(spec.directory(), "src");
  EXPECT_THAT(spec.node_names(), ElementsAre("oak", "elm"));
  EXPECT_EQ(spec.labels().at("zone"), "a");
  EXPECT_EQ(spec.project(), "vision");
  EXPECT_TRUE(spec.isolated());
  EXPECT_EQ(spec.environment(), "uv.lock");
  EXPECT_THAT(spec.mounts(), ElementsAre("/data:/data:ro"));
  EXPECT_EQ(spec.shm_bytes(), int64_t{2} << 30);
  EXPECT_EQ(spec.note(), "first\nsecond\n");
}

TEST(JobYamlTest, FieldsWithUnitsAreAlsoReadByTheirFullNames) {
  const v1::JobSpec spec = yaml_spec("{memory_bytes: 1024, duration_s: 60, graceful_s: 5}");
  EXPECT_EQ(spec.memory_bytes(), 1024);
  EXPECT_EQ(spec.duration_s(), 60);
  EXPECT_EQ(spec.graceful_s(), 5);
}

TEST(JobYamlTest, ATimeIsRoundedUpToSeconds) {
  EXPECT_EQ(yaml_spec("duration: 1500ms").duration_s(), 2);
  EXPECT_EQ(yaml_spec("duration: 0").duration_s(), 0);
}

TEST(JobYamlTest, ACommandAsOneTextIsRunByBash) {
  EXPECT_THAT(yaml_spec("command: python3 train.py && echo done").command(),
              ElementsAre("bash", "-c", "python3 train.py && echo done"));
  EXPECT_THAT(yaml_spec("command: |\n  cd src\n  make\n").command(), ElementsAre("bash", "-c", "cd src\nmake\n"));
}

TEST(JobYamlTest, AnUnknownFieldIsNamedWithItsPlaceAndTheNearestWord) {
  EXPECT_THAT(yaml_error("name: a\n\ncomand: [x]\n"), StartsWith("job.yaml:3:1: there is no field \"comand\""));
  EXPECT_THAT(yaml_error("name: a\n\ncomand: [x]\n"), HasSubstr("did you mean command?"));
  EXPECT_THAT(yaml_error("memry: 1GiB"), HasSubstr("did you mean memory?"));
  EXPECT_THAT(yaml_error("duratoin: 1h"), HasSubstr("did you mean duration?"));
  EXPECT_THAT(yaml_error("zzzzzzzz: 1"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(yaml_error("files_sha256: abc"), HasSubstr("there is no field \"files_sha256\""));
  EXPECT_THAT(yaml_error("files_sha25: abc"), Not(HasSubstr("files_sha256?")));
}

TEST(JobYamlTest, AValueOfAnotherTypeIsNamedWithItsPlace) {
  EXPECT_THAT(yaml_error("name: a\nnodes: two"),
              StartsWith("job.yaml:2:8: nodes: expected a number such as 4, or 2-4 for an elastic job, got \"two\""));
  EXPECT_THAT(yaml_error("nodes: 1.5"),
              StartsWith("job.yaml:1:8: nodes: expected a number such as 4, or 2-4 for an elastic job, got \"1.5\""));
  EXPECT_THAT(yaml_error("min_nodes: 5000000000"), StartsWith("job.yaml:1:12: min_nodes: 5000000000 is out of range"));
  EXPECT_THAT(yaml_error("gpus: many"), StartsWith("job.yaml:1:7: gpus: expected a number, got \"many\""));
  EXPECT_THAT(yaml_error("gpus: [1]"), HasSubstr("gpus: expected a number, got \"a list\""));
  EXPECT_THAT(yaml_error("gpus:"), HasSubstr("gpus: expected a number, got \"nothing\""));
  EXPECT_THAT(yaml_error("isolated: maybe"), StartsWith("job.yaml:1:11: isolated: expected true or false, got"));
  EXPECT_THAT(yaml_error("name: [a]"), StartsWith("job.yaml:1:7: name: expected a text, got a list"));
  EXPECT_THAT(yaml_error("command: {a: b}"), StartsWith("job.yaml:1:10: command: expected a list, got \"a map\""));
  EXPECT_THAT(yaml_error("command: [a, [b]]"), StartsWith("job.yaml:1:14: command: expected texts, got a list"));
  EXPECT_THAT(yaml_error("node_names: oak"), HasSubstr("node_names: expected a list, got \"oak\""));
  EXPECT_THAT(yaml_error("env: [A=1]"), StartsWith("job.yaml:1:6: env: expected a map, got \"a list\""));
  EXPECT_THAT(yaml_error("env:\n  A: [1]"), StartsWith("job.yaml:2:6: env.A: expected one value, got a list"));
  EXPECT_THAT(yaml_error("resources: {disk: much}"),
              StartsWith("job.yaml:1:19: resources.disk: expected a number, got \"much\""));
  EXPECT_THAT(yaml_error("labels: a"), StartsWith("job.yaml:1:9: labels: expected a map, got \"a\""));
}

TEST(JobYamlTest, AWrongUnitIsNamedWithAnExample) {
  for (const std::string& error : {yaml_error("memory: 16 apples"), yaml_error("memory: [1]")}) {
    EXPECT_THAT(error, StartsWith("job.yaml:1:9: memory: expected"));
    EXPECT_THAT(error, HasSubstr("such as 16GiB"));
  }
  for (const std::string& error :
       {yaml_error("duration: 90"), yaml_error("duration: soon"), yaml_error("duration: {h: 1}")}) {
    EXPECT_THAT(error, StartsWith("job.yaml:1:11: duration: expected"));
    EXPECT_THAT(error, HasSubstr("such as 2h"));
  }
  EXPECT_THAT(yaml_error("graceful: 10 parsecs"), StartsWith("job.yaml:1:11: graceful: expected"));
  EXPECT_THAT(yaml_error("memory: 16 apples"), HasSubstr("16 apples"));
}

// YAML has no rule which of them counts.
TEST(JobYamlTest, AFieldGivenTwiceIsRefused) {
  EXPECT_THAT(yaml_error("nodes: 1\nnodes: 2"), StartsWith("job.yaml:2:1: nodes"));
  EXPECT_THAT(yaml_error("command: a\ncommand: b"), StartsWith("job.yaml:2:1: command"));
  EXPECT_THAT(yaml_error("memory: 1GiB\nmemory_bytes: 5"), StartsWith("job.yaml:2:1: memory_bytes"));
}

TEST(JobYamlTest, WhatIsNoYamlIsRefusedWithItsPlace) {
  EXPECT_THAT(yaml_error("name: a\ncommand: [a, b"), StartsWith("job.yaml:"));
  EXPECT_THAT(yaml_error("name: a\n\tnodes: 1"), StartsWith("job.yaml:2:"));
  EXPECT_THAT(yaml_error("[a, b]"), StartsWith("job.yaml:1:1: a job is a map of fields"));
  EXPECT_THAT(yaml_error("text"), StartsWith("job.yaml:1:1: a job is a map of fields"));
  EXPECT_THAT(yaml_error(""), StartsWith("job.yaml:1:1: a job is a map of fields"));
  EXPECT_THAT(yaml_error("[a]: b"), StartsWith("job.yaml:1:1: "));
}

}  // namespace
}  // namespace volador::jobs
