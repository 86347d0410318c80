#include "tune/simulation/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/how_many.h"
#include "tests/tune/asha_appendix.h"
#include "tests/tune/temporary_directory.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/schedulers/resource_changing_scheduler.h"
#include "tune/schedulers/scheduler_spec.h"
#include "tune/simulation/scheduler_comparison.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const Space kSimulatedSpace = {{"lr", uniform(0.0, 1.0)}};

SimulationOptions options(SchedulerFactory scheduler, int64_t samples, Workload workload) {
  return {.space = kSimulatedSpace,
          .num_samples = samples,
          .scheduler = std::move(scheduler),
          .workload = std::move(workload),
          .slots = 4,
          .max_steps = 9};
}

Workload even(double seconds = 1) {
  return {.value = [](const Workload::At& at) { return at.config.real("lr") * static_cast<double>(at.step); },
          .seconds = [seconds](const Workload::At&) { return seconds; }};
}

TEST(Simulation, KeepsEverySlotBusyForAsLongAsTheStepsTake) {
  const auto report = simulate(options({}, 8, even(2))).value();
  EXPECT_EQ(report.trials, 8);
  EXPECT_EQ(report.finished, 8);
  EXPECT_EQ(report.steps, 72);
  EXPECT_DOUBLE_EQ(report.elapsed_s, 36);
  EXPECT_DOUBLE_EQ(report.busy_s, 144);
  EXPECT_EQ(report.first_finished_s, 18);
  EXPECT_EQ(report.curve.back().best, report.best);
  EXPECT_DOUBLE_EQ(report.best_config.real("lr") * 9, report.best.value());
}

TEST(Simulation, EndsAtItsTimeLimitAndFindsNothingBeyondIt) {
  SimulationOptions limited = options({}, -1, even());
  limited.time_limit_s = 12.5;
  const auto report = simulate(limited).value();
  EXPECT_DOUBLE_EQ(report.elapsed_s, 12.5);
  EXPECT_EQ(report.finished, 4);
  EXPECT_EQ(report.steps, 48);
  EXPECT_DOUBLE_EQ(report.busy_s, 50);
}

TEST(Simulation, IsTheSameForTheSameSeedAndAnotherForAnother) {
  const Workload workload =
      synthetic_workload({.seed = 3, .speed_sd = 0.5, .straggler_sd = 0.3, .drop_per_s = 0.01, .fail_per_step = 0.02})
          .value();
  SimulationOptions one = options(asha({.max_t = 9, .reduction_factor = 3}), 40, workload);
  one.max_failures = 2;
  const auto a = simulate(one).value(), b = simulate(one).value();
  EXPECT_EQ(a.elapsed_s, b.elapsed_s);
  EXPECT_EQ(a.best, b.best);
  EXPECT_EQ(a.events, b.events);
  one.seed = 1;
  EXPECT_NE(simulate(one).value().elapsed_s, a.elapsed_s);
}

TEST(Simulation, FailuresCountAsTheLoopCountsThem) {
  Workload workload = even();
  workload.fails = [](const Workload::At& at) { return at.index == 0 && at.step == 2; };
  SimulationOptions one = options({}, 2, workload);
  one.max_failures = 2;
  const auto report = simulate(one).value();
  EXPECT_EQ(report.failed, 1);
  EXPECT_EQ(report.finished, 1);
  EXPECT_EQ(report.steps, 9 + 3 * 2);
}

TEST(Simulation, EarlyStoppingSpendsLess) {
  const Workload workload = synthetic_workload({.noise = 0}).value();
  const auto full = simulate(options({}, 60, workload)).value();
  for (const SchedulerFactory& scheduler :
       {asha({.max_t = 9, .reduction_factor = 3}), hyperband({.max_t = 9, .eta = 3})}) {
    const auto some = simulate(options(scheduler, 60, workload)).value();
    EXPECT_LT(some.steps, full.steps * 3 / 4);
    EXPECT_EQ(some.trials, 60);
    EXPECT_EQ(some.finished + some.stopped, 60);
  }
}

TEST(Simulation, RefusesWhatCannotBe) {
  EXPECT_THAT(simulate(options({}, 1, {})).error().message, HasSubstr("workload:"));
  EXPECT_THAT(simulate(options({}, -1, even())).error().message, HasSubstr("-1 with a time limit"));
  EXPECT_THAT(synthetic_workload({.drop_per_s = 1}).error().message,
              HasSubstr("drop_per_s: expected 0 to less than 1"));
  EXPECT_THAT(synthetic_workload({.straggler_sd = -1}).error().message, HasSubstr("straggler_sd"));
}

TEST(Simulation, GoesThroughARecordedRunAgain) {
  TemporaryDirectory folder;
  ExperimentState state{.name = "digits", .state = "finished", .metric = "accuracy"};
  for (uint32_t i = 1; i <= 3; ++i) {
    Trial trial;
    trial.id = TrialId(i);
    trial.index = i - 1;
    trial.config = Config{{"lr", 0.1 * i}};
    trial.step_max = i;
    std::string lines;
    for (uint32_t step = 1; step <= i; ++step)
      lines += "{\"accuracy\":" + std::to_string(0.1 * i) + ",\"time_this_iter_s\":2.0}\n";
    write_text(folder.path() / to_string(trial.id) / "result.json", lines);
    state.trials.push_back(trial);
  }
  const Analysis analysis(state, folder.path());
  const auto recorded = recorded_workload(analysis, "accuracy").value();
  EXPECT_EQ(recorded.steps_max, 3);
  SimulationOptions again{.configs = recorded.configs, .workload = recorded.workload, .slots = 1, .max_steps = 3};
  const auto report = simulate(again).value();
  EXPECT_EQ(report.steps, 9) << "records go on with their last value";
  EXPECT_DOUBLE_EQ(report.elapsed_s, 18);
  EXPECT_DOUBLE_EQ(*report.best, 0.3);
  EXPECT_THAT(recorded_workload(analysis, "acuracy").error().message, HasSubstr("never reported"));
}

// Copies continue from the value of the copied trial, with a changed configuration.
TEST(Simulation, PopulationsFollowATargetThatMovesAway) {
  const Workload workload = moving_target_workload({.noise = 0}, {.parameter = "lr", .horizon = 40}).value();
  const auto best = [&](const SchedulerFactory& scheduler, uint64_t seed) {
    SimulationOptions one = options(scheduler, 12, workload);
    one.max_steps = 40;
    one.slots = 12;
    one.seed = seed;
    const auto report = simulate(one).value();
    EXPECT_EQ(report.finished, 12);
    return report.best.value();
  };
  double population = 0, alone = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    population += best(pbt({.perturbation_interval = 4, .hyperparam_mutations = kSimulatedSpace}), seed);
    alone += best({}, seed);
  }
  EXPECT_GT(population, alone * 1.1) << "a constant is right for a part of the way only";
  EXPECT_THAT(moving_target_workload({}, {.parameter = "lr", .horizon = 0}).error().message,
              HasSubstr("horizon: expected at least 1"));
}

TEST(Simulation, AnAttemptGoesOnFromTheValueOfItsCheckpoint) {
  Workload workload = even();
  workload.value = [](const Workload::At& at) { return (std::isnan(at.before) ? 0 : at.before) + 1; };
  for (const auto& scheduler :
       {asha({.max_t = 9, .reduction_factor = 3, .variant = AshaVariant::kPromotion}), SchedulerFactory()}) {
    const auto report = simulate(options(scheduler, 12, workload)).value();
    EXPECT_EQ(report.best, 9) << "a step is one, whatever pauses there were";
  }
}

TEST(Simulation, TrialsWithMoreCpusAreFasterAndHoldThem) {
  const Workload workload = synthetic_workload({.noise = 0, .parallel = 1}).value();
  const auto took = [&](const SchedulerFactory& scheduler) {
    SimulationOptions one = options(scheduler, 2, workload);
    one.slots = 8;
    one.max_steps = 30;
    const auto report = simulate(one).value();
    EXPECT_EQ(report.finished, 2);
    EXPECT_LE(report.busy_s, report.elapsed_s * 8 + 1e-6);
    return report;
  };
  const auto alone = took({}), shared = took(resource_changing());
  EXPECT_DOUBLE_EQ(alone.elapsed_s, 30);
  EXPECT_LT(shared.elapsed_s, 30.0 / 3) << "four CPUs each, but for the first step";
  EXPECT_GE(shared.elapsed_s, 30.0 / 4);
  EXPECT_NEAR(shared.busy_s, alone.busy_s, 1e-6) << "the work is the same";
}

TEST(SchedulerSpecs, OfASimulationKnowPopulationsAndResources) {
  const SchedulerContext context{.metric = "value", .resources = {}};
  const auto described = [&](std::string_view text) {
    return simulated_scheduler_of(text, 80, kSimulatedSpace).value().factory(context).value()->describe();
  };
  EXPECT_THAT(described("pbt:perturbation_interval=5"), HasSubstr("5"));
  EXPECT_THAT(described("pb2"), HasSubstr("8"));
  EXPECT_THAT(described("resource_changing:base=asha"), HasSubstr("ASHA max_t 80"));
  EXPECT_EQ(described("asha"), "ASHA max_t 80, factor 4");
  EXPECT_EQ(simulated_scheduler_of("pbt", 80, kSimulatedSpace)->kind, SimulatedKind::kPopulation);
  EXPECT_EQ(simulated_scheduler_of("fifo", 80, kSimulatedSpace)->kind, SimulatedKind::kPlain);
  EXPECT_THAT(simulated_scheduler_of("pb3", 80, kSimulatedSpace).error().message, HasSubstr("did you mean pb"));
  EXPECT_THAT(simulated_scheduler_of("resource_changing:base=best", 80, kSimulatedSpace).error().message,
              HasSubstr("base"));
}

TEST(SchedulerSpecs, NameASchedulerAndItsOptions) {
  const SchedulerContext context{.metric = "value"};
  const auto described = [&](std::string_view text) {
    return scheduler_of(text, 81).value()(context).value()->describe();
  };
  EXPECT_EQ(described("fifo"), "FIFO");
  EXPECT_EQ(described("asha"), "ASHA max_t 81, factor 4");
  EXPECT_EQ(described("asha:reduction_factor=3,grace_period=2,max_t=27,rule=ray"),
            "ASHA max_t 27, factor 3, grace 2, Ray's rule");
  EXPECT_EQ(described("asha:promotion=true"), "ASHA max_t 81, factor 4, promotion");
  EXPECT_EQ(described("hyperband:eta=4"), "HyperBand max_t 81, eta 4");
  EXPECT_EQ(described("hb_bohb"), "HyperBand max_t 81, eta 3, largest bracket first");
  EXPECT_EQ(described("percentile:percentile=50,n_startup_trials=3"), "percentile 50, after 3 trials");
  EXPECT_EQ(described("wilcoxon:p_threshold=0.2"), "Wilcoxon p 0.2");
  EXPECT_THAT(scheduler_of("ahsa", 81).error().message, HasSubstr("did you mean asha?"));
  EXPECT_THAT(scheduler_of("asha:factor=3", 81).error().message, HasSubstr("there is no option \"factor\""));
  EXPECT_THAT(scheduler_of("asha:max_t=many", 81).error().message, HasSubstr("asha.max_t: "));
  EXPECT_THAT(scheduler_of("asha:rule=mine", 81).error().message, HasSubstr("expected ray, got \"mine\""));
}

TEST(SchedulerComparisons, RunEachWithTheSameSeeds) {
  SimulationOptions base = options({}, 30, {});
  const auto comparison = compare_schedulers(base,
                                             {{"a", asha({.max_t = 9, .reduction_factor = 3})},
                                              {"b", {}},
                                              {"a again", asha({.max_t = 9, .reduction_factor = 3})}},
                                             3, [](uint64_t seed) { return synthetic_workload({.seed = seed}); })
                              .value();
  ASSERT_EQ(comparison.rows.size(), 3U);
  EXPECT_EQ(comparison.rows[0].best, comparison.rows[2].best);
  EXPECT_LT(comparison.rows[0].steps, comparison.rows[1].steps);
  EXPECT_EQ(comparison.rows[1].finished, 30);
  EXPECT_DOUBLE_EQ(comparison.rows[1].curve.back(), *comparison.rows[1].best);
}

// Five seeds per cell: volador_bench --only=asha_appendix runs a hundred.
TEST(Simulation, AgreesWithTheAppendixOfTheAshaPaper) {
  const std::vector<testing::AppendixCell> published = testing::published_appendix(".");
  ASSERT_EQ(published.size(), 20U);
  for (size_t at = how_many(size_t{0}, published.size() - 1); at < published.size(); ++at) {
    const testing::AppendixCell& cell = published[at];
    const testing::AppendixCell ours = testing::simulated_appendix(cell, how_many(5, 2), 1);
    EXPECT_NEAR(ours.asha.finished, cell.asha.finished, 0.15 * cell.asha.finished) << cell.sd << " " << cell.drop;
    EXPECT_NEAR(ours.asha.first, cell.asha.first, 0.2 * cell.asha.first) << cell.sd << " " << cell.drop;
    EXPECT_GT(ours.asha.finished, ours.overlap.finished) << cell.sd << " " << cell.drop;
    EXPECT_GT(ours.overlap.finished, ours.barrier.finished) << cell.sd << " " << cell.drop;
  }
}

// The appendix is simulated with one step per job, which gives the same result as one step per unit of time.
TEST(Simulation, JobsBetweenRungsMayBeSteps) {
  const testing::AppendixCell cell{.sd = 0.56, .drop = 0.002, .asha = {}, .overlap = {}, .barrier = {}};
  for (const SchedulerFactory& scheduler : {testing::appendix_asha(), testing::appendix_halving()}) {
    const auto jobs = testing::overlapping(scheduler, cell, 1),
               steps = testing::overlapping(scheduler, cell, 1, /*by_jobs=*/false);
    EXPECT_EQ(jobs.finished, steps.finished);
    EXPECT_NEAR(jobs.first, steps.first, 1e-3);
  }
}

}  // namespace
}  // namespace volador::tune
