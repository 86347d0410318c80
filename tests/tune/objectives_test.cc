#include "tune/loop/objectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/random.h"
#include "tests/tune/odd_values.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/analysis.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/study/study.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Objectives, OneDominatesWhereItIsNowhereWorse) {
  EXPECT_TRUE(dominates({{1, 2}}, {{1, 3}}));
  EXPECT_FALSE(dominates({{1, 2}}, {{1, 2}}));
  EXPECT_FALSE(dominates({{1, 3}}, {{2, 2}}));
  EXPECT_FALSE(dominates({{2, 2}}, {{1, 3}}));
}

TEST(Objectives, ConstraintsComeFirst) {
  EXPECT_TRUE(dominates({{9, 9}, 0}, {{1, 1}, 0.1}));
  EXPECT_TRUE(dominates({{9, 9}, 0.1}, {{1, 1}, 0.2}));
  EXPECT_FALSE(dominates({{1, 1}, 0.2}, {{9, 9}, 0.2}));
  EXPECT_TRUE(dominates({{9, 9}, 7}, {{1, 1}, kInfinity})) << "one that says nothing is the worst";
}

TEST(Objectives, AnOutcomeTakesModesAndSumsViolations) {
  const Goals goals{{{"error", Mode::kMin}, {"speed", Mode::kMax}}, {"memory", "heat"}};
  const Outcome outcome = outcome_of(Metrics{{"error", 0.1}, {"speed", 5}, {"memory", 2}, {"heat", -3}}, goals);
  EXPECT_EQ(outcome, (Outcome{{0.1, -5}, 2}));
  EXPECT_EQ(outcome_of(Metrics{{"error", 0.1}, {"speed", 5}, {"memory", -2}}, goals).violation, kInfinity);
  EXPECT_TRUE(std::isnan(outcome_of(Metrics{{"error", 0.1}}, goals).values[1]));
}

TEST(Objectives, RanksPeelFrontAfterFront) {
  const std::vector<Outcome> all{{{1, 4}}, {{2, 2}}, {{4, 1}}, {{3, 3}}, {{4, 4}}, {{0, 0}, 1}};
  EXPECT_THAT(domination_ranks(all), ElementsAre(0, 0, 0, 1, 2, 3));
}

TEST(Objectives, RanksAgreeWithTheDefinition) {
  SeededRandom random(7);
  std::vector<Outcome> all;
  for (int i = 0; i < 60; ++i)
    all.push_back({{std::floor(random.real() * 6), std::floor(random.real() * 6), random.real()},
                   random.below(4) == 0 ? 1.0 : 0.0});
  const auto ranks = domination_ranks(all);
  for (size_t a = 0; a < all.size(); ++a) {
    bool from_the_rank_before = ranks[a] == 0;
    for (size_t b = 0; b < all.size(); ++b) {
      if (!dominates(all[b], all[a])) continue;
      EXPECT_LT(ranks[b], ranks[a]);
      from_the_rank_before = from_the_rank_before || ranks[b] + 1 == ranks[a];
    }
    EXPECT_TRUE(from_the_rank_before) << a;
  }
}

TEST(Objectives, RoomIsTheRelativeDistanceOfNeighbours) {
  const std::vector<Outcome> all{{{0, 10}}, {{1, 5}}, {{4, 1}}, {{5, 0}}};
  EXPECT_THAT(crowding_distances(all, {0, 1, 2, 3}), ElementsAre(kInfinity, ::testing::DoubleEq(4.0 / 5 + 9.0 / 10),
                                                                 ::testing::DoubleEq(4.0 / 5 + 5.0 / 10), kInfinity));
  EXPECT_THAT(select_elite(all, 3), ElementsAre(0, 3, 1));
  EXPECT_EQ(select_elite(all, 9).size(), 4U);
  EXPECT_THAT(crowding_distances({{{kInfinity, 1}}, {{0, 2}}, {{1, 0}}}, {0, 1, 2})[2], kInfinity);
}

TEST(Objectives, RefuseNoNameAndTheSameTwice) {
  EXPECT_THAT(validate({{{"", Mode::kMin}}, {}}).error().message, HasSubstr("objectives: a metric without a name"));
  EXPECT_THAT(validate({{{"a"}, {"b"}, {"a"}}, {}}).error().message, HasSubstr("objectives: \"a\" stands there twice"));
  EXPECT_THAT(validate({{}, {"c", "c"}}).error().message, HasSubstr("constraints: \"c\""));
  EXPECT_TRUE(validate({{{"a"}, {"b"}}, {"a"}}).has_value());
}

Trial trial_of(uint32_t id, TrialStatus status, Metrics last) {
  Trial trial;
  trial.id = TrialId(id);
  trial.index = id;
  trial.status = status;
  trial.last_result = std::move(last);
  return trial;
}

TEST(Analysis, TheParetoFrontIsOfTrialsThatKeepTheConstraints) {
  ExperimentState state{.name = "x",
                        .metric = "error",
                        .mode = Mode::kMin,
                        .goals = {{{"error", Mode::kMin}, {"speed", Mode::kMax}}, {"memory"}}};
  state.trials = {trial_of(0, TrialStatus::kFinished, {{"error", 0.3}, {"speed", 9}, {"memory", 0}}),
                  trial_of(1, TrialStatus::kStopped, {{"error", 0.1}, {"speed", 2}, {"memory", -1}}),
                  trial_of(2, TrialStatus::kFinished, {{"error", 0.4}, {"speed", 8}, {"memory", 0}}),
                  trial_of(3, TrialStatus::kFinished, {{"error", 0.0}, {"speed", 10}, {"memory", 1}}),
                  trial_of(4, TrialStatus::kFailed, {{"error", 0.0}, {"speed", 10}, {"memory", 0}}),
                  trial_of(5, TrialStatus::kFinished, {{"error", kNan}, {"speed", 10}, {"memory", 0}}),
                  trial_of(6, TrialStatus::kFinished, {{"error", 0.0}, {"speed", 10}})};
  const auto restored = experiment_state_from_json(to_json(state)).value();
  EXPECT_EQ(restored.goals.objectives, state.goals.objectives);
  EXPECT_EQ(restored.goals.constraints, state.goals.constraints);
  std::vector<int64_t> front;
  const Analysis analysis(restored, "/none");
  for (const Trial* trial : analysis.pareto_front()) front.push_back(trial->index);
  EXPECT_THAT(front, ElementsAre(1, 0));
  EXPECT_THROW((void)Analysis(ExperimentState{}, "/none").pareto_front(), Exception);
}

// ---- In the loop.

// Records its events.
class Listener final : public Searcher {
 public:
  Result<Suggestion> suggest(int64_t) override { return Suggestion{Suggestion::Kind::kConfig, {{"x", 1}}}; }
  void on_result(const Observation&) override {}
  void on_complete(int64_t, const std::optional<Observation>& last) override { told = last; }
  std::optional<int64_t> total() const override { return 1; }
  bool learns() const override { return false; }
  bool needs_metric() const override { return false; }
  std::string describe() const override { return "listener"; }
  std::string snapshot() const override { return "{}"; }
  Result<void> restore(std::string_view) override { return {}; }

  std::optional<Observation> told;
};

TEST(TrialLoop, TellsTheSearcherObjectivesAndConstraintsAtTheEnd) {
  LoopOptions options{.metric = "error",
                      .mode = Mode::kMin,
                      .goals = {{{"error", Mode::kMin}, {"speed", Mode::kMax}}, {"memory", "heat"}}};
  auto searcher = std::make_unique<Listener>();
  Listener& listener = *searcher;
  const auto loop = TrialLoop::create(options, std::move(searcher), fifo()({}).value()).value();
  (void)loop->begin({});
  (void)loop->handle({}, CapacityChanged{1});
  const TrialId id = loop->trials()[0].id;
  (void)loop->handle({}, TrialStarted{id, 1, "n"});
  ResultReported result{.trial = id, .attempt = 1, .step = 1, .done = true};
  result.metrics = {{"error", 0.5}, {"speed", 3}, {"memory", -1}};
  std::string notices;
  for (const Event& event : {Event(result), Event(TrialGone{id, 1})}) {
    for (const Action& action : loop->handle({}, event)) {
      if (const auto* notice = std::get_if<Notice>(&action)) notices += notice->text;
    }
  }
  ASSERT_TRUE(listener.told.has_value());
  EXPECT_THAT(listener.told->objectives, ElementsAre(0.5, 3));
  EXPECT_EQ(listener.told->constraints[0], -1);
  EXPECT_TRUE(std::isnan(listener.told->constraints[1]));
  EXPECT_THAT(notices, HasSubstr("constraints: no trial has reported \"heat\""));
  EXPECT_TRUE(loop->ended());
}

TEST(TrialLoop, RefusesSearchersThatLearnFromOneMetric) {
  const SearchContext context{.space = {{"x", uniform(0, 1)}}, .metric = "error", .num_samples = 3};
  LoopOptions options{.metric = "error", .goals = {{{"error"}, {"speed"}}, {}}};
  const auto refused = validate(options, *cmaes()(context).value(), *fifo()({}).value());
  EXPECT_THAT(refused.error().message,
              HasSubstr("objectives: CMA-ES learns from one metric: take tune::tpe(), tune::gp(), tune::nsga2()"));
  EXPECT_TRUE(validate(options, *random_search()(context).value(), *fifo()({}).value()).has_value());
  options.goals = {{}, {"memory"}};
  EXPECT_THAT(validate(options, *cmaes()(context).value(), *fifo()({}).value()).error().message,
              HasSubstr("constraints: CMA-ES"));
}

// ---- NSGA-II.

const Space kThree = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}, {"z", uniform(0, 1)}};

// ZDT1: the front is second = 1 - sqrt(first), at y = z = 0.
std::vector<double> zdt1(const Config& config) {
  const double g = 1 + 4.5 * (config.real("y") + config.real("z"));
  return {config.real("x"), g * (1 - std::sqrt(config.real("x") / g))};
}

double hypervolume(std::vector<std::vector<double>> points, double reference) {
  std::sort(points.begin(), points.end());
  double volume = 0, lowest = reference;
  for (const auto& point : points) {
    if (point[0] >= reference || point[1] >= lowest) continue;
    volume += (reference - point[0]) * (lowest - point[1]);
    lowest = point[1];
  }
  return volume;
}

double volume_of(SearcherFactory searcher, uint64_t seed, int trials) {
  Study study({.space = kThree, .modes = {Mode::kMin, Mode::kMin}, .searcher = std::move(searcher), .seed = seed});
  for (int i = 0; i < trials; ++i) {
    const auto trial = study.ask();
    study.tell(trial, zdt1(trial.config));
  }
  std::vector<std::vector<double>> front;
  for (const auto& one : study.front()) front.push_back(one.values);
  return hypervolume(front, 2);
}

TEST(Nsga2, ComesNearTheFrontWhereRandomSearchDoesNot) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const double bred = volume_of(nsga2({.population_size = 20}), seed, 400);
    EXPECT_GT(bred, 3.4) << seed;  // The whole front has 4 - 1/3.
    EXPECT_GT(bred, volume_of(random_search(), seed, 400) + 0.1) << seed;
  }
}

TEST(Nsga2, LearnsToKeepConstraints) {
  Study study({.space = kThree,
               .modes = {Mode::kMin, Mode::kMin},
               .constraints = 1,
               .searcher = nsga2({.population_size = 20}),
               .seed = 3});
  int kept = 0;
  for (int i = 0; i < 300; ++i) {
    const auto trial = study.ask();
    const double over = 0.8 - trial.config.real("z");  // The front lies where it is broken.
    kept += i >= 200 && over <= 0;
    study.tell(trial, zdt1(trial.config), {over});
  }
  EXPECT_GT(kept, 70);
  for (const auto& one : study.front()) EXPECT_GE(one.trial.config.real("z"), 0.8);
  EXPECT_FALSE(study.front().empty());
}

TEST(Nsga2, RefusesOptionsOutOfRange) {
  const SearchContext context{.space = kThree, .metric = "m", .num_samples = 3};
  const auto message = [&](const Nsga2Options& options) { return nsga2(options)(context).error().message; };
  EXPECT_THAT(message({.population_size = 1}), HasSubstr("nsga2.population_size: expected 2 to 10000 trials, got 1"));
  EXPECT_THAT(message({.crossover_prob = 1.1}), HasSubstr("nsga2.crossover_prob"));
  EXPECT_THAT(message({.swapping_prob = -1}), HasSubstr("nsga2.swapping_prob"));
  EXPECT_THAT(message({.mutation_prob = kNan}), HasSubstr("nsga2.mutation_prob"));
  EXPECT_THAT(message({.eta = 0}), HasSubstr("nsga2.eta"));
}

TEST(Study, OfSeveralObjectivesKeepsItsFront) {
  const StudyOptions options{.space = kThree, .modes = {Mode::kMin, Mode::kMax}, .constraints = 1, .searcher = nsga2()};
  Study study(options);
  const auto a = study.ask(), b = study.ask(), c = study.ask(), d = study.ask();
  study.tell(a, {1, 1}, {0});
  study.tell(b, {2, 2}, {0});
  study.tell(c, {1, 2}, {-1});
  EXPECT_EQ(study.front().size(), 1U);
  EXPECT_EQ(study.front()[0].trial.index, c.index);
  EXPECT_THROW(study.tell(d, {1, 2}), Exception) << "its constraint is missing";
  study.tell(d, {0, 3}, {1});
  EXPECT_EQ(study.front().size(), 1U) << "it breaks its constraint";
  Study again(options);
  again.restore(study.snapshot());
  ASSERT_EQ(again.front().size(), 1U);
  EXPECT_EQ(again.front()[0].values, study.front()[0].values);
  EXPECT_EQ(again.snapshot(), study.snapshot());
  EXPECT_THROW(Study({.space = kThree, .modes = {Mode::kMin, Mode::kMin}, .searcher = cmaes()}), Exception)
      << "CMA-ES learns from one";
}

}  // namespace
}  // namespace volador::tune
