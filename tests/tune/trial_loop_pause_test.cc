// Trial loop: trials paused by their scheduler or by the user.
#include "tests/tune/trial_loop_bench.h"

namespace volador::tune {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Pauses each trial after step 1 and does nothing until the test triggers it.
class PausingScheduler final : public Scheduler {
 public:
  void on_trial_add(TrialId) override {}
  Result<Decision> on_report(const Report& report) override {
    return report.step == 1 ? Decision::kPause : Decision::kContinue;
  }
  void on_complete(TrialId) override {}
  void on_no_more_trials() override { ++no_more; }
  std::vector<Order> take_orders() override { return std::exchange(orders, {}); }
  bool pauses() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override { return "pausing"; }
  std::string snapshot() const override { return "{}"; }
  Result<void> restore(std::string_view) override { return {}; }
  void check_invariants() const override {}

  std::vector<Order> orders;
  int no_more = 0;
};

// A bench with access to the scheduler.
struct PausingBench : Bench {
  explicit PausingBench(LoopOptions options = {.metric = "m", .max_failures = 1}, int64_t num_samples = 2)
      : Bench(options, num_samples,
              [](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> {
                return std::make_unique<PausingScheduler>();
              }),
        scheduler(const_cast<PausingScheduler*>(dynamic_cast<const PausingScheduler*>(&loop().scheduler()))) {
    begin();
    started(0);
    started(1);
  }
  void pause(int64_t i) {
    EXPECT_THAT(result(i, 1, 0.5), ElementsAre("save " + std::to_string(i) + "@1"));
    EXPECT_THAT(saved(i, 1), ElementsAre("stop " + std::to_string(i)));
  }
  PausingScheduler* scheduler;
};

TEST(TrialLoopPause, SavesStopsAndGoesOnFromTheCheckpoint) {
  PausingBench bench;
  bench.pause(0);
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kRunning);
  EXPECT_THAT(bench.gone(0), IsEmpty());
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kPaused);
  EXPECT_EQ(bench.trial(0).reason, "paused after step 1");
  EXPECT_EQ(bench.loop().counts()[TrialStatus::kPaused], 1);
  bench.scheduler->orders = {ResumeOrder{bench.id(0)}};
  EXPECT_THAT(bench.result(1, 1, 0.25), ElementsAre("save 1@1", "start 0 from 0@1"));
  EXPECT_EQ(bench.attempt(0), 2);
  EXPECT_EQ(bench.trial(0).failures + bench.trial(0).losses, 0);
  EXPECT_THAT(bench.started(0), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 2, 0.75), ElementsAre("step 0"));
  EXPECT_THAT(bench.recorded, ElementsAre("0@1", "1@1", "0@2"));
}

TEST(TrialLoopPause, StepsOnWhereItIsResumedBeforeItLeft) {
  PausingBench saving;
  saving.result(0, 1, 0.5);
  saving.scheduler->orders = {ResumeOrder{saving.id(0)}};
  EXPECT_THAT(saving.saved(0, 1), ElementsAre("stop 0"));  // The order comes with this event: the trial has left.
  EXPECT_THAT(saving.gone(0), ElementsAre("start 0 from 0@1"));
  PausingBench early;
  early.result(0, 1, 0.5);
  early.scheduler->orders = {ResumeOrder{early.id(0)}};
  early.tell(Tick{});
  EXPECT_THAT(early.saved(0, 1), ElementsAre("step 0"));
}

TEST(TrialLoopPause, UsesTheCheckpointThatIsThere) {
  PausingBench bench({.metric = "m", .checkpoint = {.frequency = 1}});
  bench.pause(0);  // One checkpoint, although a periodic one was due as well.
  EXPECT_THAT(bench.gone(0), IsEmpty());
}

TEST(TrialLoopPause, EndsAPausedTrialByOrder) {
  PausingBench bench;
  bench.pause(0);
  bench.gone(0);
  bench.scheduler->orders = {EndOrder{bench.id(0), Decision::kStop}};
  EXPECT_THAT(bench.tell(Tick{}), ElementsAre("ended 0 stopped"));
  // If it has not left yet, once it has.
  bench.result(1, 1, 0.5);
  bench.scheduler->orders = {EndOrder{bench.id(1), Decision::kFinish}};
  EXPECT_THAT(bench.tell(Tick{}), IsEmpty());
  EXPECT_THAT(bench.saved(1, 1), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 finished", "end"));
}

TEST(TrialLoopPause, EndsARunningAndAQueuedTrialByOrder) {
  PausingBench bench({.metric = "m", .max_concurrent_trials = 2}, 3);
  bench.pause(0);
  EXPECT_THAT(bench.gone(0), ElementsAre("start 2"));
  bench.scheduler->orders = {ResumeOrder{bench.id(0)}, EndOrder{bench.id(0)}, EndOrder{bench.id(1)}};
  EXPECT_THAT(bench.tell(Tick{}), ElementsAre("ended 0 stopped"));
  EXPECT_THAT(bench.result(1, 1, 0.5), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 stopped"));
}

TEST(TrialLoopPause, FailsATrialThatCannotSave) {
  PausingBench bench;
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.tell(CheckpointFailed{bench.id(0), 1, 1, "no space left"}), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("start 0"));  // max_failures is 1.
  EXPECT_THAT(bench.trial(0).error,
              HasSubstr("it was to pause after step 1, and its checkpoint failed: no space left"));
  bench.started(0);
  EXPECT_THAT(bench.result(0, 1, 0.5), ElementsAre("save 0@1"));  // Steps repeated, and paused as decided.
  EXPECT_THAT(bench.saved(0, 1), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), IsEmpty());
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kPaused);
}

TEST(TrialLoopPause, IsPausedAllTheSameWhenItsActorDiesOnItsWayOut) {
  PausingBench bench;
  bench.pause(0);
  EXPECT_THAT(bench.failed(0), IsEmpty());
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kPaused);
  EXPECT_EQ(bench.trial(0).failures, 0);
}

TEST(TrialLoopPause, LeavesNoTrialPausedForEver) {
  PausingBench bench;
  EXPECT_EQ(bench.scheduler->no_more, 1);
  bench.pause(0);
  bench.gone(0);
  bench.pause(1);
  EXPECT_THAT(bench.gone(1), ElementsAre("start 0 from 0@1"));  // The scheduler returned no order, twice.
  EXPECT_EQ(bench.scheduler->no_more, 2);
}

TEST(TrialLoopPause, EndsPausedTrialsAtAnInterrupt) {
  PausingBench bench;
  bench.pause(0);
  bench.gone(0);
  EXPECT_THAT(bench.tell(Interrupt{}), ElementsAre("ended 0 interrupted"));
  EXPECT_THAT(bench.result(1, 1, 0.5), ElementsAre("save 1@1"));
  EXPECT_THAT(bench.saved(1, 1), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 interrupted", "end"));
}

TEST(TrialLoopPause, StartsTheSmallestPriorityFirst) {
  PausingBench bench({.metric = "m", .max_concurrent_trials = 3}, 4);
  bench.started(2);
  for (const int64_t i : {0, 1}) {
    bench.pause(i);
    bench.gone(i);
  }
  bench.started(3);
  bench.scheduler->orders = {ResumeOrder{bench.id(0), 5}, ResumeOrder{bench.id(1), 2}};
  EXPECT_THAT(bench.tell(Tick{}), ElementsAre("start 1 from 1@1"));
  bench.pause(2);
  EXPECT_THAT(bench.gone(2), ElementsAre("start 0 from 0@1"));
}

TEST(TrialLoopPause, NeedsATrainableThatSaves) {
  const auto made = TrialLoop::create({.metric = "m", .can_checkpoint = false},
                                      random_search()({.space = {{"x", uniform(0, 1)}}}).value(),
                                      std::make_unique<PausingScheduler>());
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("pausing pauses trials, and the trainable does not save checkpoints"));
}

TEST(TrialLoop, AskedToStopItSavesAndEnds) {
  Bench bench({.max_concurrent_trials = 2}, 9);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(StopRequested{.whole = true}), ElementsAre("stop! 1"));
  EXPECT_THAT(bench.tell(StopRequested{.whole = true}), IsEmpty()) << "repeated: no effect";
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("save 0@1"));
  (void)bench.saved(0, 1);
  (void)bench.gone(1);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 interrupted", "end"));
  EXPECT_EQ(bench.end->reason, "stopped on request");
}

TEST(TrialLoop, PausedOnRequestItHoldsWithoutActorsUntilItIsResumed) {
  Bench bench({.max_concurrent_trials = 2}, 3);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(PauseRequested{.whole = true}), ElementsAre("stop! 1"))
      << "one that starts has nothing to save";
  EXPECT_TRUE(bench.loop().paused());
  EXPECT_THAT(bench.tell(PauseRequested{.whole = true}), IsEmpty()) << "repeated: no effect";
  EXPECT_THAT(bench.gone(1), IsEmpty()) << "nothing starts";
  EXPECT_EQ(bench.trial(1).reason, "paused on request before its first step");
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("save 0@1"));
  EXPECT_THAT(bench.saved(0, 1), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), IsEmpty());
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kPaused);
  EXPECT_EQ(bench.trial(0).reason, "paused on request after step 1");
  EXPECT_THAT(bench.tell(Tick{}), IsEmpty());
  EXPECT_THAT(bench.tell(ResumeRequested{bench.id(0)}), IsEmpty());
  EXPECT_EQ(bench.trial(0).reason, "the experiment is paused");
  EXPECT_THAT(bench.tell(ResumeRequested{.whole = true}), ElementsAre("start 0 from 0@1", "start 1"));
  EXPECT_FALSE(bench.loop().paused());
  EXPECT_THAT(bench.started(0), ElementsAre("step 0"));
  EXPECT_EQ(bench.trial(1).failures + bench.trial(1).losses, 0) << "an end on request is no failure";
}

TEST(TrialLoop, OneTrialPausesAndLeavesItsPlaceToOthers) {
  Bench bench({.max_concurrent_trials = 1}, 2);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(PauseRequested{bench.id(0)}), IsEmpty()) << "after its step";
  (void)bench.result(0, 1, 1);
  (void)bench.saved(0, 1);
  EXPECT_THAT(bench.gone(0), ElementsAre("start 1"));
  (void)bench.started(1);
  (void)bench.result(1, 1, 1, true);
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 finished")) << "and no end: one is paused";
  EXPECT_THAT(bench.tell(ResumeRequested{bench.id(0)}), ElementsAre("start 0 from 0@1"));
  (void)bench.started(0);
  (void)bench.result(0, 2, 1, true);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
}

TEST(TrialLoop, APauseTakenBackInTimeCostsNoStep) {
  Bench bench({.max_concurrent_trials = 1}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.tell(PauseRequested{bench.id(0)});
  (void)bench.tell(ResumeRequested{bench.id(0)});
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("step 0"));
  (void)bench.tell(PauseRequested{bench.id(0)});
  EXPECT_THAT(bench.result(0, 2, 1), ElementsAre("save 0@2"));
  (void)bench.tell(ResumeRequested{bench.id(0)});
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("step 0"));
}

TEST(TrialLoop, APausedTrialCanBeStoppedAndAPausedExperimentInterrupted) {
  Bench bench({.max_concurrent_trials = 2}, 2);
  (void)bench.begin();
  (void)bench.tell(PauseRequested{.whole = true});
  (void)bench.gone(0);
  (void)bench.gone(1);
  EXPECT_THAT(bench.tell(StopRequested{bench.id(0)}), ElementsAre("ended 0 stopped"));
  EXPECT_THAT(bench.tell(Interrupt{}), ElementsAre("ended 1 interrupted", "end"));
}

TEST(TrialLoop, WhatSavesNoCheckpointRunsOnAndNothingElseStarts) {
  Bench bench({.max_concurrent_trials = 1, .can_checkpoint = false}, 2);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(PauseRequested{bench.id(0)}), IsEmpty());
  EXPECT_THAT(bench.notices, ElementsAre(HasSubstr("is not paused: it saves no checkpoint; it goes on")));
  (void)bench.tell(PauseRequested{.whole = true});
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("step 0"));
  (void)bench.result(0, 2, 1, true);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished"));
  EXPECT_THAT(bench.tell(ResumeRequested{.whole = true}), ElementsAre("start 1"));
}

TEST(TrialLoop, APauseWhoseCheckpointFailsIsGivenUp) {
  Bench bench({.max_concurrent_trials = 1}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.tell(PauseRequested{bench.id(0)});
  (void)bench.result(0, 1, 1);
  EXPECT_THAT(bench.tell(CheckpointFailed{bench.id(0), 1, 1, "no space"}), ElementsAre("step 0"));
  EXPECT_THAT(bench.notices, Contains(HasSubstr("is not paused, its checkpoint failed; it goes on")));
  EXPECT_THAT(bench.result(0, 2, 1), ElementsAre("step 0"));
}

TEST(TrialLoop, AnotherStartOfTheProgramGoesOnWithWhatWasPaused) {
  Bench bench({.max_concurrent_trials = 1}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.tell(PauseRequested{.whole = true});
  (void)bench.result(0, 1, 1);
  (void)bench.saved(0, 1);
  (void)bench.gone(0);
  EXPECT_THAT(bench.tell(Resumed{}), ElementsAre("start 0 from 0@1"));
}

TEST(TrialLoop, OneTrialStopsOnRequestAndOthersGoOn) {
  Bench bench({.max_concurrent_trials = 2, .checkpoint = {.at_end = true}}, 3);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(StopRequested{bench.trial(0).id}), IsEmpty()) << "after its step";
  EXPECT_THAT(bench.tell(StopRequested{bench.trial(0).id}), IsEmpty());
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("save 0@1"));
  EXPECT_THAT(bench.saved(0, 1), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 stopped", "start 2"));
  EXPECT_EQ(bench.trial(0).reason, "stopped on request");
  EXPECT_THAT(bench.tell(StopRequested{bench.trial(1).id}), ElementsAre("stop! 1"))
      << "one that starts has nothing to save";
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 stopped")) << "without a report that is no missing metric";
  EXPECT_THAT(bench.tell(StopRequested{bench.trial(0).id}), IsEmpty()) << "it has ended";
  EXPECT_THAT(bench.tell(StopRequested{TrialId(12345)}), IsEmpty());
  (void)bench.started(2);
  EXPECT_THAT(bench.result(2, 1, 1, true), ElementsAre("save 2@1"));
  (void)bench.saved(2, 1);
  EXPECT_THAT(bench.gone(2), ElementsAre("ended 2 finished", "end"));
  EXPECT_EQ(bench.end->reason, "all trials ended");
}

}  // namespace
}  // namespace volador::tune
