#include "tune/searchers/search_wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Space kWrappedSpace = {{"lr", loguniform(1e-4, 1e-1)},
                             {"width", randint(8, 65)},
                             {"units", qrandint(8, 64, 8)},
                             {"activation", choice({"relu", "gelu"})},
                             {"model", {{"depth", randint(1, 5)}, {"kind", "mlp"}}}};

std::unique_ptr<Searcher> make_wrapped(const SearcherFactory& factory, int64_t num_samples = 10,
                                       const Space& space = kWrappedSpace) {
  return factory({.space = space, .metric = "m", .num_samples = num_samples, .seed = 4}).value();
}
std::string message(const SearcherFactory& factory, int64_t num_samples = 10, const Space& space = kWrappedSpace) {
  const auto made = factory({.space = space, .metric = "m", .num_samples = num_samples, .seed = 4});
  return made ? "accepted" : made.error().message;
}
// C for a configuration, W for wait, X for exhausted.
char ask_wrapped(Searcher& searcher, int64_t index) {
  return "CWX"[static_cast<int>(searcher.suggest(index).value().kind)];
}

// Records the events that a repeater passes to its inner searcher.
class Listening final : public Searcher {
 public:
  struct Told {
    int64_t index;
    std::optional<double> value;
    int64_t step;
  };
  explicit Listening(std::vector<Told>& told, std::optional<int64_t> total = std::nullopt)
      : told_(told), total_(total) {}
  Result<Suggestion> suggest(int64_t index) override { return Suggestion{Suggestion::Kind::kConfig, {{"x", index}}}; }
  void on_result(const Observation&) override { ADD_FAILURE(); }
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    told_.push_back({index, last ? last->value : std::nullopt, last ? last->step : 0});
  }
  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return true; }
  bool needs_metric() const override { return true; }
  std::string describe() const override { return "listening"; }
  std::string snapshot() const override { return "{}"; }
  Result<void> restore(std::string_view) override { return {}; }

 private:
  std::vector<Told>& told_;
  const std::optional<int64_t> total_;
};

TEST(PointsToEvaluate, TriesThePointsFirstAndFillsThemUp) {
  const auto plain = make_wrapped(random_search());
  const auto points = make_wrapped(points_to_evaluate({{{"lr", 0.01}, {"width", 8}}, {{"model", {{"depth", 3}}}}}));
  EXPECT_EQ(points->total(), 10);
  Config first = plain->suggest(0)->config;
  first.set("lr", 0.01);
  first.set("width", 8);
  EXPECT_EQ(points->suggest(0)->config, first);
  Config second = plain->suggest(1)->config;
  second.set("model.depth", 3);
  EXPECT_EQ(points->suggest(1)->config, second);
  EXPECT_EQ(second.text("model.kind"), "mlp");
  for (int64_t i = 2; i < 10; ++i) EXPECT_EQ(points->suggest(i)->config, plain->suggest(i)->config);
}

TEST(PointsToEvaluate, NamesTheValueThatTheSpaceWouldNeverDraw) {
  const auto refusal = [](const Config& point) { return message(points_to_evaluate({point})); };
  EXPECT_THAT(refusal({{"rate", 0.1}}), HasSubstr("points_to_evaluate: rate is 0.1: the space has no such parameter"));
  EXPECT_THAT(refusal({{"lr", 1.0}}),
              HasSubstr("points_to_evaluate: lr is 1: expected a value of loguniform(0.0001, 0.1)"));
  EXPECT_THAT(refusal({{"lr", std::nan("")}}), HasSubstr("lr is"));
  EXPECT_THAT(refusal({{"width", 65}}), HasSubstr("width is 65: expected a value of randint(8, 65)"));
  EXPECT_THAT(refusal({{"width", 9.5}}), HasSubstr("width is 9.5"));
  EXPECT_THAT(refusal({{"activation", "tanh"}}), HasSubstr("activation is tanh: expected a value of choice of 2"));
  EXPECT_THAT(refusal({{"model", {{"kind", "cnn"}}}}),
              HasSubstr("model.kind is cnn: the space has the constant mlp there"));
  EXPECT_THAT(refusal({{"model", 3}}), HasSubstr("model is 3: expected a map"));
  EXPECT_EQ(refusal({{"units", 64}, {"lr", 0.1}}), "accepted");
  EXPECT_THAT(message(points_to_evaluate({{{"width", 8}}, {{"width", 9}}}), 1),
              HasSubstr("2 points and 1 trial: set num_samples to 2 at least"));
  EXPECT_THAT(message(points_to_evaluate({{{"a", 1}}}), 4, {{"a", grid_search({1, 2})}}),
              HasSubstr("the space has grid_search axes"));
}

TEST(ConcurrencyLimiter, WaitsForAnEnd) {
  const auto searcher = make_wrapped(concurrency_limiter({.max_concurrent = 2}, random_search()));
  EXPECT_EQ(ask_wrapped(*searcher, 0), 'C');
  EXPECT_EQ(ask_wrapped(*searcher, 1), 'C');
  EXPECT_EQ(ask_wrapped(*searcher, 2), 'W');
  searcher->on_result({0, 1, 0.5});
  EXPECT_EQ(ask_wrapped(*searcher, 2), 'W');
  searcher->on_complete(0, std::nullopt);
  EXPECT_EQ(ask_wrapped(*searcher, 2), 'C');
  EXPECT_EQ(ask_wrapped(*searcher, 3), 'W');
  searcher->on_complete(0, std::nullopt);  // Repeated.
  EXPECT_EQ(ask_wrapped(*searcher, 3), 'W');
}

TEST(ConcurrencyLimiter, WaitsForTheWholeBatch) {
  const auto searcher = make_wrapped(concurrency_limiter({.max_concurrent = 2, .batch = true}, random_search()), 4);
  ask_wrapped(*searcher, 0);
  ask_wrapped(*searcher, 1);
  searcher->on_complete(1, std::nullopt);
  EXPECT_EQ(ask_wrapped(*searcher, 2), 'W');
  searcher->on_complete(0, std::nullopt);
  EXPECT_EQ(ask_wrapped(*searcher, 2), 'C');
  EXPECT_EQ(ask_wrapped(*searcher, 3), 'C');
  searcher->on_complete(2, std::nullopt);
  searcher->on_complete(3, std::nullopt);
  EXPECT_EQ(ask_wrapped(*searcher, 4), 'X');
}

TEST(ConcurrencyLimiter, GivesTheConfigurationsOfTheOneWithin) {
  const auto plain = make_wrapped(random_search());
  const auto limited = make_wrapped(concurrency_limiter({.max_concurrent = 1}, random_search()));
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(limited->suggest(i)->config, plain->suggest(i)->config);
    limited->on_complete(i, std::nullopt);
  }
  EXPECT_THAT(message(concurrency_limiter({.max_concurrent = 0}, {})),
              HasSubstr("concurrency_limiter.max_concurrent: expected at least 1 trial, got 0"));
}

TEST(Repeater, RepeatsEachConfiguration) {
  const std::pair<int64_t, int64_t> cases[] = {{12, 4}, {11, 5}};
  for (const auto& [trials, times] : cases) {
    const auto searcher = make_wrapped(repeater({.repeat = times}, random_search()), trials);
    EXPECT_EQ(searcher->total(), trials);
    std::set<std::string> different;
    for (int64_t i = 0; i < trials; ++i) {
      Config config = searcher->suggest(i).value().config;
      EXPECT_EQ(config.integer("__trial_index__"), i % times);
      config.set("__trial_index__", 0);
      different.insert(config.to_json());
    }
    EXPECT_EQ(different.size(), 3u);
    EXPECT_EQ(ask_wrapped(*searcher, trials), 'X');
  }
}

TEST(Repeater, TellsTheMeanOfThoseThatReported) {
  std::vector<Listening::Told> told;
  const SearcherFactory inner = [&told](const SearchContext&) -> Result<std::unique_ptr<Searcher>> {
    return std::make_unique<Listening>(told);
  };
  const auto searcher = make_wrapped(repeater({.repeat = 3, .set_index = false}, inner), -1);
  for (int64_t i = 0; i < 9; ++i) EXPECT_EQ(searcher->suggest(i)->config, (Config{{"x", i / 3}}));
  searcher->on_result({0, 1, 7.0});
  searcher->on_complete(2, Observation{2, 4, -20.0});
  searcher->on_complete(0, Observation{0, 9, 0.0});
  searcher->on_complete(0, Observation{0, 9, 5.0});  // Repeated.
  EXPECT_TRUE(told.empty());
  searcher->on_complete(1, Observation{1, 1, -10.0});
  searcher->on_complete(3, Observation{3, 1, std::nan("")});
  searcher->on_complete(4, std::nullopt);
  searcher->on_complete(5, Observation{5, 2, 8.0});
  for (const int64_t i : {6, 7, 8}) searcher->on_complete(i, std::nullopt);
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].index, 0);
  EXPECT_EQ(told[0].value, -10.0);
  EXPECT_EQ(told[0].step, 9);
  EXPECT_EQ(told[1].value, 8.0);
  EXPECT_EQ(told[2].value, std::nullopt);
}

TEST(Repeater, RepeatsTheLastOneLessOftenWhereTrialsEnd) {
  std::vector<Listening::Told> told;
  const SearcherFactory inner = [&told](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    return std::make_unique<Listening>(told, context.num_samples);
  };
  const auto searcher = make_wrapped(repeater({.repeat = 3}, inner), 4);
  for (int64_t i = 0; i < 4; ++i) ask_wrapped(*searcher, i);
  searcher->on_complete(3, Observation{3, 1, 5.0});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].index, 1);
  EXPECT_EQ(told[0].value, 5.0);
}

TEST(Repeater, RepeatsEachPointOfAGrid) {
  const auto grid = make_wrapped(repeater({.repeat = 2}, random_search()), 2, {{"a", grid_search({1, 2, 3})}});
  EXPECT_EQ(grid->total(), 6);
}

TEST(Repeater, NamesWhatCannotBe) {
  EXPECT_THAT(message(repeater({.repeat = 0}, {})), HasSubstr("repeater.repeat: expected at least 1 trial, got 0"));
  EXPECT_THAT(message(repeater({.repeat = 2}, {}), 4, {{"__trial_index__", 1}}),
              HasSubstr("parameter \"__trial_index__\" of its own"));
}

}  // namespace
}  // namespace volador::tune
