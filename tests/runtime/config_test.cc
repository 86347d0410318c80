#include "runtime/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/settings.h"
#include "tests/temporary_directory.h"

namespace volador {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using namespace std::chrono_literals;

const std::vector<Setting>& settings() {
  using enum SettingKind;
  static const std::vector<Setting> all{
      {.key = "port", .kind = kInteger, .default_value = "6380", .min = 1, .max = 65535},
      {.key = "name"},
      {.key = "token", .kind = kSecret},
      {.key = "labels", .kind = kPairs, .default_value = ""},
      {.key = "lease", .kind = kDuration, .default_value = "3.5s", .min = 1},
      {.key = "memory", .kind = kBytes},
      {.key = "ratio", .kind = kReal, .default_value = "0.5"},
      {.key = "verbose", .kind = kBoolean, .default_value = "false"},
      {.key = "log.level", .default_value = "info", .choices = {"debug", "info"}},
      {.key = "log.file"},
  };
  return all;
}

Result<Config> from_file(std::string text) {
  return resolve(settings(), {.file_name = "v.yaml", .file_text = std::move(text)});
}
std::string error_of(const Result<Config>& config) { return config ? "no error" : config.error().message; }

TEST(Config, DefaultsHoldWhereNothingIsSaid) {
  auto config = resolve(settings(), {});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->integer("port"), 6380);
  EXPECT_EQ(config->duration("lease"), 3500ms);
  EXPECT_FALSE(config->is_set("name"));
  EXPECT_EQ(config->origin("port"), "default");
  EXPECT_EQ(config->source("port"), SettingSource::kDefault);
}

TEST(Config, FlagsWinOverEnvironmentOverFileOverDefault) {
  ConfigLayers layers{.file_name = "v.yaml", .file_text = "port: 1\nname: file\nratio: 0.25\n"};
  layers.environment = {{"VOLADOR_PORT", "2"}, {"VOLADOR_NAME", "environment"}, {"PATH", "/bin"}};
  layers.flags = {{"port", "3"}};
  auto config = resolve(settings(), layers);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->integer("port"), 3);
  EXPECT_EQ(config->origin("port"), "--port");
  EXPECT_EQ(config->text("name"), "environment");
  EXPECT_EQ(config->origin("name"), "VOLADOR_NAME");
  EXPECT_EQ(config->real("ratio"), 0.25);
  EXPECT_EQ(config->origin("ratio"), "v.yaml:3:8");
}

TEST(Config, EmptyEnvironmentVariablesCountAsNotSet) {
  auto config = resolve(settings(), {.environment = {{"VOLADOR_PORT", ""}}});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->integer("port"), 6380);
}

TEST(Config, KeysNestByDots) {
  auto config = from_file("log:\n  level: debug\n  file: /tmp/x\n");
  ASSERT_TRUE(config) << error_of(config);
  EXPECT_EQ(config->text("log.level"), "debug");
  EXPECT_EQ(config->origin("log.file"), "v.yaml:3:9");
  EXPECT_EQ(environment_name("log.level"), "VOLADOR_LOG_LEVEL");
}

TEST(Config, UnknownKeysNameTheNearestAndThePlace) {
  EXPECT_EQ(error_of(from_file("name: a\nprot: 1\n")),
            "prot: there is no such setting; did you mean port? (v.yaml:2:1)");
  EXPECT_EQ(error_of(from_file("log:\n  levle: debug\n")),
            "log.levle: there is no such setting; did you mean log.level? (v.yaml:2:3)");
  EXPECT_EQ(error_of(from_file("zzzzzzzzzz: 1\n")), "zzzzzzzzzz: there is no such setting (v.yaml:1:1)");
}

TEST(Config, WrongTypesNameKeyRuleValueAndPlace) {
  EXPECT_EQ(error_of(from_file("name: a\nport: ten\n")),
            "port: expected an integer from 1 to 65535, got \"ten\" (v.yaml:2:7)");
  EXPECT_EQ(error_of(from_file("port: 0\n")), "port: expected an integer from 1 to 65535, got \"0\" (v.yaml:1:7)");
  EXPECT_EQ(error_of(from_file("port: [1]\n")), "port: expected an integer from 1 to 65535, got a list (v.yaml:1:7)");
  EXPECT_THAT(error_of(from_file("port:\n")), StartsWith("port: expected an integer from 1 to 65535, got nothing"));
  EXPECT_THAT(error_of(from_file("lease: 4\n")), HasSubstr("expected a duration such as 500ms"));
  EXPECT_THAT(error_of(from_file("lease: 10ms\n")), HasSubstr("of at least 1 s"));
  EXPECT_THAT(error_of(from_file("memory: lots\n")), HasSubstr("expected a size such as"));
  EXPECT_THAT(error_of(from_file("verbose: no\n")), HasSubstr("expected true or false, got \"no\""));
  EXPECT_THAT(error_of(from_file("log: debug\n")), HasSubstr("expected settings below it, got \"debug\""));
  EXPECT_THAT(error_of(from_file("log:\n  level: ifno\n")),
              HasSubstr("expected one of debug, info, got \"ifno\"; did you mean info?"));
}

TEST(Config, KeysThatComeTwiceAreRefused) {
  EXPECT_EQ(error_of(from_file("port: 1\nname: a\nport: 2\n")), "port: comes twice; keep one (v.yaml:3:1)");
  EXPECT_EQ(error_of(from_file("labels: {a: 1, a: 2}\n")), "labels.a: comes twice; keep one (v.yaml:1:16)");
}

TEST(Config, WhatIsNoYamlNamesThePlace) {
  EXPECT_THAT(error_of(from_file("port: [1\n")), HasSubstr("not valid YAML"));
  EXPECT_THAT(error_of(from_file("port: [1\n")), HasSubstr("(v.yaml:2:"));
  EXPECT_THAT(error_of(from_file("- a\n")), HasSubstr("expected settings such as"));
  EXPECT_TRUE(from_file("")) << "an empty file says nothing";
  EXPECT_TRUE(from_file("# only a comment\n"));
}

TEST(Config, HostileFilesAreErrors) {
  EXPECT_THAT(error_of(from_file(std::string(2 << 20, 'x'))), HasSubstr("longer than the limit"));
  EXPECT_FALSE(from_file("port: " + std::string(100'000, '[')));
  EXPECT_FALSE(from_file("a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n"));
  EXPECT_FALSE(from_file(std::string("port: 1\0x", 9)));
}

TEST(Config, PairsComeAsTextOrMapping) {
  const std::map<std::string, std::string> expected{{"disk", "ssd"}, {"zone", "a"}};
  EXPECT_EQ(from_file("labels: {zone: a, disk: ssd}\n")->pairs("labels"), expected);
  EXPECT_EQ(from_file("labels: zone=a,disk=ssd\n")->pairs("labels"), expected);
  EXPECT_THAT(error_of(from_file("labels: zone\n")), HasSubstr("expected pairs such as"));
  EXPECT_THAT(error_of(from_file("labels: {a: [1]}\n")), HasSubstr("plain values"));
  EXPECT_THAT(error_of(from_file("labels: {a: \"1,b=2\"}\n")), HasSubstr("no ','"));
}

TEST(Config, SecretsAreMaskedInWordsAndErrors) {
  auto config = resolve(settings(), {.environment = {{"VOLADOR_TOKEN", "vt1.hidden"}}});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->text("token"), "vt1.hidden");
  EXPECT_EQ(config->shown("token"), "********");
  auto refused = resolve(settings(), {.environment = {{"VOLADOR_TOKEN", "vt1.hidden\n"}}});
  EXPECT_THAT(error_of(refused), HasSubstr("VOLADOR_TOKEN"));
  EXPECT_EQ(error_of(refused).find("hidden"), std::string::npos);
}

TEST(Config, EnvironmentVariablesThatLookMisspeltAreWarnedOf) {
  auto config = resolve(
      settings(), {.environment = {{"VOLADOR_TOKN", "x"}, {"VOLADOR_HOME", "/x"}, {"VOLADOR_UNRELATED_THING", "y"}}});
  ASSERT_TRUE(config);
  ASSERT_EQ(config->warnings().size(), 1u);
  EXPECT_EQ(config->warnings()[0], "VOLADOR_TOKN is no setting and is ignored; did you mean VOLADOR_TOKEN?");
}

TEST(Config, ErrorsOfFlagsAndEnvironmentNameThem) {
  EXPECT_THAT(error_of(resolve(settings(), {.environment = {{"VOLADOR_PORT", "x"}}})), HasSubstr("(VOLADOR_PORT)"));
  EXPECT_THAT(error_of(resolve(settings(), {.flags = {{"log.level", "x"}}})), HasSubstr("(--log-level)"));
}

TEST(LoadConfig, TheFirstFileThatExistsWins) {
  TemporaryDirectory folder;
  const auto user = folder.path() / "user.yaml";
  std::ofstream(user) << "port: 1\n";
  ConfigPlaces places{.user = user, .working_directory = folder.path(), .system = folder.path() / "none.yaml"};
  EXPECT_EQ(load_config(settings(), places, {}, {})->integer("port"), 1);
  std::ofstream(folder.path() / "volador.yaml") << "port: 2\n";
  EXPECT_EQ(load_config(settings(), places, {}, {})->integer("port"), 2);
  places.named = user;
  EXPECT_EQ(load_config(settings(), places, {}, {})->integer("port"), 1);
}

TEST(LoadConfig, ANamedFileThatIsMissingIsAnError) {
  TemporaryDirectory folder;
  auto config = load_config(settings(), {.named = folder.path() / "none.yaml"}, {}, {});
  ASSERT_FALSE(config);
  EXPECT_EQ(config.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(config.error().message, HasSubstr("none.yaml"));
}

TEST(VoladorSettings, DefaultsAreValidAndEverySettingHasHelp) {
  EXPECT_TRUE(resolve(volador_settings(), {}));
  for (const Setting& setting : volador_settings()) {
    EXPECT_FALSE(setting.help.empty()) << setting.key;
    if (!setting.default_value) continue;
    ConfigLayers layers{.environment = {{environment_name(setting.key), *setting.default_value}}};
    EXPECT_TRUE(resolve(volador_settings(), layers)) << setting.key;
  }
}

}  // namespace
}  // namespace volador
