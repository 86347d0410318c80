// The head starts anew: experiments go on with the same decisions.
#include <algorithm>

#include "tests/experiments/runs/experiment_harness.h"
#include "tests/how_many.h"

namespace volador::experiments {
namespace {

enum class Head { kStays, kRestarts, kRestartsAndLosesActions };

// What users see of an experiment at its end.
struct Outcome {
  std::string experiment;
  std::vector<std::string> trials;
  std::vector<std::string> checkpoints;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(ExperimentHarness& cluster) {
  Outcome outcome;
  v1::ExperimentInfo shown = cluster.info(1);
  shown.clear_config();
  shown.clear_original_config();
  outcome.experiment = shown.ShortDebugString();
  for (v1::TrialInfo trial : cluster.trials(1)) {
    // Reports of training and progress have no rows of their own.
    trial.clear_training_metrics();
    trial.clear_progress();
    trial.clear_batches();
    outcome.trials.push_back(trial.ShortDebugString());
  }
  for (const v1::CheckpointInfo& checkpoint : cluster.checkpoints(1, true))
    outcome.checkpoints.push_back(checkpoint.ShortDebugString());
  return outcome;
}

// A cluster in which everything happens in random order, and much goes wrong.
Outcome simulate(const std::string& config, uint64_t seed, Head head, bool commands = true) {
  ExperimentHarness cluster;
  cluster.restarts_always = head != Head::kStays;
  cluster.loses_actions = head == Head::kRestartsAndLosesActions;
  cluster.validates_often = seed % 2 == 0 || config.find("time_metric") != std::string::npos;
  SeededRandom random(seed);
  cluster.create(config);
  bool paused = false;
  for (int step = 0; step < 40'000; ++step) {
    const std::string state = cluster.info(1).state();
    if (state != "ACTIVE" && state != "PAUSED" && !state.starts_with("STOPPING")) return outcome_of(cluster);
    cluster.now += 500;
    const uint64_t what = random.below(1000);
    if (commands && what < 15 && (state == "ACTIVE" || state == "PAUSED")) {
      paused = state == "ACTIVE";
      EXPECT_TRUE(cluster.change(1, paused ? "pause" : "activate"));
      continue;
    }
    // Some experiments are ended by their users.
    if (commands && seed % 3 == 0 && what == 20) {
      EXPECT_TRUE(cluster.change(1, step % 2 == 0 ? "cancel" : "kill"));
      continue;
    }
    if (what < 25) {
      cluster.tick(1000);
      continue;
    }
    const auto queued = cluster.jobs_in("queued"), running = cluster.jobs_in("running");
    if (queued.empty() && running.empty()) {
      if (state == "PAUSED") {
        EXPECT_TRUE(cluster.change(1, "activate"));
      }
      continue;
    }
    if (running.empty() || (!queued.empty() && what % 2 == 0)) {
      auto& job = cluster.jobs.at(queued[random.below(queued.size())]);
      cluster.set_job(job, "running");
      continue;
    }
    auto& job = cluster.jobs.at(running[random.below(running.size())]);
    const uint64_t luck = random.below(100);
    if (luck == 0 && job.started) {
      // Its node is lost, and the queue starts the same job again.
      job.started = false;
      job.asked_to_end = false;
      cluster.set_job(job, "queued");
      continue;
    }
    if (luck == 1) {
      const uint64_t trial_kill = random.below(10);
      if (trial_kill < 2 && job.started) {
        EXPECT_TRUE(cluster.exit_early(job.trial, job.run, trial_kill == 0 ? "invalid_hp" : "user_requested_stop"));
      }
      if (trial_kill == 2) {
        EXPECT_TRUE(cluster.core().kill_trial(job.trial, kAda, cluster.now));
        cluster.settle();
      }
      continue;
    }
    cluster.step_program(job, luck < 4 ? ProgramFate::kFails : luck < 6 ? ProgramFate::kIsLost : ProgramFate::kGoesOn);
  }
  ADD_FAILURE() << "does not end: " << outcome_of(cluster).experiment;
  return {};
}

class ExperimentRestart : public testing::TestWithParam<uint64_t> {};

TEST_P(ExperimentRestart, GoesOnAfterEveryAction) {
  for (const std::string& config : {single_config(), random_config(8, 3, "max_restarts: 2\n"),
                                    asha_config(16, 4, "resources: {max_slots: 3}\n"), timed_config(8, 3)}) {
    const Outcome plain = simulate(config, GetParam(), Head::kStays);
    ASSERT_FALSE(plain.trials.empty());
    for (const Head head : {Head::kRestarts, Head::kRestartsAndLosesActions}) {
      const Outcome other = simulate(config, GetParam(), head);
      EXPECT_EQ(plain.experiment, other.experiment);
      ASSERT_EQ(plain.trials, other.trials);
      ASSERT_EQ(plain.checkpoints, other.checkpoints);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ExperimentRestart, testing::Range<uint64_t>(1, how_many(10, 4)));

TEST(ExperimentRestarts, SimulationsEnd) {
  for (uint64_t seed = 100; seed < how_many(115U, 104U); ++seed)
    simulate(asha_config(30, 6, "max_restarts: 1\n"), seed, Head::kStays);
}

// The search of many trials is written as steps; its snapshot follows now and then.
TEST(ExperimentRestarts, RowsOfAnEventAreSmall) {
  ExperimentHarness cluster;
  cluster.checks_every = 100;
  cluster.create(asha_config(1000, 16));
  size_t largest = 0;
  cluster.run_all(2'000'000);
  ASSERT_EQ(cluster.info(1).state(), "COMPLETED");
  ASSERT_EQ(cluster.trials(1).size(), 1000u);
  for (const auto& [where, value] : cluster.rows) {
    if (where.first == kTrialsTable) largest = std::max(largest, value.size());
    EXPECT_NE(where.first, kSearchesTable) << "of a search that is over";
    EXPECT_NE(where.first, kSearchStepsTable) << "of a search that is over";
  }
  EXPECT_LT(largest, 1000u);
  // All trials together, with the snapshots.
  RecordProperty("bytes_of_action", static_cast<int>(cluster.bytes_written / static_cast<size_t>(cluster.settled)));
  EXPECT_LT(cluster.bytes_written / static_cast<size_t>(cluster.settled), 2000u);
}

TEST(ExperimentRestarts, CustomSearchKeepsItsEvents) {
  for (const bool restarts : {false, true}) {
    ExperimentHarness cluster;
    cluster.restarts_always = restarts;
    cluster.create(
        "name: mine\nentrypoint: python3 train.py\nhyperparameters: {global_batch_size: 8}\n"
        "searcher: {name: custom, metric: loss}\n");
    v1::PostSearcherOperationsRequest answer;
    answer.set_experiment(1);
    answer.set_event(1);
    for (int i = 0; i < 100; ++i) {
      v1::SearcherOperation* create = answer.add_operations();
      create->set_kind("create");
      create->set_request("r" + std::to_string(i));
      create->set_hparams("{\"x\": 0.5}");
      v1::SearcherOperation* ask = answer.add_operations();
      ask->set_kind("validate_after");
      ask->set_request(create->request());
      ask->set_length(1);
    }
    ASSERT_TRUE(cluster.core().searcher_operations(answer, kAda, cluster.now));
    cluster.settle();
    cluster.run_job(1);
    cluster.start_run(1, 1);
    v1::ReportProgressRequest progress;
    progress.set_trial(1);
    progress.set_run(1);
    progress.set_progress(0.5);
    ASSERT_TRUE(cluster.core().report_progress(progress, kAda, cluster.now));
    cluster.settle();
    ASSERT_TRUE(cluster.complete(1, 1, 1, 0.25));
    cluster.restart();
    const auto events = cluster.core().searcher_events(1, kAda).value();
    ASSERT_TRUE(events.has_value());
    EXPECT_EQ(events->events_size(), 102);
    EXPECT_THAT(events->events(101), testing::HasSubstr("\"id\":103"));
    EXPECT_THAT(events->events(101), testing::HasSubstr("\"metric\":0.25"));
    EXPECT_EQ(cluster.trials(1).size(), 100u);
  }
}

// An earlier version has stored a configuration without a key that is new.
TEST(ExperimentRestarts, ConfigurationsGetNewKeys) {
  ExperimentHarness cluster;
  cluster.create(single_config());
  for (auto& [where, value] : cluster.rows) {
    if (where.first != kExperimentsTable) continue;
    protocol::ExperimentDefinition definition;
    ASSERT_TRUE(definition.ParseFromString(value));
    std::string config = definition.config();
    const size_t at = config.find("\"scheduling_unit\":100,");
    ASSERT_NE(at, std::string::npos) << config;
    definition.set_config(config.erase(at, 22));
    value = definition.SerializeAsString();
  }
  cluster.restart();
  cluster.run_all();
  EXPECT_EQ(cluster.info(1).state(), "COMPLETED");
}

// A search whose rows are torn ends its experiment, with a reason.
TEST(ExperimentRestarts, LostSearchFailsItsExperiment) {
  ExperimentHarness cluster;
  cluster.create(random_config(4, 2));
  std::erase_if(cluster.rows,
                [](const auto& row) { return row.first.first == kSearchStepsTable && row.first.second.back() == 2; });
  cluster.restart();
  for (int64_t trial = 1; trial <= 2; ++trial) EXPECT_EQ(cluster.trial(trial).state(), "CANCELED");
  EXPECT_EQ(cluster.info(1).state(), "ERROR");
  EXPECT_THAT(cluster.info(1).reason(), testing::HasSubstr("cannot be read from the journal"));
}

}  // namespace
}  // namespace volador::experiments
