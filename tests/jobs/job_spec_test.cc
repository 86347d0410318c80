#include "jobs/job_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::JobSpec small_spec() {
  v1::JobSpec spec;
  for (const char* word : {"python3", "train.py"}) spec.add_command(word);
  return spec;
}

// A change of a sound specification, and what the refusal says: the field, the value and the rule.
struct SpecCase {
  std::function<void(v1::JobSpec&)> change;
  std::vector<std::string> says;  // Empty: it is accepted.
};

void check_specs(const std::vector<SpecCase>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    v1::JobSpec spec = small_spec();
    cases[i].change(spec);
    const auto checked = checked_spec(spec);
    if (cases[i].says.empty()) {
      EXPECT_TRUE(checked) << "case " << i << ": " << checked.error().message;
      continue;
    }
    ASSERT_FALSE(checked) << "case " << i << ": expected " << cases[i].says.front();
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument) << "case " << i;
    for (const std::string& part : cases[i].says) EXPECT_THAT(checked.error().message, HasSubstr(part)) << "case " << i;
  }
}

TEST(JobSpecTest, DefaultsAreFilledIn) {
  const auto spec = checked_spec(small_spec());
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->name(), "");
  EXPECT_THAT(spec->command(), ElementsAre("python3", "train.py"));
  EXPECT_EQ(spec->nodes(), 1);
  EXPECT_EQ(spec->cpus(), 1);
  EXPECT_EQ(spec->gpus(), 0);
  EXPECT_EQ(spec->memory_bytes(), 0);
  EXPECT_EQ(spec->mode(), "single");
  EXPECT_EQ(spec->priority(), "normal");
  EXPECT_EQ(spec->duration_s(), 0);
  EXPECT_EQ(spec->max_restarts(), 0);
  EXPECT_EQ(spec->graceful_s(), 30);
  EXPECT_EQ(spec->project(), "default");
  EXPECT_EQ(checked_spec(*spec)->DebugString(), spec->DebugString());
}

TEST(JobSpecTest, GivenValuesAreKept) {
  v1::JobSpec spec = small_spec();
  spec.set_name("digits");
  spec.set_nodes(2);
  spec.set_cpus(0.5);
  spec.set_gpus(2);
  spec.set_memory_bytes(1 << 30);
  (*spec.mutable_resources())["licence"] = 1;
  spec.set_mode("torchrun");
  spec.set_priority("very_urgent");
  spec.set_duration_s(60);
  spec.set_max_restarts(3);
  spec.set_graceful_s(5);
  spec.set_project("vision");
  spec.set_pool("a100");
  spec.set_stop_signal("USR1");
  spec.set_access("write");
  const auto checked = checked_spec(spec);
  ASSERT_TRUE(checked) << checked.error().message;
  EXPECT_EQ(checked->DebugString(), spec.DebugString());
  EXPECT_EQ(*resources_of(*checked),
            *ResourceSet::from({.cpus = 0.5, .gpus = 2, .memory = 1 << 30, .custom = {{"licence", 1}}}));
}

TEST(JobSpecTest, BatchesAndOutputsAreChecked) {
  check_specs({
      {[](auto& spec) { spec.set_batch("a"); }, {"batch_size:", "expected 1 to 10000", "got 0"}},
      {[](auto& spec) { spec.set_batch_size(2); }, {"batch:", "expected a name"}},
      {[](auto& spec) {
         spec.set_batch("a");
         spec.set_batch_size(2);
         spec.set_batch_index(2);
       },
       {"batch_index:", "expected 0 to 1", "got 2"}},
      {[](auto& spec) { spec.set_output("out"); }, {"output:", "an absolute path", "got out"}},
      {[](auto& spec) { spec.set_output("/data/out"); }, {}},
      {[](auto& spec) { spec.set_pool("a\nb"); }, {"pool:", "control characters"}},
  });
}

TEST(JobSpecTest, TextsAreChecked) {
  check_specs({
      {[](auto& spec) { spec.set_name(std::string(128, 'a')); }, {}},
      {[](auto& spec) { spec.set_name(std::string(129, 'a')); }, {"name:", "at most 128 bytes", "129"}},
      {[](auto& spec) { spec.set_name("a\nb"); }, {"name:", "control characters", "a\nb"}},
      {[](auto& spec) { spec.set_project(std::string(129, 'a')); }, {"project:", "at most 128 bytes", "129"}},
      {[](auto& spec) { spec.set_project("a\x7f"); }, {"project:", "control characters"}},
      {[](auto& spec) { spec.set_note(std::string(16'384, 'a')); }, {}},
      {[](auto& spec) { spec.set_note(std::string(16'385, 'a')); }, {"note:", "at most 16384 bytes", "16385"}},
      {[](auto& spec) { spec.set_setup(std::string(300'000, 'a')); }, {"job:", "at most 262144 bytes", "code folder"}},
  });
}

TEST(JobSpecTest, TheCommandIsChecked) {
  check_specs({
      {[](auto& spec) { spec.clear_command(); }, {"command"}},
      {[](auto& spec) { spec.set_command(0, ""); }, {"command"}},
      {[](auto& spec) { spec.set_command(0, "A=1"); }, {"A=1", "bash -c"}},
      {[](auto& spec) { spec.add_command("&&"); }, {"&&", "bash -c"}},
      {[](auto& spec) { spec.set_command(1, std::string("a\0b", 3)); }, {"zero byte"}},
  });
}

TEST(JobSpecTest, TheEnvironmentIsChecked) {
  check_specs({
      {[](auto& spec) { (*spec.mutable_env())["A"] = "b=c"; }, {}},
      {[](auto& spec) { (*spec.mutable_env())["A"] = ""; }, {}},
      {[](auto& spec) { (*spec.mutable_env())[""] = "1"; }, {"env:", "NAME=VALUE", "\"=1\""}},
      {[](auto& spec) { (*spec.mutable_env())["A=B"] = "1"; }, {"env:", "NAME=VALUE", "A=B"}},
      {[](auto& spec) { (*spec.mutable_env())["A"] = std::string("x\0y", 3); }, {"env:", "NAME=VALUE"}},
      {[](auto& spec) { (*spec.mutable_secrets())["A"] = "b"; }, {}},
      {[](auto& spec) { (*spec.mutable_secrets())["A=B"] = "hidden"; }, {"secrets:", "A=B"}},
      {[](auto& spec) { (*spec.mutable_secrets())["A"] = "***"; }, {"secrets: A:", "give the value itself"}},
      {[](auto& spec) { (*spec.mutable_secrets())["A"] = (*spec.mutable_env())["A"] = "b"; },
       {"secrets: A:", "env has"}},
  });
}

TEST(JobSpecTest, TheCodeFolderIsChecked) {
  const std::string hash(64, 'a');
  check_specs({
      {[&](auto& spec) { spec.set_files_sha256(hash); }, {}},
      {[&](auto& spec) { spec.set_files_sha256(hash + "a"); }, {"files_sha256:", "64 hex digits", hash + "a"}},
      {[&](auto& spec) { spec.set_files_sha256(std::string(64, 'g')); }, {"files_sha256:", "64 hex digits", "ggg"}},
      {[&](auto& spec) { spec.set_files_sha256(std::string(64, 'A')); }, {"files_sha256:", "64 hex digits", "AAA"}},
      {[&](auto& spec) {
         spec.set_files_sha256(hash);
         spec.set_directory("src/deep..er");
       },
       {}},
      {[&](auto& spec) {
         spec.set_files_sha256(hash);
         spec.set_directory("/tmp");
       },
       {"directory:", "relative", "/tmp"}},
      {[&](auto& spec) {
         spec.set_files_sha256(hash);
         spec.set_directory("src/../..");
       },
       {"directory:", "inside the code folder", "src/../.."}},
      {[](auto& spec) { spec.set_directory("/data/../code"); }, {}},
  });
}

TEST(JobSpecTest, TheWorkingDirectoryAndTheSetupHaveNoZeroByte) {
  check_specs({
      {[](auto& spec) { spec.set_directory(std::string("/tmp\0/x", 7)); }, {"directory:", "control characters"}},
      {[](auto& spec) { spec.set_setup(std::string("a\0b", 3)); }, {"setup:", "zero byte"}},
  });
}

TEST(JobSpecTest, NumbersAreChecked) {
  check_specs({
      {[](auto& spec) { spec.set_nodes(1000); }, {}},
      {[](auto& spec) { spec.set_nodes(1001); }, {"nodes:", "1 to 1000", "1001"}},
      {[](auto& spec) { spec.set_nodes(-1); }, {"nodes:", "1 to 1000", "-1"}},
      {[](auto& spec) { spec.set_duration_s(kDurationMaxS); }, {}},
      {[](auto& spec) { spec.set_duration_s(kDurationMaxS + 1); }, {"duration_s:", "0 to 31622400", "31622401"}},
      {[](auto& spec) { spec.set_duration_s(-1); }, {"duration_s:", "0 to 31622400", "-1"}},
      {[](auto& spec) { spec.set_max_restarts(1000); }, {}},
      {[](auto& spec) { spec.set_max_restarts(1001); }, {"max_restarts:", "0 to 1000", "1001"}},
      {[](auto& spec) { spec.set_max_restarts(-1); }, {"max_restarts:", "0 to 1000", "-1"}},
      {[](auto& spec) { spec.set_graceful_s(86'400); }, {}},
      {[](auto& spec) { spec.set_graceful_s(86'401); }, {"graceful_s:", "1 to 86400", "86401"}},
      {[](auto& spec) { spec.set_graceful_s(-1); }, {"graceful_s:", "1 to 86400", "-1"}},
      {[](auto& spec) { spec.set_shm_bytes(-1); }, {"shm_bytes:", "-1"}},
      {[](auto& spec) { spec.set_environment("two words"); },
       {"environment \"two words\"", "expected host, a file of"}},
      {[](auto& spec) { spec.set_environment("../x.txt"); }, {"environment \"../x.txt\"", "cannot contain \"..\""}},
      {[](auto& spec) { spec.set_environment("requirements.txt"); }, {}},
      {[](auto& spec) { spec.set_environment("cuda12"); }, {}},
  });
}

TEST(JobSpecTest, ResourcesAreChecked) {
  check_specs({
      {[](auto& spec) { spec.set_gpus(0.5); }, {}},
      {[](auto& spec) { spec.set_gpus(1.5); }, {"gpus", "1.5"}},
      {[](auto& spec) { spec.set_gpus(-1); }, {"gpus", "-1"}},
      {[](auto& spec) { spec.set_cpus(-1); }, {"cpus", "-1"}},
      {[](auto& spec) { spec.set_cpus(std::nan("")); }, {"cpus", "nan"}},
      {[](auto& spec) { spec.set_cpus(0.00001); }, {"cpus"}},
      {[](auto& spec) { spec.set_memory_bytes(-1); }, {"memory", "-1"}},
      {[](auto& spec) { (*spec.mutable_resources())["licence"] = -1; }, {"licence", "-1"}},
      {[](auto& spec) { (*spec.mutable_resources())[""] = 1; }, {"resource"}},
      {[](auto& spec) { (*spec.mutable_resources())["gpus"] = 1; }, {"gpus"}},
  });
}

TEST(JobSpecTest, WordsAreChecked) {
  check_specs({
      {[](auto& spec) { spec.set_mode("ring"); }, {"mode", "ring", "torchrun"}},
      {[](auto& spec) { spec.set_priority("high"); }, {"priority", "high", "urgent"}},
      {[](auto& spec) {
         spec.set_mode("tensorflow");
         spec.set_nodes(3);
         spec.set_parameter_servers(1);
       },
       {}},
      {[](auto& spec) { spec.set_parameter_servers(1); }, {"parameter_servers:", "only mode tensorflow", "single"}},
      {[](auto& spec) {
         spec.set_mode("tensorflow");
         spec.set_nodes(2);
         spec.set_parameter_servers(2);
       },
       {"parameter_servers", "2"}},
      {[](auto& spec) {
         spec.set_mode("tensorflow");
         spec.set_parameter_servers(-1);
       },
       {"parameter_servers", "-1"}},
      {[](auto& spec) {
         spec.set_mode("torchrun");
         spec.clear_command();
         spec.add_command("python3");
       },
       {"python"}},
  });
}

TEST(JobSpecTest, NodeNamesAreAsManyAsNodes) {
  check_specs({
      {[](auto& spec) { spec.add_node_names("oak"); }, {}},
      {[](auto& spec) {
         spec.set_nodes(2);
         spec.add_node_names("oak");
       },
       {"node_names:", "this one has 2 nodes", "labels"}},
      {[](auto& spec) {
         spec.set_nodes(2);
         for (int i = 0; i < 2; ++i) spec.add_node_names("oak");
       },
       {"node_names:", "this one has 2 nodes", "labels"}},
  });
}

TEST(JobSpecTest, AJobWithMountsIsIsolated) {
  v1::JobSpec spec = small_spec();
  spec.add_mounts("/data:/data:ro");
  EXPECT_TRUE(checked_spec(spec)->isolated());
  spec = small_spec();
  spec.set_shm_bytes(1 << 20);
  EXPECT_TRUE(checked_spec(spec)->isolated());
  EXPECT_FALSE(checked_spec(small_spec())->isolated());
  // The files of an image take the place of those of the node.
  v1::JobSpec image = small_spec();
  image.set_environment("docker://registry/cuda:12");
  EXPECT_TRUE(checked_spec(image)->isolated());
  check_specs({{[](auto& each) { each.add_mounts("data"); }, {"data"}}});
}

}  // namespace
}  // namespace volador::jobs
