// Trial loop: failed attempts and failed checkpoints.
#include "tests/tune/trial_loop_bench.h"

namespace volador::tune {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TrialLoop, TriesAgainFromTheLastCheckpointAtTheEndOfTheQueue) {
  Bench bench({.metric = "m", .max_concurrent_trials = 1, .max_failures = 2, .checkpoint = {.frequency = 2}}, 2);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.result(0, 1, 0.1), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 2, 0.2), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 3, 0.3), ElementsAre("step 0"));
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0 from 0@2"));
  EXPECT_EQ(bench.trial(0).step, 2);
  EXPECT_EQ(bench.trial(0).step_max, 3);
  EXPECT_EQ(bench.trial(0).time_total_s, 2);
  EXPECT_EQ(bench.trial(0).error, "boom");
  (void)bench.started(0);
  EXPECT_THAT(bench.result(0, 3, 0.7), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 4, 0.4), ElementsAre("save 0@4"));
  EXPECT_THAT(bench.recorded, ElementsAre("0@1", "0@2", "0@3", "0@3 again", "0@4"));
  EXPECT_EQ(bench.trial(0).metrics.at("m").count, 4);
  EXPECT_EQ(bench.trial(0).metrics.at("m").max, 0.4);
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0 from 0@2"));  // The pending checkpoint does not count.
  EXPECT_THAT(bench.failed(0), ElementsAre("ended 0 failed", "start 1"));
  EXPECT_EQ(bench.trial(0).failures, 3);
  EXPECT_EQ(bench.trial(0).reason, "boom");
}

TEST(TrialLoop, DoesNotBlameATrialForItsNode) {
  Bench bench({.max_failures = 0}, 1);
  (void)bench.begin();
  for (int i = 0; i < 5; ++i) EXPECT_THAT(bench.failed(0, false), ElementsAre("start 0"));
  EXPECT_EQ(bench.trial(0).losses, 5);
  EXPECT_THAT(bench.failed(0), ElementsAre("ended 0 failed", "end"));
}

TEST(TrialLoop, GivesATrialUpThatLosesItsNodeAgainAndAgain) {
  Bench bench({.max_failures = 5, .max_losses = 2}, 1);
  (void)bench.begin();
  for (int i = 0; i < 2; ++i) EXPECT_THAT(bench.failed(0, false), ElementsAre("start 0"));
  EXPECT_THAT(bench.failed(0, false), ElementsAre("ended 0 failed", "end"));
  EXPECT_EQ(bench.trial(0).failures, 0);
  EXPECT_THAT(bench.trial(0).reason, HasSubstr("lost 3 times; max_losses is 2"));

  Bench patient({.max_losses = -1}, 1);
  (void)patient.begin();
  for (int i = 0; i < 50; ++i) EXPECT_THAT(patient.failed(0, false), ElementsAre("start 0"));
}

TEST(TrialLoop, TriesForeverWithMinusOne) {
  Bench bench({.max_failures = -1}, 1);
  (void)bench.begin();
  for (int i = 0; i < 50; ++i) EXPECT_THAT(bench.failed(0), ElementsAre("start 0"));
}

TEST(TrialLoop, WaitsTwiceAsLongAfterEachFailureUpToALimitAndNotForALostNode) {
  Bench bench({.max_failures = 3, .retry_backoff = 10s, .retry_backoff_max = 25s}, 1);
  (void)bench.begin();
  for (const auto wait : {10s, 20s, 25s}) {
    EXPECT_THAT(bench.failed(0, false), ElementsAre("start 0"));  // Its node was lost: no delay.
    EXPECT_THAT(bench.failed(0), IsEmpty());
    EXPECT_EQ(bench.trial(0).status, TrialStatus::kWaiting);
    EXPECT_THAT(bench.trial(0).reason, HasSubstr("s after: boom"));
    EXPECT_EQ(bench.loop().next_wakeup(), bench.now() + wait);
    bench.advance(wait - 1ns);
    EXPECT_THAT(bench.tell(Tick{}), IsEmpty());
    bench.advance(1ns);
    EXPECT_THAT(bench.tell(Tick{}), ElementsAre("start 0"));
    EXPECT_EQ(bench.loop().next_wakeup(), std::nullopt);
  }
  EXPECT_THAT(bench.failed(0), ElementsAre("ended 0 failed", "end"));
}

TEST(TrialLoop, ATrialThatBacksOffLeavesItsPlaceAndMayBePausedOrStopped) {
  Bench bench({.max_concurrent_trials = 1, .max_failures = -1, .retry_backoff = 10s, .retry_backoff_max = 10s}, 3);
  (void)bench.begin();
  EXPECT_THAT(bench.failed(0), ElementsAre("start 1"));
  EXPECT_THAT(bench.failed(1), ElementsAre("start 2"));
  EXPECT_THAT(bench.tell(PauseRequested{bench.id(0), false}), IsEmpty());
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kPaused);
  EXPECT_THAT(bench.tell(StopRequested{bench.id(1), false}), ElementsAre("ended 1 stopped"));
  bench.advance(5s);
  EXPECT_THAT(bench.tell(ResumeRequested{bench.id(0), false}), IsEmpty());
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kWaiting);
  EXPECT_THAT(bench.tell(PauseRequested{bench.id(0), false}), IsEmpty());
  bench.advance(5s);
  EXPECT_THAT(bench.tell(Tick{}), IsEmpty());  // Its back-off has ended, the user's pause has not.
  EXPECT_THAT(bench.started(2), ElementsAre("step 2"));
  EXPECT_THAT(bench.tell(TrialFinished{bench.id(2), 1}), ElementsAre("stop 2"));
  EXPECT_THAT(bench.gone(2), ElementsAre("ended 2 finished"));
  EXPECT_THAT(bench.tell(ResumeRequested{bench.id(0), false}), ElementsAre("start 0"));
}

TEST(TrialLoop, AnInterruptEndsATrialThatBacksOff) {
  Bench bench({.max_failures = -1, .retry_backoff = 10s, .retry_backoff_max = 10s}, 1);
  (void)bench.begin();
  EXPECT_THAT(bench.failed(0), IsEmpty());
  EXPECT_THAT(bench.tell(Interrupt{}), ElementsAre("ended 0 interrupted", "end"));
  bench.advance(10s);
  EXPECT_THAT(bench.tell(Tick{}), IsEmpty());
}

TEST(TrialLoop, FailFastStopsTheOthersOnceTheirStepIsDone) {
  Bench bench({.max_concurrent_trials = 2, .fail_fast = true, .checkpoint = {.at_end = true}}, 5);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.started(1);
  EXPECT_THAT(bench.failed(0), ElementsAre("ended 0 failed"));
  EXPECT_THAT(bench.notices, ElementsAre(HasSubstr("fail_fast ends the run with it: boom")));
  EXPECT_THAT(bench.result(1, 1, 0.5), ElementsAre("save 1@1"));
  EXPECT_THAT(bench.saved(1, 1), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 interrupted", "end"));
  EXPECT_THAT(bench.end->reason, HasSubstr("fail_fast: trial"));
}

TEST(TrialLoop, TriesFailedTrialsAgainAlsoAfterItsEnd) {
  for (const bool from_start : {false, true}) {
    Bench bench({.max_concurrent_trials = 1, .max_failures = 0, .checkpoint = {.frequency = 1}}, 2);
    (void)bench.begin();
    (void)bench.started(0);
    (void)bench.result(0, 1, 0.5);
    (void)bench.saved(0, 1);
    EXPECT_THAT(bench.failed(0), ElementsAre("ended 0 failed", "start 1"));
    (void)bench.started(1);
    (void)bench.tell(TrialFinished{bench.id(1), 1});
    EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 finished", "end"));
    EXPECT_THAT(bench.tell(Tick{}), IsEmpty());
    const auto said = bench.tell(RetryFailed{from_start});
    EXPECT_EQ(said, from_start ? std::vector<std::string>({"delete 0@1", "start 0"})
                               : std::vector<std::string>({"start 0 from 0@1"}));
    EXPECT_EQ(bench.trial(0).failures, 0);
    EXPECT_EQ(bench.trial(1).status, TrialStatus::kFinished);
    (void)bench.started(0);
    EXPECT_THAT(bench.tell(TrialFinished{bench.id(0), 2}), ElementsAre("stop 0"));
    EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
    EXPECT_THAT(bench.tell(RetryFailed{from_start}), IsEmpty());
  }
}

TEST(TrialLoop, SavesWhereATrialAsksForIt) {
  Bench bench({}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  const auto report = [&](int64_t step, Metrics metrics) {
    return bench.tell(ResultReported{bench.id(0), 1, step, std::move(metrics), 1s});
  };
  EXPECT_THAT(report(1, {{"m", 1}}), ElementsAre("step 0"));
  EXPECT_THAT(report(2, {{"m", 1}, {"should_checkpoint", 0}}), ElementsAre("step 0"));
  EXPECT_THAT(report(3, {{"m", 1}, {"should_checkpoint", 1}}), ElementsAre("save 0@3"));
  EXPECT_THAT(bench.saved(0, 3), ElementsAre("step 0"));
  EXPECT_THAT(report(4, {{"m", 1}}), ElementsAre("step 0"));
}

TEST(TrialLoop, FallsBackToTheCheckpointBefore) {
  Bench bench({.max_failures = 5, .checkpoint = {.frequency = 1}}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  for (int64_t step = 1; step <= 2; ++step) {
    (void)bench.result(0, step, 1);
    (void)bench.saved(0, step);
  }
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0 from 0@2"));
  EXPECT_THAT(bench.tell(CheckpointLost{bench.id(0), "0@2"}), IsEmpty());
  EXPECT_THAT(bench.failed(0, false), ElementsAre("start 0 from 0@1"));
  (void)bench.started(0);
  EXPECT_THAT(bench.result(0, 2, 1), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.notices, ElementsAre(HasSubstr("0@2 cannot be read; the one before is used")));
}

TEST(TrialLoop, GoesOnWhenACheckpointFails) {
  Bench bench({.checkpoint = {.frequency = 1, .at_end = true}}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.result(0, 1, 1);
  EXPECT_THAT(bench.tell(CheckpointFailed{bench.id(0), 1, 1, "no space left"}), ElementsAre("step 0"));
  (void)bench.result(0, 2, 1, true);
  EXPECT_THAT(bench.tell(CheckpointFailed{bench.id(0), 1, 2, "no space left"}), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
  EXPECT_THAT(
      bench.notices,
      ElementsAre(HasSubstr("the checkpoint at step 1 failed and does not count; the trial goes on: no space left")));
}

TEST(TrialLoop, KeepsTheBestCheckpointsAndTheLast) {
  Bench bench({.metric = "m", .checkpoint = {.frequency = 1, .num_to_keep = 1, .score_attribute = "m"}}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.result(0, 1, 0.9);
  EXPECT_THAT(bench.saved(0, 1), ElementsAre("step 0"));
  (void)bench.result(0, 2, 0.5);
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("step 0"));
  (void)bench.result(0, 3, 0.6);
  EXPECT_THAT(bench.saved(0, 3), ElementsAre("delete 0@2", "step 0"));
  (void)bench.result(0, 4, 0.95);
  EXPECT_THAT(bench.saved(0, 4), ElementsAre("delete 0@1", "delete 0@3", "step 0"));
  EXPECT_EQ(bench.trial(0).best_checkpoint(Mode::kMax)->step, 4);
}

TEST(TrialLoop, SavesAtTheEndOnce) {
  Bench bench({.stop = {{"training_iteration", 3}}, .checkpoint = {.frequency = 3, .at_end = true}}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.result(0, 1, 1);
  (void)bench.result(0, 2, 1);
  EXPECT_THAT(bench.result(0, 3, 1), ElementsAre("save 0@3"));
  EXPECT_THAT(bench.saved(0, 3), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
}

}  // namespace
}  // namespace volador::tune
