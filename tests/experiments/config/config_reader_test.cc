#include "experiments/config/config_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "experiments/config/secrets.h"
#include "runtime/yaml/reader.h"

namespace volador::experiments {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using yaml::Value;

constexpr const char* kConfig = R"(name: cifar
entrypoint: python3 -m determined.launch.torch_distributed model_def:CifarTrial
records_per_epoch: 50_000
min_validation_period: {epochs: 1}
labels: [vision]
hyperparameters:
  global_batch_size: 64
  optimizer:
    learning_rate: {type: log, base: 10, minval: -4, maxval: -1}
    name: {type: categorical, vals: [sgd, adam]}
  layers: {type: int, minval: 1, maxval: 3}
searcher:
  name: adaptive_asha
  metric: accuracy
  smaller_is_better: false
  max_trials: 16
  mode: agressive
  max_length: {epochs: 64}
resources: {slots_per_trial: 8, shm_size: 1.5G}
bind_mounts:
  - {host_path: /data, container_path: /data, read_only: true}
environment:
  image: {gpu: pytorch:2.4}
  environment_variables: [NCCL_DEBUG=INFO, HF_TOKEN=hf_abc, "PROXY=http://me:pw@proxy:80"]
  registry_auth: {username: me, password: geheim}
checkpoint_storage: {type: s3, bucket: models, access_key: AKIA, secret_key: geheim, prefix: a/b}
data: {url: "https://example.org", secrets: {user: u, nested: [1, two]}}
reproducibility: {experiment_seed: 7}
)";

ConfigReading read(const std::string& text) {
  return read_config({.config = {"exp.yaml", text}, .cluster_defaults = ConfigFile{"cluster.yaml", ""}});
}

std::string first_error(const std::string& text) {
  const ConfigReading reading = read(text);
  return reading.findings.errors().empty() ? "" : reading.findings.errors().front().text();
}

TEST(ConfigReader, GivesTypedValues) {
  const ConfigReading reading = read(kConfig);
  ASSERT_TRUE(reading.is_valid()) << reading.error().message;
  const ExperimentConfig& config = *reading.config;
  EXPECT_EQ(config.name, "cifar");
  EXPECT_EQ(config.entrypoint.trial_class, "model_def:CifarTrial");
  EXPECT_FALSE(config.entrypoint.is_list);
  EXPECT_EQ(config.records_per_epoch, 50'000);
  EXPECT_EQ(config.min_validation_period, (Length{LengthUnit::kEpochs, 1}));
  EXPECT_EQ(config.min_checkpoint_period, (Length{LengthUnit::kBatches, 0}));
  EXPECT_EQ(config.searcher.max_length, (Length{LengthUnit::kEpochs, 64}));
  EXPECT_EQ(batches_of(*config.searcher.max_length, config.batch_sizes()), 50'000);
  EXPECT_EQ(batches_of(*config.searcher.max_length, config.batch_sizes(128)), 25'000);
  const auto& asha = std::get<AdaptiveAshaSearch>(config.searcher.method);
  EXPECT_EQ(asha.max_trials, 16);
  EXPECT_EQ(asha.mode, SearchMode::kAggressive);
  EXPECT_EQ(asha.divisor, 4);
  EXPECT_FALSE(config.searcher.smaller_is_better);
  EXPECT_EQ(config.resources.slots_per_trial, 8);
  EXPECT_EQ(config.resources.shm_size_bytes, 1'610'612'736);
  EXPECT_EQ(config.environment.image.of(DeviceKind::kCuda), "pytorch:2.4");
  EXPECT_EQ(config.environment.image.cpu, "");
  EXPECT_EQ(config.environment.environment_variables.rocm.size(), 3u);
  EXPECT_EQ(config.environment.registry_auth->password, "geheim");
  const auto& storage = std::get<S3Storage>(config.checkpoint_storage->where);
  EXPECT_EQ(storage.secret_key, "geheim");
  EXPECT_EQ(config.checkpoint_storage->save_trial_latest, 1);
  EXPECT_TRUE(config.bind_mounts.front().read_only);
  EXPECT_EQ(config.preemption_timeout, std::chrono::hours(1));
  EXPECT_EQ(config.experiment_seed, 7);
  ASSERT_EQ(config.log_policies.size(), 2u);
  EXPECT_EQ(config.log_policies.front().name, "CUDA OOM");
}

TEST(ConfigReader, FlattensHyperparametersInTheOrderOfTheirNames) {
  const ConfigReading reading = read(kConfig);
  ASSERT_TRUE(reading.is_valid());
  std::vector<std::string> names;
  for (const auto& [name, one] : flattened(reading.config->hyperparameters)) names.push_back(name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"global_batch_size", "layers", "optimizer.learning_rate", "optimizer.name"}));
}

TEST(ConfigReader, WarnsWithFileLineAndColumn) {
  const ConfigReading reading = read(kConfig);
  ASSERT_EQ(reading.findings.warnings().size(), 2u);
  EXPECT_EQ(reading.findings.warnings()[0].text(),
            "searcher.mode: agressive is read as aggressive; write aggressive (exp.yaml:17:9)");
  EXPECT_EQ(reading.findings.warnings()[1].text(),
            "environment.image.gpu: is read as cuda; write cuda (exp.yaml:23:11)");
}

TEST(ConfigReader, NamesFileLineAndColumnOfEachError) {
  const ConfigReading reading = read("name: x\nsearcher:\n  name: random\n  max_trials: ten\n  metrc: loss\n");
  std::vector<std::string> texts;
  for (const Finding& finding : reading.findings.errors()) texts.push_back(finding.text());
  EXPECT_THAT(texts, ::testing::IsSupersetOf(
                         {std::string("searcher.max_trials: expected a whole number of at least 1, got \"ten\" "
                                      "(exp.yaml:4:15)"),
                          std::string("searcher.metrc: there is no such key; did you mean metric? (exp.yaml:5:3)")}));
  EXPECT_THAT(reading.error().message, HasSubstr("further errors"));
}

TEST(ConfigReader, TakesATemplateAndDefaultsOfTheCluster) {
  const ConfigReading reading = read_config(
      {.config = {"exp.yaml",
                  "entrypoint: a:B\nhyperparameters: {global_batch_size: 8}\nsearcher: {name: single, "
                  "metric: loss, max_length: {batches: 1}}\nenvironment: {environment_variables: [A=1]}\n"},
       .config_template = ConfigFile{"site.yaml", "max_restarts: 2\nenvironment: {environment_variables: [B=2]}\n"},
       .cluster_defaults =
           ConfigFile{"cluster.yaml", "max_restarts: 3\ncheckpoint_storage: {type: directory, container_path: /c}\n"},
       .submission = {.name = "made up", .experiment_seed = 42}});
  ASSERT_TRUE(reading.is_valid()) << reading.error().message;
  EXPECT_EQ(reading.config->max_restarts, 2);
  EXPECT_EQ(reading.config->environment.environment_variables.cpu, (std::vector<std::string>{"B=2", "A=1"}));
  EXPECT_EQ(std::get<DirectoryStorage>(reading.config->checkpoint_storage->where).container_path, "/c");
  EXPECT_EQ(reading.config->name, "made up");
  EXPECT_EQ(reading.config->experiment_seed, 42);
}

TEST(ConfigReader, ErrorsOfATemplateNameItsFile) {
  const ConfigReading reading =
      read_config({.config = {"exp.yaml", kConfig}, .config_template = ConfigFile{"site.yaml", "max_restart: 2\n"}});
  ASSERT_EQ(reading.findings.errors().size(), 1u);
  EXPECT_EQ(reading.findings.errors().front().text(),
            "max_restart: there is no such key; did you mean max_restarts? (site.yaml:1:1)");
}

TEST(ConfigReader, WithoutDefaultsOfTheClusterAMissingStorageIsAWarning) {
  const ConfigReading reading =
      read_config({.config = {"exp.yaml", "entrypoint: ./a.sh\nsearcher: {name: single, metric: loss}\n"}});
  ASSERT_TRUE(reading.is_valid()) << reading.error().message;
  EXPECT_FALSE(reading.config->checkpoint_storage.has_value());
  ASSERT_EQ(reading.findings.warnings().size(), 1u);
  EXPECT_EQ(reading.findings.warnings().front().path, "checkpoint_storage");
}

TEST(ConfigReader, RefusesWhatIsNoYaml) {
  EXPECT_THAT(first_error("a: [1, 2"), HasSubstr("not valid YAML"));
  EXPECT_THAT(first_error("- a\n- b\n"), HasSubstr("expected a map of keys such as `name: mnist`, got a list"));
  EXPECT_THAT(first_error("just text"), HasSubstr("expected a map of keys"));
  EXPECT_EQ(read("a: [1, 2").findings.errors().size(), 1u);
  EXPECT_GT(read("a: [1,\n  2").findings.errors().front().place.line, 1);
}

TEST(ConfigReader, RefusesAKeyThatIsGivenTwice) {
  EXPECT_EQ(first_error("name: a\nmax_restarts: 1\nname: b\n"),
            "name: given twice, first at exp.yaml:1:1; remove one of them (exp.yaml:3:1)");
}

TEST(ConfigReader, ReadsAnchorsAndMergeKeys) {
  const ConfigReading reading = read(R"(
entrypoint: a:B
hyperparameters:
  global_batch_size: 8
  one: &range {type: int, minval: 1, maxval: 9}
  two: *range
  three: {<<: *range, maxval: 3}
searcher: {name: random, metric: loss, max_trials: 1, max_length: {batches: 1}}
checkpoint_storage: {type: directory, container_path: /c}
)");
  ASSERT_TRUE(reading.is_valid()) << reading.error().message;
  const auto& all = reading.config->hyperparameters;
  EXPECT_EQ(std::get<IntHyperparameter>(all.at("two").type).maxval, 9);
  EXPECT_EQ(std::get<IntHyperparameter>(all.at("three").type).maxval, 3);
  EXPECT_EQ(std::get<IntHyperparameter>(all.at("three").type).minval, 1);
}

TEST(ConfigReader, LimitsTheNumberOfFindings) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "unknown_key_" + std::to_string(i) + ": 1\n";
  const ConfigReading reading = read(text);
  EXPECT_EQ(reading.findings.errors().size(), Findings::kFindingsMax);
  EXPECT_GE(reading.findings.errors_left_out(), 4900u);
}

TEST(ConfigReader, GivesTheSameJsonEachTime) {
  const ConfigReading one = read(kConfig), other = read(kConfig);
  ASSERT_TRUE(one.is_valid());
  const std::string json = json_of(*one.config, Secrets::kShown);
  EXPECT_EQ(json, json_of(*other.config, Secrets::kShown));
  EXPECT_THAT(json, HasSubstr(R"("searcher":{"name":"adaptive_asha","metric":"accuracy")"));
  // The complete configuration is a configuration, and its defaults are itself.
  const ConfigReading again = read(json);
  ASSERT_TRUE(again.is_valid()) << again.error().message;
  EXPECT_EQ(json_of(*again.config, Secrets::kShown), json);
  const ConfigReading from_yaml = read(yaml_of(*one.config, Secrets::kShown));
  ASSERT_TRUE(from_yaml.is_valid()) << from_yaml.error().message;
  EXPECT_EQ(json_of(*from_yaml.config, Secrets::kShown), json);
}

TEST(ConfigReader, HidesSecrets) {
  const ConfigReading reading = read(kConfig);
  ASSERT_TRUE(reading.is_valid());
  for (const std::string& text :
       {json_of(*reading.config, Secrets::kHidden), yaml_of(*reading.config, Secrets::kHidden)}) {
    for (const char* secret : {"geheim", "AKIA", "hf_abc", "me:pw", "two"}) EXPECT_THAT(text, Not(HasSubstr(secret)));
    EXPECT_THAT(text, HasSubstr("HF_TOKEN=********"));
    EXPECT_THAT(text, HasSubstr("NCCL_DEBUG=INFO"));
    EXPECT_THAT(text, HasSubstr("PROXY=http://********@proxy:80"));
    EXPECT_THAT(text, HasSubstr("models"));
  }
  EXPECT_THAT(json_of(*reading.config, Secrets::kShown), HasSubstr("geheim"));
}

TEST(ConfigReader, HidesSecretsOfEveryStorageAndIntegration) {
  const auto hidden = [](const std::string& text) {
    Findings findings;
    const Value shown = without_secrets(yaml::read(text, "x")->root);
    return yaml::read(text, "x")->root == shown ? "shown" : "hidden";
  };
  EXPECT_STREQ(hidden("checkpoint_storage: {type: azure, container: c, connection_string: s}"), "hidden");
  EXPECT_STREQ(hidden("checkpoint_storage: {type: azure, container: c, account_url: u, credential: s}"), "hidden");
  EXPECT_STREQ(hidden("checkpoint_storage: {secret_key: s}"), "hidden") << "without a type";
  EXPECT_STREQ(hidden("checkpoint_storage: {type: s3, endpoint_url: 'http://u:p@host:9000'}"), "hidden");
  EXPECT_STREQ(hidden("integrations: {pachyderm: {dataset: {token: t}}}"), "hidden");
  EXPECT_STREQ(hidden("checkpoint_storage: {type: gcs, bucket: b}"), "shown");
}

}  // namespace
}  // namespace volador::experiments
