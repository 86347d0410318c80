// Experiments from their creation to their end, with each kind of search.
#include <algorithm>

#include "tests/experiments/runs/experiment_harness.h"
#include "tune/determined/determined_search.h"

namespace volador::experiments {
namespace {

using ::testing::HasSubstr;

std::map<std::string, int> states_of(const std::vector<v1::TrialInfo>& trials) {
  std::map<std::string, int> states;
  for (const v1::TrialInfo& trial : trials) ++states[trial.state()];
  return states;
}

TEST(ExperimentSearches, SingleRunsOneTrialToItsLength) {
  ExperimentHarness cluster;
  const v1::ExperimentInfo made = cluster.create(single_config());
  EXPECT_EQ(made.state(), "ACTIVE");
  EXPECT_EQ(made.phase(), "QUEUED");
  EXPECT_EQ(made.user(), "ada");
  EXPECT_EQ(made.storage(), "/shared/checkpoints");
  ASSERT_EQ(cluster.jobs.size(), 1u);
  const v1::JobSpec spec = cluster.job_of(1).shown.spec();
  EXPECT_EQ(spec.name(), "one-trial-1");
  EXPECT_EQ(spec.trial(), "1.1");
  EXPECT_EQ(spec.env().at("VOLADOR_TRIAL"), "1");
  EXPECT_EQ(spec.env().at("VOLADOR_TRIAL_RUN"), "1");
  EXPECT_EQ(spec.priority(), "normal");
  EXPECT_EQ(spec.graceful_s(), 3600);
  EXPECT_EQ(spec.max_restarts(), 0);
  EXPECT_FALSE(spec.isolated());

  cluster.run_job(1);
  EXPECT_EQ(cluster.info(1).phase(), "STARTING");
  const auto start = cluster.start_run(1, 1);
  ASSERT_TRUE(start.has_value());
  EXPECT_EQ(cluster.info(1).phase(), "RUNNING");
  EXPECT_EQ(start->env().at("DET_EXPERIMENT_ID"), "1");
  EXPECT_EQ(start->env().at("DET_STEPS_COMPLETED"), "0");
  EXPECT_EQ(start->env().at("DET_TASK_TYPE"), "TRIAL");
  EXPECT_EQ(start->env().at("DET_TASK_ID"), "1." + cluster.trial(1).request_id());
  EXPECT_EQ(start->env().at("DET_ALLOCATION_ID"), "1." + cluster.trial(1).request_id() + ".1");
  EXPECT_FALSE(start->env().contains("DET_LATEST_CHECKPOINT"));
  EXPECT_THAT(start->env().at("DET_HPARAMS"), HasSubstr("\"x\":0.5"));
  EXPECT_THAT(start->env().at("DET_EXPERIMENT_CONFIG"), HasSubstr("\"searcher\""));
  EXPECT_THAT(start->command(), ::testing::ElementsAre("bash", "-c", "python3 train.py"));
  EXPECT_EQ(start->slots(), 1);
  cluster.job_of(1).started = true;
  cluster.run_all();

  const v1::ExperimentInfo over = cluster.info(1);
  EXPECT_EQ(over.state(), "COMPLETED");
  EXPECT_EQ(over.reason(), "");
  EXPECT_EQ(over.progress(), 1);
  EXPECT_EQ(over.trials_by_state().at("COMPLETED"), 1);
  EXPECT_EQ(over.best_trial(), 1);
  EXPECT_GT(over.ended_ms(), over.created_ms());
  const v1::TrialInfo trial = cluster.trial(1);
  EXPECT_EQ(trial.batches(), 30);
  EXPECT_EQ(trial.run(), 1);
  EXPECT_EQ(trial.latest_checkpoint(), "c-1-1-30");
  EXPECT_EQ(trial.best_checkpoint(), "c-1-1-30");
  EXPECT_EQ(cluster.checkpoints(1).size(), 1u);
  EXPECT_TRUE(cluster.checkpoints(1).front().has_metric());
  EXPECT_THAT(cluster.revoked, ::testing::ElementsAre("trials-1"));
}

TEST(ExperimentSearches, RandomRunsSoManyAtOnce) {
  ExperimentHarness cluster;
  cluster.create(random_config(12, 3));
  EXPECT_EQ(cluster.jobs.size(), 3u);
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  EXPECT_EQ(states_of(cluster.trials(1))["COMPLETED"], 12);
  double best = 2;
  for (const v1::TrialInfo& trial : cluster.trials(1)) best = std::min(best, trial.best_metric());
  EXPECT_EQ(cluster.info(1).best_metric(), best);
}

TEST(ExperimentSearches, GridRunsEveryPoint) {
  ExperimentHarness cluster;
  cluster.create(
      "name: grid\nentrypoint: python3 train.py\n"
      "hyperparameters: {x: {type: double, minval: 0, maxval: 1, count: 3}, y: {type: categorical, vals: [a, b]}, "
      "global_batch_size: 8}\n"
      "searcher: {name: grid, metric: loss, max_length: {batches: 10}}\n");
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  std::set<std::string> points;
  for (const v1::TrialInfo& trial : cluster.trials(1)) points.insert(trial.hparams());
  EXPECT_EQ(points.size(), 6u);
}

// Trials that wait to be promoted release their resources, and go on from their checkpoints.
TEST(ExperimentSearches, AdaptiveAshaTrainsAFewToTheEnd) {
  ExperimentHarness cluster;
  cluster.create(asha_config(40, 4));
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  std::map<int64_t, int> by_batches;
  bool any_again = false;
  for (const v1::TrialInfo& trial : cluster.trials(1)) {
    EXPECT_EQ(trial.state(), "COMPLETED");
    ++by_batches[trial.batches()];
    any_again = any_again || trial.run() > 1;
    EXPECT_EQ(trial.restarts(), 0);
  }
  EXPECT_GT(by_batches[4] + by_batches[16], by_batches[64]);
  EXPECT_GT(by_batches[64], 0);
  EXPECT_TRUE(any_again);
  EXPECT_EQ(cluster.trials(1).size(), 40u);
}

// With one slot a trial that waited for others with its resources would wait for ever.
TEST(ExperimentSearches, AdaptiveAshaNeedsOnlyOneSlot) {
  ExperimentHarness cluster;
  cluster.create(asha_config(20, 8, "resources: {max_slots: 1}\n"));
  EXPECT_EQ(cluster.jobs.size(), 1u);
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

TEST(ExperimentSearches, ProgramWithoutReportsHasCompleted) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  cluster.run_job(1);
  cluster.end_job(1);
  EXPECT_EQ(cluster.trial(1).state(), "COMPLETED");
  EXPECT_THAT(cluster.trial(1).reason(), HasSubstr("before it reported the length 30"));
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

TEST(ExperimentSearches, TimedSearchStopsTrialsByTheirReports) {
  ExperimentHarness cluster;
  cluster.validates_often = true;
  cluster.create(timed_config(16, 4));
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  EXPECT_EQ(states_of(cluster.trials(1))["COMPLETED"], 16);
  int64_t batches = 0;
  for (const v1::TrialInfo& trial : cluster.trials(1)) {
    batches += trial.batches();
    EXPECT_EQ(trial.run(), 1);
  }
  EXPECT_LT(batches, 16 * 64 / 2);
  EXPECT_GT(batches, 64);
}

TEST(ExperimentSearches, CustomProgramDecides) {
  ExperimentHarness cluster;
  cluster.create(
      "name: mine\nentrypoint: python3 train.py\nhyperparameters: {global_batch_size: 8}\n"
      "searcher: {name: custom, metric: loss}\n");
  EXPECT_TRUE(cluster.jobs.empty());
  const auto events = [&] { return cluster.core().searcher_events(1, kAda).value_or(std::nullopt); };
  ASSERT_TRUE(events().has_value());
  EXPECT_THAT(events()->events(0), HasSubstr("initial_operations"));
  v1::PostSearcherOperationsRequest answer;
  answer.set_experiment(1);
  answer.set_event(1);
  v1::SearcherOperation* create = answer.add_operations();
  create->set_kind("create");
  create->set_request("11111111-1111-4111-8111-111111111111");
  create->set_hparams(R"({"x": 0.25})");
  create->set_seed(9);
  v1::SearcherOperation* ask = answer.add_operations();
  ask->set_kind("validate_after");
  ask->set_request(create->request());
  ask->set_length(20);
  ASSERT_TRUE(cluster.core().searcher_operations(answer, kAda, cluster.now));
  cluster.settle();
  EXPECT_TRUE(cluster.core().searcher_operations(answer, kAda, cluster.now)) << "a repeated answer";
  cluster.settle();
  ASSERT_EQ(cluster.jobs.size(), 1u);
  EXPECT_EQ(cluster.trial(1).seed(), 9u);
  cluster.run_job(1);
  cluster.start_run(1, 1);
  ASSERT_TRUE(cluster.complete(1, 1, 20, 0.5));
  // The program decides what follows, so the trial waits with its resources.
  EXPECT_FALSE(cluster.core().operation(1, 1, kAda).value().has_value());
  ASSERT_TRUE(events().has_value());
  EXPECT_THAT(events()->events(events()->events_size() - 1), HasSubstr("validation_completed"));
  v1::PostSearcherOperationsRequest end;
  end.set_experiment(1);
  end.set_event(3);
  v1::SearcherOperation* close = end.add_operations();
  close->set_kind("close");
  close->set_request(create->request());
  cluster.changed_trials.clear();
  ASSERT_TRUE(cluster.core().searcher_operations(end, kAda, cluster.now));
  cluster.settle();
  EXPECT_TRUE(cluster.changed_trials.contains(1));
  EXPECT_TRUE(cluster.core().operation(1, 1, kAda).value()->no_more());
  cluster.end_job(1);
  EXPECT_EQ(cluster.trial(1).state(), "COMPLETED");
  EXPECT_EQ(cluster.info(1).state(), "ACTIVE");
  end.set_event(4);
  end.mutable_operations()->Clear();
  end.add_operations()->set_kind("shutdown");
  ASSERT_TRUE(cluster.core().searcher_operations(end, kAda, cluster.now));
  cluster.settle();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
  end.set_event(5);
  const auto late = cluster.core().searcher_operations(end, kAda, cluster.now);
  ASSERT_FALSE(late.has_value());
  EXPECT_THAT(late.error().message, HasSubstr("COMPLETED"));
}

// ---- previews and outlooks ----

TEST(ExperimentPreviews, ChangeNothingAndNameEveryError) {
  ExperimentHarness cluster;
  v1::PreviewSearchRequest request;
  request.set_config(asha_config(16, 4));
  const auto reply = cluster.core().preview(request);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(tune::Config::from_json(reply->preview())->integer("trials"), 16);
  EXPECT_THAT(reply->text(), HasSubstr("adaptive_asha: 16 trials"));
  EXPECT_TRUE(cluster.core().take().rows.empty());
  EXPECT_TRUE(cluster.jobs.empty());
  request.set_config("entrypoint: a\nsearcher: {name: random, metric: loss, max_trials: ten}\n");
  request.set_config_name("search.yaml");
  const auto refused = cluster.core().preview(request);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("(search.yaml:2:"));
  request.set_config(asha_config(1'000'000, 4));
  EXPECT_THAT(cluster.core().preview(request).error().message, HasSubstr("the head simulates searches of at most"));
}

TEST(ExperimentOutlooks, HaveNoTimeBeforeTheFirstReportsAndThenOneFromThem) {
  ExperimentHarness cluster;
  cluster.create(single_config());  // 30 batches.
  cluster.run_job(1);
  EXPECT_FALSE(cluster.core().outlook(1, cluster.now).left);
  ASSERT_TRUE(cluster.start_run(1, 1));
  EXPECT_FALSE(cluster.core().outlook(1, cluster.now).left);
  for (int64_t batches = 1; batches <= 10; ++batches) {
    cluster.now += 2000;
    ASSERT_TRUE(cluster.report(1, 1, "training", batches, R"({"loss": 1})"));
  }
  const auto left = cluster.core().outlook(1, cluster.now).left;
  ASSERT_TRUE(left);
  EXPECT_NEAR(left->seconds, 40, 8);  // 20 batches of 2 s.
  EXPECT_LE(left->low, left->seconds);
  EXPECT_GE(left->high, left->seconds);
  ASSERT_TRUE(cluster.change(1, "pause"));
  EXPECT_FALSE(cluster.core().outlook(1, cluster.now).left);
}

TEST(ExperimentOutlooks, HaveTheRungsOfTheSearchAlsoAfterItsEnd) {
  ExperimentHarness cluster;
  cluster.create(asha_config(16, 4));
  EXPECT_FALSE(cluster.core().outlook(1, cluster.now).rungs.empty());
  cluster.run_all();
  const SearchOutlook outlook = cluster.core().outlook(1, cluster.now);
  ASSERT_FALSE(outlook.rungs.empty());
  EXPECT_FALSE(outlook.left);
  int64_t at_the_bottom = 0;
  std::set<int64_t> brackets;
  for (const SearchOutlook::Rung& rung : outlook.rungs) {
    EXPECT_EQ(rung.awaited, 0);
    EXPECT_EQ(static_cast<int64_t>(rung.members.size()), rung.trials);
    for (const SearchOutlook::Member& member : rung.members) EXPECT_GT(cluster.trial(member.trial).id(), 0);
    if (brackets.insert(rung.bracket).second) at_the_bottom += rung.trials;
  }
  EXPECT_EQ(at_the_bottom, 16);
  EXPECT_TRUE(cluster.core().outlook(99, cluster.now).rungs.empty());
}

}  // namespace
}  // namespace volador::experiments
