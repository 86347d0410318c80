#include "experiments/config/merge.h"

#include "runtime/yaml/writer.h"
#include "tests/experiments/config/config_cases.h"

namespace volador::experiments {
namespace {

using yaml::Value;

// Every layer of the cases that has no errors.
std::vector<Value> sound_layers() {
  std::vector<Value> layers;
  for (const ConfigCase& one : config_cases()) {
    for (const char* key : {"given", "below"}) {
      if (one.field(key) == nullptr) continue;
      Findings findings;
      Value layer = sane(one.layer(key), findings);
      if (findings.errors().empty()) layers.push_back(std::move(layer));
    }
  }
  return layers;
}

// Variables are lists in which both layers' entries stay, so that merging a layer with itself has each twice.
Value without_variables(Value layer) {
  if (Value* environment = layer.find("environment")) environment->erase("environment_variables");
  return layer;
}

TEST(Merge, OfALayerWithItselfOrWithNothingIsTheLayer) {
  for (const Value& given : sound_layers()) {
    const Value layer = without_variables(given);
    EXPECT_TRUE(merge(layer, layer) == layer) << yaml::json_text(layer);
    EXPECT_TRUE(merge(given, Value::map()) == given) << yaml::json_text(given);
    EXPECT_TRUE(merge(Value::map(), given) == given) << yaml::json_text(given);
  }
}

TEST(Merge, IsIdempotent) {
  const auto layers = sound_layers();
  for (size_t i = 0; i < layers.size(); ++i) {
    const Value upper = without_variables(layers[i]);
    const Value lower = without_variables(layers[(i * 7 + 1) % layers.size()]);
    const Value once = merge(upper, lower);
    EXPECT_TRUE(merge(upper, once) == once) << yaml::json_text(upper) << "\n" << yaml::json_text(lower);
  }
}

// A union is the exception: a searcher between two others keeps keys out that the outer ones could exchange.
bool chooses_variants(const Value& layer) {
  for (const auto& [object, key] : {std::pair("searcher", "name"), std::pair("checkpoint_storage", "type")}) {
    const Value* value = layer.find(object);
    if (value != nullptr && value->is_map() && value->find(key) != nullptr) return true;
  }
  return false;
}

// A hyperparameter with a type between two nested ones keeps the lower one's keys out.
TEST(Merge, IsAssociativeBesidesUnionsAndHyperparameters) {
  std::vector<Value> layers;
  for (Value& layer : sound_layers()) {
    layer.erase("hyperparameters");
    if (!chooses_variants(layer) && !layer.entries.empty()) layers.push_back(std::move(layer));
  }
  ASSERT_GT(layers.size(), 50u);
  for (size_t i = 0; i < layers.size(); ++i) {
    for (size_t j = 0; j < layers.size(); j += 3) {
      const Value &a = layers[i], &b = layers[j], &c = layers[(i + j) % layers.size()];
      EXPECT_TRUE(merge(merge(a, b), c) == merge(a, merge(b, c))) << yaml::json_text(a) << "\n"
                                                                  << yaml::json_text(b) << "\n"
                                                                  << yaml::json_text(c);
    }
  }
}

TEST(Merge, IsAssociativeForUnionsOfOneVariant) {
  const auto layer = [](const std::string& text) {
    Findings findings;
    return sane(yaml::read(text, "layer")->root, findings);
  };
  const Value a = layer("searcher: {name: random, max_trials: 1}");
  const Value b = layer("searcher: {metric: loss, max_trials: 2, smaller_is_better: false}");
  const Value c = layer("searcher: {name: random, max_concurrent_trials: 3, metric: acc}");
  EXPECT_TRUE(merge(merge(a, b), c) == merge(a, merge(b, c)));
}

TEST(Merge, KeepsThePlaceOfTheLayerThatCounts) {
  Findings findings;
  const Value upper = sane(yaml::read("max_restarts: 1\n", "upper.yaml")->root, findings);
  const Value lower = sane(yaml::read("name: a\nmax_restarts: 2\n", "lower.yaml")->root, findings);
  const Value merged = merge(upper, lower);
  EXPECT_EQ(merged.find("max_restarts")->place.text(), "upper.yaml:1:15");
  EXPECT_EQ(merged.find("name")->place.text(), "lower.yaml:1:7");
}

}  // namespace
}  // namespace volador::experiments
