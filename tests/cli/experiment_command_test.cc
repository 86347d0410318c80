#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command_line_fixture.h"

namespace volador::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kExperiment = R"(entrypoint: model_def:MNistTrial
records_per_epoch: 50_000
hyperparameters: {global_batch_size: 64, lr: 0.1}
searcher: {name: single, metric: loss, max_length: {epochs: 1}}
environment: {environment_variables: [HF_TOKEN=hf_abc]}
checkpoint_storage: {type: s3, bucket: models, secret_key: geheim}
)";

class ExperimentCommands : public CommandLineTest {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const auto path = folder_.path() / name;
    std::ofstream(path) << text;
    return path.string();
  }
};

TEST_F(ExperimentCommands, ValidateSaysThatAConfigurationIsValid) {
  const std::string file = write("mnist.yaml", kExperiment);
  const Output output = run({"experiment", "validate", file});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_EQ(output.out, file + ": the configuration is valid\n");
  EXPECT_EQ(output.error, "");
}

TEST_F(ExperimentCommands, ValidatePrintsAllErrorsAndWarnings) {
  const std::string file =
      write("bad.yaml",
            "entrypoint: a:B\nhyperparameters: {global_batch_size: 8, x: {type: intt}}\nsearcher:\n"
            "  name: adaptive_asha\n  mode: agressive\n  max_trials: ten\n  max_length: 5\n");
  const Output output = run({"experiment", "validate", file});
  EXPECT_EQ(output.code, 3);
  EXPECT_THAT(output.error, HasSubstr("error: hyperparameters.x.type: expected one of const, int"));
  EXPECT_THAT(output.error, HasSubstr("bad.yaml:2:51)"));
  EXPECT_THAT(output.error,
              HasSubstr("error: searcher.max_trials: expected a whole number of at least 1, got \"ten\""));
  EXPECT_THAT(output.error, HasSubstr("error: searcher.metric: is a required property"));
  EXPECT_THAT(output.error, HasSubstr("warning: searcher.mode: agressive is read as aggressive"));
  EXPECT_THAT(output.error, HasSubstr("errors in the configuration: 3"));
}

TEST_F(ExperimentCommands, ValidatePrintsJson) {
  const Output good = run({"experiment", "validate", write("mnist.yaml", kExperiment), "--json"});
  EXPECT_EQ(good.code, 0);
  EXPECT_EQ(nlohmann::json::parse(good.out)["valid"], true);

  const Output bad = run({"experiment", "validate", write("bad.yaml", "nam: x\nmax_restarts: -1\n"), "--json"});
  EXPECT_EQ(bad.code, 3);
  EXPECT_EQ(bad.error, "");
  const auto json = nlohmann::json::parse(bad.out);
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["valid"], false);
  ASSERT_GE(json["errors"].size(), 2u);
  EXPECT_EQ(json["errors"][0]["path"], "nam");
  EXPECT_EQ(json["errors"][0]["line"], 1);
  EXPECT_EQ(json["errors"][0]["column"], 1);
  EXPECT_EQ(json["errors"][1]["path"], "max_restarts");
  EXPECT_EQ(json["errors"][1]["line"], 2);
}

TEST_F(ExperimentCommands, ValidatePlacesErrorsOfYaml) {
  const Output output = run({"experiment", "validate", write("bad.yaml", "a: 1\nb: [1, 2\n"), "--json"});
  EXPECT_EQ(output.code, 3);
  const auto json = nlohmann::json::parse(output.out);
  ASSERT_EQ(json["errors"].size(), 1u);
  EXPECT_THAT(json["errors"][0]["message"].get<std::string>(), HasSubstr("not valid YAML"));
  EXPECT_EQ(json["errors"][0]["line"], 3);
}

TEST_F(ExperimentCommands, ATemplateFillsWhatTheConfigurationLacks) {
  const std::string file = write("mnist.yaml", kExperiment);
  const std::string site = write("site.yaml", "max_restarts: 2\nresources: {resource_pool: a100}\n");
  const Output output = run({"experiment", "config", file, "--template=" + site});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("\nmax_restarts: 2\n"));
  EXPECT_THAT(output.out, HasSubstr("resource_pool: a100\n"));
}

TEST_F(ExperimentCommands, ConfigPrintsAllKeysWithoutSecrets) {
  const std::string file = write("mnist.yaml", kExperiment);
  const Output output = run({"experiment", "config", file});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("name: mnist\n"));
  EXPECT_THAT(output.out, HasSubstr("scheduling_unit: 100\n"));
  EXPECT_THAT(output.out, HasSubstr("secret_key: \"********\"\n"));
  for (const char* secret : {"geheim", "hf_abc"}) EXPECT_THAT(output.out, Not(HasSubstr(secret)));
  // What it prints is a configuration.
  EXPECT_EQ(run({"experiment", "validate", write("complete.yaml", output.out)}).code, 0);

  const Output json = run({"experiment", "config", file, "--json"});
  EXPECT_EQ(json.code, 0);
  const auto config = nlohmann::json::parse(json.out);
  EXPECT_EQ(config["hyperparameters"]["lr"]["val"], 0.1);
  EXPECT_EQ(config["searcher"]["max_length"]["epochs"], 1);
}

TEST_F(ExperimentCommands, NameTheFileThatCannotBeRead) {
  const Output output = run({"experiment", "validate", (folder_.path() / "none.yaml").string()});
  EXPECT_EQ(output.code, 1);
  EXPECT_THAT(output.error, HasSubstr("none.yaml"));
  EXPECT_EQ(run({"experiment"}).code, 2);
}

TEST_F(ExperimentCommands, PreviewSearchShowsTrialsAndLengths) {
  const std::string file =
      write("asha.yaml",
            "entrypoint: model_def:MNistTrial\n"
            "hyperparameters:\n  global_batch_size: 64\n"
            "  lr: {type: log, base: 10, minval: -4, maxval: -1}\n"
            "searcher: {name: adaptive_asha, metric: loss, max_trials: 128, max_length: {batches: 6400}}\n"
            "checkpoint_storage: {type: shared_fs, host_path: /mnt}\n");
  const Output output = run({"experiment", "preview-search", file});
  EXPECT_EQ(output.code, 0) << output.error;
  EXPECT_THAT(output.out, HasSubstr("adaptive_asha: 128 trials, "));
  EXPECT_THAT(output.out, HasSubstr("       1        89           6  100, 400, 1600, 6400\n"));
  const auto json = nlohmann::json::parse(run({"experiment", "preview-search", file, "--seed=3", "--json"}).out);
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["trials"], 128);
  EXPECT_EQ(json["unit"], "batches");
  EXPECT_EQ(json["brackets"].size(), 3U);
  const Output grid = run({"experiment", "preview-search", write("mnist.yaml", kExperiment)});
  EXPECT_THAT(grid.out, HasSubstr("single: 1 trial, 1 epochs in total\n"));
}

}  // namespace
}  // namespace volador::cli
