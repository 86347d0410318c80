#include "tune/trial_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/asha_scheduler.h"
#include "tune/fifo_scheduler.h"
#include "tune/pbt_replay_scheduler.h"
#include "tune/pbt_scheduler.h"
#include "tune/variant_searcher.h"

namespace volador::tune {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// Actions as words: "start 0", "step 0", "save 0@5", "stop 0", "stop! 0", "delete 0@5", "end 0". RecordResult,
// TrialAdded and Notice are kept apart.
class Bench {
 public:
  Bench(LoopOptions options, int64_t num_samples, const SchedulerFactory& scheduler = fifo(),
        const Space& space = {{"x", uniform(0, 1)}}) {
    loop_ = TrialLoop::create(options, random_search()({.space = space, .num_samples = num_samples}).value(),
                              scheduler({.metric = options.metric, .mode = options.mode}).value())
                .value();
  }

  std::vector<std::string> begin() { return words(loop_->begin(now_)); }
  std::vector<std::string> tell(const Event& event) {
    auto said = words(loop_->handle(now_, event, WallTime(now_ - BootTime{})));
    loop_->check_invariants();
    return said;
  }
  void advance(std::chrono::nanoseconds by) { now_ += by; }
  BootTime now() const { return now_; }

  TrialId id(int64_t index) const { return loop_->trials().at(static_cast<size_t>(index)).id; }
  const Trial& trial(int64_t index) const { return loop_->trials().at(static_cast<size_t>(index)); }
  int64_t attempt(int64_t index) const { return trial(index).attempt; }

  std::vector<std::string> started(int64_t i) { return tell(TrialStarted{id(i), attempt(i), "n1"}); }
  std::vector<std::string> result(int64_t i, int64_t step, double m, bool done = false) {
    return tell(ResultReported{id(i), attempt(i), step, {{"m", m}}, 1s, done});
  }
  std::vector<std::string> saved(int64_t i, int64_t step) {
    return tell(CheckpointSaved{id(i), attempt(i), step, std::to_string(i) + "@" + std::to_string(step)});
  }
  std::vector<std::string> cloned(int64_t i, int64_t step) {
    return tell(CheckpointCloned{id(i), attempt(i), step, std::to_string(i) + "@" + std::to_string(step)});
  }
  std::vector<std::string> failed(int64_t i, bool counts = true) {
    return tell(TrialFailed{id(i), attempt(i), "boom", counts});
  }
  std::vector<std::string> gone(int64_t i) { return tell(TrialGone{id(i), attempt(i)}); }

  TrialLoop& loop() { return *loop_; }
  std::vector<std::string> notices;
  std::vector<std::string> recorded;  // "0@3", "0@3 again"
  std::optional<EndExperiment> end;

 private:
  std::string index(TrialId trial) { return std::to_string(loop_->find(trial)->index); }
  std::vector<std::string> words(const Actions& actions) {
    std::vector<std::string> out;
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<StartTrial>(&action)) {
        out.push_back("start " + index(start->trial) + (start->restore ? " from " + start->restore->location : ""));
      } else if (const auto* step = std::get_if<Step>(&action)) {
        out.push_back("step " + index(step->trial));
      } else if (const auto* save = std::get_if<SaveCheckpoint>(&action)) {
        out.push_back("save " + index(save->trial) + "@" + std::to_string(save->step));
      } else if (const auto* stop = std::get_if<StopTrial>(&action)) {
        out.push_back((stop->at_once ? "stop! " : "stop ") + index(stop->trial));
      } else if (const auto* clone = std::get_if<CloneCheckpoint>(&action)) {
        out.push_back("clone " + clone->checkpoint.location + " for " + index(clone->trial));
      } else if (const auto* cloned = std::get_if<TrialCloned>(&action)) {
        out.push_back("cloned " + index(cloned->trial) + "@" + std::to_string(cloned->had_step) + " from " + index(cloned->from) + "@" +
                      std::to_string(cloned->step));
      } else if (const auto* remove = std::get_if<DeleteCheckpoint>(&action)) {
        out.push_back("delete " + remove->checkpoint.location);
      } else if (const auto* ended = std::get_if<TrialEnded>(&action)) {
        out.push_back("ended " + index(ended->trial) + " " + std::string(to_string(loop_->find(ended->trial)->status)));
      } else if (const auto* record = std::get_if<RecordResult>(&action)) {
        recorded.push_back(index(record->trial) + "@" + std::to_string(record->step) +
                           (record->replayed ? " again" : ""));
      } else if (const auto* notice = std::get_if<Notice>(&action)) {
        notices.push_back(notice->text);
      } else if (const auto* experiment = std::get_if<EndExperiment>(&action)) {
        end = *experiment;
        out.push_back("end");
      }
    }
    return out;
  }

  BootTime now_{1000s};
  std::unique_ptr<TrialLoop> loop_;
};

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

SchedulerFactory pbt_of_two(bool synch = false) {
  return pbt({.perturbation_interval = 2, .hyperparam_mutations = {{"x", uniform(0, 1)}}, .quantile_fraction = 0.5, .synch = synch});
}

// Trial 0 is at step 2 with 0.9 and a checkpoint; trial 1 reports 0.1 at step 2.
std::vector<std::string> until_exploited(Bench& bench) {
  bench.begin();
  bench.tell(CapacityChanged{2});
  bench.started(0);
  bench.started(1);
  bench.result(0, 1, 0.9);
  bench.result(1, 1, 0.1);
  bench.result(1, 2, 0.1);
  EXPECT_THAT(bench.result(0, 2, 0.9), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("step 0"));
  bench.result(0, 3, 0.9);
  bench.result(1, 3, 0.1);
  return bench.result(1, 4, 0.1);
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

TEST(TrialLoop, MakesAPoorTrialACopyOfAGoodOne) {
  Bench bench({.metric = "m"}, 2, pbt_of_two());
  EXPECT_THAT(until_exploited(bench), ElementsAre("clone 0@2 for 1"));
  const Config before = bench.trial(1).config;
  EXPECT_THAT(bench.cloned(1, 2), ElementsAre("cloned 1@4 from 0@2", "stop 1"));
  EXPECT_NE(bench.trial(1).config, before);
  EXPECT_NE(bench.trial(1).config, bench.trial(0).config);
  EXPECT_THAT(bench.cloned(1, 2), IsEmpty());
  EXPECT_THAT(bench.gone(1), ElementsAre("start 1 from 1@2"));
  EXPECT_THAT(bench.started(1), ElementsAre("step 1"));
  EXPECT_THAT(bench.result(1, 3, 0.8), ElementsAre("step 1"));
  EXPECT_EQ(bench.recorded.back(), "1@3");
  EXPECT_EQ(bench.trial(1).step_max, 3);
}

TEST(TrialLoop, LetsATrialGoOnAsItIsWhereItsCopyFails) {
  Bench bench({.metric = "m"}, 2, pbt_of_two());
  until_exploited(bench);
  const Config before = bench.trial(1).config;
  EXPECT_THAT(bench.tell(CloneFailed{bench.id(1), 1, 2, "no space left on the device"}), ElementsAre("step 1"));
  EXPECT_EQ(bench.trial(1).config, before);
  EXPECT_THAT(bench.notices.back(), HasSubstr("it cannot go on as a copy of trial " + to_string(bench.id(0)) + ": no space left"));
  EXPECT_THAT(bench.result(1, 5, 0.1), ElementsAre("step 1"));
}

TEST(TrialLoop, KeepsItsOwnPastWhereATrialDiesWhileItsCopyIsMade) {
  Bench bench({.metric = "m", .max_failures = 1}, 2, pbt_of_two());
  until_exploited(bench);
  EXPECT_THAT(bench.failed(1), ElementsAre("start 1"));
  EXPECT_THAT(bench.tell(CheckpointCloned{bench.id(1), 1, 2, "1@2"}), IsEmpty());
  EXPECT_TRUE(bench.trial(1).checkpoints.empty());
}

TEST(TrialLoop, SavesNeitherTheCopyNorItsPastTwiceWhenInterruptedInBetween) {
  Bench bench({.metric = "m"}, 2, pbt_of_two());
  until_exploited(bench);
  EXPECT_THAT(bench.tell(Interrupt{}), IsEmpty());
  EXPECT_THAT(bench.cloned(1, 2), ElementsAre("cloned 1@4 from 0@2", "stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 interrupted"));
  EXPECT_EQ(bench.trial(1).checkpoints.back().step, 2);
}

TEST(TrialLoop, LetsTrialsTakeTurnsWhereAPopulationHasTooFewPlaces) {
  Bench bench({.metric = "m", .max_concurrent_trials = 1}, 2, pbt_of_two());
  EXPECT_THAT(bench.begin(), ElementsAre("start 0"));
  bench.started(0);
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.result(0, 2, 0.5), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("start 1"));
  EXPECT_EQ(bench.trial(0).status, TrialStatus::kWaiting);
  bench.started(1);
  bench.result(1, 1, 0.9);
  EXPECT_THAT(bench.result(1, 2, 0.9), ElementsAre("save 1@2"));
  bench.saved(1, 2);
  EXPECT_THAT(bench.gone(1), ElementsAre("start 0 from 0@2"));
}

TEST(TrialLoop, LetsATrialThatDiedOnItsWayToAPauseTakeItsTurnAllTheSame) {
  Bench bench({.metric = "m", .max_concurrent_trials = 1, .max_failures = 1}, 2, pbt_of_two());
  bench.begin();
  bench.started(0);
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.result(0, 2, 0.5), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.failed(0), ElementsAre("start 1"));
  bench.started(1);
  bench.result(1, 1, 0.9, true);
  EXPECT_THAT(bench.gone(1), Contains("start 0"));
  bench.started(0);
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.result(0, 2, 0.5), ElementsAre("save 0@2"));
  bench.saved(0, 2);
  EXPECT_THAT(bench.gone(0), ElementsAre("start 0 from 0@2"));
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

TEST(TrialLoop, CopiesPausedTrialsOnceAllHaveMet) {
  Bench bench({.metric = "m"}, 2, pbt_of_two(true));
  bench.begin();
  bench.tell(CapacityChanged{2});
  bench.started(0);
  bench.started(1);
  bench.result(0, 1, 0.9);
  bench.result(1, 1, 0.1);
  EXPECT_THAT(bench.result(1, 2, 0.1), ElementsAre("save 1@2"));
  bench.saved(1, 2);
  EXPECT_THAT(bench.gone(1), IsEmpty());
  EXPECT_EQ(bench.trial(1).status, TrialStatus::kPaused);
  EXPECT_THAT(bench.result(0, 2, 0.9), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("stop 0", "clone 0@2 for 1"));
  // What is not there yet is not lost by an interrupt.
  EXPECT_THAT(bench.gone(0), ElementsAre("start 0 from 0@2"));
  EXPECT_THAT(bench.tell(CheckpointCloned{bench.id(1), 1, 2, "copy"}), ElementsAre("delete 1@2", "cloned 1@2 from 0@2", "start 1 from copy"));
}

TEST(TrialLoop, EndsAPausedTrialWithItsCopyWhenInterrupted) {
  Bench bench({.metric = "m"}, 2, pbt_of_two(true));
  bench.begin();
  bench.tell(CapacityChanged{2});
  bench.started(0);
  bench.started(1);
  bench.result(0, 1, 0.9);
  bench.result(1, 1, 0.1);
  bench.result(1, 2, 0.1);
  bench.saved(1, 2);
  bench.gone(1);
  bench.result(0, 2, 0.9);
  bench.saved(0, 2);
  bench.tell(Interrupt{});
  bench.gone(0);
  EXPECT_FALSE(bench.end.has_value());
  EXPECT_THAT(bench.cloned(1, 2), ElementsAre("cloned 1@2 from 0@2", "ended 1 interrupted", "end"));
}

TEST(TrialLoop, ChangesTheConfigurationOfATrialThatReplaysAPolicy) {
  const SchedulerFactory replay = [](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> {
    return std::unique_ptr<Scheduler>(std::make_unique<PbtReplayScheduler>(PbtPolicy{{{"x", 0.25}}, {{2, {{"x", 0.75}}}}}));
  };
  Bench bench({.metric = "m"}, 1, replay);
  bench.begin();
  EXPECT_EQ(bench.trial(0).config.real("x"), 0.25);
  bench.started(0);
  bench.result(0, 1, 0.5);
  EXPECT_THAT(bench.result(0, 2, 0.5), ElementsAre("save 0@2"));
  EXPECT_THAT(bench.saved(0, 2), ElementsAre("stop 0"));
  EXPECT_THAT(bench.gone(0), ElementsAre("cloned 0@2 from 0@2", "start 0 from 0@2"));
  EXPECT_EQ(bench.trial(0).config.real("x"), 0.75);
  bench.started(0);
  EXPECT_THAT(bench.result(0, 3, 0.5), ElementsAre("step 0"));
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

// Pauses each trial after step 1 and says nothing of it until it is told to.
class PausingScheduler final : public Scheduler {
 public:
  void on_trial_add(TrialId) override {}
  Result<Decision> on_report(const Report& report) override { return report.step == 1 ? Decision::kPause : Decision::kContinue; }
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

// A bench whose scheduler the test holds.
struct PausingBench : Bench {
  explicit PausingBench(LoopOptions options = {.metric = "m", .max_failures = 1}, int64_t num_samples = 2)
      : Bench(options, num_samples, [](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> {
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
  EXPECT_THAT(saving.saved(0, 1), ElementsAre("stop 0"));  // The order comes with this event: it has left.
  EXPECT_THAT(saving.gone(0), ElementsAre("start 0 from 0@1"));
  PausingBench early;
  early.result(0, 1, 0.5);
  early.scheduler->orders = {ResumeOrder{early.id(0)}};
  early.tell(Tick{});
  EXPECT_THAT(early.saved(0, 1), ElementsAre("step 0"));
}

TEST(TrialLoopPause, UsesTheCheckpointThatIsThere) {
  PausingBench bench({.metric = "m", .checkpoint = {.frequency = 1}});
  bench.pause(0);  // One checkpoint, though it was due as well.
  EXPECT_THAT(bench.gone(0), IsEmpty());
}

TEST(TrialLoopPause, EndsAPausedTrialByOrder) {
  PausingBench bench;
  bench.pause(0);
  bench.gone(0);
  bench.scheduler->orders = {EndOrder{bench.id(0), Decision::kStop}};
  EXPECT_THAT(bench.tell(Tick{}), ElementsAre("ended 0 stopped"));
  // Where it has not left yet, once it has.
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
  EXPECT_THAT(bench.trial(0).error, HasSubstr("it was to pause after step 1, and its checkpoint failed: no space left"));
  bench.started(0);
  EXPECT_THAT(bench.result(0, 1, 0.5), ElementsAre("save 0@1"));  // Made up for, and paused as decided.
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
  EXPECT_THAT(bench.gone(1), ElementsAre("start 0 from 0@1"));  // The scheduler had nothing to say, twice.
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
  const auto made = TrialLoop::create({.metric = "m", .can_checkpoint = false}, random_search()({.space = {{"x", uniform(0, 1)}}}).value(),
                                      std::make_unique<PausingScheduler>());
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message, HasSubstr("pausing pauses trials, and the trainable does not save checkpoints"));
}

TEST(TrialLoop, StartsAFewMoreThanTheClusterHolds) {
  Bench bench({}, 100);
  EXPECT_EQ(bench.begin().size(), 16u);  // Nothing is known of the cluster yet.
  Bench small({}, 100);
  (void)small.begin();
  for (int i = 0; i < 16; ++i) (void)small.started(i);
  (void)small.tell(CapacityChanged{2});
  EXPECT_EQ(small.loop().trials().size(), 32u);
  for (int i = 16; i < 30; ++i) EXPECT_THAT(small.started(i), ElementsAre("step " + std::to_string(i)));
  EXPECT_EQ(small.started(30).size(), 2u);  // Two ahead are left, one of them started.
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
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0 from 0@2"));  // The checkpoint under way does not count.
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
    EXPECT_THAT(bench.failed(0, false), ElementsAre("start 0"));  // Its node was lost: at once.
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
  EXPECT_THAT(bench.tell(Tick{}), IsEmpty());  // Its back-off is over, its user's pause is not.
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
    EXPECT_EQ(said, from_start ? std::vector<std::string>({"delete 0@1", "start 0"}) : std::vector<std::string>({"start 0 from 0@1"}));
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
  const auto report = [&](int64_t step, Metrics metrics) { return bench.tell(ResultReported{bench.id(0), 1, step, std::move(metrics), 1s}); };
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

TEST(TrialLoop, StopsWhatTheSchedulerStopsAndFinishesWhatRanInFull) {
  Bench bench({.metric = "m"}, 2, asha({.max_t = 2, .reduction_factor = 2}));
  (void)bench.begin();
  (void)bench.started(0);
  (void)bench.started(1);
  (void)bench.result(0, 1, 0.9);
  EXPECT_THAT(bench.result(1, 1, 0.1), ElementsAre("stop 1"));
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 stopped"));
  EXPECT_EQ(bench.trial(1).reason, "others do better: rank 2 of 2 at step 1 with 0.1; the best goes on, with 0.9 (ASHA)");
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
  EXPECT_THAT(bench.failed(0), ElementsAre("start 0"));  // While it saved at step 3.
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
  EXPECT_THAT(bench.tell(PauseRequested{.whole = true}), ElementsAre("stop! 1")) << "one that starts has nothing to save";
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
  EXPECT_THAT(bench.tell(StopRequested{bench.trial(1).id}), ElementsAre("stop! 1")) << "one that starts has nothing to save";
  EXPECT_THAT(bench.gone(1), ElementsAre("ended 1 stopped")) << "without a report that is no missing metric";
  EXPECT_THAT(bench.tell(StopRequested{bench.trial(0).id}), IsEmpty()) << "it has ended";
  EXPECT_THAT(bench.tell(StopRequested{TrialId(12345)}), IsEmpty());
  (void)bench.started(2);
  EXPECT_THAT(bench.result(2, 1, 1, true), ElementsAre("save 2@1"));
  (void)bench.saved(2, 1);
  EXPECT_THAT(bench.gone(2), ElementsAre("ended 2 finished", "end"));
  EXPECT_EQ(bench.end->reason, "all trials ended");
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
  EXPECT_EQ(bench.loop().best_trial()->index, 0);  // Of equal ones the first.
  (void)bench.result(0, 2, NAN);
  EXPECT_EQ(bench.loop().best_trial()->index, 1);
  EXPECT_EQ(bench.notices.size(), 1u);
  EXPECT_THAT(bench.notices[0], HasSubstr("reported m nan at step 1; NaN ranks last"));
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
