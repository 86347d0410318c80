#include "experiments/config/hyperparameter.h"

#include "experiments/config/finding.h"

namespace volador::experiments {
namespace {

using yaml::Value;

std::optional<int64_t> count_of(const Value& canonical) {
  const Value* count = canonical.find("count");
  return count == nullptr || count->is_null() ? std::nullopt : std::optional(count->integer);
}

Hyperparameter hyperparameter_from(const Value& canonical) {
  const Value* type = canonical.find("type");
  if (type == nullptr) return {NestedHyperparameters{hyperparameters_from(canonical)}};
  if (type->text == "const") return {ConstHyperparameter{*canonical.find("val")}};
  if (type->text == "categorical") return {CategoricalHyperparameter{canonical.find("vals")->items}};
  const Value& low = *canonical.find("minval");
  const Value& high = *canonical.find("maxval");
  if (type->text == "int") return {IntHyperparameter{low.integer, high.integer, count_of(canonical)}};
  if (type->text == "double") return {DoubleHyperparameter{low.as_number(), high.as_number(), count_of(canonical)}};
  return {
      LogHyperparameter{canonical.find("base")->as_number(), low.as_number(), high.as_number(), count_of(canonical)}};
}

void flatten(const Hyperparameters& all, const std::string& path,
             std::vector<std::pair<std::string, const Hyperparameter*>>& flat) {
  for (const auto& [name, one] : all) {
    const std::string below = path_below(path, name);
    if (const auto* nested = std::get_if<NestedHyperparameters>(&one.type)) {
      flatten(nested->map, below, flat);
    } else {
      flat.emplace_back(below, &one);
    }
  }
}

}  // namespace

Hyperparameters hyperparameters_from(const Value& canonical) {
  Hyperparameters all;
  for (const yaml::Entry& entry : canonical.entries) all.emplace(entry.key, hyperparameter_from(entry.value));
  return all;
}

std::vector<std::pair<std::string, const Hyperparameter*>> flattened(const Hyperparameters& all) {
  std::vector<std::pair<std::string, const Hyperparameter*>> flat;
  flatten(all, "", flat);
  return flat;
}

}  // namespace volador::experiments
