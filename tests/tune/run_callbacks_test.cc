#include "tune/execution/run_callbacks.h"

#include <gmock/gmock.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <stdexcept>

#include "run_in_process.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::atomic<int> failures_left{0};

class Counts : public Trainable {
  Metrics step() override {
    ++step_;
    if (step_ == 3 && failures_left.fetch_sub(1) > 0) throw std::runtime_error("out of luck");
    return {{"score", step_}};
  }
  void save_checkpoint(const fs::path& directory) override { write_text(directory / "step", std::to_string(step_)); }
  void load_checkpoint(const fs::path& directory) override { step_ = std::stoll(read_text(directory / "step")); }
  int64_t step_ = 0;
};

// Records its calls; single-threaded.
class Scribe : public Callback {
 public:
  void setup(const ExperimentInfo& experiment) override {
    lines.push_back("setup " + experiment.name + (experiment.resumed ? " again" : ""));
    EXPECT_TRUE(fs::is_directory(experiment.directory));
    EXPECT_EQ(experiment.trials, 1);
    directory = experiment.directory;
  }
  void on_trial_start(const Trial& trial) override {
    lines.push_back("start " + std::to_string(trial.attempt));
    EXPECT_EQ(trial.status, TrialStatus::kRunning);
  }
  void on_trial_restore(const Trial&, const Checkpoint& checkpoint) override {
    lines.push_back("restore " + std::to_string(checkpoint.step));
  }
  void on_trial_result(const Trial& trial, const Metrics& result) override {
    lines.push_back("result " + std::to_string(static_cast<int>(result.at("score"))));
    EXPECT_EQ(trial.last_result.at("score"), result.at("score"));
    EXPECT_EQ(result.at("training_iteration"), result.at("score"));
  }
  void on_checkpoint(const Trial&, const Checkpoint& checkpoint) override {
    lines.push_back("checkpoint " + std::to_string(checkpoint.step));
    EXPECT_TRUE(fs::is_directory(directory / checkpoint.location)) << checkpoint.location;
  }
  void on_trial_recover(const Trial& trial) override { lines.push_back("recover " + trial.error); }
  void on_trial_error(const Trial& trial) override { lines.push_back("error " + trial.error); }
  void on_trial_complete(const Trial& trial) override {
    lines.push_back("complete " + std::string(to_string(trial.status)));
  }
  void on_experiment_end(const Analysis& analysis) override {
    lines.push_back("end " + std::to_string(analysis.trials().size()));
  }

  std::vector<std::string> lines;
  fs::path directory;
};

class Throws : public Callback {
  void on_trial_result(const Trial&, const Metrics&) override { throw std::runtime_error("no ink"); }
  void on_experiment_end(const Analysis&) override { throw 7; }
};

class RunCallbacksTest : public RunInProcess {
 protected:
  fs::path run_directory_;
};

TEST_F(RunCallbacksTest, AreToldOfATrialFromItsStartOverAFailureToItsEnd) {
  failures_left = 1;
  const auto scribe = std::make_shared<Scribe>();
  const auto analysis = run(
      with_parameters<Counts>(),
      {.name = "told", .stop = max_steps(4), .max_failures = 1, .checkpoint = {.frequency = 2}, .callbacks = {scribe}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_EQ(scribe->lines.size(), 13U) << ::testing::PrintToString(scribe->lines);
  EXPECT_THAT(scribe->lines[5], HasSubstr("out of luck"));
  scribe->lines[5] = "recover";
  EXPECT_THAT(scribe->lines,
              ElementsAre("setup told", "start 1", "result 1", "result 2", "checkpoint 2", "recover", "start 2",
                          "restore 2", "result 3", "result 4", "checkpoint 4", "complete finished", "end 1"));
  // The resumed run has nothing to do: earlier events are not reported again.
  scribe->lines.clear();
  const auto again = run(with_parameters<Counts>(), {.stop = max_steps(4),
                                                     .max_failures = 1,
                                                     .checkpoint = {.frequency = 2},
                                                     .resume = analysis->directory(),
                                                     .callbacks = {scribe}});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_THAT(scribe->lines, ElementsAre("setup told again", "end 1"));
}

TEST_F(RunCallbacksTest, AreToldOfATrialThatFailsForGood) {
  failures_left = 2;
  const auto scribe = std::make_shared<Scribe>();
  const auto analysis =
      run(with_parameters<Counts>(), {.stop = max_steps(4), .max_failures = 1, .callbacks = {scribe}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  ASSERT_GE(scribe->lines.size(), 2U);
  EXPECT_THAT(scribe->lines[scribe->lines.size() - 2], HasSubstr("error"));
  EXPECT_THAT(scribe->lines, Not(Contains("complete failed")));
}

TEST_F(RunCallbacksTest, AnExceptionIsSaidOnceAndCostsNothingElse) {
  failures_left = 0;
  const auto scribe = std::make_shared<Scribe>();
  const auto analysis =
      run(with_parameters<Counts>(), {.stop = max_steps(4), .callbacks = {std::make_shared<Throws>(), scribe}});
  ASSERT_TRUE(analysis) << analysis.error().message;
  EXPECT_EQ(analysis->trials()[0].status, TrialStatus::kFinished);
  EXPECT_THAT(scribe->lines, Contains("result 4"));
  EXPECT_THAT(scribe->lines, Contains("end 1"));
  const Analysis loaded = Analysis::load(analysis->directory());
  int said = 0;
  for (const std::string& notice : loaded.notices()) said += notice.find("no ink") != std::string::npos;
  EXPECT_EQ(said, 1);
  EXPECT_THAT(loaded.notices(), Contains(HasSubstr("on_experiment_end threw: something that is no std::exception")));
}

// Notes an error once the trial has reported its second step.
class Fails : public Callback {
 public:
  void on_trial_result(const Trial&, const Metrics& result) override {
    if (result.at("score") >= 2) failed = true;
  }
  std::atomic<bool> failed = false;
};

TEST_F(RunCallbacksTest, AFailureOfTheProgramEndsTheRunWhichCanBeResumed) {
  failures_left = 0;
  const auto fails = std::make_shared<Fails>();
  std::atomic<int> committed{0};
  RunOptions options{
      .stop = max_steps(200'000), .checkpoint = {.frequency = 1, .num_to_keep = 1}, .callbacks = {fails}};
  options.failure = [fails] {
    return fails->failed ? std::optional(Error{ErrorCode::kApplication, "out of paper"}) : std::nullopt;
  };
  options.committed = [&committed, this](const fs::path& directory, bool) {
    EXPECT_TRUE(fs::exists(directory / "journal.vlj"));
    run_directory_ = directory;
    ++committed;
  };
  const auto analysis = run(with_parameters<Counts>(), options);
  ASSERT_FALSE(analysis);
  EXPECT_EQ(analysis.error().message, "out of paper");
  EXPECT_GT(committed, 0);
  EXPECT_EQ(Analysis::load(run_directory_).trials()[0].status, TrialStatus::kInterrupted);

  fails->failed = false;
  options.resume = run_directory_;
  const auto again = run(with_parameters<Counts>(), options);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().message, "out of paper");
  EXPECT_EQ(Analysis::load(run_directory_).trials()[0].attempt, 2);
}

TEST_F(RunCallbacksTest, ANullOneIsRefused) {
  const auto analysis = run(with_parameters<Counts>(), {.callbacks = {std::make_shared<Scribe>(), nullptr}});
  ASSERT_FALSE(analysis);
  EXPECT_THAT(analysis.error().message, HasSubstr("callbacks[1]"));
}

TEST(CallbackRunner, LeavesOutResultsWhereACallbackTakesTooLongAndSaysSo) {
  class Stuck : public Callback {
   public:
    void on_trial_start(const Trial&) override {
      std::unique_lock<std::mutex> hold(mutex);
      entered = true;
      changed.notify_all();
      changed.wait(hold, [this] { return let_go; });
    }
    void on_trial_result(const Trial&, const Metrics&) override { ++results; }
    std::mutex mutex;
    std::condition_variable changed;
    bool entered = false, let_go = false;
    size_t results = 0;
  };
  const auto stuck = std::make_shared<Stuck>();
  CallbackRunner runner({stuck});
  runner.tell("on_trial_start", [](Callback& callback) { callback.on_trial_start({}); });
  {
    std::unique_lock<std::mutex> hold(stuck->mutex);
    stuck->changed.wait(hold, [&] { return stuck->entered; });
  }
  for (size_t i = 0; i < CallbackRunner::kResultsWaitingMax + 5; ++i) {
    runner.tell_result([](Callback& callback) { callback.on_trial_result({}, {}); });
  }
  {
    const std::lock_guard<std::mutex> hold(stuck->mutex);
    stuck->let_go = true;
    stuck->changed.notify_all();
  }
  runner.drain();
  EXPECT_EQ(stuck->results, CallbackRunner::kResultsWaitingMax);
  EXPECT_THAT(runner.take_notices(), ElementsAre(HasSubstr("5 results were not told")));
}

}  // namespace
}  // namespace volador::tune
