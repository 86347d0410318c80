// Trial loop: starts, ends, limits and interrupts.
#include "tests/tune/trial_loop_bench.h"

#include <fmt/format.h>

#include <cmath>

#include "tune/schedulers/asha_scheduler.h"

namespace volador::tune {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(TrialLoop, RunsATrialFromStartToEnd) {
  Bench bench({.metric = "m", .stop = {{"training_iteration", 2}}}, 1);
  EXPECT_THAT(bench.begin(), ElementsAre("start 0"));
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kWaiting);
  EXPECT_THAT(bench.tell(ActorWaiting{bench.id(0), 1, "for a CPU: 2 of 2 in use"}), IsEmpty());
  EXPECT_EQ(bench.trial(0).reason, "for a CPU: 2 of 2 in use");
  EXPECT_THAT(bench.started(0), ElementsAre("step 0"));
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kRunning);
  EXPECT_EQ(bench.trial(0).node, "n1");
  EXPECT_THAT(bench.result(0, 1, 0.5), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 2, 0.25), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
  const Trial& trial = bench.trial(0);
  EXPECT_EQ(trial.reason, "training_iteration 2 reached 2");
  EXPECT_EQ(trial.last_result,
            (Metrics{{"m", 0.25}, {"training_iteration", 2}, {"time_this_iter_s", 1}, {"time_total_s", 2}}));
  EXPECT_EQ(trial.metrics.at("m").max, 0.5);
  EXPECT_EQ(trial.metrics.at("m").mean, 0.375);
  EXPECT_THAT(bench.recorded, ElementsAre("0@1", "0@2"));
  EXPECT_EQ(bench.end->reason, "all trials ended");
  EXPECT_FALSE(bench.end->error.has_value());
  EXPECT_THAT(bench.tell(Tick{}), IsEmpty());
}

TEST(TrialLoop, KnowsWhenATrialStartedAndWhenItEnded) {
  Bench bench({.metric = "m", .stop = {{"training_iteration", 2}}, .max_failures = 1}, 1);
  const auto times = [&] { return std::pair(unix_ms(bench.trial(0).started), unix_ms(bench.trial(0).ended)); };
  bench.begin();
  EXPECT_EQ(times(), std::pair(int64_t{0}, int64_t{0})) << "it waits";
  bench.advance(5s);
  bench.started(0);
  EXPECT_EQ(times(), std::pair(int64_t{1'005'000}, int64_t{0}));
  bench.advance(5s);
  bench.failed(0);
  bench.started(0);
  EXPECT_EQ(times(), std::pair(int64_t{1'005'000}, int64_t{0})) << "a second attempt is the same trial";
  bench.result(0, 1, 0.5);
  bench.advance(5s);
  bench.result(0, 2, 0.5);
  bench.advance(5s);
  bench.gone(0);
  EXPECT_EQ(times(), std::pair(int64_t{1'005'000}, int64_t{1'020'000}));
}

TEST(TrialLoop, GoesOnFromWhatWasSavedWhereTheDriverIsAnother) {
  Bench bench({.metric = "m", .stop = max_steps(3)}, 3);
  bench.begin();
  bench.tell(CapacityChanged{2});
  bench.started(0);
  bench.started(1);
  bench.result(0, 1, 0.5);
  bench.tell(CheckpointFound{bench.id(0), 1, 1, "0@1"});
  bench.tell(CheckpointFound{bench.id(0), 1, 1, "0@1 again"});
  bench.tell(CheckpointFound{bench.id(1), 1, 1, "1@1, which is no step of it"});
  bench.result(1, 1, 0.5);
  bench.result(1, 2, 0.5);
  EXPECT_THAT(bench.result(1, 3, 0.5), ElementsAre("stop 1"));
  // Trial 1 was decided, trial 0 was not.
  EXPECT_THAT(bench.tell(Resumed{}), ElementsAre("ended 1 finished", "start 0 from 0@1", "start 2"));
  EXPECT_EQ(bench.trial(0).losses + bench.trial(0).failures, 0);
  EXPECT_EQ(bench.attempt(0), 2);
}

TEST(TrialLoop, TakesMoreSamplesAlsoAfterItsEnd) {
  Bench bench({.metric = "m", .stop = max_steps(1)}, 1, fifo());
  bench.begin();
  bench.started(0);
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
  EXPECT_THAT(bench.tell(MoreSamples{1}), IsEmpty());
  EXPECT_TRUE(bench.loop().ended());
}

TEST(TrialLoop, EndsAllTrialsAtAPlateauOfTheExperiment) {
  Bench bench({.metric = "m", .stop = experiment_plateau({.std = 0, .top = 2}), .checkpoint = {.at_end = true}}, 9);
  bench.begin();
  bench.started(0);
  bench.started(1);
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.result(1, 1, 0.5), ::testing::Contains("save 1@1"));
  EXPECT_TRUE(bench.loop().ending());
  EXPECT_THAT(bench.saved(1, 1), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 interrupted"));
  EXPECT_EQ(bench.trial(1).reason, "the best 2 values of m spread 0, at most 0");
}

TEST(TrialLoop, EndsADivergedTrialAsStopped) {
  Bench bench({.metric = "m", .stop = stop_on_nan()}, 1);
  bench.begin();
  bench.started(0);
  EXPECT_THAT(bench.result(0, 1, std::nan("")), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 stopped", "end"));
  EXPECT_EQ(bench.trial(0).reason, "m nan at step 1");
}

TEST(TrialLoop, TakesTheShorterOfTimeoutAndBudget) {
  Bench bench({.stop = timeout(20s), .time_budget = 60s}, 1);
  EXPECT_EQ(bench.loop().options().time_budget, 20s);
  Bench other({.stop = timeout(90s), .time_budget = 60s}, 1);
  EXPECT_EQ(other.loop().options().time_budget, 60s);
}

TEST(TrialLoop, StartsAFewMoreThanTheClusterHolds) {
  Bench bench({}, 100);
  EXPECT_EQ(bench.begin().size(), 16u);  // The cluster is still unknown.
  Bench small({}, 100);
  (void)small.begin();
  for (int i = 0; i < 16; ++i) (void)small.started(i);
  (void)small.tell(CapacityChanged{2});
  EXPECT_EQ(small.loop().trials().size(), 32u);
  for (int i = 16; i < 30; ++i) EXPECT_THAT(small.started(i), ElementsAre("step " + std::to_string(i)));
  EXPECT_EQ(small.started(30).size(), 2u);  // Two are left in advance, one of them started.
}

TEST(TrialLoop, KeepsToMaxConcurrentTrialsUntilTheActorIsGone) {
  Bench bench({.max_concurrent_trials = 2}, 5);
  EXPECT_THAT(bench.begin(), ElementsAre("start 0", "start 1"));
  EXPECT_THAT(bench.started(0), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 1, 1, true), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "start 2"));
}

TEST(TrialLoop, IgnoresWhatIsRepeatedStaleOrUnasked) {
  Bench bench({.max_failures = 1}, 1);
  (void)bench.begin();
  EXPECT_THAT(bench.result(0, 1, 9), IsEmpty());  // Not started.
  (void)bench.started(0);
  EXPECT_THAT(bench.started(0), IsEmpty());
  (void)bench.result(0, 1, 1);
  EXPECT_THAT(bench.result(0, 1, 2), IsEmpty());
  EXPECT_THAT(bench.saved(0, 1), IsEmpty());
  EXPECT_EQ(bench.trial(0).last_result.at("m"), 1);
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0"));
  EXPECT_THAT(bench.tell(TrialFailed{bench.id(0), 1, "boom", true}), IsEmpty());
  EXPECT_THAT(bench.tell(ResultReported{bench.id(0), 1, 1, {{"m", 5}}, 1s, false}), IsEmpty());
  EXPECT_THAT(bench.tell(TrialGone{bench.id(0), 1}), IsEmpty());
  EXPECT_THAT(bench.tell(TrialStarted{TrialId(12345), 1, "n1"}), IsEmpty());
  EXPECT_THAT(bench.tell(CheckpointLost{TrialId(12345), "x"}), IsEmpty());
  EXPECT_EQ(bench.trial(0).failures, 1);
  EXPECT_EQ(bench.attempt(0), 2);
}

TEST(TrialLoop, StopsWhatTheSchedulerStopsAndFinishesWhatRanInFull) {
  Bench bench({.metric = "m"}, 2, asha({.max_t = 2, .reduction_factor = 2}));
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.started(1);
  (void)bench.result(0, 1, 0.9);
  EXPECT_THAT(bench.result(1, 1, 0.1), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 stopped"));
  EXPECT_EQ(bench.trial(1).reason,
            "others do better: rank 2 of 2 at step 1 with 0.1; the best goes on, with 0.9 (ASHA)");
  EXPECT_EQ(bench.trial(1).reason.text(Language::kChinese),
            "表现靠后：第 1 步 0.1，排名 2/2；仅第 1 名（0.9）晋级（ASHA）");
  (void)bench.result(0, 2, 0.95);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
  EXPECT_EQ(bench.loop().best_trial()->index, 0);
  EXPECT_EQ(bench.loop().counts()[TrialStatus::kStopped], 1);
}

TEST(TrialLoop, StandsByADecisionWhenTheLastCheckpointHasToBeMadeAgain) {
  Bench bench({.metric = "m", .max_failures = 1, .checkpoint = {.at_end = true}}, 1,
              asha({.max_t = 3, .reduction_factor = 3}));
  (void)bench.begin();
  (void)bench.started(0);
  for (int64_t step = 1; step <= 3; ++step) (void)bench.result(0, step, 0.5);
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0"));  // While it was saving at step 3.
  (void)bench.started(0);
  EXPECT_THAT(bench.result(0, 1, 0.5), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 2, 0.5), ElementsAre("step 0"));
  EXPECT_THAT(bench.result(0, 3, 0.5), ElementsAre("save 0@3"));
  (void)bench.saved(0, 3);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
}

TEST(TrialLoop, InterruptedOnceItSavesAndStops) {
  Bench bench({.max_concurrent_trials = 3, .max_failures = 1}, 9);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.started(1);
  EXPECT_THAT(bench.tell(Interrupt{}), ElementsAre("stop! 2"));
  EXPECT_TRUE(bench.loop().ending());
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("save 0@1"));
  EXPECT_THAT(bench.saved(0, 1), ElementsAre("stop 0"));
  EXPECT_THAT(bench.failed(1), ElementsAre("ended 1 interrupted"));
  EXPECT_THAT(bench.gone(2), ElementsAre("ended 2 interrupted"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 interrupted", "end"));
  EXPECT_EQ(bench.trial(0).checkpoints.size(), 1u);
  EXPECT_EQ(bench.end->reason, "interrupted");
}

TEST(TrialLoop, InterruptedTwiceItStopsAtOnce) {
  Bench bench({.max_concurrent_trials = 2}, 9);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.started(1);
  (void)bench.result(1, 1, 1, true);
  EXPECT_THAT(bench.tell(Interrupt{}), IsEmpty());
  EXPECT_THAT(bench.tell(Interrupt{}), ElementsAre("stop! 0", "stop! 1"));
  EXPECT_THAT(bench.tell(Interrupt{}), IsEmpty());
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 finished"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 interrupted", "end"));
}

TEST(TrialLoop, EndsWithItsTimeBudget) {
  Bench bench({.max_concurrent_trials = 2, .time_budget = 60s, .stop_grace = 5s}, 9);
  (void)bench.begin();
  EXPECT_EQ(bench.loop().next_wakeup(), bench.now() + 60s);
  (void)bench.started(0);
  (void)bench.started(1);
  bench.advance(60s);
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("save 0@1"));
  EXPECT_EQ(bench.loop().next_wakeup(), bench.now() + 5s);
  bench.advance(5s);
  EXPECT_THAT(bench.tell(Tick{}), ElementsAre("stop! 0", "stop! 1"));
  EXPECT_THAT(bench.saved(0, 1), IsEmpty());  // It was durable before it was stopped.
  EXPECT_EQ(bench.trial(0).checkpoints.size(), 1u);
  (void)bench.gone(0);
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 interrupted", "end"));
  EXPECT_EQ(bench.end->reason, "the time budget of 60 s is used up");
  EXPECT_EQ(bench.loop().next_wakeup(), std::nullopt);
}

TEST(TrialLoop, TrialsThatItsTimeBudgetDidNotLetBeginAreUnstarted) {
  Bench bench({.max_concurrent_trials = 2, .time_budget = 60s}, 9);
  (void)bench.begin();
  (void)bench.started(0);
  bench.advance(60s);
  const auto actions = bench.result(0, 1, 1);
  EXPECT_THAT(actions, ::testing::Contains("stop! 1")) << "its actor was asked for";
  (void)bench.gone(1);
  EXPECT_EQ(bench.trial(1).status, TrialStatus::kUnstarted);
  (void)bench.saved(0, 1);
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 interrupted", "end"));
  bench.loop().check_invariants();
  Bench other({.max_concurrent_trials = 1}, 9);
  (void)other.begin();
  EXPECT_THAT(other.tell(Interrupt{}), ElementsAre("stop! 0"));
  EXPECT_THAT(other.gone(0), ElementsAre("ended 0 interrupted", "end")) << "somebody interrupted it";
}

TEST(TrialLoop, AMetricMayComeLaterWhereThatIsAllowed) {
  Bench bench({.metric = "acc", .max_concurrent_trials = 1, .strict_metric = false}, 2, asha({}));
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(ResultReported{bench.id(0), 1, 1, {{"loss", 1}}, 1s, false}), ElementsAre("step 0"));
  EXPECT_THAT(bench.tell(ResultReported{bench.id(0), 1, 2, {{"loss", 1}, {"acc", 0.5}}, 1s, false}),
              ElementsAre("step 0"));
  EXPECT_EQ(bench.loop().best()->step, 2);
  Bench never({.metric = "acc", .max_concurrent_trials = 1, .strict_metric = false}, 2, asha({}));
  (void)never.begin();
  (void)never.started(0);
  (void)never.tell(ResultReported{never.id(0), 1, 1, {{"loss", 1}}, 1s, false});
  (void)never.tell(TrialFinished{never.id(0), 1});
  (void)never.gone(0);
  EXPECT_EQ(never.end->error->code, ErrorCode::kInvalidArgument) << "a whole trial without it";
}

TEST(TrialLoop, SaysAtTheFirstResultThatASchedulersMetricIsMissing) {
  Bench bench({.metric = "acuracy"}, 2, asha({}));
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(ResultReported{bench.id(0), 1, 1, {{"loss", 1}, {"accuracy", 0.5}}, 1s, false}),
              UnorderedElementsAre("stop! 0", "stop! 1"));
  (void)bench.gone(0);
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 interrupted", "end"));
  EXPECT_EQ(bench.end->error->code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(bench.end->error->message,
            "metric \"acuracy\" was never reported; trials report: accuracy, loss, training_iteration.");
}

TEST(TrialLoop, WaitsForTheFirstEndWhereOnlyTheRankingNeedsTheMetric) {
  Bench bench({.metric = "final", .max_concurrent_trials = 1}, 2);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.result(0, 1, 1), ElementsAre("step 0"));
  EXPECT_THAT(bench.tell(TrialFinished{bench.id(0), 1}), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 finished", "end"));
  EXPECT_THAT(bench.end->error->message,
              HasSubstr("metric \"final\" was never reported; trials report: m, training_iteration."));
}

TEST(TrialLoop, SaysOnceWhichValueRanksLast) {
  for (const auto& [value, text] :
       {std::pair(static_cast<double>(-INFINITY), "-inf"), std::pair(static_cast<double>(INFINITY), "inf")}) {
    Bench bench({.metric = "m", .mode = Mode::kMin}, 1);
    (void)bench.begin();
    (void)bench.started(0);
    (void)bench.result(0, 1, value);
    (void)bench.result(0, 2, NAN);
    ASSERT_EQ(bench.notices.size(), 1u);
    EXPECT_THAT(bench.notices[0],
                HasSubstr(fmt::format("reported m {} at step 1; NaN and infinities rank last", text)));
  }
}

TEST(TrialLoop, RanksByTheLastValueAndNanLast) {
  Bench bench({.metric = "m", .mode = Mode::kMin}, 3);
  (void)bench.begin();
  for (int i = 0; i < 3; ++i) (void)bench.started(i);
  EXPECT_EQ(bench.loop().best_trial(), nullptr);
  (void)bench.result(0, 1, 0.5);
  (void)bench.result(1, 1, 0.1);
  (void)bench.result(2, 1, NAN);
  EXPECT_EQ(bench.loop().best_trial()->index, 1);
  (void)bench.result(1, 2, 0.5);
  EXPECT_EQ(bench.loop().best_trial()->index, 0);  // Ties go to the first.
  (void)bench.result(0, 2, NAN);
  EXPECT_EQ(bench.loop().best_trial()->index, 1);
  EXPECT_EQ(bench.notices.size(), 1u);
  EXPECT_THAT(bench.notices[0], HasSubstr("reported m nan at step 1; NaN and infinities rank last"));
}

TEST(TrialLoop, KnowsTheBestValueOfAnyStepBesideTheBestLastOne) {
  Bench bench({.metric = "m", .mode = Mode::kMax}, 3);
  (void)bench.begin();
  for (int i = 0; i < 3; ++i) (void)bench.started(i);
  EXPECT_FALSE(bench.loop().best(Scope::kAll));
  (void)bench.result(2, 1, 0.9);
  (void)bench.result(1, 1, 0.9);
  (void)bench.result(1, 2, 0.9);
  (void)bench.result(1, 3, 0.3);
  (void)bench.result(2, 2, NAN);
  (void)bench.result(0, 1, 0.5);
  EXPECT_EQ(bench.loop().best()->trial->index, 0);
  EXPECT_EQ(bench.loop().best()->value, 0.5);
  const auto so_far = bench.loop().best(Scope::kAll);
  EXPECT_EQ(so_far->trial->index, 1) << "of equal ones the trial that was created first";
  EXPECT_EQ(so_far->value, 0.9);
  EXPECT_EQ(so_far->step, 1) << "at its first step";
}

TEST(TrialLoop, SaysThatAThresholdStopsNothing) {
  Bench bench({.max_concurrent_trials = 1, .stop = {{"acc", 0.5}, {"training_iteration", 1}}}, 2);
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.result(0, 1, 1);
  (void)bench.gone(0);
  EXPECT_THAT(bench.notices,
              ElementsAre("stop: no trial has reported \"acc\" so far; its threshold 0.5 stops nothing"));
}

TEST(TrialLoop, EndsWithTheErrorOfUserCode) {
  Bench thrower({.stop = stop_when([](TrialId, const Metrics& result) { return result.at("nothing") > 0; })}, 1);
  (void)thrower.begin();
  (void)thrower.started(0);
  EXPECT_THAT(thrower.result(0, 1, 1), ElementsAre("stop! 0"));
  EXPECT_THAT(thrower.gone(0), ElementsAre("ended 0 interrupted", "end"));
  EXPECT_EQ(thrower.end->error->code, ErrorCode::kApplication);
  EXPECT_THAT(thrower.end->error->message, HasSubstr("the function of stop_when threw"));

  Bench space({}, 1, fifo(), {{"x", sample_from([](const Config& c) { return c.real("y"); })}});
  EXPECT_THAT(space.begin(), ElementsAre("end"));
  EXPECT_THAT(space.end->error->message, HasSubstr("sample_from of x"));
}

TEST(TrialLoop, AbortsAtOnceKeepingTheFirstError) {
  Bench bench({.max_concurrent_trials = 1}, 2);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.tell(Abort{{ErrorCode::kUnavailable, "no space left"}}), ElementsAre("stop! 0"));
  EXPECT_THAT(bench.tell(Abort{{ErrorCode::kUnavailable, "another"}}), IsEmpty());
  EXPECT_THAT(bench.gone(0), ElementsAre("ended 0 interrupted", "end"));
  EXPECT_EQ(bench.end->error->message, "no space left");
}

TEST(TrialLoop, FailsATrialWhoseStepsAreNotContiguous) {
  Bench bench({.max_failures = 1}, 1);
  (void)bench.begin();
  (void)bench.started(0);
  EXPECT_THAT(bench.result(0, 3, 1), ElementsAre("stop! 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("start 0"));
  EXPECT_EQ(bench.trial(0).error, "it reported step 3 after step 0; steps must be contiguous");
  EXPECT_THAT(bench.recorded, IsEmpty());
}

TEST(TrialLoop, NamesTheOptionThatIsOutOfRange) {
  const auto message = [](const LoopOptions& options, const SchedulerFactory& scheduler = fifo()) {
    auto made = TrialLoop::create(options, random_search()({}).value(), scheduler({.metric = "m"}).value());
    return made ? std::string("accepted") : made.error().message;
  };
  EXPECT_THAT(message({.max_concurrent_trials = -1}), HasSubstr("max_concurrent_trials"));
  EXPECT_THAT(message({.max_failures = -2}), HasSubstr("max_failures: expected at least 0, or -1"));
  EXPECT_THAT(message({.checkpoint = {.frequency = -1}}), HasSubstr("checkpoint.frequency"));
  EXPECT_THAT(message({.checkpoint = {.num_to_keep = -1}}), HasSubstr("checkpoint.num_to_keep"));
  EXPECT_THAT(message({.checkpoint = {.frequency = 1}, .can_checkpoint = false}),
              HasSubstr("does not save checkpoints"));
  EXPECT_THAT(message({.time_budget = -1s}), HasSubstr("time_budget"));
  EXPECT_THAT(message({.stop = max_steps(0)}), HasSubstr("max_steps"));
  EXPECT_THAT(message({}, asha({})), HasSubstr("metric: ASHA max_t 100, factor 4 compares trials"));
  EXPECT_EQ(message({}), "accepted");
}

}  // namespace
}  // namespace volador::tune
