#include "cli/render/resource_view.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace volador::cli {
namespace {

constexpr int64_t kDone = 1'642'915'639'000;  // 2022-01-23T05:27:19Z.

v1::KatibResource resource(const std::string& kind, const std::string& name, const std::string& object) {
  v1::KatibResource out;
  out.set_kind(kind);
  out.set_namespace_("kubeflow");
  out.set_name(name);
  out.set_object(object);
  return out;
}

v1::KatibResource experiment() {
  return resource("Experiment", "bayesian-optimization", R"({
    "apiVersion": "kubeflow.org/v1beta1", "kind": "Experiment",
    "metadata": {"name": "bayesian-optimization", "namespace": "kubeflow", "creationTimestamp": "2022-01-23T05:13:00Z",
                 "uid": "0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e", "labels": {"team": "vision", "app": "mnist"}},
    "spec": {"objective": {"type": "maximize", "goal": 0.99, "objectiveMetricName": "Validation-accuracy",
                           "additionalMetricNames": ["Train-accuracy"]},
             "algorithm": {"algorithmName": "bayesianoptimization",
                           "algorithmSettings": [{"name": "random_state", "value": "10"}]},
             "maxTrialCount": 12,
             "trialTemplate": {"retain": false, "trialSpec": {"apiVersion": "batch/v1"}}},
    "status": {"completionTime": "2022-01-23T05:27:19Z",
               "conditions": [
                 {"type": "Created", "status": "True", "reason": "ExperimentCreated", "message": "Experiment is created",
                  "lastTransitionTime": "2022-01-23T05:13:00Z", "lastUpdateTime": "2022-01-23T05:13:00Z"},
                 {"type": "Running", "status": "False", "reason": "ExperimentRunning", "message": "Experiment is running",
                  "lastTransitionTime": "2022-01-23T05:27:19Z", "lastUpdateTime": "2022-01-23T05:27:19Z"},
                 {"type": "Succeeded", "status": "True", "reason": "ExperimentMaxTrialsReached",
                  "message": "Experiment has succeeded because max trial count has reached",
                  "lastTransitionTime": "2022-01-23T05:27:19Z", "lastUpdateTime": "2022-01-23T05:27:19Z"}],
               "currentOptimalTrial": {
                 "bestTrialName": "bayesian-optimization-9h25bvq9",
                 "observation": {"metrics": [
                   {"name": "Validation-accuracy", "min": "0.955713", "max": "0.979001", "latest": "0.979001"},
                   {"name": "Train-accuracy", "min": "0.906333", "max": "0.992621", "latest": "0.992621"}]},
                 "parameterAssignments": [{"name": "lr", "value": "0.014183662191100063"},
                                          {"name": "num-layers", "value": "3"}, {"name": "optimizer", "value": "sgd"}]},
               "startTime": "2022-01-23T05:13:00Z",
               "succeededTrialList": ["bayesian-optimization-5s59vfwc", "bayesian-optimization-9h25bvq9"],
               "trials": 12, "trialsSucceeded": 12}})");
}

TEST(ResourceDescription, HasTheLayoutOfTheGuide) {
  EXPECT_EQ(resource_description(experiment()), R"(Name:         bayesian-optimization
Namespace:    kubeflow
Labels:       app=mnist
              team=vision
Annotations:  <none>
API Version:  kubeflow.org/v1beta1
Kind:         Experiment
Metadata:
  Creation Timestamp:  2022-01-23T05:13:00Z
  UID:                 0b5f1c62-7d3c-4a53-9d6e-1f2a3b4c5d6e
Spec:
  Algorithm:
    Algorithm Name:  bayesianoptimization
    Algorithm Settings:
      Name:         random_state
      Value:        10
  Max Trial Count:  12
  Objective:
    Additional Metric Names:
      Train-accuracy
    Goal:                   0.99
    Objective Metric Name:  Validation-accuracy
    Type:                   maximize
  Trial Template:
    Retain:  false
    Trial Spec:
      API Version:  batch/v1
Status:
  Completion Time:  2022-01-23T05:27:19Z
  Conditions:
    Last Transition Time:  2022-01-23T05:13:00Z
    Last Update Time:      2022-01-23T05:13:00Z
    Message:               Experiment is created
    Reason:                ExperimentCreated
    Status:                True
    Type:                  Created
    Last Transition Time:  2022-01-23T05:27:19Z
    Last Update Time:      2022-01-23T05:27:19Z
    Message:               Experiment is running
    Reason:                ExperimentRunning
    Status:                False
    Type:                  Running
    Last Transition Time:  2022-01-23T05:27:19Z
    Last Update Time:      2022-01-23T05:27:19Z
    Message:               Experiment has succeeded because max trial count has reached
    Reason:                ExperimentMaxTrialsReached
    Status:                True
    Type:                  Succeeded
  Current Optimal Trial:
    Best Trial Name:  bayesian-optimization-9h25bvq9
    Observation:
      Metrics:
        Latest:  0.979001
        Max:     0.979001
        Min:     0.955713
        Name:    Validation-accuracy
        Latest:  0.992621
        Max:     0.992621
        Min:     0.906333
        Name:    Train-accuracy
    Parameter Assignments:
      Name:    lr
      Value:   0.014183662191100063
      Name:    num-layers
      Value:   3
      Name:    optimizer
      Value:   sgd
  Start Time:  2022-01-23T05:13:00Z
  Succeeded Trial List:
    bayesian-optimization-5s59vfwc
    bayesian-optimization-9h25bvq9
  Trials:            12
  Trials Succeeded:  12
Events:              <none>
)");
}

TEST(ResourceDescription, IsSafeToPrint) {
  const std::string text = resource_description(resource(
      "Job", "a", R"({"metadata": {"annotations": {"x": "a\u001b[31mb"}}, "spec": {"n.v/x": null, "b": true}})"));
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("  n.v/x:"), std::string::npos);
  EXPECT_NE(text.find("<nil>"), std::string::npos);
}

TEST(ResourceTable, HasTheColumnsOfTheGuide) {
  EXPECT_EQ(resource_table({experiment()}, kDone, {}),
            "NAME                    TYPE        STATUS   AGE\n"
            "bayesian-optimization   Succeeded   True     14m\n");
  const auto created = resource("Experiment", "bayesian-optimization",
                                R"({"metadata": {"creationTimestamp": "2022-01-23T05:26:33Z"},
                                    "status": {"conditions": [{"type": "Created", "status": "True"}]}})");
  EXPECT_EQ(resource_table({created}, kDone, {}),
            "NAME                    TYPE      STATUS   AGE\n"
            "bayesian-optimization   Created   True     46s\n");
}

TEST(ResourceTable, HasTheColumnsOfOtherKinds) {
  const auto suggestion = resource(
      "Suggestion", "tune", R"({"spec": {"requests": 5}, "metadata": {"creationTimestamp": "2022-01-23T05:26:19Z"},
                 "status": {"suggestionCount": 4, "conditions": [{"type": "Running", "status": "True"}]}})");
  EXPECT_EQ(resource_table({suggestion}, kDone, {}),
            "NAME   TYPE      STATUS   REQUESTED   ASSIGNED   AGE\n"
            "tune   Running   True     5           4          60s\n");
  auto job = resource("Job", "hello",
                      R"({"spec": {"parallelism": 2}, "metadata": {"creationTimestamp": "2022-01-22T05:27:19Z"},
      "status": {"succeeded": 2, "startTime": "2022-01-23T05:00:00Z", "completionTime": "2022-01-23T05:05:12Z",
                 "conditions": [{"type": "Complete", "status": "True"}]}})");
  job.set_job("job-7");
  EXPECT_EQ(resource_table({job}, kDone, {.namespaces = true, .wide = true}),
            "NAMESPACE   NAME    STATUS     COMPLETIONS   DURATION   AGE   EXPERIMENT   TRIAL    JOB\n"
            "kubeflow    hello   Complete   2/2           5m12s      24h   <none>       <none>   job-7\n");
  const auto pytorch = resource("PyTorchJob", "mnist", R"({"status": {"conditions": [{"type": "Running"}]}})");
  EXPECT_EQ(resource_table({pytorch}, kDone, {.prefixes = true}),
            "NAME                            STATE     AGE\n"
            "pytorchjob.kubeflow.org/mnist   Running   <unknown>\n");
}

TEST(ResourceTable, LaterRowsAreAligned) {
  std::vector<size_t> widths;
  (void)resource_table({experiment()}, kDone, {}, &widths);
  auto other = experiment();
  other.set_name("short");
  EXPECT_EQ(resource_table({other}, kDone, {.titles = false}, &widths),
            "short                   Succeeded   True     14m\n");
}

TEST(ResourceAge, IsThatOfKubectl) {
  EXPECT_EQ(resource_age(0), "0s");
  EXPECT_EQ(resource_age(119), "119s");
  EXPECT_EQ(resource_age(120), "2m");
  EXPECT_EQ(resource_age(312), "5m12s");
  EXPECT_EQ(resource_age(600), "10m");
  EXPECT_EQ(resource_age(3 * 3600), "3h");
  EXPECT_EQ(resource_age(3 * 3600 + 300), "3h5m");
  EXPECT_EQ(resource_age(30 * 3600), "30h");
  EXPECT_EQ(resource_age(52 * 3600), "2d4h");
  EXPECT_EQ(resource_age(400 * 86400), "400d");
  EXPECT_EQ(resource_age(800 * 86400), "2y70d");
}

TEST(ResourceTime, IsReadInUtc) {
  EXPECT_EQ(resource_time_ms("2022-01-23T05:27:19Z"), kDone);
  EXPECT_EQ(resource_time_ms("2022-01-23 05:27:19"), -1);
  EXPECT_EQ(resource_time_ms("2022-13-23T05:27:19Z"), -1);
}

}  // namespace
}  // namespace volador::cli
