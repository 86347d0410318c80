// Cases of experiment configurations from files. cases/README.md describes them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "experiments/config/merge.h"
#include "experiments/config/sanity.h"
#include "runtime/yaml/reader.h"

namespace volador::experiments {

struct ConfigCase {
  std::string file;
  yaml::Value fields;

  std::string name() const { return file + ": " + fields.find("case")->text; }
  const yaml::Value* field(const char* key) const { return fields.find(key); }
  bool is_set(const char* key) const { return field(key) != nullptr && field(key)->boolean; }

  // A layer as a map of top-level keys.
  yaml::Value layer(const char* key) const {
    const yaml::Value* value = field(key);
    if (value == nullptr) return yaml::Value::map();
    const yaml::Value* at = field("at");
    if (at == nullptr) return *value;
    yaml::Value map = yaml::Value::map();
    map.set(at->text, *value);
    return map;
  }
  // What a result has at the key of the case.
  const yaml::Value* part_of(const yaml::Value& config) const {
    const yaml::Value* at = field("at");
    return at == nullptr ? &config : config.find(at->text);
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> texts;
    if (const yaml::Value* list = field(key))
      for (const yaml::Value& item : list->items) texts.push_back(item.text);
    return texts;
  }
};

inline std::vector<ConfigCase> config_cases() {
  namespace fs = std::filesystem;
  std::vector<ConfigCase> cases;
  for (const auto& entry : fs::directory_iterator("tests/experiments/config/cases")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    const auto document = yaml::read(text, entry.path().filename().string());
    EXPECT_TRUE(document.has_value()) << document.error().text();
    if (!document) continue;
    for (const yaml::Problem& problem : document->problems) ADD_FAILURE() << problem.text();
    for (const yaml::Value& fields : document->root.items) {
      EXPECT_NE(fields.find("case"), nullptr) << fields.place.text();
      if (fields.find("case") != nullptr) cases.push_back({entry.path().filename().string(), fields});
    }
  }
  return cases;
}

}  // namespace volador::experiments
