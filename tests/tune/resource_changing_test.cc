#include "tune/schedulers/resource_changing_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tune/loop/trial_loop.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

ResourceSet having(const Resources& resources) { return ResourceSet::from(resources).value(); }

// Four trials on 8 CPUs and 8 GPUs, as in the published cases of Ray Tune's resource-changing scheduler.
struct Sharing {
  std::unique_ptr<Scheduler> scheduler;
  int64_t step = 0;

  explicit Sharing(const Resources& base, ResourceAllocation allocation, uint32_t trials = 4)
      : scheduler(resource_changing({.resources_allocation_function = std::move(allocation)})(
                      {.metric = "m", .mode = Mode::kMax, .resources = having(base)})
                      .value()) {
    for (uint32_t trial = 1; trial <= trials; ++trial) add(trial);
    // Reports from before the cluster was known.
    for (uint32_t trial = 1; trial <= trials; ++trial) EXPECT_EQ(report(trial, 1.1 - 0.1 * trial), "goes on");
    scheduler->on_cluster(having({.cpus = 8, .gpus = 8}));
  }

  void add(uint32_t trial) { scheduler->on_trial_add(TrialId(trial)); }
  void end(uint32_t trial) { scheduler->on_complete(TrialId(trial)); }
  // Returns the resources with which the trial continues.
  std::string report(uint32_t trial, double value = 1) {
    const Decision decision = scheduler->on_report({TrialId(trial), ++step, value}).value();
    const std::vector<Order> orders = scheduler->take_orders();
    scheduler->check_invariants();
    if (decision == Decision::kContinue) return orders.empty() ? "goes on" : "orders without a pause";
    if (decision != Decision::kPause || orders.size() != 2) return "no pause";
    EXPECT_EQ(orders[1], Order(ResumeOrder{.trial = TrialId(trial), .priority = -1, .yields = true}));
    const auto& order = std::get<ResourcesOrder>(orders[0]);
    EXPECT_EQ(order.trial, TrialId(trial));
    return to_string(order.resources);
  }
};

TEST(DistributeResources, GivesEachTrialItsShareOfWhatIsFree) {
  Sharing on({.cpus = 1}, distribute_resources());
  EXPECT_EQ(on.report(1), "cpus 2");
  EXPECT_EQ(on.report(2), "cpus 2");
  on.end(4);
  EXPECT_EQ(on.report(1), "cpus 3");
  on.end(3);
  EXPECT_EQ(on.report(1), "cpus 4");
  on.end(2);
  EXPECT_EQ(on.report(1), "cpus 8");
  EXPECT_EQ(on.report(1), "goes on");
}

TEST(DistributeResources, AddsWhatIncreaseBySays) {
  Sharing on({.cpus = 2, .gpus = 2}, distribute_resources({.increase_by = {.cpus = 2, .gpus = 2}}));
  EXPECT_EQ(on.report(1), "goes on");
  on.end(4);
  EXPECT_EQ(on.report(1), "cpus 4, gpus 4");
  on.end(3);
  EXPECT_EQ(on.report(2), "cpus 4, gpus 4");
  on.end(2);
  EXPECT_EQ(on.report(1), "cpus 8, gpus 8");
}

TEST(DistributeResources, AddsItSoManyTimesAtMost) {
  Sharing on({.cpus = 1, .gpus = 2}, distribute_resources({.increase_by = {.gpus = 2}, .increase_by_times = 2}));
  EXPECT_EQ(on.report(1), "goes on");
  on.end(4);
  EXPECT_EQ(on.report(1), "cpus 1, gpus 4");
  on.end(3);
  EXPECT_EQ(on.report(2), "cpus 1, gpus 4");
  on.end(2);
  EXPECT_EQ(on.report(1), "cpus 1, gpus 6");
}

TEST(DistributeResources, TakesBackWhatAnotherTrialNeeds) {
  for (const auto& function : {distribute_resources({.increase_by = {.gpus = 2}}),
                               distribute_resources_to_top_job({.increase_by = {.gpus = 2}})}) {
    Sharing on({.cpus = 1, .gpus = 2}, function, 3);
    EXPECT_EQ(on.report(1), "cpus 1, gpus 4");
    on.add(4);
    EXPECT_EQ(on.report(1), "cpus 1, gpus 2");
  }
}

TEST(DistributeResources, LeavesWhatIsReserved) {
  Sharing on({.cpus = 1}, distribute_resources({.reserve_resources = {.cpus = 3}}));
  EXPECT_EQ(on.report(1), "cpus 2");
  EXPECT_EQ(on.report(2), "goes on");
}

TEST(DistributeResourcesToTopJob, GivesAllToTheBest) {
  Sharing on({.cpus = 1}, distribute_resources_to_top_job());
  EXPECT_EQ(on.report(2, 0.9), "goes on");
  EXPECT_EQ(on.report(1, 1.0), "cpus 5");
  EXPECT_EQ(on.report(2, 1.1), "goes on") << "nothing is free";
  on.end(4);
  EXPECT_EQ(on.report(2, 1.1), "cpus 2");
  on.end(3);
  EXPECT_EQ(on.report(1, 1.2), "cpus 6");
  on.end(2);
  EXPECT_EQ(on.report(1, 1.0), "cpus 8");
}

TEST(DistributeResourcesToTopJob, GoesToTheNextBestAtItsLimit) {
  Sharing on({.cpus = 1, .gpus = 2},
             distribute_resources_to_top_job({.increase_by = {.gpus = 2}, .increase_by_times = 2}));
  EXPECT_EQ(on.report(2, 0.9), "goes on");
  EXPECT_EQ(on.report(1, 1.0), "goes on");
  on.end(4);
  EXPECT_EQ(on.report(1, 1.0), "cpus 1, gpus 4");
  EXPECT_EQ(on.report(2, 1.1), "goes on");
  on.end(3);
  EXPECT_EQ(on.report(2, 1.1), "cpus 1, gpus 4");
  on.end(2);
  EXPECT_EQ(on.report(1, 1.2), "cpus 1, gpus 6");
  Sharing few({.cpus = 1}, distribute_resources_to_top_job({.increase_by = {.cpus = 1}, .increase_by_times = 2}), 2);
  EXPECT_EQ(few.report(1, 1.0), "cpus 3");
  EXPECT_EQ(few.report(2, 0.9), "cpus 3") << "the best has what it may have";
}

TEST(DistributeResourcesToTopJob, WhatHasReportedNoNumberIsTheWorst) {
  Sharing on({.cpus = 1}, distribute_resources_to_top_job(), 2);
  on.add(3);
  EXPECT_EQ(on.report(2, std::nan("")), "goes on");
  EXPECT_EQ(on.report(1, -5), "cpus 6");
}

TEST(DistributeResources, RefusesOptionsOutOfRange) {
  const auto message = [](const DistributeOptions& options) -> std::string {
    try {
      (void)distribute_resources(options);
    } catch (const Exception& error) {
      return error.error().message;
    }
    return "";
  };
  EXPECT_THAT(message({.increase_by = {.cpus = -1}}), HasSubstr("distribute_resources.increase_by"));
  EXPECT_THAT(message({.increase_by = {.cpus = 1}, .increase_by_times = -1}),
              HasSubstr("increase_by_times: expected 0 for no limit"));
  EXPECT_THAT(message({.increase_by_times = 2}), HasSubstr("increase_by, which is not given"));
  EXPECT_THAT(message({.reserve_resources = {.gpus = std::nan("")}}),
              HasSubstr("distribute_resources.reserve_resources"));
  EXPECT_EQ(message({}), "");
}

TEST(ResourceChanging, RepeatedReportsGetThePauseAgainAndNoSecondOrder) {
  Sharing on({.cpus = 1}, distribute_resources());
  EXPECT_EQ(on.report(1), "cpus 2");
  EXPECT_EQ(on.scheduler->on_report({TrialId(1), on.step, 1}).value(), Decision::kPause);
  EXPECT_TRUE(on.scheduler->take_orders().empty());
  EXPECT_EQ(on.report(1), "goes on");
}

TEST(ResourceChanging, StopsWhatItsBaseStopsAndGivesItsShareToOthers) {
  auto scheduler = resource_changing({.base_scheduler = asha({.grace_period = 1, .max_t = 4, .reduction_factor = 2})})(
                       {.metric = "m", .mode = Mode::kMax, .resources = having({.cpus = 1})})
                       .value();
  EXPECT_EQ(scheduler->describe(), "ASHA max_t 4, factor 2, resources change");
  for (uint32_t trial : {1, 2}) scheduler->on_trial_add(TrialId(trial));
  scheduler->on_cluster(having({.cpus = 2}));
  EXPECT_EQ(scheduler->on_report({TrialId(1), 1, 0.9}).value(), Decision::kContinue);
  EXPECT_EQ(scheduler->on_report({TrialId(2), 1, 0.1}).value(), Decision::kStop);
  scheduler->on_complete(TrialId(2));
  EXPECT_EQ(scheduler->on_report({TrialId(1), 2, 0.9}).value(), Decision::kPause);
  const auto decisions = scheduler->take_decisions();
  EXPECT_EQ(decisions.back().act, Act::kResized);
  EXPECT_EQ(to_text(decisions.back()), "cpus 2 instead of cpus 1, with 1 trial in cpus 2 (resources)");
}

TEST(ResourceChanging, GoesOnTheSameFromASnapshot) {
  Sharing on({.cpus = 1}, distribute_resources()), other({.cpus = 1}, distribute_resources());
  EXPECT_EQ(on.report(1), "cpus 2");
  on.scheduler->on_resources_refused(TrialId(2));
  on.end(4);
  ASSERT_TRUE(other.scheduler->restore(on.scheduler->snapshot()));
  EXPECT_EQ(other.scheduler->snapshot(), on.scheduler->snapshot());
  other.step = on.step;
  for (const uint32_t trial : {1U, 2U, 3U}) EXPECT_EQ(on.report(trial), other.report(trial)) << trial;
  EXPECT_EQ(on.report(2), "goes on") << "it was refused once";
}

TEST(ResourceChanging, SaysWhatTheUsersFunctionDidWrong) {
  const auto message = [](ResourceAllocation function) {
    Sharing on({.cpus = 1}, std::move(function));
    return on.scheduler->on_report({TrialId(1), 9, 1}).error().message;
  };
  EXPECT_THAT(message([](const AllocationQuery&) -> std::optional<Resources> { throw std::runtime_error("no idea"); }),
              HasSubstr("resources_allocation_function threw for trial 00000001: no idea"));
  EXPECT_THAT(message([](const AllocationQuery&) { return std::optional(Resources{.cpus = -2}); }),
              HasSubstr("gave trial 00000001 what cannot be"));
}

// ---- In the loop.

struct ResizedLoop {
  std::unique_ptr<TrialLoop> loop;
  explicit ResizedLoop(ResourceAllocation function = {}) {
    auto searcher = random_search()({.space = {{"x", uniform(0, 1)}}, .metric = "m", .num_samples = 1}).value();
    auto scheduler = resource_changing({.resources_allocation_function = std::move(function)})(
                         {.metric = "m", .resources = having({.cpus = 1})})
                         .value();
    loop = TrialLoop::create({.metric = "m", .stop = max_steps(3)}, std::move(searcher), std::move(scheduler)).value();
    (void)loop->begin({});
    (void)loop->handle({}, CapacityChanged{4});
    (void)loop->handle({}, ClusterChanged{{{"cpus", 4 * kUnit}}});
  }
  const Trial& trial() const { return loop->trials().front(); }
  template <class A, class E>
  std::optional<A> after(const E& event) {
    const Actions actions = loop->handle({}, event);
    loop->check_invariants();
    for (const Action& action : actions) {
      if (const auto* one = std::get_if<A>(&action)) return *one;
    }
    return std::nullopt;
  }
};

TEST(ResourceChangingLoop, SavesEndsTheHostAndGoesOnFromThereWithMore) {
  ResizedLoop run;
  const TrialId id = run.trial().id;
  ASSERT_TRUE(run.after<Step>(TrialStarted{id, 1, "a"}));
  ASSERT_TRUE(run.after<SaveCheckpoint>(ResultReported{.trial = id, .attempt = 1, .step = 1, .metrics = {{"m", 1}}}));
  ASSERT_TRUE(run.after<StopTrial>(CheckpointSaved{id, 1, 1, "x/1"}));
  const auto start = run.after<StartTrial>(TrialGone{id, 1});
  ASSERT_TRUE(start);
  EXPECT_EQ(start->attempt, 2);
  ASSERT_TRUE(start->restore);
  EXPECT_EQ(start->restore->step, 1);
  EXPECT_EQ(to_string(run.trial().resources), "cpus 4");
  EXPECT_EQ(run.trial().failures + run.trial().losses, 0);
  ASSERT_TRUE(run.after<Step>(TrialStarted{id, 2, "a"}));
  EXPECT_TRUE(run.after<Step>(ResultReported{.trial = id, .attempt = 2, .step = 2, .metrics = {{"m", 1}}}))
      << "it has all there is";
}

TEST(ResourceChangingLoop, GoesOnWithWhatItBeganWithWhereNoNodeHasRoom) {
  ResizedLoop run;
  const TrialId id = run.trial().id;
  (void)run.after<Step>(TrialStarted{id, 1, "a"});
  (void)run.after<Step>(ResultReported{.trial = id, .attempt = 1, .step = 1, .metrics = {{"m", 1}}});
  (void)run.after<Step>(CheckpointSaved{id, 1, 1, "x/1"});
  (void)run.after<Step>(TrialGone{id, 1});
  const auto start = run.after<StartTrial>(ResourcesRefused{id, 2, "the largest node has 2"});
  ASSERT_TRUE(start);
  EXPECT_EQ(start->attempt, 3);
  EXPECT_EQ(start->restore->step, 1);
  EXPECT_TRUE(run.trial().resources.empty());
  EXPECT_FALSE(run.after<StartTrial>(ResourcesRefused{id, 2, "again"})) << "of an older attempt";
  (void)run.after<Step>(TrialStarted{id, 3, "a"});
  EXPECT_TRUE(run.after<Step>(ResultReported{.trial = id, .attempt = 3, .step = 2, .metrics = {{"m", 1}}}))
      << "it is not asked again";
}

TEST(ResourceChangingLoop, ATrialThatEndsWithItsReportKeepsItsResources) {
  ResizedLoop run([](const AllocationQuery& query) {
    return query.report.step == 3 ? std::optional(Resources{.cpus = 2}) : std::nullopt;
  });
  const TrialId id = run.trial().id;
  (void)run.after<Step>(TrialStarted{id, 1, "a"});
  for (int64_t step = 1; step <= 2; ++step)
    ASSERT_TRUE(run.after<Step>(ResultReported{.trial = id, .attempt = 1, .step = step, .metrics = {{"m", 1}}}));
  ASSERT_TRUE(run.after<StopTrial>(ResultReported{.trial = id, .attempt = 1, .step = 3, .metrics = {{"m", 1}}}));
  EXPECT_TRUE(run.after<TrialEnded>(TrialGone{id, 1}));
  EXPECT_TRUE(run.loop->ended());
}

}  // namespace
}  // namespace volador::tune
