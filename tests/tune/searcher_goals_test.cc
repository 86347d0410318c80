// Searchers that learn from several objectives and from constraints.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tune/searchers/ask_ahead.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/study/study.h"

namespace volador::tune {
namespace {

Space goal_cube(int dimensions) {
  Space space;
  for (int i = 0; i < dimensions; ++i) space.set("x" + std::to_string(i), uniform(0, 1));
  return space;
}

// Fraction of the square up to (2, 2) dominated by the front of `trials` trials; two spheres around 0.2 and 0.7.
double front_share(const SearcherFactory& searcher, int trials, uint64_t seed) {
  Study study({.space = goal_cube(3), .modes = {Mode::kMin, Mode::kMin}, .searcher = searcher, .seed = seed});
  for (int i = 0; i < trials; ++i) {
    const auto trial = study.ask();
    double near = 0, far = 0;
    for (int k = 0; k < 3; ++k) {
      const double x = trial.config.real("x" + std::to_string(k));
      near += (x - 0.2) * (x - 0.2);
      far += (x - 0.7) * (x - 0.7);
    }
    study.tell(trial, {near, far});
  }
  std::vector<std::vector<double>> front;
  for (const auto& judged : study.front()) front.push_back(judged.values);
  std::sort(front.begin(), front.end());
  double volume = 0, low = 2;
  for (const auto& one : front) {
    if (one[0] >= 2 || one[1] >= low) continue;
    volume += (2 - one[0]) * (low - one[1]);
    low = one[1];
  }
  return volume / 4;
}

TEST(SearcherGoals, FindsABetterFrontThanRandomSearch) {
  double random = 0, by_tpe = 0, by_gp = 0;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    random += front_share(random_search(), 60, seed) / 4;
    by_tpe += front_share(tpe(), 60, seed) / 4;
    by_gp += front_share(gp(), 60, seed) / 4;
  }
  EXPECT_GT(by_tpe, random);
  EXPECT_GT(by_gp, random);
}

// The minimum violates the constraint; the best feasible point is at x0 = 0.5.
struct Kept {
  double best = 1e300;
  int broken = 0;  // Trials of the second half that violate the constraint.
};
Kept kept_best(const SearcherFactory& searcher, int trials, uint64_t seed) {
  Study study({.space = goal_cube(2), .constraints = 1, .searcher = searcher, .seed = seed});
  Kept out;
  for (int i = 0; i < trials; ++i) {
    const auto trial = study.ask();
    const double x = trial.config.real("x0"), y = trial.config.real("x1");
    const double value = x * x + (y - 0.3) * (y - 0.3), constraint = 0.5 - x;
    study.tell(trial, {value}, {constraint});
    if (constraint <= 0) out.best = std::min(out.best, value);
    out.broken += constraint > 0 && 2 * i >= trials;
  }
  return out;
}

TEST(SearcherGoals, StaysWithinTheConstraints) {
  for (const auto& searcher : {tpe(), gp()}) {
    Kept sum{.best = 0};
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const Kept one = kept_best(searcher, 60, seed);
      sum.best += one.best / 4;
      sum.broken += one.broken;
    }
    EXPECT_LT(sum.best, 0.30) << "0.25 is the least";
    EXPECT_LT(sum.broken, 4 * 20) << "of 120; random search breaks it in half of them";
  }
}

TEST(SearcherGoals, GoOnTheSameFromASnapshot) {
  for (const auto& searcher : {tpe({.n_startup_trials = 4}), gp({.n_startup_trials = 4})}) {
    const StudyOptions options{
        .space = goal_cube(2), .modes = {Mode::kMin, Mode::kMax}, .constraints = 1, .searcher = searcher, .seed = 2};
    Study one(options), other(options);
    for (int i = 0; i < 12; ++i) {
      const auto trial = one.ask();
      one.tell(trial, {trial.config.real("x0"), trial.config.real("x1")}, {i % 3 == 0 ? 1.0 : i % 3 == 1 ? -1.0 : NAN});
    }
    other.restore(one.snapshot());
    EXPECT_EQ(other.ask().config, one.ask().config);
    EXPECT_EQ(other.snapshot(), one.snapshot());
  }
}

TEST(SearcherGoals, AreToldToASearcherThatIsAskedAhead) {
  const SearchContext context{.space = goal_cube(2),
                              .metric = "a",
                              .mode = Mode::kMin,
                              .num_samples = -1,
                              .seed = 1,
                              .ahead = true,
                              .goals = {{{"a", Mode::kMin}, {"b", Mode::kMin}}, {"c"}}};
  const auto ahead = gp({.n_startup_trials = 2})(context).value();
  EXPECT_TRUE(ahead->takes_goals());
  SearchContext plain_context = context;
  plain_context.ahead = false;
  const auto plain = gp({.n_startup_trials = 2})(plain_context).value();
  for (int64_t i = 0; i < 6; ++i) {
    auto suggestion = ahead->suggest(i).value();
    // Events during a pending suggestion, and through a snapshot.
    const auto copy = gp({.n_startup_trials = 2})(context).value();
    while (suggestion.kind == Suggestion::Kind::kWait) suggestion = ahead->suggest(i).value();
    const Config expected = plain->suggest(i).value().config;
    EXPECT_EQ(suggestion.config, expected);
    const double x = expected.real("x0"), y = expected.real("x1");
    const Observation last{i, 1, x, {x, y}, {0.5 - x}};
    ahead->on_complete(i, last);
    plain->on_complete(i, last);
    ASSERT_TRUE(copy->restore(ahead->snapshot()));
  }
}

TEST(Forbid, ProposesNothingThatTheRuleForbids) {
  const Space space = {
      {"solver", choice({"lbfgs", "saga", "adam"})}, {"penalty", choice({"l1", "l2"})}, {"c", uniform(0, 1)}};
  const auto rule = [](const Config& config) {
    return config.text("solver") == "lbfgs" && config.text("penalty") == "l1";
  };
  for (const auto& inner : {random_search(), tpe({.n_startup_trials = 4}), gp({.n_startup_trials = 4})}) {
    const auto searcher =
        forbid(rule, inner)({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = 40}).value();
    EXPECT_EQ(searcher->total(), 40);
    bool lbfgs = false;
    for (int64_t i = 0; i < 40; ++i) {
      const Config config = searcher->suggest(i).value().config;
      EXPECT_FALSE(rule(config)) << config.to_json();
      lbfgs = lbfgs || config.text("solver") == "lbfgs";
      searcher->on_complete(i, Observation{i, 1, config.real("c")});
    }
    EXPECT_TRUE(lbfgs) << "the combination is forbidden, not the option";
    EXPECT_EQ(searcher->suggest(40).value().kind, Suggestion::Kind::kExhausted);
  }
}

TEST(Forbid, LeavesForbiddenPointsOfAGridOut) {
  const Space grid = {{"a", grid_search({1, 2, 3})}, {"b", grid_search({1, 2})}};
  const auto searcher =
      forbid([](const Config& c) { return c.integer("a") == c.integer("b"); })({.space = grid, .num_samples = 1})
          .value();
  int64_t count = 0;
  while (searcher->suggest(count).value().kind == Suggestion::Kind::kConfig) ++count;
  EXPECT_EQ(count, 4);
}

TEST(Forbid, SaysSoWhereNothingIsAllowedOrTheRuleThrows) {
  const SearchContext context{.space = {{"x", uniform(0, 1)}}, .num_samples = 3};
  const auto nothing = forbid([](const Config&) { return true; })(context).value()->suggest(0);
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("10000 forbidden configurations in a row"), std::string::npos);
  const auto thrown = forbid([](const Config& c) { return c.text("y") == ""; })(context).value()->suggest(0);
  ASSERT_FALSE(thrown);
  EXPECT_EQ(thrown.error().code, ErrorCode::kApplication);
}

}  // namespace
}  // namespace volador::tune
