#include "tests/experiments/config/config_cases.h"

#include <set>

#include "experiments/config/complete.h"
#include "experiments/config/config_reader.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments {
namespace {

using yaml::Value;

constexpr const char* kValidConfig = R"(
name: base
entrypoint: model_def:MyTrial
hyperparameters: {global_batch_size: 64}
searcher: {name: single, metric: loss, max_length: {batches: 100}}
checkpoint_storage: {type: shared_fs, host_path: /tmp}
)";

void expect_findings(const std::vector<Finding>& found, const std::vector<std::string>& expected, const char* kind) {
  std::string all;
  for (const Finding& finding : found) all += "\n  " + finding.text();
  ASSERT_EQ(found.size(), expected.size()) << kind << all;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NE(found[i].text().find(expected[i]), std::string::npos) << kind << ": expected " << expected[i] << all;
}

// The text of a layer, and with `whole` of a valid configuration with its keys.
ConfigFile file_of(const ConfigCase& one) {
  Value root = one.is_set("whole") ? yaml::read(kValidConfig, "base")->root : Value::map();
  for (const yaml::Entry& entry : one.layer("given").entries) root.set(entry.key, entry.value);
  return {"given.yaml", yaml::yaml_text(root)};
}

Findings findings_of(const ConfigCase& one) {
  if (!one.is_set("whole") && !one.is_set("alone")) {
    Findings findings;
    sane(one.layer("given"), findings);
    return findings;
  }
  ConfigSources sources{.config = file_of(one)};
  if (one.field("below") != nullptr) sources.config_template = {"below.yaml", yaml::yaml_text(one.layer("below"))};
  sources.cluster_defaults = {"cluster.yaml", ""};
  if (const Value* pool = one.field("pool")) {
    if (const Value* multiple = pool->find("slots_multiple")) sources.pool.slots_multiple = multiple->integer;
    sources.pool.needs_exact_batches = pool->find("exact_batches") != nullptr;
  }
  const ConfigReading reading = read_config(sources);
  EXPECT_EQ(reading.is_valid(), reading.findings.errors().empty());
  return reading.findings;
}

TEST(ConfigCases, HaveTheExpectedErrorsAndWarnings) {
  const auto cases = config_cases();
  EXPECT_GE(cases.size(), 250u);
  for (const ConfigCase& one : cases) {
    SCOPED_TRACE(one.name());
    // A configuration without a searcher is tried for its defaults only.
    if (one.is_set("alone") && one.field("defaults") != nullptr) continue;
    const Findings findings = findings_of(one);
    expect_findings(findings.errors(), one.texts("errors"), "errors");
    expect_findings(findings.warnings(), one.texts("warnings"), "warnings");
  }
}

TEST(ConfigCases, HaveNoUnknownFieldsAndNoNameTwice) {
  std::set<std::string> names;
  for (const ConfigCase& one : config_cases()) {
    EXPECT_TRUE(names.insert(one.name()).second) << one.name();
    for (const yaml::Entry& entry : one.fields.entries) {
      EXPECT_TRUE(std::set<std::string>({"case", "given", "at", "whole", "alone", "pool", "below", "errors", "warnings",
                                         "canonical", "defaults", "merged"})
                      .contains(entry.key))
          << one.name() << ": " << entry.key;
    }
  }
}

TEST(ConfigCases, HaveTheExpectedCanonicalForm) {
  for (const ConfigCase& one : config_cases()) {
    SCOPED_TRACE(one.name());
    Findings findings;
    const Value canonical = sane(one.layer("given"), findings);
    if (const Value* expected = one.field("canonical")) {
      ASSERT_NE(one.part_of(canonical), nullptr);
      EXPECT_EQ(yaml::json_text(*one.part_of(canonical)), yaml::json_text(*expected));
    }
    if (!findings.errors().empty()) continue;
    Findings again;
    EXPECT_TRUE(sane(canonical, again) == canonical) << yaml::json_text(canonical);
    expect_findings(again.errors(), {}, "errors of the canonical form");
  }
}

TEST(ConfigCases, HaveTheExpectedDefaults) {
  for (const ConfigCase& one : config_cases()) {
    SCOPED_TRACE(one.name());
    Findings findings;
    const Value defaulted = with_defaults(sane(one.layer("given"), findings));
    if (const Value* expected = one.field("defaults")) {
      ASSERT_NE(one.part_of(defaulted), nullptr);
      EXPECT_TRUE(*one.part_of(defaulted) == *expected) << yaml::json_text(*one.part_of(defaulted)) << "\n"
                                                        << yaml::json_text(*expected);
    }
    EXPECT_TRUE(with_defaults(defaulted) == defaulted) << "the defaults of defaults";
    if (!findings.errors().empty()) continue;
    Findings again;
    EXPECT_TRUE(with_defaults(sane(defaulted, again)) == defaulted) << "the complete configuration as a file";
    expect_findings(again.errors(), {}, "errors of the complete configuration");
  }
}

TEST(ConfigCases, HaveTheExpectedMerge) {
  for (const ConfigCase& one : config_cases()) {
    const Value* expected = one.field("merged");
    if (expected == nullptr) continue;
    SCOPED_TRACE(one.name());
    Findings findings;
    const Value merged = merge(sane(one.layer("given"), findings), sane(one.layer("below"), findings));
    expect_findings(findings.errors(), {}, "errors");
    ASSERT_NE(one.part_of(merged), nullptr);
    EXPECT_TRUE(*one.part_of(merged) == *expected) << yaml::json_text(*one.part_of(merged));
  }
}

TEST(ConfigCases, KeepTheirValueThroughYamlAndJson) {
  for (const ConfigCase& one : config_cases()) {
    SCOPED_TRACE(one.name());
    const Value given = one.layer("given");
    const auto yaml = yaml::read(yaml::yaml_text(given), "yaml");
    ASSERT_TRUE(yaml.has_value()) << yaml.error().text() << yaml::yaml_text(given);
    EXPECT_TRUE(yaml->root == given) << yaml::yaml_text(given);
    const auto json = yaml::read(yaml::json_text(given), "json");
    ASSERT_TRUE(json.has_value()) << json.error().text();
    EXPECT_TRUE(json->root == given) << yaml::json_text(given);
  }
}

}  // namespace
}  // namespace volador::experiments
