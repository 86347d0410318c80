#include "tune/schedulers/pbt_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/tune/odd_values.h"
#include "tune/schedulers/pbt_policy.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Ray's set-up: five trials, interval 10, each at (10, 50 i).
class Population {
 public:
  explicit Population(PbtOptions options = {}, bool checkpoints = true) : checkpoints_(checkpoints) {
    options.perturbation_interval = 10;
    options.quantile_fraction = 0.25;
    options.resample_probability = 0;
    if (options.hyperparam_mutations.entries().empty()) options.hyperparam_mutations = {{"lr", uniform(0, 1000)}};
    scheduler_ = PbtScheduler::create(options, {.metric = "m", .mode = Mode::kMax, .seed = 3}).value();
    for (uint32_t i = 0; i < 5; ++i) {
      Config config = {{"lr", 2.0}, {"id", i}};
      scheduler_->on_trial_config(TrialId(i), config);
      scheduler_->on_trial_add(TrialId(i));
    }
  }
  void report_all() {
    for (uint32_t i = 0; i < 5; ++i) tell(i, 10, 50.0 * i);
  }

  // "C", "P", "K" (continues after a checkpoint), "X" (becomes a copy); requested checkpoints are saved at once.
  std::string tell(uint32_t i, int64_t step, double value, bool others_wait = false) {
    const auto decision = scheduler_->on_report({TrialId(i), step, value, 0, others_wait});
    EXPECT_TRUE(decision.has_value());
    const bool saves = decision && (*decision == Decision::kPause || *decision == Decision::kCheckpoint);
    saved_ += saves;
    if (saves && checkpoints_) scheduler_->on_checkpoint(TrialId(i), step);
    take(step);
    return std::string(1, "CSFPKX"[static_cast<int>(*decision)]);
  }
  void take(int64_t step) {
    for (const Order& order : scheduler_->take_orders()) {
      if (const auto* clone = std::get_if<CloneOrder>(&order)) {
        clones.push_back(*clone);
        scheduler_->on_cloned(*clone, step);
      } else {
        resumed.push_back(std::get<ResumeOrder>(order));
      }
    }
    scheduler_->check_invariants();
  }
  PbtScheduler& operator*() { return *scheduler_; }
  PbtScheduler* operator->() { return scheduler_.get(); }
  int saved() const { return saved_; }

  std::vector<CloneOrder> clones;
  std::vector<ResumeOrder> resumed;

 private:
  bool checkpoints_;
  int saved_ = 0;
  std::unique_ptr<PbtScheduler> scheduler_;
};

TEST(PbtScheduler, SavesTheMostPromisingTrials) {
  Population all;
  all.report_all();
  const int before = all.saved();
  EXPECT_EQ(all.tell(0, 15, 200), "C");
  EXPECT_THAT(all->scores(), ElementsAre(0, 50, 100, 150, 200));
  EXPECT_EQ(all.tell(0, 20, 200), "K");
  EXPECT_THAT(all->scores(), ElementsAre(200, 50, 100, 150, 200));
  EXPECT_EQ(all.tell(1, 30, 201), "K");
  EXPECT_EQ(all.saved(), before + 2);
  EXPECT_EQ(all.tell(4, 30, 199), "C");
  EXPECT_EQ(all.saved(), before + 2);
  EXPECT_EQ(all->perturbations(), 0);
}

TEST(PbtScheduler, MakesTheWorstCopiesOfTheBest) {
  Population all;
  all.report_all();
  EXPECT_EQ(all.tell(0, 15, -100), "C");
  EXPECT_EQ(all.tell(0, 20, -100), "X");
  EXPECT_EQ(all->scores().front(), -100);
  ASSERT_EQ(all.clones.size(), 1u);
  EXPECT_TRUE(all.clones[0].from == TrialId(3) || all.clones[0].from == TrialId(4));
  EXPECT_EQ(all.tell(2, 20, 40), "X");
  EXPECT_EQ(all->perturbations(), 2);
}

TEST(PbtScheduler, TakesOverWhenTheCopiedTrialWasLastLookedAt) {
  Population all;
  all.report_all();
  all.clones.clear();
  const int64_t before = all->perturbations();
  all.tell(0, 10000, 1005);
  all.tell(1, 10000, 1004);
  all.tell(2, 600, 1003);
  EXPECT_EQ(all->perturbations(), before);
  // The copy continues at the copied trial's step: 10000.
  EXPECT_EQ(all.tell(3, 500, 100), "X");
  (void)all->take_orders();
  EXPECT_EQ(all->perturbations(), before + 1);
  EXPECT_EQ(all.tell(3, 600, 100), "C");
  EXPECT_EQ(all->perturbations(), before + 1);
  EXPECT_EQ(all.tell(3, 11000, 100), "X");
  EXPECT_EQ(all->perturbations(), before + 2);
}

TEST(PbtScheduler, YieldsToThoseThatWait) {
  Population all;
  all.report_all();
  EXPECT_EQ(all.tell(1, 20, 1000, true), "P");
  EXPECT_THAT(all.resumed, ElementsAre(ResumeOrder{TrialId(1), 20, true}));
}

TEST(PbtScheduler, LetsAllMeetWhereItIsSynchronous) {
  Population all({.synch = true});
  for (uint32_t i = 0; i < 5; ++i) EXPECT_EQ(all.tell(i, 10, 50.0 * i), "P");
  all.clones.clear();
  const int64_t before = all->perturbations();
  EXPECT_EQ(all.tell(4, 15, -100), "C");
  EXPECT_EQ(all.tell(4, 20, -100), "P");
  EXPECT_TRUE(all.clones.empty());
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(all.tell(i, 20, -10.0 * i), "P");
  ASSERT_EQ(all.clones.size(), 2u);
  EXPECT_EQ(all.clones[0].trial, TrialId(3));
  EXPECT_EQ(all.clones[1].trial, TrialId(4));
  for (const CloneOrder& clone : all.clones) EXPECT_TRUE(clone.from == TrialId(0) || clone.from == TrialId(1));
  EXPECT_EQ(all->perturbations(), before + 2);
}

TEST(PbtScheduler, DoesNotWaitForATrialThatHasEnded) {
  Population all({.synch = true});
  for (uint32_t i = 0; i < 4; ++i) all.tell(i, 10, 50.0 * i);
  EXPECT_TRUE(all.resumed.empty());
  all->on_complete(TrialId(4));
  all.take(10);
  EXPECT_EQ(all.resumed.size() + all.clones.size(), 4u);
}

TEST(PbtScheduler, LooksAtNobodyBeforeTheBurnInIsOver) {
  Population all({.burn_in_period = 100});
  all.report_all();
  EXPECT_EQ(all.tell(0, 99, -5), "C");
  EXPECT_TRUE(std::isnan(all->scores()[0]));
  EXPECT_EQ(all.tell(0, 100, -5), "C");
  EXPECT_EQ(all->scores()[0], -5);
}

TEST(PbtScheduler, MakesATrialThatDivergedACopyAndRayDoesNot) {
  for (const PbtRule rule : {PbtRule::kClipped, PbtRule::kRay}) {
    Population all({.rule = rule});
    for (uint32_t i = 1; i < 5; ++i) all.tell(i, 10, 50.0 * i);
    for (uint32_t i = 3; i < 5; ++i) all.tell(i, 20, 50.0 * i);
    EXPECT_EQ(all.tell(0, 20, kNan), rule == PbtRule::kRay ? "C" : "X");
  }
}

TEST(PbtScheduler, CopiesOnlyWhatHasACheckpointOfItsMetric) {
  Population all({}, false);
  all.report_all();
  EXPECT_EQ(all.tell(0, 20, -100), "C");
  all->on_checkpoint(TrialId(3), 10);
  EXPECT_EQ(all.tell(0, 30, -100), "X");
  EXPECT_EQ(all.clones.back().from, TrialId(3));
}

TEST(PbtScheduler, LeavesOutTrialsThatHaveEnded) {
  Population all;
  all.report_all();
  for (uint32_t i = 3; i < 5; ++i) all->on_complete(TrialId(i));
  EXPECT_EQ(all.tell(2, 20, 500), "K");
  EXPECT_EQ(all.tell(0, 20, -100), "X");
  EXPECT_EQ(all.clones.back().from, TrialId(2));
}

TEST(PbtScheduler, CompletesAConfigurationThatLacksAMutation) {
  const auto scheduler =
      PbtScheduler::create({.hyperparam_mutations = {{"lr", uniform(1, 2)}, {"model", {{"width", choice({8, 16})}}}}},
                           {.metric = "m"})
          .value();
  Config config = {{"lr", 7.0}};
  scheduler->on_trial_config(TrialId(1), config);
  EXPECT_EQ(config.real("lr"), 7.0);
  EXPECT_TRUE(config.integer("model.width") == 8 || config.integer("model.width") == 16);
}

TEST(PbtScheduler, NamesAnOptionThatIsOutOfRange) {
  const auto message = [](PbtOptions options) {
    if (options.hyperparam_mutations.entries().empty() && !options.custom_explore_fn)
      options.hyperparam_mutations = {{"lr", uniform(0, 1)}};
    const auto made = PbtScheduler::create(options, {.metric = "m"});
    return made ? std::string() : made.error().message;
  };
  EXPECT_THAT(message({.perturbation_interval = 0}),
              HasSubstr("pbt.perturbation_interval: expected 1 to 2^53 steps, got 0"));
  EXPECT_THAT(message({.burn_in_period = -1}), HasSubstr("burn_in_period"));
  EXPECT_THAT(message({.quantile_fraction = 0.6}), HasSubstr("pbt.quantile_fraction: expected 0 to 0.5, got 0.6"));
  EXPECT_THAT(message({.resample_probability = kNan}), HasSubstr("resample_probability"));
  EXPECT_THAT(message({.perturbation_factors = {1.2, 0}}), HasSubstr("perturbation_factors"));
  EXPECT_THAT(message({.hyperparam_mutations = {{"lr", 3}}}),
              HasSubstr("pbt.hyperparam_mutations.lr: expected a domain, got 3"));
  EXPECT_THAT(message({.hyperparam_mutations = {{"lr", uniform(2, 1)}}}), HasSubstr("lr"));
  EXPECT_THAT(message({.hyperparam_mutations = {{"lr", grid_search({1, 2})}}}), HasSubstr("take tune::choice"));
  EXPECT_FALSE(PbtScheduler::create({}, {.metric = "m"}).has_value());
  EXPECT_THAT(PbtScheduler::create({.hyperparam_mutations = {{"lr", uniform(0, 1)}}}, {}).error().message,
              HasSubstr("set .metric"));
  EXPECT_EQ(message({.custom_explore_fn = [](const Config& config) { return config; }}), "");
}

// ---- Perturbation of configurations.

std::set<std::string> drawn(const PbtExploreOptions& options, const Config& config) {
  std::set<std::string> found;
  for (int64_t draw = 1; draw <= 200; ++draw) found.insert(explore(options, config, 9, draw).value().to_json());
  return found;
}

TEST(PbtExplore, MovesOptionsToTheirNeighboursAndNumbersByAFactor) {
  PbtExploreOptions options{.mutations = {{"b", choice({3, 4, 8, 10})}}, .resample_probability = 0};
  EXPECT_EQ(drawn(options, {{"b", 4}}), (std::set<std::string>{R"({"b":3})", R"({"b":8})"}));
  EXPECT_EQ(drawn(options, {{"b", 3}}), (std::set<std::string>{R"({"b":3})", R"({"b":4})"}));
  EXPECT_EQ(drawn(options, {{"b", 10}}), (std::set<std::string>{R"({"b":8})", R"({"b":10})"}));
  EXPECT_EQ(drawn(options, {{"b", 7}}).size(), 4u);
  options.resample_probability = 1;
  EXPECT_EQ(drawn(options, {{"b", 4}}).size(), 4u);
  PbtExploreOptions function{.mutations = {{"x", sample_from([] { return 10; })}}, .resample_probability = 0};
  EXPECT_EQ(drawn(function, {{"x", 100}}), (std::set<std::string>{R"({"x":80})", R"({"x":120})"}));
  function.resample_probability = 1;
  EXPECT_EQ(drawn(function, {{"x", 100}}), (std::set<std::string>{R"({"x":10})"}));
}

TEST(PbtExplore, LeavesAloneWhatIsNoMutation) {
  const PbtExploreOptions options{.mutations = {{"a", {{"b", choice({3, 4, 8})}}}}, .resample_probability = 0};
  for (const std::string& config : drawn(options, {{"a", {{"b", 3}, {"c", 5}}}, {"d", 7}}))
    EXPECT_TRUE(config == R"({"a":{"b":3,"c":5},"d":7})" || config == R"({"a":{"b":4,"c":5},"d":7})") << config;
}

TEST(PbtExplore, KeepsNumbersInTheirDomainAndRayDoesNot) {
  PbtExploreOptions options{.mutations = {{"x", uniform(0, 1)}, {"n", randint(1, 5)}}, .resample_probability = 0};
  for (int64_t draw = 1; draw <= 100; ++draw) {
    const Config moved = explore(options, {{"x", 0.95}, {"n", 1}}, 2, draw).value();
    EXPECT_LT(moved.real("x"), 1);
    EXPECT_TRUE(moved.integer("n") == 1 || moved.integer("n") == 2) << moved.to_json();
  }
  options.rule = PbtRule::kRay;
  EXPECT_EQ(drawn(options, {{"x", 0.95}, {"n", 1}}).size(), 4u);
  bool left = false, zero = false;
  for (int64_t draw = 1; draw <= 100; ++draw) {
    const Config moved = explore(options, {{"x", 0.95}, {"n", 1}}, 2, draw).value();
    left |= moved.real("x") > 1;
    zero |= moved.integer("n") == 0;
  }
  EXPECT_TRUE(left && zero);
}

TEST(PbtExplore, RoundsToTheGridOfAQuantisedDomain) {
  const PbtExploreOptions options{.mutations = {{"x", quniform(0, 1, 0.25)}, {"n", qrandint(10, 50, 10)}},
                                  .resample_probability = 0};
  for (int64_t draw = 1; draw <= 50; ++draw) {
    const Config moved = explore(options, {{"x", 0.75}, {"n", 50}}, 2, draw).value();
    EXPECT_EQ(std::fmod(moved.real("x"), 0.25), 0);
    EXPECT_TRUE(moved.integer("n") == 40 || moved.integer("n") == 50) << moved.to_json();
  }
}

TEST(PbtExplore, MovesAZeroWhichNoFactorCould) {
  const PbtExploreOptions options{.mutations = {{"x", uniform(0, 1)}}, .resample_probability = 0};
  EXPECT_GT(explore(options, {{"x", 0.0}}, 2, 1).value().real("x"), 0);
}

TEST(PbtExplore, LetsTheUsersFunctionHaveTheLastWord) {
  PbtExploreOptions options{.mutations = {{"x", uniform(0, 1)}}, .custom = [](const Config& config) {
                              Config twice = config;
                              twice.set("y", config.real("x") * 2);
                              return twice;
                            }};
  const Config moved = explore(options, {{"x", 0.5}}, 2, 1).value();
  EXPECT_EQ(moved.real("y"), moved.real("x") * 2);
  options.custom = [](const Config&) -> Config { throw std::runtime_error("no idea"); };
  const auto refused = explore(options, {{"x", 0.5}}, 2, 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kApplication);
  EXPECT_THAT(refused.error().message, HasSubstr("custom_explore_fn threw: no idea"));
}

// ---- The policy.

TEST(PbtPolicy, FollowsTheCopiesFromTheEndBack) {
  const auto policy = parse_pbt_policy(R"(["b","a",5,6,{"lr":1},{"lr":2}]
["c","b",11,12,{"lr":2},{"lr":3}]
)");
  ASSERT_TRUE(policy.has_value()) << policy.error().message;
  EXPECT_EQ(policy->initial, (Config{{"lr", 1}}));
  ASSERT_EQ(policy->changes.size(), 2u);
  EXPECT_EQ(policy->changes[0].step, 6);
  EXPECT_EQ(policy->changes[0].config, (Config{{"lr", 2}}));
  EXPECT_EQ(policy->changes[1].step, 12);
}

TEST(PbtPolicy, LeavesOutWhatALaterCopyOverwrote) {
  const auto policy = parse_pbt_policy(R"(["c","x",5,6,{"lr":7},{"lr":8}]
["c","b",11,12,{"lr":2},{"lr":3}])");
  ASSERT_TRUE(policy.has_value()) << policy.error().message;
  EXPECT_EQ(policy->initial, (Config{{"lr", 2}}));
  EXPECT_EQ(policy->changes.size(), 1u);
}

TEST(PbtPolicy, NamesTheLineThatIsNone) {
  for (const char* bad :
       {"7", "[]", R"(["a","b",1,2,{},3])", R"(["a","b",1,0,{},{}])", R"(["a","b",1,"x",{},{}])", "{\"a\":"})
    EXPECT_THAT(parse_pbt_policy(std::string(R"(["b","a",5,6,{"lr":1},{"lr":2}])") + "\n" + bad).error().message,
                HasSubstr("line 2"));
  EXPECT_THAT(parse_pbt_policy("").error().message, HasSubstr("never a copy"));
}

}  // namespace
}  // namespace volador::tune
