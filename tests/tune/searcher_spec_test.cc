#include "tune/searchers/searcher_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const Space kSpace = {{"x", uniform(0, 1)}, {"n", randint(0, 8)}};

TEST(SearcherSpec, MakesEachOfTheNamesItLists) {
  for (const std::string& name : searcher_names()) {
    const auto factory = searcher_of(name);
    ASSERT_TRUE(factory) << name;
    Space space = kSpace;
    if (name == "grid") space.set("g", grid_search({1, 2, 3}));
    const auto searcher = (*factory)({.space = space, .metric = "loss", .mode = Mode::kMin, .num_samples = -1});
    ASSERT_TRUE(searcher) << name << ": " << searcher.error().message;
    EXPECT_EQ((*searcher)->suggest(0).value().kind, Suggestion::Kind::kConfig) << name;
  }
}

TEST(SearcherSpec, GridGoesOverItOnce) {
  const auto searcher =
      searcher_of("grid")
          .value()({.space = {{"a", grid_search({1, 2, 3})}, {"b", grid_search({4, 5})}}, .num_samples = -1})
          .value();
  for (int64_t index = 0; index < 6; ++index)
    EXPECT_EQ(searcher->suggest(index).value().kind, Suggestion::Kind::kConfig);
  EXPECT_EQ(searcher->suggest(6).value().kind, Suggestion::Kind::kExhausted);
  EXPECT_THAT(searcher_of("grid").value()({.space = kSpace}).error().message, HasSubstr("no grid_search axis"));
}

TEST(SearcherSpec, OptionsReachTheSearcher) {
  const auto made = [](const char* text) {
    return searcher_of(text).value()({.space = kSpace, .metric = "loss", .num_samples = -1});
  };
  EXPECT_THAT(made("tpe:gamma=2").error().message, HasSubstr("gamma"));
  EXPECT_THAT(made("gp:n_startup_trials=1").error().message, HasSubstr("n_startup_trials"));
  EXPECT_THAT(made("cmaes:sigma=9").error().message, HasSubstr("sigma"));
  EXPECT_THAT(made("nsga2:mutation_prob=2").error().message, HasSubstr("mutation_prob"));
  EXPECT_THAT(made("bohb:top_n_percent=0").error().message, HasSubstr("top_n_percent"));
  EXPECT_TRUE(made("cmaes:restarts=ipop,population=6"));
  EXPECT_TRUE(made("gp:acquisition=lcb,kappa=1,xi=0.1,optimizer=sampling"));
  EXPECT_TRUE(made("trees:kind=gbrt,acquisition=hedge"));
  EXPECT_THAT(made("gp:acquisition=pi,xi=-1").error().message, HasSubstr("gp.xi"));
  EXPECT_THAT(made("trees:kappa=-1").error().message, HasSubstr("trees.kappa"));
}

TEST(SearcherSpec, NamesWhatIsWrongAndWhatIsKnown) {
  EXPECT_THAT(searcher_of("tpee").error().message, HasSubstr("there is no searcher \"tpee\"; did you mean tpe?"));
  EXPECT_THAT(searcher_of("tpe:gama=1").error().message, HasSubstr("there is no option \"gama\"; did you mean gamma?"));
  EXPECT_THAT(searcher_of("tpe:gamma=x").error().message, HasSubstr("tpe.gamma: expected"));
  EXPECT_THAT(searcher_of("cmaes:restarts=often").error().message,
              HasSubstr("expected none, ipop, bipop, got \"often\""));
  EXPECT_THAT(searcher_of("gp:acquisition=ucb").error().message,
              HasSubstr("gp.acquisition: expected ei, pi, lcb, hedge, got \"ucb\""));
  EXPECT_THAT(searcher_of("trees:kind=forest").error().message,
              HasSubstr("trees.kind: expected rf, et, gbrt, got \"forest\""));
  EXPECT_THAT(searcher_of("tpe:gamma").error().message, HasSubstr("tpe: "));
}

}  // namespace
}  // namespace volador::tune
