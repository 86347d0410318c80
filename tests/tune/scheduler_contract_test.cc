// Guarantees of every scheduler for any sequence of events, on which the loop and the replay of a journal depend.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "runtime/random.h"
#include "tests/how_many.h"
#include "tests/tune/odd_values.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/pbt_replay_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/schedulers/percentile_scheduler.h"
#include "tune/schedulers/resource_changing_scheduler.h"
#include "tune/schedulers/wilcoxon_scheduler.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

struct SchedulerCase {
  const char* name;
  SchedulerFactory factory;
};
void PrintTo(const SchedulerCase& one, std::ostream* out) { *out << one.name; }

// An event for a scheduler.
struct Told {
  enum class Kind { kAdd, kReport, kComplete, kNoMore, kCheckpoint } kind = Kind::kAdd;
  TrialId trial;
  int64_t step = 0;
  double value = 0;
};

double any_value(Random& random) {
  constexpr double kOdd[] = {kNan,
                             kInfinity,
                             -kInfinity,
                             std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::lowest(),
                             std::numeric_limits<double>::denorm_min(),
                             0.0,
                             -0.0};
  return random.below(4) == 0 ? kOdd[random.below(std::size(kOdd))] : random.real() * 2 - 1;
}

// Trials that arrive late, skip or repeat steps, report after their end and end twice, ignoring all decisions.
std::vector<Told> unruly(uint64_t seed, size_t length, uint32_t trials = 12) {
  SeededRandom random(seed);
  std::vector<Told> told;
  std::vector<int64_t> steps(trials);
  uint32_t known = 0;
  while (told.size() < length) {
    const uint64_t dice = random.below(100);
    if (known == 0 || (dice < 15 && known < trials)) {
      told.push_back({Told::Kind::kAdd, TrialId(known++ * 7919)});
      continue;
    }
    const auto index = static_cast<uint32_t>(random.below(known));
    const TrialId trial(index * 7919);
    if (dice == 15) {
      told.push_back({Told::Kind::kNoMore, TrialId()});
      continue;
    }
    if (dice == 16 || dice == 17) {
      told.push_back({Told::Kind::kCheckpoint, trial, steps[index]});
      continue;
    }
    if (dice < 20) {
      told.push_back({random.below(2) == 0 ? Told::Kind::kAdd : Told::Kind::kComplete, trial});
      continue;
    }
    int64_t step = ++steps[index];
    if (dice < 30) step = std::max<int64_t>(1, step - static_cast<int64_t>(random.below(4)));
    if (dice >= 90) step = steps[index] += static_cast<int64_t>(random.below(9));
    told.push_back({Told::Kind::kReport, trial, step, any_value(random)});
  }
  return told;
}

class SchedulerContract : public ::testing::TestWithParam<SchedulerCase> {
 protected:
  std::unique_ptr<Scheduler> make() const {
    return GetParam().factory({.metric = "m", .mode = Mode::kMax, .seed = 5}).value();
  }

  // Returns the results as text, the decision first; checks the state afterwards.
  static std::string tell(Scheduler& scheduler, const Told& told) {
    std::string said = "-";
    if (told.kind == Told::Kind::kAdd) {
      Config config = {{"lr", 0.5}};
      scheduler.on_trial_config(told.trial, config);
      said += " " + config.to_json();
      scheduler.on_trial_add(told.trial);
    }
    if (told.kind == Told::Kind::kCheckpoint) scheduler.on_checkpoint(told.trial, told.step);
    if (told.kind == Told::Kind::kComplete) scheduler.on_complete(told.trial);
    if (told.kind == Told::Kind::kNoMore) scheduler.on_no_more_trials();
    if (told.kind == Told::Kind::kReport) {
      const auto decision = scheduler.on_report({told.trial, told.step, told.value});
      said = decision ? std::to_string(static_cast<int>(*decision)) : to_string(decision.error());
    }
    for (const Order& order : scheduler.take_orders()) {
      if (const auto* resume = std::get_if<ResumeOrder>(&order))
        said += " resume " + to_string(resume->trial) + " " + std::to_string(resume->priority) +
                (resume->yields ? " yields" : "");
      if (const auto* resources = std::get_if<ResourcesOrder>(&order))
        said += " give " + to_string(resources->trial) + " " + to_string(resources->resources);
      if (const auto* end = std::get_if<EndOrder>(&order))
        said += " end " + to_string(end->trial) + " " + std::to_string(static_cast<int>(end->decision));
      if (const auto* clone = std::get_if<CloneOrder>(&order)) {
        said += " clone " + to_string(clone->trial) + " of " + to_string(clone->from) + " " + clone->config.to_json();
        if (told.step % 2 == 0) scheduler.on_cloned(*clone, std::max<int64_t>(1, told.step));
      }
    }
    EXPECT_TRUE(scheduler.take_orders().empty());
    scheduler.check_invariants();
    return said;
  }
  static std::string decision_of(const std::string& said) { return said.substr(0, said.find(' ')); }
};

TEST_P(SchedulerContract, DecidesTheSameEachTime) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const auto first = make();
    const auto second = make();
    for (const Told& told : unruly(seed, 200)) ASSERT_EQ(tell(*first, told), tell(*second, told)) << "seed " << seed;
    EXPECT_EQ(first->snapshot(), second->snapshot());
  }
}

TEST_P(SchedulerContract, GivesRepeatedAndLateReportsTheStandingDecision) {
  const auto scheduler = make();
  for (const Told& told : unruly(3, 300)) {
    const std::string decided = decision_of(tell(*scheduler, told));
    const std::string state = scheduler->snapshot();
    Told again = told;
    EXPECT_EQ(decision_of(tell(*scheduler, again)), decided);
    again.value = 0.25;
    for (; again.step > 0 && told.step - again.step < 3; --again.step) EXPECT_EQ(tell(*scheduler, again), decided);
    EXPECT_EQ(scheduler->snapshot(), state);
  }
}

TEST_P(SchedulerContract, GoesOnTheSameFromASnapshotTakenAfterAnyEvent) {
  const std::vector<Told> all = unruly(8, 120);
  const auto original = make();
  std::vector<std::string> said;
  std::vector<std::string> states;
  for (const Told& told : all) {
    said.push_back(tell(*original, told));
    states.push_back(original->snapshot());
  }
  for (size_t cut = 0; cut < all.size(); cut += how_many(1, 7)) {
    const auto copy = make();
    ASSERT_TRUE(copy->restore(states[cut]).has_value()) << cut;
    ASSERT_EQ(copy->snapshot(), states[cut]);
    for (size_t i = cut + 1; i < all.size(); ++i)
      ASSERT_EQ(tell(*copy, all[i]), said[i]) << "cut " << cut << " event " << i;
    ASSERT_EQ(copy->snapshot(), states.back()) << cut;
  }
}

TEST_P(SchedulerContract, RefusesATornSnapshotAndStaysAsItWas) {
  const auto original = make();
  for (const Told& told : unruly(2, 60)) tell(*original, told);
  const std::string whole = original->snapshot();
  const auto other = make();
  const std::string before = other->snapshot();
  for (size_t length = 0; length < whole.size(); length += how_many(1, 11)) {
    const auto restored = other->restore(std::string_view(whole).substr(0, length));
    ASSERT_FALSE(restored.has_value()) << length;
    ASSERT_EQ(restored.error().code, ErrorCode::kInvalidArgument);
  }
  for (const char* bad : {"[]", "7", "null", "\"\"", R"({"version":99})"})
    EXPECT_FALSE(other->restore(bad).has_value()) << bad;
  EXPECT_EQ(other->snapshot(), before);
}

TEST_P(SchedulerContract, SurvivesADamagedSnapshot) {
  const auto original = make();
  for (const Told& told : unruly(2, 60)) tell(*original, told);
  const std::string whole = original->snapshot();
  SeededRandom random(4);
  for (int i = 0; i < how_many(500, 60); ++i) {
    std::string damaged = whole;
    const size_t at = random.below(damaged.size());
    damaged[at] = "0123456789-{}[]\",eaN"[random.below(20)];
    const auto copy = make();
    (void)copy->restore(damaged);  // Accepted or rejected; no exception, no endless loop.
    (void)copy->snapshot();
  }
}

TEST_P(SchedulerContract, IgnoresTheEndOfATrialItDoesNotKnow) {
  const auto scheduler = make();
  const std::string state = scheduler->snapshot();
  scheduler->on_complete(TrialId(17));
  EXPECT_EQ(scheduler->snapshot(), state);
}

TEST_P(SchedulerContract, NamesTheTrialAndTheStepOfAReportThatCannotBe) {
  const auto scheduler = make();
  scheduler->on_trial_add(TrialId(1));
  const std::string state = scheduler->snapshot();
  for (const int64_t step : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    const auto refused = scheduler->on_report({TrialId(1), step, 0.5});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find("00000001"), std::string::npos) << refused.error().message;
    EXPECT_NE(refused.error().message.find(std::to_string(step)), std::string::npos) << refused.error().message;
  }
  EXPECT_EQ(scheduler->snapshot(), state);
  EXPECT_TRUE(scheduler->on_report({TrialId(1), std::numeric_limits<int64_t>::max(), 0.5}).has_value());
}

// Failed trials report nothing more; later ones are decided nevertheless.
TEST_P(SchedulerContract, GoesOnWithoutTrialsThatFailed) {
  const auto scheduler = make();
  for (uint32_t i = 0; i < 50; ++i) {
    tell(*scheduler, {Told::Kind::kAdd, TrialId(i)});
    if (i % 2 == 0) tell(*scheduler, {Told::Kind::kComplete, TrialId(i)});
  }
  for (int64_t step = 1; step <= 100; ++step) {
    for (uint32_t i = 1; i < 50; i += 2) tell(*scheduler, {Told::Kind::kReport, TrialId(i), step, i * 0.01});
  }
}

TEST_P(SchedulerContract, GrowsWithItsTrialsAndNotWithTheirReports) {
  const auto grown = [&](int64_t steps) {
    const auto scheduler = make();
    for (uint32_t i = 0; i < 20; ++i) scheduler->on_trial_add(TrialId(i));
    for (int64_t step = 1; step <= steps; ++step) {
      for (uint32_t i = 0; i < 20; ++i)
        (void)scheduler->on_report({TrialId(i), step, 1 - 0.5 / static_cast<double>(step + i)});
    }
    return scheduler->snapshot().size();
  };
  const size_t few = grown(how_many(10'000, 3'000));
  EXPECT_LT(grown(how_many(40'000, 12'000)), few + few / 4);
}

// Trials that follow the decisions all end, however few there are: none stays paused forever.
TEST_P(SchedulerContract, LetsEveryTrialEnd) {
  constexpr uint32_t kFurther = how_many(3U, 19U);
  for (uint32_t trials = 1; trials <= 40; trials += kFurther) {
    const auto scheduler = make();
    SeededRandom random(trials);
    std::map<TrialId, int64_t> steps;
    std::set<TrialId> running, paused;
    const auto obey = [&] {
      for (const Order& order : scheduler->take_orders()) {
        const TrialId trial = std::visit([](const auto& one) { return one.trial; }, order);
        if (const auto* clone = std::get_if<CloneOrder>(&order))
          scheduler->on_cloned(*clone, std::max<int64_t>(steps[clone->from], 1));
        ASSERT_TRUE(paused.erase(trial) == 1 || running.contains(trial)) << to_string(trial);
        if (!std::holds_alternative<EndOrder>(order)) running.insert(trial);
        if (std::holds_alternative<EndOrder>(order)) {
          running.erase(trial);
          scheduler->on_complete(trial);
        }
      }
      scheduler->check_invariants();
    };
    for (uint32_t i = 0; i < trials; ++i) {
      scheduler->on_trial_add(TrialId(i));
      running.insert(TrialId(i));
    }
    scheduler->on_no_more_trials();
    obey();
    while (!running.empty()) {
      const TrialId trial = *std::next(running.begin(), static_cast<std::ptrdiff_t>(random.below(running.size())));
      const Decision decision =
          scheduler->on_report({trial, ++steps[trial], random.real(), 0, random.below(2) == 0}).value();
      if (decision == Decision::kClone) {
        obey();
        continue;
      }
      const bool ends =
          decision == Decision::kStop || decision == Decision::kFinish || steps[trial] == 100 || random.below(50) == 0;
      if (ends || decision == Decision::kPause) running.erase(trial);
      if (ends) scheduler->on_complete(trial);
      if (!ends && decision == Decision::kPause) paused.insert(trial);
      if (!ends && (decision == Decision::kPause || decision == Decision::kCheckpoint))
        scheduler->on_checkpoint(trial, steps[trial]);
      obey();
    }
    EXPECT_TRUE(paused.empty()) << paused.size() << " of " << trials;
  }
}

TEST_P(SchedulerContract, OrdersOnlyWhatItSaidItMight) {
  const auto scheduler = make();
  for (const Told& told : unruly(11, 400)) {
    const std::string said = tell(*scheduler, told);
    const std::string decided = decision_of(said);
    const auto is = [&](Decision decision) { return decided == std::to_string(static_cast<int>(decision)); };
    EXPECT_TRUE(scheduler->pauses() || !is(Decision::kPause)) << said;
    EXPECT_TRUE(scheduler->clones() || (!is(Decision::kClone) && said.find(" clone ") == std::string::npos)) << said;
  }
}

TEST_P(SchedulerContract, SaysWhatItIs) { EXPECT_FALSE(make()->describe().empty()); }

SchedulerFactory pbt_case(bool synch, PbtRule rule) {
  return pbt({.perturbation_interval = 3,
              .hyperparam_mutations = {{"lr", loguniform(1e-4, 1)}, {"batch", choice({16, 32, 64})}},
              .quantile_fraction = 0.4,
              .synch = synch,
              .rule = rule});
}

SchedulerFactory pb2_case(bool synch) {
  return pb2({.perturbation_interval = 9,
              .hyperparam_bounds = {{"lr", loguniform(1e-4, 1)}, {"batch", randint(16, 65)}},
              .quantile_fraction = 0.4,
              .synch = synch});
}

SchedulerFactory resized_case(SchedulerFactory base) {
  return [base = std::move(base)](const SchedulerContext& given) -> Result<std::unique_ptr<Scheduler>> {
    SchedulerContext context = given;
    context.resources = ResourceSet::from({.cpus = 1}).value();
    auto made = resource_changing({.base_scheduler = base})(context);
    if (made) (*made)->on_cluster(ResourceSet::from({.cpus = 20}).value());
    return made;
  };
}

SchedulerFactory replay_case() {
  return [](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> {
    return std::unique_ptr<Scheduler>(std::make_unique<PbtReplayScheduler>(
        PbtPolicy{{{"lr", 0.1}}, {{4, {{"lr", 0.2}}}, {9, {{"lr", 0.3}}}, {10, {{"lr", 0.4}}}}}));
  };
}

INSTANTIATE_TEST_SUITE_P(
    All, SchedulerContract,
    ::testing::Values(
        SchedulerCase{"Fifo", fifo()}, SchedulerCase{"Asha", asha({.max_t = 27, .reduction_factor = 3})},
        SchedulerCase{
            "AshaBrackets",
            asha({.grace_period = 2, .max_t = 40, .reduction_factor = 2.5, .brackets = 3, .stop_last_trials = false})},
        SchedulerCase{"Percentile", percentile_pruner({.n_startup_trials = 1})},
        SchedulerCase{
            "PercentileIntervals",
            percentile_pruner(
                {.percentile = 60, .n_startup_trials = 0, .n_warmup_steps = 2, .interval_steps = 3, .steps_max = 40})},
        SchedulerCase{"Wilcoxon", wilcoxon_pruner({.p_threshold = 0.4})},
        SchedulerCase{"AshaPromotion", asha({.max_t = 27, .reduction_factor = 3, .variant = AshaVariant::kPromotion})},
        SchedulerCase{"AshaPromotionLong", asha({.grace_period = 2,
                                                 .max_t = 50,
                                                 .reduction_factor = 2.5,
                                                 .stop_last_trials = false,
                                                 .variant = AshaVariant::kPromotion})},
        SchedulerCase{"HyperBandForBohb", hyperband_for_bohb({.max_t = 9, .eta = 3})},
        SchedulerCase{"HyperBand", hyperband({.max_t = 9, .eta = 3})},
        SchedulerCase{"HyperBandRay", hyperband({.max_t = 9, .eta = 3, .rule = HyperBandRule::kRay})},
        SchedulerCase{"HyperBandLong", hyperband({.max_t = 30, .eta = 2.5, .stop_last_trials = false})},
        SchedulerCase{"Pbt", pbt_case(false, PbtRule::kClipped)},
        SchedulerCase{"PbtRay", pbt_case(false, PbtRule::kRay)}, SchedulerCase{"Pb2", pb2_case(false)},
        SchedulerCase{"Pb2Synchronous", pb2_case(true)},
        SchedulerCase{"PbtSynchronous", pbt_case(true, PbtRule::kClipped)}, SchedulerCase{"PbtReplay", replay_case()},
        SchedulerCase{"Resized", resized_case(asha({.max_t = 27, .reduction_factor = 3}))},
        SchedulerCase{"ResizedHyperBand", resized_case(hyperband({.max_t = 9, .eta = 3}))},
        SchedulerCase{"ResizedPbt", resized_case(pbt_case(false, PbtRule::kClipped))},
        SchedulerCase{"MedianStopping", median_stopping()},
        SchedulerCase{"MedianStoppingSoft",
                      median_stopping({.grace_period = 3, .min_samples_required = 2, .hard_stop = false})},
        SchedulerCase{"AshaRay", asha({.max_t = 27, .reduction_factor = 3, .brackets = 2, .rule = AshaRule::kRay})}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace volador::tune
