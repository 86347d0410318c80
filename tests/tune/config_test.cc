#include "tune/space/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/serialize/codec.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const Config kConfig = {{"lr", 0.1},
                        {"batch", 32},
                        {"name", "relu"},
                        {"on", true},
                        {"none", nullptr},
                        {"model", {{"width", 64}, {"deep", {{"er", 1.5}}}}},
                        {"layers", std::vector<int>{4, 8}}};

template <class F>
std::string refusal(const F& read) {
  try {
    read();
  } catch (const Exception& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.error().message;
  }
  return "read";
}

TEST(Config, ReadsByNameAndPath) {
  EXPECT_EQ(kConfig.real("lr"), 0.1);
  EXPECT_EQ(kConfig.integer("batch"), 32);
  EXPECT_EQ(kConfig.real("batch"), 32.0);
  EXPECT_EQ(kConfig.text("name"), "relu");
  EXPECT_TRUE(kConfig.boolean("on"));
  EXPECT_TRUE(kConfig["none"].is_null());
  EXPECT_EQ(kConfig.integer("model.width"), 64);
  EXPECT_EQ(kConfig["model"].integer("width"), 64);
  EXPECT_EQ(kConfig["model"]["deep"].real("er"), 1.5);
  EXPECT_EQ(kConfig["layers"][1].integer(), 8);
  EXPECT_TRUE(kConfig.contains("model.deep.er"));
  EXPECT_FALSE(kConfig.contains("model.er"));
  EXPECT_EQ(kConfig.size(), 7u);
}

TEST(Config, NamesThePathWhatIsThereAndWhatElse) {
  EXPECT_EQ(refusal([] { (void)kConfig.real("learning_rate"); }),
            "config: there is no \"learning_rate\"; the configuration has: lr, batch, name, on, none, model, layers");
  EXPECT_EQ(refusal([] { (void)kConfig["model"].integer("depth"); }),
            "config: there is no \"model.depth\"; \"model\" has: width, deep");
  EXPECT_EQ(refusal([] { (void)kConfig.real("lr.x"); }),
            "config: there is no \"lr.x\": \"lr\" is a real number (0.1), not a map");
  EXPECT_EQ(refusal([] { (void)kConfig.real("name"); }), "config: \"name\" is text (\"relu\"), expected a number");
  EXPECT_EQ(refusal([] { (void)kConfig["model"]["deep"].integer("er"); }),
            "config: \"model.deep.er\" is a real number (1.5), expected an integer; read it with real(), or draw it "
            "with randint or qrandint");
  EXPECT_THAT(refusal([] { (void)kConfig.boolean("batch"); }),
              HasSubstr("\"batch\" is an integer (32), expected a boolean"));
  EXPECT_THAT(refusal([] { (void)kConfig["layers"][2]; }), HasSubstr("no \"layers.2\"; the list has 2 values"));
  EXPECT_THAT(refusal([] { (void)Config().real("x"); }), HasSubstr("the configuration is nothing (null), not a map"));
  EXPECT_THAT(refusal([] { (void)Config{{"a", 1}, {"a", 2}}; }), HasSubstr("\"a\" is written twice"));
  EXPECT_THAT(refusal([] { (void)Config(UINT64_MAX); }), HasSubstr("64 bits"));
}

TEST(Config, GivesTheDefaultOnlyWhereThereIsNothing) {
  EXPECT_EQ(kConfig.get_or("lr", 0.5), 0.1);
  EXPECT_EQ(kConfig.get_or("momentum", 0.5), 0.5);
  EXPECT_EQ(kConfig.get_or("batch", 1), 32);
  EXPECT_EQ(kConfig.get_or("size", 1), 1);
  EXPECT_EQ(kConfig.get_or("name", "tanh"), "relu");
  EXPECT_EQ(kConfig.get_or("model.kind", "cnn"), "cnn");
  EXPECT_EQ(kConfig.get_or("off", false), false);
  EXPECT_THAT(refusal([] { (void)kConfig.get_or("name", 1); }), HasSubstr("expected an integer"));
}

TEST(Config, SetsPathsAndKeepsTheOrder) {
  Config config;
  config.set("b.c", 1);
  config.set("a", "x");
  config.set("b.c", 2);
  config.set("b.d", Config::list({1}));
  EXPECT_EQ(config.to_json(), R"({"b":{"c":2,"d":[1]},"a":"x"})");
  EXPECT_THAT(refusal([&] { config.set("a.b", 1); }), HasSubstr("cannot set \"a.b\": text (\"x\") stands on the way"));
}

TEST(Config, FlattensToPaths) {
  std::vector<std::string> flat;
  for (const auto& [path, value] : kConfig.flatten()) flat.push_back(path + "=" + to_text(value));
  EXPECT_THAT(flat, ::testing::ElementsAre("lr=0.1", "batch=32", "name=relu", "on=true", "none=null", "model.width=64",
                                           "model.deep.er=1.5", "layers=[4,8]"));
}

TEST(Config, DoublesComeBackFromJsonExactly) {
  for (const double value : {0.1, 1e-300, 5e-324, 1.7976931348623157e308, -0.0, 2.0, 1.0 / 3, 123456789012345680.0,
                             std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const Config config = {{"x", value}};
    const Config back = Config::from_json(config.to_json()).value();
    EXPECT_EQ(back, config) << config.to_json();
    EXPECT_EQ(back["x"].kind(), Config::Kind::kReal) << config.to_json();
    EXPECT_EQ(std::signbit(back.real("x")), std::signbit(value));
  }
  EXPECT_EQ(Config({{"a", HUGE_VAL}, {"b", std::nan("")}}).to_json(), R"({"a":"inf","b":"nan"})");
  EXPECT_EQ(Config::from_json(kConfig.to_json()).value(), kConfig);
  EXPECT_EQ(Config::from_json("9223372036854775807").value(), Config(INT64_MAX));
  EXPECT_NE(Config(2), Config(2.0));
}

TEST(Config, RefusesWhatIsNoJson) {
  for (const char* bad : {"", "{", "{\"a\":}", "nul", "[1,]", "1e999", "\"\xff\""}) {
    EXPECT_EQ(Config::from_json(bad).error().code, ErrorCode::kInvalidArgument) << bad;
  }
  EXPECT_THAT(Config::from_json(std::string(200'000, '[')).error().message, HasSubstr("64 levels"));
  EXPECT_EQ(Config("\xff").to_json(), "\"\xef\xbf\xbd\"");
}

TEST(Config, TravelsInCalls) {
  for (const Config& config :
       {kConfig, Config(), Config(std::nan("")), Config::list({}), Config::map(), Config(INT64_MIN), Config(2.0)}) {
    EXPECT_EQ(from_bytes<Config>(to_bytes(config)).value(), config) << config.to_json();
  }
  const std::string bytes = to_bytes(kConfig);
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_FALSE(from_bytes<Config>(bytes.substr(0, i)).has_value()) << i;
}

}  // namespace
}  // namespace volador::tune
