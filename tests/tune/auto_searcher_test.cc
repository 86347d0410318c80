#include "tune/searchers/auto_searcher.h"

#include <gtest/gtest.h>

namespace volador::tune {
namespace {

SearchContext auto_context(Space space, int64_t trials, size_t objectives = 0) {
  SearchContext context{.space = std::move(space), .metric = "m", .mode = Mode::kMin, .num_samples = trials};
  for (size_t i = 0; i < objectives; ++i) context.goals.objectives.push_back({"m" + std::to_string(i), Mode::kMin});
  return context;
}

const Space kAutoNumbers = {{"x", uniform(0, 1)}, {"lr", loguniform(1e-4, 1)}, {"n", randint(1, 9)}};
const Space kAutoOptions = {{"x", uniform(0, 1)}, {"kind", choice({"a", "b"})}};
const Space kAutoBelow = {
    {"model", choice({SpaceNode{{"name", "svm"}, {"c", loguniform(1e-3, 1e3)}}, SpaceNode("none")})}};

TEST(AutoSearcher, ChoosesBySpaceAndNumberOfTrials) {
  const auto choice = [](const Space& space, int64_t trials, size_t objectives = 0) {
    return auto_choice(auto_context(space, trials, objectives));
  };
  EXPECT_EQ(choice({{"a", 1}}, 10), AutoChoice::kRandom);
  EXPECT_EQ(choice({{"a", grid_search({1, 2})}}, 10), AutoChoice::kRandom);
  EXPECT_EQ(choice(kAutoNumbers, 60), AutoChoice::kGp);
  EXPECT_EQ(choice(kAutoNumbers, 1'000), AutoChoice::kCmaes);
  EXPECT_EQ(choice(kAutoNumbers, -1), AutoChoice::kCmaes);
  EXPECT_EQ(choice(kAutoOptions, 60), AutoChoice::kGp);
  EXPECT_EQ(choice(kAutoOptions, 1'000), AutoChoice::kTpe);
  EXPECT_EQ(choice(kAutoBelow, 60), AutoChoice::kTpe);
  EXPECT_EQ(choice(kAutoNumbers, 80, 2), AutoChoice::kGp);
  EXPECT_EQ(choice(kAutoNumbers, 300, 2), AutoChoice::kTpe);
  EXPECT_EQ(choice(kAutoNumbers, 2'000, 2), AutoChoice::kNsga2);
}

TEST(AutoSearcher, TakesEveryGoalItIsGiven) {
  for (const int64_t trials : {20, 300, 2'000, -1}) {
    for (const Space& space : {kAutoNumbers, kAutoOptions, kAutoBelow}) {
      for (const size_t objectives : {0U, 2U}) {
        SearchContext context = auto_context(space, trials, objectives);
        context.goals.constraints = {"memory"};
        const auto searcher = automatic()(context).value();
        EXPECT_TRUE(searcher->takes_goals()) << searcher->describe();
        EXPECT_EQ(searcher->suggest(0).value().kind, Suggestion::Kind::kConfig);
      }
    }
  }
}

TEST(AutoSearcher, RefusesAWrongSpaceByItsPath) {
  const auto made = automatic()(auto_context({{"x", uniform(1, 0)}}, 10));
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("space.x"), std::string::npos) << made.error().message;
}

}  // namespace
}  // namespace volador::tune
