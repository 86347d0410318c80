#include "tune/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

Config draw(const Space& space, int64_t index = 0, uint64_t seed = 1) {
  return space.sample({.seed = seed, .index = index}).value();
}

std::string space_refusal(const Space& space) {
  auto valid = space.validate();
  return valid ? "accepted" : valid.error().message;
}

struct RunLike {
  std::string name;
  Space space;
  int num_samples = 1;
};

TEST(Space, ReadsAsTheProgramsOfOurUsersAreWritten) {
  const RunLike run({.name = "digits",
                     .space = {{"lr", tune::loguniform(1e-4, 1e-1)},
                               {"batch", tune::choice({16, 32, 64})},
                               {"activation", tune::choice({"relu", "gelu"})},
                               {"model", {{"width", tune::randint(8, 65)}, {"depth", 2}}}},
                     .num_samples = 24});
  EXPECT_EQ(space_refusal(run.space), "accepted");
  const Config config = draw(run.space);
  EXPECT_EQ(config.entries().size(), 4u);
  EXPECT_EQ(config.entries()[0].name, "lr");
  EXPECT_EQ(config.integer("model.depth"), 2);
  EXPECT_TRUE(config.integer("batch") == 16 || config.integer("batch") == 32 || config.integer("batch") == 64);
  EXPECT_TRUE(config.text("activation") == "relu" || config.text("activation") == "gelu");
}

TEST(Space, TakesBracesForWhatTheyLookLike) {
  EXPECT_EQ(draw({{"a", "b"}}).to_json(), R"({"a":"b"})");
  EXPECT_EQ(draw({{"a", "b"}, {"c", "d"}}).to_json(), R"({"a":"b","c":"d"})");
  EXPECT_EQ(draw({{"m", {{"a", "b"}}}}).to_json(), R"({"m":{"a":"b"}})");
  EXPECT_EQ(draw({{"m", {{"a", "b"}, {"c", "d"}}}}).to_json(), R"({"m":{"a":"b","c":"d"}})");
  EXPECT_EQ(draw({{"m", {{"n", {{"o", 1}}}}}}).to_json(), R"({"m":{"n":{"o":1}}})");
  EXPECT_EQ(draw({{"t", true}, {"n", nullptr}, {"i", 1}, {"r", 1.0}, {"f", 0.5f}, {"s", std::string("x")}}).to_json(),
            R"({"t":true,"n":null,"i":1,"r":1.0,"f":0.5,"s":"x"})");
  EXPECT_EQ(draw({{"v", std::vector<int>{1, 2}}, {"l", tune::list({1, "x", tune::list({2.5})})}, {"u", uint8_t{7}}})
                .to_json(),
            R"({"v":[1,2],"l":[1,"x",[2.5]],"u":7})");
  EXPECT_EQ(draw({{"c", tune::choice({"only"})}, {"g", tune::grid_search({1.5})}}).to_json(),
            R"({"c":"only","g":1.5})");
  EXPECT_EQ(draw({{"c", tune::choice({{{"a", 1}}})}}).to_json(), R"({"c":{"a":1}})");
  EXPECT_EQ(draw({{"c", tune::choice({{{"a", 1}, {"b", 2}}})}}).to_json(), R"({"c":{"a":1,"b":2}})");
  EXPECT_EQ(draw({{"c", tune::choice(std::vector<std::string>{"only"})}}).to_json(), R"({"c":"only"})");
  EXPECT_EQ(draw({{"config", Config{{"a", 1}}}}).to_json(), R"({"config":{"a":1}})");
  EXPECT_EQ(draw({}).to_json(), "{}");
}

TEST(Space, DrawsWithinItsBounds) {
  const Space space = {{"uniform", uniform(-1, 1)},         {"loguniform", loguniform(1e-5, 1)},
                       {"quniform", quniform(0, 1, 0.1)},   {"qloguniform", qloguniform(0.5, 8, 0.5)},
                       {"randint", randint(-3, 3)},         {"qrandint", qrandint(5, 23, 4)},
                       {"lograndint", lograndint(1, 1000)}, {"qlograndint", qlograndint(8, 64, 8)},
                       {"single", qrandint(1, 3)},          {"randn", randn(10, 2)},
                       {"qrandn", qrandn(0, 1, 0.25)}};
  ASSERT_EQ(space_refusal(space), "accepted");
  std::map<std::string, std::set<double>> seen;
  double log_sum = 0;
  double normal_sum = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const Config config = draw(space, i);
    for (const auto& [name, value] : config.flatten()) seen[name].insert(value.real());
    log_sum += std::log10(config.real("loguniform"));
    normal_sum += config.real("randn");
    EXPECT_EQ(config["randint"].kind(), Config::Kind::kInteger);
    EXPECT_EQ(config["quniform"].kind(), Config::Kind::kReal);
  }
  const auto low = [&](const char* name) { return *seen[name].begin(); };
  const auto high = [&](const char* name) { return *seen[name].rbegin(); };
  EXPECT_GE(low("uniform"), -1);
  EXPECT_LT(high("uniform"), 1);
  EXPECT_GE(low("loguniform"), 1e-5);
  EXPECT_LT(high("loguniform"), 1);
  EXPECT_NEAR(log_sum / kDraws, -2.5, 0.1);
  EXPECT_NEAR(normal_sum / kDraws, 10, 0.15);
  EXPECT_EQ(seen["quniform"], (std::set<double>{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}));
  EXPECT_EQ(low("qloguniform"), 0.5);
  EXPECT_EQ(high("qloguniform"), 8);
  EXPECT_EQ(seen["qloguniform"].size(), 16u);
  EXPECT_EQ(seen["randint"], (std::set<double>{-3, -2, -1, 0, 1, 2}));
  EXPECT_EQ(seen["qrandint"], (std::set<double>{8, 12, 16, 20}));
  EXPECT_EQ(seen["qlograndint"], (std::set<double>{8, 16, 24, 32, 40, 48, 56, 64}));
  EXPECT_EQ(seen["single"], (std::set<double>{1, 2, 3}));
  EXPECT_EQ(low("lograndint"), 1);
  EXPECT_LE(high("lograndint"), 999);
  EXPECT_GT(high("lograndint"), 900);
  for (const double value : seen["qrandn"]) EXPECT_EQ(value, std::round(value * 4) / 4);
}

TEST(Space, DrawsAreAFunctionOfSeedIndexAndPath) {
  const Space space = {{"a", uniform(0, 1)}, {"b", uniform(0, 1)}};
  const Space larger = {
      {"new", randint(0, 9)}, {"b", uniform(0, 1)}, {"a", uniform(0, 1)}, {"m", {{"a", uniform(0, 1)}}}};
  const Config config = draw(space, 5, 77);
  EXPECT_EQ(draw(space, 5, 77), config);
  EXPECT_NE(draw(space, 6, 77), config);
  EXPECT_NE(draw(space, 5, 78), config);
  EXPECT_NE(config.real("a"), config.real("b"));
  EXPECT_EQ(draw(larger, 5, 77).real("a"), config.real("a"));
  EXPECT_EQ(draw(larger, 5, 77).real("b"), config.real("b"));
  EXPECT_NE(draw(larger, 5, 77).real("m.a"), config.real("a"));
  // Pinned: a change of these values would change the results of users' seeds.
  const Config pinned = draw({{"lr", loguniform(1e-4, 1e-1)}, {"width", randint(8, 65)}}, 0, 7);
  EXPECT_DOUBLE_EQ(pinned.real("lr"), 0.00037049434543007633);
  EXPECT_EQ(pinned.integer("width"), 31);
}

TEST(Space, ResolvesConditionalChoices) {
  const Space space = {{"optimizer", choice({{{"kind", "sgd"}, {"momentum", uniform(0.5, 1)}}, {{"kind", "adam"}}})},
                       {"x", choice({1, uniform(5, 6)})}};
  int sgd = 0;
  for (int i = 0; i < 100; ++i) {
    const Config config = draw(space, i);
    EXPECT_EQ(config.text("optimizer.kind") == "sgd", config.contains("optimizer.momentum"));
    sgd += config.text("optimizer.kind") == "sgd";
    EXPECT_TRUE(config.real("x") == 1 || (config.real("x") >= 5 && config.real("x") < 6));
  }
  EXPECT_NEAR(sgd, 50, 20);
}

TEST(Space, SampleFromSeesTheOthersInWhateverOrder) {
  const Space space = {
      {"c", sample_from([](const Config& config) { return config.real("b") * 2; })},
      {"b", sample_from([](const Config& config) { return config.real("a") + 1; })},
      {"a", uniform(0, 1)},
      {"r", sample_from([](const Config&, Random& random) { return static_cast<int>(random.below(1000)); })},
      {"k", sample_from([] { return "text"; })}};
  const Config config = draw(space, 3);
  EXPECT_EQ(config.real("c"), (config.real("a") + 1) * 2);
  EXPECT_EQ(config.entries()[0].name, "c");
  EXPECT_EQ(config.text("k"), "text");
  EXPECT_EQ(draw(space, 3), config);
}

TEST(Space, SampleFromThatWaitsForItselfIsNamed) {
  const Space space = {{"a", sample_from([](const Config& config) { return config.real("m.b"); })},
                       {"m", {{"b", sample_from([](const Config& config) { return config.real("a"); })}}}};
  const auto sampled = space.sample({});
  ASSERT_FALSE(sampled.has_value());
  EXPECT_THAT(sampled.error().message, HasSubstr("sample_from of a, m.b cannot be resolved"));
  const auto thrown =
      Space{{"a", sample_from([](const Config&) -> double { throw std::runtime_error("boom"); })}}.sample({});
  EXPECT_THAT(thrown.error().message, HasSubstr("space.a: the function of sample_from threw: boom"));
}

TEST(Space, RefusesWhatCannotBeWithPathValueAndRule) {
  EXPECT_EQ(space_refusal({{"m", {{"lr", loguniform(0, 0.1)}}}}),
            "space.m.lr: loguniform(0, 0.1): the lower bound must be above 0 for a logarithm: start at a small "
            "positive number, or use uniform");
  EXPECT_THAT(space_refusal({{"a", uniform(1, 1)}}),
              HasSubstr("space.a: uniform(1, 1): the lower bound must be below the upper one"));
  EXPECT_THAT(space_refusal({{"a", uniform(0, INFINITY)}}), HasSubstr("bounds must be finite"));
  EXPECT_THAT(space_refusal({{"a", uniform(-1e308, 1e308)}}), HasSubstr("bounds must be finite"));
  EXPECT_THAT(space_refusal({{"a", uniform(0, NAN)}}), HasSubstr("bounds must be finite"));
  EXPECT_THAT(space_refusal({{"a", quniform(0, 1, 0.3)}}),
              HasSubstr("space.a: quniform(0, 1, 0.3): 1 is no multiple of q 0.3"));
  EXPECT_THAT(space_refusal({{"a", quniform(0, 1, 0)}}), HasSubstr("q must be above 0"));
  EXPECT_EQ(space_refusal({{"a", quniform(0, 0.3, 0.1)}}), "accepted");
  EXPECT_THAT(space_refusal({{"a", randint(3, 3)}}), HasSubstr("which is left out"));
  EXPECT_THAT(space_refusal({{"a", lograndint(0, 3)}}), HasSubstr("at least 1 for a logarithm"));
  EXPECT_THAT(space_refusal({{"a", qrandint(1, 3, 10)}}), HasSubstr("no multiple of q 10"));
  EXPECT_THAT(space_refusal({{"a", qrandint(1, 3, 0)}}), HasSubstr("q must be at least 1"));
  EXPECT_THAT(space_refusal({{"a", randint(INT64_MIN, INT64_MAX)}}), HasSubstr("2^62"));
  EXPECT_THAT(space_refusal({{"a", randn(0, 0)}}), HasSubstr("standard deviation"));
  EXPECT_THAT(space_refusal({{"a", choice({})}}), HasSubstr("space.a: choice of nothing"));
  EXPECT_THAT(space_refusal({{"a", grid_search({})}}), HasSubstr("space.a: grid_search of nothing"));
  EXPECT_THAT(space_refusal({{"a", choice({grid_search({1})})}}), HasSubstr("space.a[0]: grid_search inside a choice"));
  EXPECT_THAT(space_refusal({{"a", choice({1, uniform(2, 1)})}}), HasSubstr("space.a[1]: uniform(2, 1)"));
  EXPECT_THAT(space_refusal({{"m", {{"a", 1}, {"a", 2}}}}), HasSubstr("space.m.a: the parameter is written twice"));
  EXPECT_THAT(space_refusal({{"", 1}}), HasSubstr("empty name"));
  EXPECT_THAT(space_refusal({{"a.b", 1}}), HasSubstr("has a dot"));
  EXPECT_THAT(space_refusal({{"l", list({1, uniform(1, 0)})}}), HasSubstr("space.l.1: uniform(1, 0)"));
}

TEST(Space, ListsWhatVaries) {
  const Space space = {{"a", 1}, {"m", {{"b", uniform(0, 1)}}}, {"l", list({1, choice({1, 2})})}};
  const auto variables = space.variables();
  ASSERT_EQ(variables.size(), 2u);
  EXPECT_EQ(variables[0].path, "m.b");
  EXPECT_EQ(to_string(*variables[0].domain), "uniform(0, 1)");
  EXPECT_EQ(variables[1].path, "l.1");
  EXPECT_EQ(to_string(*variables[1].domain), "choice of 2");
}

std::unique_ptr<VariantSearcher> searcher(const Space& space, int64_t num_samples,
                                          const RandomSearchOptions& options = {}) {
  return VariantSearcher::create(options, {.space = space, .num_samples = num_samples, .seed = 5}).value();
}

TEST(VariantSearcher, CrossesGridAxesTheFirstByPathFastest) {
  const Space space = {{"foo", grid_search({1, 2, 3})}, {"bar", grid_search({true, false})}, {"x", uniform(0, 1)}};
  const auto search = searcher(space, 2);
  EXPECT_EQ(search->total(), 12);
  std::vector<std::string> order;
  std::set<double> drawn;
  for (int64_t i = 0; i < 12; ++i) {
    const Config config = search->suggest(i).value().config;
    order.push_back((config.boolean("bar") ? "T" : "F") + std::to_string(config.integer("foo")));
    drawn.insert(config.real("x"));
  }
  EXPECT_THAT(order, ::testing::ElementsAre("T1", "F1", "T2", "F2", "T3", "F3", "T1", "F1", "T2", "F2", "T3", "F3"));
  EXPECT_EQ(drawn.size(), 12u);
  EXPECT_EQ(search->suggest(12).value().kind, Suggestion::Kind::kExhausted);
}

TEST(VariantSearcher, KeepsRandomValuesOverTheGridWhereAsked) {
  const Space space = {{"g", grid_search({1, 2, 3})}, {"x", uniform(0, 1)}};
  const auto search = searcher(space, 2, {.constant_grid_search = true});
  std::set<double> drawn;
  for (int64_t i = 0; i < 6; ++i) drawn.insert(search->suggest(i).value().config.real("x"));
  EXPECT_EQ(drawn.size(), 2u);
}

TEST(VariantSearcher, SeedOfItsOwnWinsOverTheExperiments) {
  const Space space = {{"x", uniform(0, 1)}};
  EXPECT_EQ(searcher(space, 1)->suggest(0).value().config, searcher(space, 1, {.seed = 5})->suggest(0).value().config);
  EXPECT_NE(searcher(space, 1)->suggest(0).value().config, searcher(space, 1, {.seed = 6})->suggest(0).value().config);
}

TEST(VariantSearcher, NeverEndsWithMinusOneSamples) {
  const auto search = searcher({{"x", uniform(0, 1)}}, -1);
  EXPECT_EQ(search->total(), std::nullopt);
  EXPECT_EQ(search->suggest(1'000'000).value().kind, Suggestion::Kind::kConfig);
}

TEST(VariantSearcher, RefusesTooMuch) {
  const auto message = [](const SearchContext& context) {
    return VariantSearcher::create({}, context).error().message;
  };
  EXPECT_THAT(message({.space = {}, .num_samples = 0}), HasSubstr("num_samples: expected at least 1, or -1"));
  EXPECT_THAT(message({.space = {{"x", uniform(1, 0)}}}), HasSubstr("space.x"));
  std::vector<int> many(2000);
  EXPECT_THAT(message({.space = {{"a", grid_search(many)}, {"b", grid_search(many)}, {"c", grid_search(many)}}}),
              HasSubstr("2^31"));
  EXPECT_THAT(message({.space = {{"a", grid_search(many)}}, .num_samples = 1'000'000'000}), HasSubstr("2^32"));
}

}  // namespace
}  // namespace volador::tune
