#include "experiments/config/merge.h"

#include <algorithm>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "experiments/config/schema.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments {
namespace {

using yaml::Entry;
using yaml::Value;

Value merge_values(const Value& upper, const Value& lower, const Type& type);

// The keys of both maps. `merge`: of a key that both have.
Value merge_maps(const Value& upper, const Value& lower,
                 const std::function<Value(const Entry& above, const Value& below)>& merge) {
  std::unordered_map<std::string_view, const Value*> below;
  for (const Entry& entry : lower.entries) below.emplace(entry.key, &entry.value);
  Value merged = Value::map();
  merged.place = upper.place;
  std::unordered_set<std::string_view> taken;
  for (const Entry& entry : upper.entries) {
    taken.insert(entry.key);
    const auto found = below.find(entry.key);
    merged.entries.push_back(found == below.end() ? entry
                                                  : Entry{entry.key, entry.place, merge(entry, *found->second)});
  }
  for (const Entry& entry : lower.entries)
    if (!taken.contains(entry.key)) merged.entries.push_back(entry);
  return merged;
}

Value merge_free(const Value& upper, const Value& lower) {
  if (upper.is_null()) return lower;
  if (!upper.is_map() || !lower.is_map()) return upper;
  return merge_maps(upper, lower,
                    [](const Entry& above, const Value& below) { return merge_free(above.value, below); });
}

// A canonical hyperparameter with a type is one value; a constant is such as well.
Value merge_hyperparameters(const Value& upper, const Value& lower) {
  return merge_maps(upper, lower, [](const Entry& above, const Value& below) {
    const bool are_nested = above.value.find("type") == nullptr && below.find("type") == nullptr;
    return are_nested ? merge_hyperparameters(above.value, below) : above.value;
  });
}

// What makes two items of a list the same; empty: nothing does.
std::string identity(const Value& item, const Type& list) {
  if (list.merge == MergeRule::kSet) return yaml::json_text(item);
  if (const Value* key = item.find(list.merge_key); key != nullptr && !key->is_null()) return yaml::json_text(*key);
  if (list.merge != MergeRule::kLogPolicies) return {};
  const auto part = [&](const char* key) {
    const Value* value = item.find(key);
    return value == nullptr ? std::string() : yaml::json_text(*value);
  };
  return part("action") + ":" + part("pattern");
}

// Items of one layer are not compared with each other: a mistake in a layer stays visible.
Value merge_lists(const Value& upper, const Value& lower, const Type& type) {
  Value merged = upper;
  std::unordered_set<std::string> taken;
  for (const Value& item : upper.items) taken.insert(identity(item, type));
  for (const Value& item : lower.items) {
    const std::string same = identity(item, type);
    if (same.empty() || !taken.contains(same)) merged.items.push_back(item);
  }
  return merged;
}

Value merge_fields(const Value& upper, const Value& lower, const Type& type) {
  const std::vector<const Field*> fields = fields_of(type, upper.find(type.variant_key) != nullptr ? upper : lower);
  return merge_maps(upper, lower, [&](const Entry& above, const Value& below) {
    const auto field = std::ranges::find(fields, above.key, &Field::key);
    return field == fields.end() ? merge_free(above.value, below) : merge_values(above.value, below, *(*field)->type);
  });
}

Value only_common(const Value& object, const Type& type) {
  Value common = object;
  std::erase_if(common.entries,
                [&](const Entry& entry) { return entry.key == type.variant_key || type.field(entry.key) == nullptr; });
  return common;
}

// Credentials that belong together come from the layer that says where the account is.
void drop_other_credentials(const Value& upper, Value& lower) {
  if (upper.find("connection_string") == nullptr && upper.find("account_url") == nullptr) return;
  for (const char* key : {"connection_string", "account_url", "credential"}) lower.erase(key);
}

Value merge_unions(const Value& upper, const Value& lower, const Type& type) {
  const Value* above = upper.find(type.variant_key);
  const Value* below = lower.find(type.variant_key);
  if (above != nullptr && below != nullptr && above->text != below->text)
    return merge_fields(upper, only_common(lower, type), type);
  Value rest = lower;
  const Value* chosen = above != nullptr ? above : below;
  if (chosen != nullptr && chosen->text == "azure") drop_other_credentials(upper, rest);
  return merge_fields(upper, rest, type);
}

Value merge_values(const Value& upper, const Value& lower, const Type& type) {
  switch (type.shape) {
    case Shape::kObject:
    case Shape::kDevice:
      return merge_fields(upper, lower, type);
    case Shape::kUnion:
      return merge_unions(upper, lower, type);
    case Shape::kFreeMap:
      return merge_free(upper, lower);
    case Shape::kHyperparameters:
      return merge_hyperparameters(upper, lower);
    case Shape::kPerDevice:
      return merge_maps(upper, lower, [&](const Entry& entry, const Value& below) {
        return merge_values(entry.value, below, *type.item);
      });
    case Shape::kList:
      break;
    default:
      return upper;
  }
  if (type.merge == MergeRule::kReplace) return upper;
  if (type.merge != MergeRule::kConcatenate) return merge_lists(upper, lower, type);
  Value merged = lower;
  merged.place = upper.place;
  merged.items.insert(merged.items.end(), upper.items.begin(), upper.items.end());
  return merged;
}

}  // namespace

yaml::Value merge(const yaml::Value& upper, const yaml::Value& lower) {
  return merge_values(upper, lower, experiment_type());
}

}  // namespace volador::experiments
