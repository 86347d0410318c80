// Trials that each have a program of their own: experiments of resources of kind Experiment.
#include <gmock/gmock.h>

#include "tests/experiments/runs/experiment_harness.h"

namespace volador::experiments {
namespace {

using testing::ElementsAre;

const std::string kCustomConfig =
    "{name: random, entrypoint: 'true', max_restarts: 0, hyperparameters: {}, resources: {slots_per_trial: 0}, "
    "searcher: {name: custom, metric: loss, smaller_is_better: true}}";

class ExperimentPrograms : public testing::Test {
 protected:
  int64_t make(const std::string& request_id = "katib-1") {
    v1::CreateExperimentRequest request;
    request.set_config(kCustomConfig);
    request.set_request_id(request_id);
    auto made =
        harness.core().create(request, kAda, {"token", "token-text"}, harness.view, harness.now, "default/random");
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    harness.settle();
    return made ? made->experiment().id() : 0;
  }
  Result<void> run(int64_t experiment, const std::vector<std::string>& names) {
    std::vector<protocol::KatibTrialProgram> programs;
    for (const std::string& name : names) {
      protocol::KatibTrialProgram& program = programs.emplace_back();
      program.set_name(name);
      program.set_hparams(R"({"lr":0.1})");
      program.set_collection(R"({"trial":")" + name + "\"}");
      program.mutable_job()->add_command("train");
      program.mutable_job()->set_nodes(1);
      program.mutable_job()->set_max_restarts(2);
    }
    auto ran = harness.core().run_trials(experiment, programs, harness.now);
    harness.settle();
    return ran;
  }
  // A trial from its start to its end.
  void go(int64_t trial, const std::string& exit = {}) {
    harness.run_job(trial);
    ASSERT_TRUE(harness.start_run(trial, 1));
    if (!exit.empty()) {
      ASSERT_TRUE(harness.exit_early(trial, 1, exit));
    }
    if (exit != "metrics_unavailable") {
      ASSERT_TRUE(harness.report(trial, 1, "validation", 1, R"({"loss":0.5})"));
      ASSERT_TRUE(harness.complete(trial, 1, 1, 0.5));
    }
    harness.end_job(trial);
  }

  ExperimentHarness harness;
};

TEST_F(ExperimentPrograms, TheJobIsThatOfTheProgram) {
  const int64_t experiment = make();
  ASSERT_TRUE(run(experiment, {"random-a"}));
  const v1::TrialInfo trial = harness.trials(experiment).at(0);
  EXPECT_EQ(trial.name(), "random-a");
  EXPECT_EQ(trial.request_id(), "random-a");
  const v1::JobSpec& spec = harness.job_of(trial.id()).shown.spec();
  EXPECT_EQ(spec.name(), "random-a");
  EXPECT_EQ(spec.max_restarts(), 2);
  EXPECT_EQ(spec.command(0), "bash");
  EXPECT_EQ(spec.env().at("VOLADOR_TRIAL"), std::to_string(trial.id()));
  EXPECT_EQ(spec.secrets().at("VOLADOR_TOKEN"), "token-text");
  harness.run_job(trial.id());
  const auto started = harness.start_run(trial.id(), 1);
  ASSERT_TRUE(started);
  EXPECT_THAT(started->command(), ElementsAre("train"));
  EXPECT_EQ(started->collection(), R"({"trial":"random-a"})");
}

TEST_F(ExperimentPrograms, TheSameRequestGetsTheSameExperiment) {
  const int64_t experiment = make();
  EXPECT_EQ(make(), experiment);
  harness.restart();
  EXPECT_EQ(make(), experiment);
  EXPECT_NE(make("katib-2"), experiment);
  EXPECT_EQ(harness.info(experiment).katib(), "default/random");
}

TEST_F(ExperimentPrograms, TrialsAreCreatedOnce) {
  const int64_t experiment = make();
  ASSERT_TRUE(run(experiment, {"a", "b"}));
  ASSERT_TRUE(run(experiment, {"b", "c"}));
  harness.restart();
  ASSERT_TRUE(run(experiment, {"a", "b", "c"}));
  EXPECT_EQ(harness.trials(experiment).size(), 3u);
  for (const v1::TrialInfo& trial : harness.trials(experiment)) go(trial.id());
  for (const v1::TrialInfo& trial : harness.trials(experiment)) EXPECT_EQ(trial.state(), "COMPLETED") << trial.name();
  EXPECT_EQ(harness.info(experiment).state(), "ACTIVE");
  ASSERT_TRUE(run(experiment, {"d"}));  // No event of the search is left unanswered.
  EXPECT_EQ(harness.trials(experiment).size(), 4u);
}

TEST_F(ExperimentPrograms, AnEndKillsWhatRuns) {
  const int64_t experiment = make();
  ASSERT_TRUE(run(experiment, {"a", "b"}));
  go(harness.trials(experiment)[0].id());
  harness.run_job(harness.trials(experiment)[1].id());
  harness.core().end_search(experiment, false, harness.now);
  harness.settle();
  harness.end_job(harness.trials(experiment)[1].id(), "stopped");
  EXPECT_EQ(harness.trials(experiment)[0].state(), "COMPLETED");
  EXPECT_EQ(harness.trials(experiment)[1].state(), "CANCELED");
  EXPECT_EQ(harness.info(experiment).state(), "COMPLETED");
  EXPECT_FALSE(run(experiment, {"c"}));
  harness.core().end_search(experiment, true, harness.now);
  EXPECT_EQ(harness.info(experiment).state(), "COMPLETED");
}

TEST_F(ExperimentPrograms, TrialsSayHowTheyEnded) {
  const int64_t experiment = make();
  ASSERT_TRUE(run(experiment, {"early", "silent", "failed"}));
  const auto trials = harness.trials(experiment);
  go(trials[0].id(), "early_stopped");
  go(trials[1].id(), "metrics_unavailable");
  // Without the metric, and with an exit code: it has failed.
  harness.run_job(trials[2].id());
  ASSERT_TRUE(harness.start_run(trials[2].id(), 1));
  ASSERT_TRUE(harness.exit_early(trials[2].id(), 1, "metrics_unavailable"));
  harness.end_job(trials[2].id(), "failed", "exited with code 1");
  EXPECT_EQ(harness.trial(trials[0].id()).state(), "COMPLETED");
  EXPECT_THAT(harness.trial(trials[0].id()).why(), testing::HasSubstr("trial.early_stopped"));
  EXPECT_EQ(harness.trial(trials[1].id()).state(), "COMPLETED");
  EXPECT_THAT(harness.trial(trials[1].id()).why(), testing::HasSubstr("trial.metrics_unavailable"));
  EXPECT_EQ(harness.trial(trials[2].id()).state(), "ERROR");
}

}  // namespace
}  // namespace volador::experiments
