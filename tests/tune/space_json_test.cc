#include "tune/space/space_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

Config parsed_json(std::string_view text) { return Config::from_json(text).value(); }

std::string refusal(std::string_view text) {
  const auto space = space_from_json(parsed_json(text));
  return space ? "" : space.error().message;
}

TEST(SpaceJson, DrawsWhatTheSameSpaceInCodeDraws) {
  const Space code = {{"lr", loguniform(1e-4, 0.1)},
                      {"momentum", quniform(0, 1, 0.1)},
                      {"batch", choice({16, 32, 64})},
                      {"units", randint(8, 65)},
                      {"depth", qlograndint(2, 16, 2)},
                      {"noise", qrandn(0, 1, 0.5)},
                      {"layers", grid_search({1, 2})},
                      {"model", {{"width", lograndint(1, 100)}, {"kind", "conv"}}},
                      {"mix", list({uniform(0, 1), 3})},
                      {"optimiser", choice({{{"name", "sgd"}, {"nesterov", choice({true, false})}},
                                            {{"name", "adam"}, {"beta", uniform(0.8, 1)}}})}};
  const auto written = space_to_json(code);
  ASSERT_TRUE(written) << written.error().message;
  const auto read = space_from_json(parsed_json(written->to_json()));
  ASSERT_TRUE(read) << read.error().message;
  for (int64_t index = 0; index < 50; ++index) {
    const Space::Draw draw{.seed = 3, .index = index, .grid_point = index % 2};
    EXPECT_EQ(read->sample(draw).value(), code.sample(draw).value());
  }
  EXPECT_EQ(space_to_json(*read).value(), *written);
}

TEST(SpaceJson, ReadsShortTexts) {
  const auto space = space_from_json(parsed_json(
      R"({"lr": {"uniform": [0, 1]}, "batch": {"choice": [16, "all", null]}, "net": {"width": {"randint": [8, 9]}, "depth": 2}, "tags": [1, 2]})"));
  ASSERT_TRUE(space) << space.error().message;
  const Config config = space->sample({}).value();
  EXPECT_EQ(config.integer("net.width"), 8);
  EXPECT_EQ(config.integer("net.depth"), 2);
  EXPECT_EQ(config["tags"].size(), 2U);
}

TEST(SpaceJson, TakesFunctionsByNumber) {
  const std::vector<FunctionDomain> functions = {
      {[](const Config& resolved, Random&) { return Config(2 * resolved.integer("width")); }},
      {[](const Config& resolved, Random&) { return Config(resolved.integer("double") + 1); }}};
  const Config json = parsed_json(
      R"({"more": {"sample_from": 1}, "width": {"choice": [4]}, "net": {"kind": {"choice": [{"sample_from": 0}]}}, "double": {"sample_from": 0}})");
  const auto space = space_with_functions(json, functions);
  ASSERT_TRUE(space) << space.error().message;
  const Config config = space->sample({}).value();
  EXPECT_EQ(config.integer("more"), 9);
  EXPECT_EQ(config.integer("double"), 8);
  EXPECT_EQ(config.integer("net.kind"), 8);
  const auto unknown = space_with_functions(parsed_json(R"({"a": {"b": {"sample_from": 2}}})"), functions);
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().message,
              HasSubstr("a.b: sample_from: expected the number of a function, below 2, got 2"));
}

TEST(SpaceJson, NamesPathValueAndRule) {
  EXPECT_THAT(refusal("[]"), HasSubstr("expected an object of parameters"));
  EXPECT_THAT(refusal(R"({"a": {"lr": {"uniform": [1]}}})"),
              HasSubstr("a.lr: uniform: expected the numbers [low, high], got [1]"));
  EXPECT_THAT(refusal(R"({"lr": {"quniform": [0, 1, "x"]}})"), HasSubstr("[low, high, q]"));
  EXPECT_THAT(refusal(R"({"n": {"randint": [0.5, 3]}})"), HasSubstr("expected whole numbers, got 0.5"));
  EXPECT_THAT(refusal(R"({"n": {"lograndint": [0.5, 3]}})"), HasSubstr("there is loguniform"));
  EXPECT_THAT(refusal(R"({"n": {"choice": 3}})"), HasSubstr("expected a list of options, got 3"));
  EXPECT_THAT(refusal(R"({"lr": {"loguniform": [0, 1]}})"), HasSubstr("lr"));
  EXPECT_THAT(refusal(R"({"lr": {"uniform": [2, 1]}})"), HasSubstr("lr"));
  EXPECT_THAT(refusal(R"({"a.b": 1})"), HasSubstr("has no dot"));
}

TEST(SpaceJson, ADistributionThatDoesNotExistIsRefused) {
  EXPECT_THAT(refusal(R"({"lr": {"unifrm": [0, 1]}})"),
              ::testing::AllOf(HasSubstr("space: lr: \"unifrm\" is no distribution; did you mean uniform?"),
                               HasSubstr("grid_search, const."), HasSubstr(R"({"const": [0,1]})")));
  EXPECT_THAT(refusal(R"({"model": {"lr": {"normal": [0, 1]}}})"),
              HasSubstr("model.lr: \"normal\" is no distribution"));
  EXPECT_EQ(refusal(R"({"model": {"layers": [64, 64], "depth": 2}})"), "") << "several members are parameters";
  EXPECT_EQ(refusal(R"({"model": {"depth": 2}})"), "");
}

TEST(SpaceJson, ConstantsOfAnyShapeAreReadAndWritten) {
  const auto read = space_from_json(parsed_json(
      R"({"layers": {"const": [64, 32]}, "net": {"layers": {"const": [8]}}, "odd": {"const": {"choice": [1, 2]}}})"));
  ASSERT_TRUE(read) << read.error().message;
  const Config config = read->sample({}).value();
  EXPECT_EQ(config["layers"], Config::list({64, 32}));
  EXPECT_EQ(config["net"]["layers"], Config::list({8}));
  EXPECT_EQ(config["odd"]["choice"], Config::list({1, 2}));
  for (const Space& space :
       {*read, Space{{"net", {{"layers", Config::list({8})}}}}, Space{{"x", Config{{"choice", Config::list({1, 2})}}}},
        Space{{"x", Config{{"const", 3}}}}, Space{{"net", {{"layers", Config::list({8})}, {"lr", uniform(0, 1)}}}}}) {
    const auto written = space_to_json(space);
    ASSERT_TRUE(written) << written.error().message;
    const auto again = space_from_json(parsed_json(written->to_json()));
    ASSERT_TRUE(again) << written->to_json() << again.error().message;
    EXPECT_EQ(again->sample({.seed = 5}).value(), space.sample({.seed = 5}).value()) << written->to_json();
  }
}

TEST(SpaceJson, RefusesToWriteWhatWouldReadBackAsSomethingElse) {
  const Space function = {{"x", sample_from([] { return 1; })}};
  EXPECT_THAT(space_to_json(function).error().message, HasSubstr("x: sample_from"));
  const Space parameter = {{"x", {{"choice", {{"depth", uniform(0, 1)}}}}}};
  EXPECT_THAT(space_to_json(parameter).error().message,
              HasSubstr("the parameter \"choice\" would be read as a distribution"));
}

}  // namespace
}  // namespace volador::tune
