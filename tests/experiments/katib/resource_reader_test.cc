#include <gmock/gmock.h>

#include "runtime/yaml/writer.h"
#include "tests/experiments/katib/katib_data.h"

namespace volador::experiments::katib {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> errors_of(const ResourceReading& reading) {
  std::vector<std::string> texts;
  for (const Finding& finding : reading.findings.errors()) texts.push_back(finding.text());
  return texts;
}

TEST(KatibResourceReader, ReadsTheExperimentOfTheGuide) {
  const Resource resource = katib_resource("bayesian-optimization.yaml");
  EXPECT_EQ(resource.kind, "Experiment");
  EXPECT_EQ(resource.api_version, "kubeflow.org/v1beta1");
  EXPECT_EQ(resource.metadata.name, "bayesian-optimization");
  EXPECT_EQ(resource.metadata.name_space, "kubeflow");
  ASSERT_TRUE(resource.experiment);
  const ExperimentSpec& spec = *resource.experiment;
  EXPECT_TRUE(spec.objective.maximize);
  EXPECT_EQ(spec.objective.goal, 0.99);
  EXPECT_EQ(spec.objective.metric, "Validation-accuracy");
  EXPECT_THAT(spec.objective.additional_metrics, ElementsAre("Train-accuracy"));
  EXPECT_EQ(spec.objective.strategies.at("Train-accuracy"), MetricStrategy::kMax);
  EXPECT_EQ(spec.algorithm.name, "bayesianoptimization");
  EXPECT_THAT(spec.algorithm.settings, ElementsAre(Setting{"random_state", "10"}));
  EXPECT_EQ(spec.parallel_trials, 3);
  EXPECT_EQ(spec.max_trials, 12);
  EXPECT_EQ(spec.max_failed_trials, 3);
  EXPECT_EQ(spec.resume, ResumePolicy::kNever);
  ASSERT_EQ(spec.parameters.size(), 3u);
  EXPECT_EQ(spec.parameters[0].name, "lr");
  EXPECT_EQ(spec.parameters[0].min, "0.01");
  EXPECT_EQ(spec.parameters[1].kind, ParameterKind::kInt);
  EXPECT_THAT(spec.parameters[2].list, ElementsAre("sgd", "adam", "ftrl"));
  EXPECT_EQ(spec.collector.kind, CollectorKind::kStdOut);
  EXPECT_EQ(spec.trial_template.primary_container, "training-container");
  EXPECT_EQ(spec.trial_template.success_condition, R"(status.conditions.#(type=="Complete")#|#(status=="True")#)");
  EXPECT_FALSE(spec.trial_template.retain);
}

TEST(KatibResourceReader, ExplainsTheFileAsTheGuidePrintsIt) {
  const ResourceReading reading = read_resources(katib_file("data/guide.yaml"), "guide.yaml");
  EXPECT_THAT(
      errors_of(reading),
      ElementsAre("algorithm: belongs below spec; indent it more than the line spec: (guide.yaml:14:1)",
                  "parallelTrialCount: belongs below spec; indent it more than the line spec: (guide.yaml:19:1)",
                  "maxTrialCount: belongs below spec; indent it more than the line spec: (guide.yaml:20:1)",
                  "maxFailedTrialCount: belongs below spec; indent it more than the line spec: (guide.yaml:21:1)",
                  "Parameters: belongs below spec; indent it more than the line spec:; keys are case-sensitive: write "
                  "parameters (guide.yaml:22:1)",
                  "trialTemplate: belongs below spec; indent it more than the line spec: (guide.yaml:41:1)",
                  "spec.Objective: there is no such key; keys are case-sensitive: write objective (guide.yaml:7:2)"));
  EXPECT_THAT(reading.error().message, HasSubstr("spec: (guide.yaml:41:1)\nspec.Objective: there is no such key"));
}

TEST(KatibResourceReader, NamesTheLineWhoseIndentationIsWrong) {
  const ResourceReading reading = read_resources(katib_file("data/guide_pytorch.yaml"), "guide.yaml");
  ASSERT_EQ(reading.findings.errors().size(), 1u);
  EXPECT_EQ(reading.findings.errors().front().text(),
            "not valid YAML: this line has 3 spaces before it, but the blocks around it have 0, 2, 4, 6; indent it as "
            "the lines that it belongs to (guide.yaml:7:4)");
}

TEST(KatibResourceReader, AddsDefaultsToTheObject) {
  const Resource resource = katib_resource("pytorch.yaml");
  const std::string text = yaml::yaml_text(resource.object);
  EXPECT_THAT(text, HasSubstr("  resumePolicy: Never\n"));
  EXPECT_THAT(text, HasSubstr("  parallelTrialCount: 2\n"));
  EXPECT_THAT(text, HasSubstr("    metricStrategies:\n"));
  EXPECT_THAT(text, HasSubstr("  metricsCollectorSpec:\n    collector:\n      kind: StdOut\n"));
  EXPECT_THAT(text, HasSubstr(R"(status.conditions.#(type==\"Succeeded\")#|#(status==\"True\")#)"));
}

TEST(KatibResourceReader, TheDefaultOfParallelTrialsIsAtMostTheMaximum) {
  std::string text = katib_file("data/pytorch.yaml");
  text.replace(text.find("  parallelTrialCount: 2\n"), 24, "");
  text.replace(text.find("maxTrialCount: 4"), 16, "maxTrialCount: 2");
  const ResourceReading reading = read_resources(text, "x.yaml");
  ASSERT_TRUE(reading.is_valid()) << texts_of(reading.findings);
  EXPECT_EQ(reading.resources.front().experiment->parallel_trials, 2);
}

TEST(KatibResourceReader, ReadsSeveralDocumentsListsAndJson) {
  const ResourceReading reading = read_resources(
      "---\n# nothing\n---\n"
      "{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\", \"metadata\": {\"name\": \"a\"}, \"spec\": {\"template\": "
      "{\"spec\": {\"containers\": [{\"name\": \"m\", \"command\": [\"true\"]}]}}}}\n"
      "---\n"
      "apiVersion: v1\nkind: List\nitems:\n"
      "- {apiVersion: batch/v1, kind: Job, metadata: {name: b, namespace: other}, spec: {template: {spec: {containers: "
      "[{name: m, command: [\"true\"]}]}}}}\n"
      "- {apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: other}, spec: {template: {spec: {containers: "
      "[{name: m, command: [\"true\"]}]}}}}\n",
      "many.yaml", "team");
  ASSERT_TRUE(reading.is_valid()) << texts_of(reading.findings);
  ASSERT_EQ(reading.resources.size(), 3u);
  EXPECT_EQ(reading.resources[0].metadata.name, "a");
  EXPECT_EQ(reading.resources[0].metadata.name_space, "team");
  EXPECT_EQ(reading.resources[1].metadata.name_space, "other");
}

TEST(KatibResourceReader, RefusesTheSameResourceTwice) {
  const std::string job =
      "apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: {containers: [{name: m, command: "
      "[x]}]}}}\n";
  const ResourceReading reading = read_resources(job + "---\n" + job, "two.yaml");
  EXPECT_THAT(errors_of(reading), ElementsAre("metadata.name: the Job a is given twice, first at two.yaml:1:1; remove "
                                              "one of them (two.yaml:6:1)"));
}

TEST(KatibResourceReader, AnEmptyFileHasNoResource) {
  EXPECT_THAT(errors_of(read_resources("# nothing\n", "x.yaml")),
              ElementsAre(HasSubstr("the file has no resource; a resource has apiVersion, kind, metadata and spec "
                                    "(x.yaml:1:1)")));
}

TEST(KatibResourceReader, ErrorsOfYamlHaveTheirPlace) {
  EXPECT_THAT(errors_of(read_resources("a: [1, 2\n", "x.yaml")), ElementsAre(HasSubstr("not valid YAML")));
  EXPECT_THAT(errors_of(read_resources("kind: Job\n---\nkind:\n\t- a\n", "x.yaml")),
              ElementsAre(HasSubstr("(x.yaml:4:")));
}

TEST(KatibResourceReader, OnlyTheCountsOfAnExperimentCanBeChanged) {
  const Resource present = katib_resource("pytorch.yaml");
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = katib_file("data/pytorch.yaml");
    text.replace(text.find(from), from.size(), to);
    ResourceReading reading = read_resources(text, "x.yaml");
    EXPECT_TRUE(reading.is_valid()) << texts_of(reading.findings);
    return change_of(present, reading.resources.at(0));
  };
  EXPECT_EQ(changed("maxTrialCount: 4", "maxTrialCount: 8").value(), Change::kConfigured);
  EXPECT_EQ(changed("parallelTrialCount: 2", "parallelTrialCount: 1").value(), Change::kConfigured);
  EXPECT_EQ(changed("name: pytorch,", "name: pytorch, labels: {a: b},").value(), Change::kConfigured);
  EXPECT_EQ(changed("loss}", "loss}").value(), Change::kUnchanged);
  EXPECT_EQ(changed("max: \"0.9\"", "max: \"0.8\"").error().message,
            "Experiment pytorch: spec.parameters[1].feasibleSpace.max: only parallelTrialCount, maxTrialCount and "
            "maxFailedTrialCount of an experiment can be changed; delete it first, or apply it under another name");
}

TEST(KatibResourceKind, ReadsNamesOfKinds) {
  EXPECT_EQ(kind_of("experiments"), "Experiment");
  EXPECT_EQ(kind_of("experiment.kubeflow.org"), "Experiment");
  EXPECT_EQ(kind_of("PyTorchJob"), "PyTorchJob");
  EXPECT_EQ(kind_of("trials"), "Trial");
  EXPECT_EQ(kind_of("pods"), std::nullopt);
  EXPECT_EQ(group_of_kind("Job"), "batch");
  EXPECT_EQ(group_of_kind("TrainJob"), "trainer.kubeflow.org");
}

}  // namespace
}  // namespace volador::experiments::katib
