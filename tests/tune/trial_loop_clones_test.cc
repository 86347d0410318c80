// Trial loop: trials that become copies of others.
#include "tests/tune/trial_loop_bench.h"

#include "tune/schedulers/pbt_replay_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"

namespace volador::tune {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SchedulerFactory pbt_of_two(bool synch = false) {
  return pbt({.perturbation_interval = 2,
              .hyperparam_mutations = {{"x", uniform(0, 1)}},
              .quantile_fraction = 0.5,
              .synch = synch});
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
  EXPECT_THAT(bench.notices.back(),
              HasSubstr("it cannot go on as a copy of trial " + to_string(bench.id(0)) + ": no space left"));
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
  // An incomplete copy is not lost by an interrupt.
  EXPECT_THAT(bench.gone(0), ElementsAre("start 0 from 0@2"));
  EXPECT_THAT(bench.tell(CheckpointCloned{bench.id(1), 1, 2, "copy"}),
              ElementsAre("delete 1@2", "cloned 1@2 from 0@2", "start 1 from copy"));
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
    return std::unique_ptr<Scheduler>(
        std::make_unique<PbtReplayScheduler>(PbtPolicy{{{"x", 0.25}}, {{2, {{"x", 0.75}}}}}));
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

}  // namespace
}  // namespace volador::tune
