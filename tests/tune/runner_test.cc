#include "tune/execution/runner.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "temporary_directory.h"
#include "tests/runtime/in_process_session.h"
#include "tune/execution/experiment_request.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/saved_run.h"
#include "tune/tune.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// Controls the trainables of these tests, which run in the test's process.
struct Script {
  std::atomic<int> steps{0};
  std::atomic<int> setups{0};
  std::atomic<int> cleanups{0};
  std::atomic<int> loads{0};
  std::atomic<int> resets{0};
  std::function<void(int64_t step, int64_t attempt)> at_step;  // Before each step.
};
Script* script = nullptr;

// A state that is only correct if its checkpoint was restored completely.
class Sum : public Trainable {
  void setup(const Config& config) override {
    ++script->setups;
    rate_ = config.get_or("rate", 1.0);
  }
  Metrics step() override {
    ++script->steps;
    if (script->at_step) script->at_step(step_ + 1, get_context().attempt);
    sum_ += rate_ * static_cast<double>(++step_);
    return {{"sum", sum_}};
  }
  void save_checkpoint(const fs::path& directory) override {
    write_text(directory / "state.json", json{{"step", step_}, {"sum", sum_}}.dump());
    write_text(directory / "weights" / "large", std::string(2'500'000, static_cast<char>('a' + step_)));
  }
  void load_checkpoint(const fs::path& directory) override {
    ++script->loads;
    const json state = json::parse(read_text(directory / "state.json"));
    step_ = state["step"];
    sum_ = state["sum"];
    EXPECT_EQ(read_text(directory / "weights" / "large"), std::string(2'500'000, static_cast<char>('a' + step_)));
  }
  void cleanup() override { ++script->cleanups; }

  double rate_ = 1, sum_ = 0;
  int64_t step_ = 0;

 protected:
  void reset_state(double rate) {
    rate_ = rate;
    sum_ = 0;
    step_ = 0;
  }
};

void reports_three(const Config& config) {
  int64_t step = 0;
  if (get_checkpoint()) {
    ++script->loads;
    step = std::stoll(read_text(get_checkpoint()->path() / "step"));
    EXPECT_EQ(step, get_checkpoint()->step());
  }
  while (step < 3) {
    ++step;
    ++script->steps;
    if (script->at_step) script->at_step(step, get_context().attempt);
    report({{"loss", config.real("lr") / static_cast<double>(step)}},
           [&](const auto& directory) { write_text(directory / "step", std::to_string(step)); });
  }
}

void reports_forever(const Config&) {
  struct Guard {
    ~Guard() { ++script->cleanups; }
  } guard;
  for (int step = 1;; ++step) {
    if (script->at_step) script->at_step(step, 1);
    report({{"score", step}});
  }
}

void takes_parameters(const Config& config, const std::string& prefix, const std::vector<double>& data) {
  report({{"value", config.real("lr") + data.at(1) + static_cast<double>(prefix.size())}});
}

void throws_at_once(const Config&) { throw std::runtime_error("out of luck"); }

class Reusable : public Sum {
  bool reset_config(const Config& config) override {
    ++script->resets;
    if (config.get_or("rate", 1.0) == 4) return false;
    reset_state(config.get_or("rate", 1.0));
    return true;
  }
};

class SavesNothing : public Trainable {
  Metrics step() override {
    if (script->at_step) script->at_step(++step_, get_context().attempt);
    return {{"score", 1}};
  }
  int64_t step_ = 0;
};

class RunnerTest : public ::testing::Test {
 protected:
  RunnerTest() { script = &script_; }
  ~RunnerTest() override {
    end_session(session_);  // Its actors clean up using the script.
    script = nullptr;
  }

  void start_cluster(double cpus) {
    end_session(session_);
    session_ = std::make_shared<InProcessSession>(*ResourceSet::from({.cpus = cpus}));
  }

  Result<Analysis> run(const TrainableRef& trainable, RunOptions options) {
    if (!session_) start_cluster(4);
    options.storage_path = directory_.path();
    if (!options.seed) options.seed = 1;
    RunnerEnvironment environment{.session = session_,
                                  .clock = clock_,
                                  .random = random_,
                                  .display = {},
                                  .retry_pause = std::chrono::milliseconds(1)};
    environment.display.terminal = [] { return TerminalState(); };
    environment.display.write = [this](std::string_view bytes) { shown_ += bytes; };
    return run_experiment(environment, trainable, std::move(options));
  }
  static std::vector<json> lines_of(const Analysis& analysis, const Trial& trial) {
    std::istringstream in(read_text(analysis.directory() / to_string(trial.id) / "result.json"));
    std::vector<json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
  }
  static void expect_contiguous(const Analysis& analysis, const Trial& trial, int64_t steps) {
    const auto lines = lines_of(analysis, trial);
    ASSERT_EQ(static_cast<int64_t>(lines.size()), steps);
    for (size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["training_iteration"], i + 1);
  }

  TemporaryDirectory directory_;
  Script script_;
  SystemClock clock_;
  SeededRandom random_{3};
  std::string shown_;
  std::shared_ptr<InProcessSession> session_;
};

TEST_F(RunnerTest, CopiesCheckpointsAndConfigurationsOfGoodTrialsAndReplaysWhatCameOfIt) {
  const auto analysis =
      run(with_parameters<Sum>(),
          {.name = "population",
           .space = {{"rate", grid_search({1.0, 2.0, 3.0, 4.0})}},
           .metric = "sum",
           .scheduler =
               pbt({.perturbation_interval = 2, .hyperparam_mutations = {{"rate", uniform(1, 10)}}, .synch = true}),
           .stop = {{"training_iteration", 9}},
           .max_concurrent_trials = 2});
  ASSERT_TRUE(analysis) << analysis.error().message;
  std::istringstream log(read_text(analysis->directory() / "pbt_global.txt"));
  int copies = 0;
  std::string last;
  for (std::string line; std::getline(log, line); ++copies) last = line;
  ASSERT_GT(copies, 0);
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished) << trial.error;
    EXPECT_EQ(json::parse(read_text(analysis->directory() / to_string(trial.id) / "params.json"))["rate"],
              trial.config.real("rate"));
  }
  // Replaying the policy of the last copied trial gives the same sum.
  const std::string trial = json::parse(last)[0];
  const auto policy = analysis->directory() / trial / ("pbt_policy_" + trial + ".txt");
  const Trial& copy = *std::find_if(analysis->trials().begin(), analysis->trials().end(),
                                    [&](const Trial& one) { return to_string(one.id) == trial; });
  const auto replayed = run(with_parameters<Sum>(),
                            {.name = "replay", .scheduler = pbt_replay(policy), .stop = {{"training_iteration", 9}}});
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_DOUBLE_EQ(replayed->trials()[0].last_result.at("sum"), copy.last_result.at("sum"));
  EXPECT_EQ(replayed->trials()[0].config.real("rate"), copy.config.real("rate"));
  const auto refused = run(with_parameters<Sum>(), {.scheduler = pbt_replay(analysis->directory() / "pbt_none.txt")});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("pbt_none.txt"));
}

// ---- Resuming an earlier run.

RunOptions resumable() {
  return {.name = "resumable",
          .space = {{"rate", uniform(1, 2)}},
          .metric = "sum",
          .num_samples = 4,
          .stop = {{"training_iteration", 6}},
          .max_concurrent_trials = 2,
          .checkpoint = {.frequency = 2}};
}

TEST_F(RunnerTest, GoesOnAfterAnInterruptAsIfThereHadBeenNone) {
  std::atomic<bool> once{false};
  script_.at_step = [&](int64_t step, int64_t) {
    if (step == 3 && !once.exchange(true)) std::raise(SIGINT);
  };
  const auto first = run(with_parameters<Sum>(), resumable());
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(first->interrupted());
  RunOptions options = resumable();
  options.resume = first->directory();
  options.seed = 1;
  const auto second = run(with_parameters<Sum>(), options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->directory(), first->directory());
  EXPECT_EQ(second->state().state, "finished");
  ASSERT_EQ(second->trials().size(), 4U);
  for (const Trial& trial : second->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished) << trial.error;
    EXPECT_EQ(trial.losses + trial.failures, 0);
    EXPECT_DOUBLE_EQ(trial.last_result.at("sum"), trial.config.real("rate") * 21);
    expect_contiguous(*second, trial, 6);
  }
  EXPECT_GT(script_.loads, 0);

  // A finished run may be extended, and its journal stays the same run.
  options.num_samples = 6;
  const auto third = run(with_parameters<Sum>(), options);
  ASSERT_TRUE(third) << third.error().message;
  ASSERT_EQ(third->trials().size(), 6U);
  for (const Trial& trial : third->trials()) expect_contiguous(*third, trial, 6);
  for (size_t i = 0; i < first->trials().size(); ++i)
    EXPECT_EQ(third->trials()[i].id, first->trials()[i].id) << "a run that goes on keeps its ids";
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(third->trials()[i].config,
              first->trials().size() > i ? first->trials()[i].config : third->trials()[i].config);
  const auto fourth = run(with_parameters<Sum>(), options);
  ASSERT_TRUE(fourth) << fourth.error().message;
  EXPECT_EQ(fourth->trials().size(), 6U);
}

TEST_F(RunnerTest, TriesConfigurationsThatAreAddedAndKnowsThemWhenItGoesOn) {
  std::atomic<bool> once{false};
  std::thread asker;
  std::vector<Result<void>> answers(3);
  script_.at_step = [&](int64_t step, int64_t) {
    if (step != 3 || once.exchange(true)) return;
    const fs::path run = fs::directory_iterator(directory_.path())->path();
    asker = std::thread([run, &answers] {
      answers[0] = add_configuration(run, {{"rate", 1.25}});
      answers[1] = add_configuration(run, {{"rate", 3}});
      answers[2] = add_configuration(run, Config::map());
    });
    while (!fs::exists(run / "requests")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  RunOptions options = resumable();
  options.num_samples = 40;
  const auto first = run(with_parameters<Sum>(), options);
  asker.join();
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(answers[0]);
  ASSERT_FALSE(answers[1]);
  EXPECT_EQ(answers[1].error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(answers[1].error().message, "config: rate is 3: expected a value of uniform(1, 2)");
  const auto added = [](const Analysis& analysis) {
    return std::count_if(analysis.trials().begin(), analysis.trials().end(), [](const Trial& one) {
      return one.config == Config{{"rate", 1.25}};
    });
  };
  const size_t trials = answers[2] ? 42 : 41;  // The last one may be too late.
  ASSERT_EQ(first->trials().size(), trials);
  EXPECT_EQ(added(*first), 1);
  for (const Trial& trial : first->trials()) EXPECT_EQ(trial.status, TrialStatus::kFinished);
  // A resumed run has them in addition to its samples.
  options.resume = first->directory();
  options.seed = 1;
  options.num_samples = 43;
  const auto second = run(with_parameters<Sum>(), options);
  ASSERT_TRUE(second) << second.error().message;
  ASSERT_EQ(second->trials().size(), trials + 3);
  for (size_t i = 0; i < trials; ++i) EXPECT_EQ(second->trials()[i].config, first->trials()[i].config);
}

TEST_F(RunnerTest, RefusesToGoOnWithAnotherRunAndNamesWhatDiffers) {
  const auto first = run(with_parameters<Sum>(), resumable());
  ASSERT_TRUE(first);
  RunOptions options = resumable();
  options.resume = first->directory();
  options.space = {{"rate", uniform(1, 3)}};
  EXPECT_THAT(run(with_parameters<Sum>(), options).error().message,
              HasSubstr("it was \"rate uniform(1, 2)\", now it is \"rate uniform(1, 3)\""));
  options = resumable();
  options.resume = directory_.path() / "nothing";
  EXPECT_THAT(run(with_parameters<Sum>(), options).error().message,
              HasSubstr("it takes the directory of an earlier run"));
}

// Records a step when the next one begins: its report was then acknowledged.
void note_step(const fs::path& file, const std::string& trial, int64_t step) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const std::string line = trial + " " + std::to_string(step) + "\n";
  EXPECT_EQ(::write(fd, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  ::close(fd);
}

TEST_F(RunnerTest, LosesNoAcknowledgedReportWhereItsDriverIsKilledAtAnyMoment) {
  const fs::path notes = directory_.path() / "notes";
  SeededRandom random(11);
  const auto run_it = [&](const fs::path& resume) {
    script_.at_step = [&](int64_t step, int64_t) {
      if (step > 1) note_step(notes, get_context().trial_id, step - 1);
    };
    RunOptions options = resumable();
    options.num_samples = 30;
    options.progress = Progress::kSilent;
    options.resume = resume;
    return run(with_parameters<Sum>(), options);
  };
  const auto directory_of_run = [&]() -> fs::path {
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      if (entry.path().filename().string().starts_with("resumable_") && fs::exists(journal_path(entry.path())))
        return entry.path();
    }
    return {};
  };
  const auto acknowledged = [&] {
    std::map<std::string, int64_t> steps;
    if (!fs::exists(notes)) return steps;
    std::istringstream in(read_text(notes));
    int64_t step = 0;
    for (std::string trial; in >> trial >> step;) steps[trial] = std::max(steps[trial], step);
    return steps;
  };
  const auto steps_in = [](const JournalContents& journal) {
    std::map<std::string, int64_t> steps;
    for (const JournalRecord& record : journal.records) {
      const auto* told = std::get_if<JournalEvent>(&record);
      const auto* result = told == nullptr ? nullptr : std::get_if<ResultReported>(&told->event);
      if (result != nullptr) steps[to_string(result->trial)] = std::max(steps[to_string(result->trial)], result->step);
    }
    return steps;
  };
  fs::create_directory(directory_.path() / "scratch");
  std::map<std::string, int64_t> known;
  for (int kills = 0; kills < 12; ++kills) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("TMPDIR", (directory_.path() / "scratch").c_str(), 1);  // The test removes what it leaves behind.
      const bool done = run_it(directory_of_run()).has_value();
      ::_exit(done ? 0 : 1);
    }
    ::usleep(static_cast<useconds_t>(random.below(60'000)));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "a resume failed";
    const auto journal = read_journal(directory_of_run());
    if (directory_of_run().empty()) continue;  // It was killed before anything began.
    ASSERT_TRUE(journal) << journal.error().message;
    for (const auto& [trial, step] : steps_in(*journal)) known[trial] = step;
    for (const auto& [trial, step] : acknowledged()) EXPECT_GE(known[trial], step) << trial;
  }
  const auto last = run_it(directory_of_run());
  ASSERT_TRUE(last) << last.error().message;
  ASSERT_EQ(last->trials().size(), 30U);
  EXPECT_EQ(acknowledged().size(), 30U);
  for (const Trial& trial : last->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished) << trial.error;
    EXPECT_EQ(trial.losses + trial.failures, 0);
    expect_contiguous(*last, trial, 6);
  }
}

TEST_F(RunnerTest, SaysThatCopiesNeedCheckpoints) {
  (void)run(with_parameters<SavesNothing>(),
            {.space = {{"x", uniform(0, 1)}},
             .metric = "score",
             .num_samples = 4,
             .scheduler = pbt({.perturbation_interval = 1, .hyperparam_mutations = {{"x", uniform(0, 1)}}}),
             .stop = {{"training_iteration", 4}}});
  EXPECT_THAT(shown_, HasSubstr("the trainable saves nothing: override save_checkpoint"));
}

TEST_F(RunnerTest, AClassRunsToItsStopConditionInEveryTrial) {
  start_cluster(3);
  const auto analysis =
      run(with_parameters<Sum>(),
          {.space = {{"rate", grid_search({1.0, 2.0, 3.0, 4.0, 5.0})}}, .metric = "sum", .stop = max_steps(4)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(analysis->trials().size(), 5U);
  EXPECT_EQ(analysis->best_trial().config.real("rate"), 5);
  EXPECT_EQ(analysis->best_trial().last_result.at("sum"), 50);
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished);
    expect_contiguous(*analysis, trial, 4);
    EXPECT_EQ(lines_of(*analysis, trial).back()["done"], true);
    EXPECT_EQ(lines_of(*analysis, trial).front()["done"], false);
    EXPECT_EQ(json::parse(read_text(analysis->directory() / to_string(trial.id) / "params.json"))["rate"],
              trial.config.real("rate"));
  }
  EXPECT_EQ(script_.steps, 20);
  EXPECT_EQ(script_.cleanups, 5);
  EXPECT_EQ(session_->alive(), 0);
  EXPECT_LE(session_->alive_max(), 3);
  EXPECT_EQ(analysis->results().size(), 20U);
  EXPECT_THAT(shown_, HasSubstr("5 finished"));
  EXPECT_EQ(Analysis::load(analysis->directory()).best_trial().id, analysis->best_trial().id);
  ASSERT_FALSE(session_->reports().empty());
  EXPECT_EQ(session_->reports().back().state, "finished");
  EXPECT_EQ(session_->reports().back().trials.size(), 5U);
}

// 3 full runs of 9 steps, 5 of 3 steps of which 1 continues to 9, and a third bracket with 4 trials of which one is
// left.
TEST_F(RunnerTest, PausedTrialsGoOnFromTheirCheckpoints) {
  script_.loads = 0;
  for (const bool reuse : {false, true}) {
    start_cluster(2);
    session_->lose_every(23);
    const auto analysis = run(reuse ? with_parameters<Reusable>() : with_parameters<Sum>(),
                              {.space = {{"rate", uniform(0.1, 1.0)}},
                               .metric = "sum",
                               .num_samples = 12,
                               .scheduler = hyperband({.max_t = 9, .eta = 3}),
                               .checkpoint = {.num_to_keep = 1},
                               .reuse_actors = reuse});
    ASSERT_TRUE(analysis) << analysis.error().message;
    int64_t finished = 0;
    for (const Trial& trial : analysis->trials()) {
      finished += trial.status == TrialStatus::kFinished;
      EXPECT_TRUE(trial.status == TrialStatus::kFinished || trial.status == TrialStatus::kStopped)
          << to_string(trial.status);
      EXPECT_EQ(trial.failures + trial.losses, 0) << trial.error;
      expect_contiguous(*analysis, trial, trial.step);
      const auto steps = static_cast<double>(trial.step);
      EXPECT_DOUBLE_EQ(trial.last_result.at("sum"), trial.config.real("rate") * steps * (steps + 1) / 2);
    }
    EXPECT_EQ(finished, 3 + 1 + 1);
    EXPECT_EQ(session_->alive(), 0);
    EXPECT_LE(session_->alive_max(), 2);
  }
  EXPECT_GE(script_.loads, 2);  // Over both runs: a promoted trial that arrives last at its rung does not pause.
}

TEST_F(RunnerTest, ATrainableThatSavesNothingCannotBePaused) {
  const auto analysis =
      run(with_parameters<SavesNothing>(), {.metric = "score",
                                            .num_samples = 5,
                                            .scheduler = hyperband({.max_t = 9}),
                                            .max_concurrent_trials = 1});  // Nothing resumes it while it saves.
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(analysis->errors().size(), 1U);  // In the two brackets that halve, one trial waits for the other; full runs
                                             // do not pause.
  EXPECT_THAT(analysis->errors()[0].message, HasSubstr("it was to pause after step 3"));
  EXPECT_THAT(analysis->errors()[0].message, HasSubstr("override save_checkpoint"));
}

TEST_F(RunnerTest, AFunctionRunsUntilItReturns) {
  const auto analysis =
      run(with_parameters<&reports_three>(),
          {.space = {{"lr", uniform(0.1, 1.0)}}, .metric = "loss", .mode = Mode::kMin, .num_samples = 4});
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(analysis->trials().size(), 4U);
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished);
    EXPECT_EQ(trial.step, 3);
    EXPECT_DOUBLE_EQ(trial.last_result.at("loss"), trial.config.real("lr") / 3);
  }
}

TEST_F(RunnerTest, AFunctionThatIsStoppedUnwinds) {
  const auto analysis = run(with_parameters<&reports_forever>(), {.num_samples = 3, .stop = {{"score", 5}}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Trial& trial : analysis->trials()) EXPECT_EQ(trial.step, 5);
  session_.reset();  // Joins the actors.
  EXPECT_EQ(script_.cleanups, 3);
}

TEST_F(RunnerTest, ParametersTravelBesideTheConfiguration) {
  const auto analysis = run(with_parameters<&takes_parameters>("abc", std::vector<double>{1, 10}),
                            {.space = {{"lr", 0.5}}, .metric = "value"});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->best_trial().last_result.at("value"), 13.5);
}

TEST_F(RunnerTest, ACrashedTrialGoesOnFromItsLastCheckpoint) {
  script_.at_step = [this](int64_t step, int64_t attempt) {
    if (step == 4 && attempt == 1)
      session_->die("trial " + get_context().trial_id, "its process was ended by signal 11 (Segmentation fault)",
                    false);
  };
  const auto analysis =
      run(with_parameters<Sum>(),
          {.metric = "sum", .stop = max_steps(6), .max_failures = 1, .checkpoint = {.frequency = 2, .num_to_keep = 2}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Trial& trial = analysis->trials().at(0);
  EXPECT_EQ(trial.status, TrialStatus::kFinished);
  EXPECT_EQ(trial.attempt, 2);
  EXPECT_EQ(trial.failures, 1);
  EXPECT_EQ(trial.last_result.at("sum"), 21);
  EXPECT_EQ(script_.loads, 1);
  expect_contiguous(*analysis, trial, 6);
  EXPECT_THAT(read_text(analysis->directory() / to_string(trial.id) / "error.txt"), HasSubstr("signal 11"));
  std::set<std::string> kept;
  for (const auto& entry : fs::directory_iterator(analysis->directory() / to_string(trial.id))) {
    if (entry.is_directory()) kept.insert(entry.path().filename());
  }
  EXPECT_EQ(kept, (std::set<std::string>{"checkpoint_000004", "checkpoint_000006"}));
  EXPECT_EQ(json::parse(read_text(analysis->best_checkpoint().path() / "state.json"))["sum"], 21);
}

TEST_F(RunnerTest, AFunctionGoesOnFromItsCheckpoint) {
  script_.at_step = [this](int64_t step, int64_t attempt) {
    if (step == 3 && attempt == 1) session_->die("trial " + get_context().trial_id, "killed", false);
  };
  const auto analysis = run(with_parameters<&reports_three>(),
                            {.space = {{"lr", 1.0}}, .max_failures = 1, .checkpoint = {.frequency = 1}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->trials().at(0).status, TrialStatus::kFinished);
  EXPECT_EQ(script_.loads, 1);
  expect_contiguous(*analysis, analysis->trials().at(0), 3);
}

TEST_F(RunnerTest, ATornCheckpointIsSaidAndTheOneBeforeIsUsed) {
  script_.at_step = [this](int64_t step, int64_t attempt) {
    if (step != 6 || attempt != 1) return;
    for (const auto& experiment : fs::directory_iterator(directory_.path())) {
      const fs::path archive = experiment.path() / get_context().trial_id / "checkpoint_000004" / "archive.vla";
      std::string bytes = read_text(archive);
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
      write_text(archive, bytes);
    }
    session_->die("trial " + get_context().trial_id, "signal 11", false);
  };
  const auto analysis = run(with_parameters<Sum>(),
                            {.metric = "sum", .stop = max_steps(6), .max_failures = 1, .checkpoint = {.frequency = 2}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Trial& trial = analysis->trials().at(0);
  EXPECT_EQ(trial.status, TrialStatus::kFinished);
  EXPECT_EQ(trial.attempt, 3);  // The attempt that could not read it does not count as a failure.
  EXPECT_EQ(trial.failures, 1);
  EXPECT_EQ(trial.last_result.at("sum"), 21);
  EXPECT_THAT(analysis->notices(), Contains(HasSubstr("checkpoint_000004")));
  expect_contiguous(*analysis, trial, 6);
}

TEST_F(RunnerTest, ALostNodeDoesNotCountAsAFailure) {
  script_.at_step = [this](int64_t step, int64_t attempt) {
    if (step == 2 && attempt <= 3) session_->die("trial " + get_context().trial_id, "node b was lost", true);
  };
  const auto analysis = run(with_parameters<Sum>(), {.metric = "sum", .stop = max_steps(3), .max_failures = 0});
  ASSERT_TRUE(analysis) << analysis.error().message;
  const Trial& trial = analysis->trials().at(0);
  EXPECT_EQ(trial.status, TrialStatus::kFinished);
  EXPECT_EQ(trial.losses, 3);
  EXPECT_EQ(trial.failures, 0);
  expect_contiguous(*analysis, trial, 3);
}

TEST_F(RunnerTest, LostRepliesChangeNothing) {
  start_cluster(2);
  session_->lose_every(3);
  const auto analysis = run(with_parameters<Sum>(), {.space = {{"rate", grid_search({1.0, 2.0, 3.0})}},
                                                     .metric = "sum",
                                                     .stop = max_steps(5),
                                                     .checkpoint = {.frequency = 2}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(script_.steps, 15);
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.attempt, 1);
    EXPECT_EQ(trial.last_result.at("sum"), 15 * trial.config.real("rate"));
    EXPECT_EQ(trial.checkpoints.size(), 2U);
  }
}

TEST_F(RunnerTest, ATrialThatThrowsFailsWithTypeAndText) {
  const auto analysis = run(with_parameters<&throws_at_once>(), {.num_samples = 2, .max_failures = 1});
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(analysis->errors().size(), 2U);
  EXPECT_THAT(analysis->errors()[0].message, HasSubstr("std::runtime_error: out of luck"));
  EXPECT_EQ(analysis->trials()[0].attempt, 2);
  EXPECT_EQ(session_->alive(), 0);
  const std::string errors = read_text(analysis->directory() / to_string(analysis->trials()[0].id) / "error.txt");
  EXPECT_THAT(errors, HasSubstr("attempt 1"));
  EXPECT_THAT(errors, HasSubstr("attempt 2"));
  EXPECT_THAT(shown_, HasSubstr("out of luck"));
}

TEST_F(RunnerTest, AStepThatHangsIsKilledAndTriedAgain) {
  start_cluster(1);
  session_->time_out_next_call();
  const auto analysis =
      run(with_parameters<Sum>(),
          {.metric = "sum", .stop = max_steps(2), .max_failures = 1, .step_timeout = std::chrono::hours(1)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->trials()[0].status, TrialStatus::kFinished);
  EXPECT_EQ(analysis->trials()[0].attempt, 2);
  EXPECT_THAT(read_text(analysis->directory() / to_string(analysis->trials()[0].id) / "error.txt"),
              HasSubstr("step_timeout"));
}

TEST_F(RunnerTest, TimeWithoutAHeadDoesNotCountAgainstAStep) {
  start_cluster(1);
  session_->lose_head_during_timeout(std::chrono::seconds(30));
  const auto analysis =
      run(with_parameters<Sum>(), {.metric = "sum", .stop = max_steps(2), .step_timeout = std::chrono::hours(1)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->trials()[0].status, TrialStatus::kFinished);
  EXPECT_EQ(analysis->trials()[0].attempt, 1);
}

TEST_F(RunnerTest, AStoppedClusterEndsTheRunWithWhatToDoAndItGoesOnLater) {
  start_cluster(2);
  script_.at_step = [this](int64_t step, int64_t) {
    if (step == 3) session_->leave({ErrorCode::kCancelled, "the cluster heron was stopped by ada"});
    if (session_->left()) std::this_thread::sleep_for(std::chrono::milliseconds(200));  // The run must end first.
  };
  RunOptions options{.space = {{"rate", uniform(1, 2)}},
                     .metric = "sum",
                     .num_samples = 4,
                     .stop = max_steps(8),
                     .checkpoint = {.frequency = 1}};
  const auto ended = run(with_parameters<Sum>(), options);
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kCancelled);
  EXPECT_THAT(
      ended.error().message,
      AllOf(HasSubstr("the cluster heron was stopped by ada. What its trials have reported and saved is kept in "),
            HasSubstr(".resume = \""), HasSubstr("volador tune resume ")));
  EXPECT_EQ(session_->alive(), 0);
  options.resume = fs::directory_iterator(directory_.path())->path();
  const Analysis kept = Analysis::load(options.resume);
  EXPECT_TRUE(kept.interrupted());
  EXPECT_LT(kept.trials()[0].step, 8);
  script_.at_step = nullptr;
  start_cluster(2);
  const auto analysis = run(with_parameters<Sum>(), options);
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(analysis->trials().size(), 4U);
  for (const Trial& trial : analysis->trials()) expect_contiguous(*analysis, trial, 8);
  EXPECT_GT(script_.loads, 0) << "from their checkpoints";
}

TEST_F(RunnerTest, InterruptedOnceTrialsCheckpointAndStop) {
  start_cluster(2);
  std::atomic<bool> raised{false};
  script_.at_step = [&raised](int64_t step, int64_t) {
    if (step == 3 && !raised.exchange(true)) raise(SIGINT);
  };
  const auto analysis =
      run(with_parameters<Sum>(),
          {.space = {{"rate", uniform(1, 2)}}, .metric = "sum", .num_samples = 10, .stop = max_steps(1000)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_TRUE(analysis->interrupted());
  EXPECT_EQ(session_->alive(), 0);
  int saved = 0;
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kInterrupted);
    if (trial.step == 0) continue;
    ASSERT_NE(trial.last_checkpoint(), nullptr);
    EXPECT_EQ(trial.last_checkpoint()->step, trial.step);
    ++saved;
  }
  EXPECT_GE(saved, 1);
  EXPECT_THAT(shown_, HasSubstr("interrupted"));
}

TEST_F(RunnerTest, ATrialThatEndsBetweenItsAnswerAndTheEndOfItsSpawnLeavesNoReference) {
  start_cluster(1);
  std::promise<void> stepped;
  script_.at_step = [&stepped](int64_t step, int64_t) {
    if (step == 1) stepped.set_value();
  };
  session_->before_spawned([&stepped] {
    stepped.get_future().wait();
    raise(SIGINT);
    raise(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));  // The run stops the trial meanwhile; if it is late,
                                                                  // nothing is tested.
  });
  const auto analysis =
      run(with_parameters<Sum>(), {.space = {{"rate", uniform(1, 2)}}, .metric = "sum", .stop = max_steps(1000)});
  EXPECT_TRUE(!analysis || analysis->interrupted());
  for (int i = 0; i < 2000 && session_.use_count() > 1; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_EQ(session_.use_count(), 1);
}

TEST_F(RunnerTest, AClassThatSavesNothingIsSaidOnceAndOnlyWhereItMatters) {
  script_.at_step = [](int64_t step, int64_t) {
    if (step == 2) raise(SIGINT);
  };
  auto analysis = run(with_parameters<SavesNothing>(), {.metric = "score", .stop = max_steps(1000)});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_THAT(shown_, ::testing::Not(HasSubstr("saves nothing")));
  script_.at_step = nullptr;
  analysis = run(with_parameters<SavesNothing>(),
                 {.metric = "score", .num_samples = 5, .stop = max_steps(3), .checkpoint = {.frequency = 1}});
  ASSERT_TRUE(analysis);
  EXPECT_EQ(analysis->notices().size(), 1U);
  EXPECT_THAT(analysis->notices()[0], HasSubstr("save_checkpoint"));
  for (const Trial& trial : analysis->trials()) EXPECT_EQ(trial.step, 3);
}

TEST_F(RunnerTest, ActorsAreReusedWhereTheClassLetsThem) {
  start_cluster(2);
  const auto analysis =
      run(with_parameters<Reusable>(), {.space = {{"rate", grid_search({1.0, 2.0, 3.0, 4.0, 5.0, 6.0})}},
                                        .metric = "sum",
                                        .stop = max_steps(4),
                                        .checkpoint = {.frequency = 2},
                                        .reuse_actors = true});
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished);
    EXPECT_EQ(trial.attempt, 1);
    EXPECT_EQ(trial.last_result.at("sum"), 10 * trial.config.real("rate"));
    expect_contiguous(*analysis, trial, 4);
  }
  EXPECT_GE(script_.resets, 2);
  EXPECT_EQ(script_.setups + script_.resets, 7);  // The one that rejected reuse was set up anew.
  EXPECT_LE(session_->alive_max(), 2);
  EXPECT_EQ(session_->alive(), 0);
}

TEST_F(RunnerTest, ReusedActorsRestoreCheckpointsAndMayDie) {
  start_cluster(1);
  script_.at_step = [this](int64_t step, int64_t attempt) {
    if (step == 4 && attempt == 1) session_->die_all("signal 11");
  };
  const auto analysis = run(with_parameters<Reusable>(), {.space = {{"rate", grid_search({1.0, 2.0, 3.0})}},
                                                          .metric = "sum",
                                                          .stop = max_steps(4),
                                                          .max_failures = 1,
                                                          .checkpoint = {.frequency = 2},
                                                          .reuse_actors = true});
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.status, TrialStatus::kFinished) << trial.error;
    EXPECT_EQ(trial.attempt, 2);
    EXPECT_EQ(trial.last_result.at("sum"), 10 * trial.config.real("rate"));
    expect_contiguous(*analysis, trial, 4);
  }
  EXPECT_EQ(script_.loads, 3);
}

TEST_F(RunnerTest, FunctionsAreReusedToo) {
  start_cluster(2);
  const auto analysis =
      run(with_parameters<&reports_three>(),
          {.space = {{"lr", uniform(0.1, 1.0)}}, .metric = "loss", .num_samples = 8, .reuse_actors = true});
  ASSERT_TRUE(analysis) << analysis.error().message;
  for (const Trial& trial : analysis->trials()) {
    EXPECT_EQ(trial.step, 3);
    EXPECT_DOUBLE_EQ(trial.last_result.at("loss"), trial.config.real("lr") / 3);
  }
}

TEST_F(RunnerTest, WhatNoNodeCanHoldIsRefused) {
  start_cluster(2);
  const auto analysis =
      run(with_parameters<Sum>(), {.metric = "sum", .num_samples = 3, .resources_per_trial = {.cpus = 8}});
  ASSERT_FALSE(analysis);
  EXPECT_EQ(analysis.error().code, ErrorCode::kInfeasible);
  EXPECT_THAT(analysis.error().message, HasSubstr("asks for cpus 8"));
  EXPECT_THAT(
      analysis.error().message,
      HasSubstr(
          "resources_per_trial.cpus: ask at most cpus 2, or join a larger node and set .wait_if_infeasible = true."));
}

TEST_F(RunnerTest, AMetricThatIsNeverReportedIsAnErrorThatNamesThoseReported) {
  const auto analysis = run(with_parameters<Sum>(), {.metric = "summ", .stop = max_steps(2)});
  ASSERT_FALSE(analysis);
  EXPECT_EQ(analysis.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(analysis.error().message, HasSubstr("trials report: sum"));
}

TEST_F(RunnerTest, WrongOptionsAreNamedBeforeAnythingStarts) {
  const auto refused = [&](RunOptions options, const std::string& word) {
    const auto analysis = run(with_parameters<Sum>(), std::move(options));
    ASSERT_FALSE(analysis) << word;
    EXPECT_EQ(analysis.error().code, ErrorCode::kInvalidArgument) << word;
    EXPECT_THAT(analysis.error().message, HasSubstr(word));
  };
  refused({.num_samples = 0}, "num_samples");
  refused({.resources_per_trial = {.cpus = -1}}, "resources_per_trial.cpus");
  refused({.name = "a/b"}, "name");
  refused({.scheduler = asha()}, "metric");
  refused({.max_failures = -2}, "max_failures");
  refused({.space = {{"lr", loguniform(-1, 1)}}}, "lr");
  EXPECT_EQ(session_->spawned(), 0);
  EXPECT_TRUE(fs::is_empty(directory_.path()));
  EXPECT_FALSE(run(with_resources<Sum>({.cpus = 2}), {.resources_per_trial = {.cpus = 3}}));
}

TEST_F(RunnerTest, TheSameSeedGivesTheSameTrialsWhateverTheSizeOfTheCluster) {
  std::vector<std::string> seen;
  for (const double cpus : {1.0, 4.0}) {
    start_cluster(cpus);
    const auto analysis = run(
        with_parameters<Sum>(),
        {.space = {{"rate", loguniform(0.1, 1)}}, .metric = "sum", .num_samples = 6, .stop = max_steps(1), .seed = 42});
    ASSERT_TRUE(analysis);
    std::string all;
    for (const Trial& trial : analysis->trials()) all += trial.config.to_json();
    seen.push_back(all);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST_F(RunnerTest, RunsOfOneSeedHaveTheSameConfigurationsAndIdsOfTheirOwn) {
  std::set<TrialId> ids;
  std::vector<std::string> configs;
  for (int i = 0; i < 3; ++i) {
    const auto analysis = run(
        with_parameters<Sum>(),
        {.space = {{"rate", loguniform(0.1, 1)}}, .metric = "sum", .num_samples = 6, .stop = max_steps(1), .seed = 42});
    ASSERT_TRUE(analysis);
    std::string all;
    for (const Trial& trial : analysis->trials()) {
      EXPECT_TRUE(ids.insert(trial.id).second) << to_string(trial.id);
      EXPECT_TRUE(std::filesystem::is_directory(analysis->directory() / to_string(trial.id)))
          << "its folder has its id";
      all += trial.config.to_json();
    }
    configs.push_back(all);
    const auto journal = read_journal(analysis->directory());
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->header.seed, 42U);
    EXPECT_EQ(suggested_trials(*journal).front().id, analysis->trials().front().id)
        << "the journal tells the ids again";
  }
  EXPECT_EQ(configs[0], configs[1]);
  EXPECT_EQ(configs[0], configs[2]);
}

TEST_F(RunnerTest, CheckpointsThatTheDiskRefusesDoNotStopTheTrial) {
  script_.at_step = [this](int64_t step, int64_t) {
    if (step != 2) return;  // A file at the path of the next checkpoint's directory.
    for (const auto& experiment : fs::directory_iterator(directory_.path())) {
      for (const auto& trial : fs::directory_iterator(experiment.path())) {
        if (trial.is_directory()) write_text(trial.path() / "checkpoint_000002", "in the way");
      }
    }
  };
  const auto analysis =
      run(with_parameters<Sum>(), {.metric = "sum", .stop = max_steps(3), .checkpoint = {.frequency = 1}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->trials()[0].step, 3);
  EXPECT_EQ(analysis->trials()[0].checkpoints.size(), 2U);
  EXPECT_THAT(analysis->notices(), Contains(HasSubstr("checkpoint_000002")));
}

}  // namespace
}  // namespace volador::tune
