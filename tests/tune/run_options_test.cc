// Options of a run other than space, searcher and scheduler, each tested by a whole run.
#include "tune/execution/run_options.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>

#include "run_in_process.h"
#include "runtime/files/run_files.h"
#include "tune/execution/start_order.h"
#include "tune/results/experiment_journal.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/searchers/tpe_searcher.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct Play {
  std::atomic<int> failures{0};  // Number of executions of step 2 that throw.
  std::function<void(int64_t step)> at_step;
  std::function<void()> at_cleanup;
};
Play* play = nullptr;

class Climbs : public Trainable {
  void setup(const Config& config) override { rate_ = config.get_or("rate", 1.0); }
  Metrics step() override {
    ++step_;
    if (step_ == 2 && play->failures.fetch_sub(1) > 0) throw std::runtime_error("out of luck");
    if (play->at_step) play->at_step(step_);
    return {{"height", rate_ * static_cast<double>(step_)}, {"should_checkpoint", step_ == 3}};
  }
  void save_checkpoint(const fs::path& directory) override { write_text(directory / "step", std::to_string(step_)); }
  void load_checkpoint(const fs::path& directory) override { step_ = std::stoll(read_text(directory / "step")); }
  double rate_ = 1;
  int64_t step_ = 0;
};

class RunOptionsTest : public RunInProcess {
 protected:
  RunOptionsTest() { play = &play_; }
  ~RunOptionsTest() override {
    session_.reset();
    play = nullptr;
  }
  static std::string refusal(const Result<Analysis>& analysis) {
    return analysis ? "not refused" : analysis.error().message;
  }
  Play play_;
};

// ---- Names and folders.

TEST_F(RunOptionsTest, TrialsHaveNamesAndFoldersByTemplates) {
  RunOptions options = {.name = "named",
                        .space = {{"rate", grid_search({1.0, 2.0})}},
                        .metric = "height",
                        .stop = max_steps(4),
                        .checkpoint = {.frequency = 2},
                        .trial_name = "rate {rate}",
                        .trial_folder = "{rate}_{id}"};
  const auto analysis = run(with_parameters<Climbs>(), options);
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Trial& trial : analysis->trials()) {
    const std::string rate = trial.index == 0 ? "1" : "2";
    EXPECT_EQ(trial.name, "rate_" + rate);
    EXPECT_EQ(trial.folder, rate + "_" + to_string(trial.id));
    const fs::path folder = analysis->directory() / trial.folder;
    EXPECT_EQ(lines_of(folder / "result.json").size(), 4U);
    EXPECT_TRUE(fs::is_directory(folder / "checkpoint_000004"));
    EXPECT_FALSE(fs::exists(analysis->directory() / to_string(trial.id)));
    // Downloads use the id.
    const auto files = RunFiles(analysis->directory()).list(to_string(trial.id));
    ASSERT_TRUE(files) << files.error().message;
    std::vector<std::string> names;
    for (const auto& entry : *files) names.push_back(entry.name);
    EXPECT_THAT(names, AllOf(Contains("result.json"), Contains("checkpoint_000004")));
  }
  EXPECT_EQ(analysis->results().size(), 8U);
  EXPECT_EQ(Analysis::load(analysis->directory()).results().size(), 8U);
  EXPECT_EQ(Analysis::load(analysis->directory()).best_trial().name, "rate_2");
  EXPECT_TRUE(fs::exists(analysis->best_checkpoint().path() / "step"));
  EXPECT_THAT(shown_, HasSubstr("rate_2"));
  // A resume finds everything in place, and rejects other names.
  options.resume = analysis->directory();
  const auto again = run(with_parameters<Climbs>(), options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->results().size(), 8U);
  options.trial_folder = "{id}_{rate}";
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), options)), HasSubstr("trial_folder"));
}

TEST_F(RunOptionsTest, CopiesOfTrialsKeepTheirPolicyInTheirOwnFolders) {
  const auto analysis =
      run(with_parameters<Climbs>(),
          {.space = {{"rate", grid_search({1.0, 2.0, 3.0, 4.0})}},
           .metric = "height",
           .scheduler =
               pbt({.perturbation_interval = 2, .hyperparam_mutations = {{"rate", uniform(1, 10)}}, .synch = true}),
           .stop = max_steps(7),
           .max_concurrent_trials = 2,
           .trial_folder = "trial_{id}"});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const auto copies = lines_of(analysis->directory() / "pbt_global.txt");
  ASSERT_FALSE(copies.empty());
  const std::string copy = copies.back()[0];
  EXPECT_TRUE(fs::exists(analysis->directory() / ("trial_" + copy) / ("pbt_policy_" + copy + ".txt")));
}

TEST_F(RunOptionsTest, RefusesATemplateBeforeAnythingStarts) {
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.trial_name = "{lr}"})),
              HasSubstr("there is no field {lr}; there are: {id}, {index}, {experiment}"));
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.trial_folder = "all"})), HasSubstr("it must have {id}"));
  EXPECT_EQ(session_->spawned(), 0);
}

// ---- Tags.

TEST_F(RunOptionsTest, TagsStandInTheStateAndInTheJournal) {
  const auto analysis = run(with_parameters<Climbs>(), {.stop = max_steps(1), .tags = {"paper", "gpu-less"}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_THAT(Analysis::load(analysis->directory()).state().tags, ElementsAre("paper", "gpu-less"));
  const auto journal = read_journal(analysis->directory());
  ASSERT_TRUE(journal);
  int found = 0;
  for (const JournalRecord& record : journal->records) {
    const auto* labels = std::get_if<JournalLabels>(&record);
    if (labels == nullptr) continue;
    ++found;
    EXPECT_THAT(labels->trainable, HasSubstr("Climbs"));
    EXPECT_THAT(labels->tags, ElementsAre("paper", "gpu-less"));
  }
  EXPECT_EQ(found, 1);
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.tags = {"two words"}})), HasSubstr("tags: \"two words\""));
}

// ---- Failures.

TEST_F(RunOptionsTest, AFailedTrialIsTriedAgainAfterItsBackOff) {
  play_.failures = 2;
  const auto analysis = run(with_parameters<Climbs>(), {.stop = max_steps(3),
                                                        .max_failures = 2,
                                                        .retry_backoff = std::chrono::milliseconds(30),
                                                        .retry_backoff_max = std::chrono::milliseconds(40)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Trial& trial = analysis->trials()[0];
  EXPECT_EQ(trial.status, TrialStatus::kFinished);
  EXPECT_EQ(trial.failures, 2);
  EXPECT_GE(trial.ended - trial.started, std::chrono::milliseconds(70));  // At least both delays.
}

TEST_F(RunOptionsTest, FailFastEndsTheRunWithTheFirstFailedTrial) {
  play_.failures = 1;
  const auto analysis = run(with_parameters<Climbs>(), {.space = {{"rate", uniform(1, 2)}},
                                                        .num_samples = 50,
                                                        .stop = max_steps(1'000'000),
                                                        .max_concurrent_trials = 3,
                                                        .fail_fast = true});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->state().state, "failed");
  EXPECT_EQ(analysis->errors().size(), 1U);
  EXPECT_LT(analysis->trials().size(), 50U);
  EXPECT_THAT(analysis->notices(), Contains(AllOf(HasSubstr("fail_fast"), HasSubstr("out of luck"))));
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.max_failures = 2, .fail_fast = true})),
              AllOf(HasSubstr("fail_fast"), HasSubstr("max_failures 2")));
}

TEST_F(RunOptionsTest, FailedTrialsOfAnEarlierRunGoOnOrBeginAnew) {
  RunOptions options = {.space = {{"rate", grid_search({1.0, 2.0})}},
                        .stop = max_steps(4),
                        .max_concurrent_trials = 1,
                        .checkpoint = {.frequency = 1}};
  play_.failures = 1;
  const auto first = run(with_parameters<Climbs>(), options);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_EQ(first->errors().size(), 1U);
  options.resume = first->directory();
  const auto as_it_is = run(with_parameters<Climbs>(), options);
  ASSERT_TRUE(as_it_is);
  EXPECT_EQ(as_it_is->errors().size(), 1U);
  std::atomic<int64_t> first_step{0};
  play_.at_step = [&](int64_t step) {
    int64_t none = 0;
    first_step.compare_exchange_strong(none, step);
  };
  play_.failures = 1;  // It fails again, and is retried another time.
  options.resume_errored = true;
  const auto again = run(with_parameters<Climbs>(), options);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->errors().size(), 1U);
  const auto third = run(with_parameters<Climbs>(), options);
  ASSERT_TRUE(third) << third.error().message;
  EXPECT_TRUE(third->errors().empty());
  EXPECT_EQ(first_step, 2);
  for (const Trial& trial : third->trials())
    EXPECT_EQ(lines_of(third->directory() / to_string(trial.id) / "result.json").size(), 4U);
  // A new run.
  RunOptions fresh = options;
  fresh.resume.clear();
  fresh.resume_errored = false;
  play_.failures = 1;
  const auto other = run(with_parameters<Climbs>(), fresh);
  ASSERT_TRUE(other) << other.error().message;
  fresh.resume = other->directory();
  fresh.restart_errored = true;
  first_step = 0;
  const auto restarted = run(with_parameters<Climbs>(), fresh);
  ASSERT_TRUE(restarted) << restarted.error().message;
  EXPECT_TRUE(restarted->errors().empty());
  EXPECT_EQ(first_step, 1);
  for (const Trial& trial : restarted->trials()) {
    EXPECT_EQ(lines_of(restarted->directory() / to_string(trial.id) / "result.json").size(), 4U);
    EXPECT_EQ(trial.checkpoints.size(), 4U);
  }
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.resume_errored = true})), HasSubstr("give .resume"));
}

TEST_F(RunOptionsTest, AnOrderToResumeSaysWhatBecomesOfFailedTrialsAndIsGivenOnce) {
  const auto analysis = run(with_parameters<Climbs>(), {.name = "ordered", .stop = max_steps(1)});
  ASSERT_TRUE(analysis);
  using Failed = StartOrder::Failed;
  for (const Failed failed : {Failed::kAsTheProgramSays, Failed::kResume, Failed::kRestart}) {
    for (const auto& [name, value] : environment_of({StartOrder::Kind::kResume, analysis->directory(), {}, failed}))
      ::setenv(name.c_str(), value.c_str(), 1);
    EXPECT_EQ(take_start_order("another")->kind, StartOrder::Kind::kNone);
    const auto order = take_start_order("ordered");
    ASSERT_TRUE(order);
    EXPECT_EQ(order->kind, StartOrder::Kind::kResume);
    EXPECT_EQ(order->directory, analysis->directory());
    EXPECT_EQ(order->failed, failed);
    EXPECT_EQ(take_start_order("ordered")->kind, StartOrder::Kind::kNone);
  }
}

TEST_F(RunOptionsTest, ATrialGetsTheCheckpointThatItAsksFor) {
  const auto analysis = run(with_parameters<Climbs>(), {.stop = max_steps(5)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(analysis->trials()[0].checkpoints.size(), 1U);
  EXPECT_EQ(analysis->trials()[0].checkpoints[0].step, 3);
}

// ---- Artifacts.

TEST_F(RunOptionsTest, ArtifactsComeToTheResultsAsTheyAreWrittenAndAtTheEnd) {
  play_.at_step = [](int64_t step) {
    const fs::path& folder = artifacts_directory();
    write_text(folder / "last.txt", "step " + std::to_string(step));
    write_text(folder / "plots" / ("step_" + std::to_string(step) + ".svg"), std::string(1'500'000, 'x'));
  };
  const auto analysis = run(with_parameters<Climbs>(), {.stop = max_steps(4), .checkpoint = {.frequency = 2}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const fs::path folder = analysis->directory() / to_string(analysis->trials()[0].id) / "artifacts";
  EXPECT_EQ(read_text(folder / "last.txt"), "step 4");
  for (int step = 1; step <= 4; ++step) {
    EXPECT_EQ(fs::file_size(folder / "plots" / ("step_" + std::to_string(step) + ".svg")), 1'500'000U);
  }
  for (const auto& entry : fs::directory_iterator(folder.parent_path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".artifacts")) << entry.path();
}

TEST_F(RunOptionsTest, ArtifactsOfAnAttemptThatThrewAreThereToo) {
  play_.failures = 1;
  play_.at_step = [](int64_t step) { write_text(artifacts_directory() / ("step_" + std::to_string(step)), "x"); };
  const auto analysis = run(with_parameters<Climbs>(), {.stop = max_steps(4)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->trials()[0].status, TrialStatus::kFailed);
  EXPECT_EQ(read_text(analysis->directory() / to_string(analysis->trials()[0].id) / "artifacts" / "step_1"), "x");
}

TEST_F(RunOptionsTest, TooManyOrOddArtifactsAreRefusedAndTheTrialGoesOn) {
  play_.at_step = [](int64_t step) {
    write_text(artifacts_directory() / "large", std::string(static_cast<size_t>(step) * 2'000, 'x'));
  };
  const auto large = run(with_parameters<Climbs>(),
                         {.stop = max_steps(4), .checkpoint = {.frequency = 1}, .artifact_bytes_max = 5'000});
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(large->trials()[0].status, TrialStatus::kFinished);
  EXPECT_THAT(large->notices(), Contains(AllOf(HasSubstr("artifact_bytes_max"), HasSubstr("not copied"))));
  // Earlier artifacts are unchanged.
  EXPECT_EQ(fs::file_size(large->directory() / to_string(large->trials()[0].id) / "artifacts" / "large"), 4'000U);
  play_.at_step = [](int64_t step) {
    if (step == 1) fs::create_symlink("/etc/passwd", artifacts_directory() / "link");
  };
  const auto odd = run(with_parameters<Climbs>(), {.stop = max_steps(2)});
  ASSERT_TRUE(odd) << odd.error().message;
  EXPECT_THAT(odd->notices(), Contains(HasSubstr("link is a link, a socket or a device")));
  const auto none = run(with_parameters<Climbs>(), {.stop = max_steps(2), .artifact_bytes_max = 0});
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_FALSE(fs::exists(none->directory() / to_string(none->trials()[0].id) / "artifacts"));
}

TEST_F(RunOptionsTest, ATrialOnATakenOverActorBeginsWithoutArtifacts) {
  class Plain : public Climbs {};
  play_.at_step = [](int64_t) {
    const std::string id = get_context().trial_id;
    EXPECT_EQ(std::distance(fs::directory_iterator(artifacts_directory()), fs::directory_iterator()),
              fs::exists(artifacts_directory() / id) ? 1 : 0);
    write_text(artifacts_directory() / id, "x");
  };
  const auto climb = [](const Config&) {
    for (int64_t step = 1; step <= 2; ++step) {
      play->at_step(step);
      report({{"height", step}});
    }
  };
  using Function = decltype(climb);
  const TrainableRef function{trainables::LambdaEntry<Function>::name, "trial", to_bytes()};
  const auto analysis =
      run(function,
          {.space = {{"rate", uniform(1, 2)}}, .num_samples = 4, .max_concurrent_trials = 1, .reuse_actors = true});
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Trial& trial : analysis->trials()) {
    const fs::path folder = analysis->directory() / to_string(trial.id) / "artifacts";
    EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
    EXPECT_TRUE(fs::exists(folder / to_string(trial.id)));
  }
}

TEST_F(RunOptionsTest, DeterministicRefusesASchedulerThatComparesTrials) {
  EXPECT_THAT(
      refusal(run(with_parameters<Climbs>(),
                  {.metric = "value", .searcher = tpe(), .scheduler = asha({.max_t = 9}), .deterministic = true})),
      HasSubstr("deterministic: ASHA"));
}

// ---- Bundles.

TEST_F(RunOptionsTest, RefusesBundlesThatContradictOtherOptions) {
  EXPECT_THAT(
      refusal(run(with_parameters<Climbs>(), {.resources_per_trial = {.cpus = 2}, .bundles_per_trial = {{.cpus = 1}}})),
      HasSubstr("resources_per_trial"));
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.bundles_per_trial = {{.cpus = 1}, {}}})),
              HasSubstr("bundles_per_trial[1] is empty"));
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.reuse_actors = true, .bundles_per_trial = {{.cpus = 1}}})),
              HasSubstr("reuse_actors"));
  EXPECT_THAT(refusal(run(with_parameters<Climbs>(), {.bundles_per_trial = {{.cpus = -1}}})),
              HasSubstr("bundles_per_trial[0]"));
}

// ---- Tuner.

TEST_F(RunOptionsTest, ATunerIsRestoredFromARunOnly) {
  EXPECT_FALSE(Tuner::can_restore(directory_.path()));
  try {
    (void)Tuner::restore(directory_.path(), with_parameters<Climbs>(), {});
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Exception& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kNotFound);
    EXPECT_THAT(exception.error().message, HasSubstr(directory_.path().string()));
  }
  const auto analysis = run(with_parameters<Climbs>(), {.stop = max_steps(1)});
  ASSERT_TRUE(analysis);
  EXPECT_TRUE(Tuner::can_restore(analysis->directory()));
  EXPECT_EQ(Tuner::restore(analysis->directory(), with_parameters<Climbs>(), {}).options().resume,
            analysis->directory());
}

}  // namespace
}  // namespace volador::tune
