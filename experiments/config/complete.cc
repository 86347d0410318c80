#include "experiments/config/complete.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "experiments/config/merge.h"
#include "experiments/config/schema.h"
#include "runtime/result.h"
#include "runtime/yaml/reader.h"

namespace volador::experiments {
namespace {

using yaml::Entry;
using yaml::Value;

constexpr const char* kStorageKey = "checkpoint_storage";
constexpr const char* kPoliciesKey = "log_policies";
// Regular expressions of lines that explain why a trial ended; they label it.
constexpr std::string_view kDefaultPolicies = R"([
  {"name": "CUDA OOM", "pattern": ".*CUDA out of memory.*"},
  {"name": "ECC Error", "pattern": ".*uncorrectable ECC error encountered.*"}
])";

Value built_in(std::string_view json) {
  auto document = yaml::read(json, "default");
  VOLADOR_CHECK(document.has_value(), std::string(json));
  const auto forget = [](auto& self, Value& value) -> void {
    value.place = {};
    for (Value& item : value.items) self(self, item);
    for (Entry& entry : value.entries) {
      entry.place = {};
      self(self, entry.value);
    }
  };
  forget(forget, document->root);
  return std::move(document->root);
}

bool is_object(const Type& type) {
  return type.shape == Shape::kObject || type.shape == Shape::kUnion || type.shape == Shape::kDevice;
}

const Value* given(const Value& object, std::string_view key) {
  const Value* value = object.find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

class CompletenessCheck {
 public:
  CompletenessCheck(const Submission& submission, Findings& findings) : submission_(submission), findings_(findings) {}

  void check(const Value& object, const Type& type, const std::string& path) {
    // Without a variant its fields are unknown; that the variant is missing is an error of its own.
    const bool is_chosen = type.variants.empty() || chosen_variant(type, object) != nullptr;
    for (const Field* field : is_chosen ? fields_of(type, object) : common_fields(type)) {
      const std::string field_path = path_below(path, field->key);
      const Value* value = given(object, field->key);
      if (value == nullptr) {
        if (field->need == Need::kEventually && field->initial == "null") require(*field, object, field_path);
        continue;
      }
      check_below(*value, *field->type, field_path);
    }
    if (type.check != nullptr) type.check(object, path, findings_);
    check_azure_account(object, type, path);
  }

 private:
  static std::vector<const Field*> common_fields(const Type& type) {
    std::vector<const Field*> fields;
    for (const Field& field : type.fields) fields.push_back(&field);
    return fields;
  }

  void check_below(const Value& value, const Type& type, const std::string& path) {
    if (is_object(type) && value.is_map()) check(value, type, path);
    if (type.shape != Shape::kList || !is_object(*type.item) || !value.is_list()) return;
    for (size_t i = 0; i < value.items.size(); ++i) check(value.items[i], *type.item, path_of_item(path, i));
  }

  void require(const Field& field, const Value& object, const std::string& path) {
    if (findings_.has_error_at(path)) return;
    const bool is_of_cluster = path == kStorageKey || path.starts_with(std::string(kStorageKey) + ".type");
    if (is_of_cluster && !submission_.has_cluster_defaults) {
      if (path == kStorageKey) findings_.warning(path, {}, "is not set; the cluster's own storage is used");
      return;
    }
    findings_.error(path, object.place, fmt::format("is a required property; add it{}", example_of(field)));
  }

  static std::string example_of(const Field& field) {
    if (field.key == "entrypoint") return ", such as entrypoint: model_def:MyTrial, or a shell command";
    if (field.key == "metric") return ", such as metric: validation_loss";
    if (field.key == "searcher") return ", such as searcher: {name: single, metric: validation_loss}";
    if (field.key == "max_trials") return ", such as max_trials: 16";
    return "";
  }

  void check_azure_account(const Value& object, const Type& type, const std::string& path) {
    const Variant* variant = type.variants.empty() ? nullptr : chosen_variant(type, object);
    if (variant == nullptr || variant->name != "azure") return;
    const bool has_connection = given(object, "connection_string") != nullptr;
    if (has_connection != (given(object, "account_url") != nullptr)) return;
    findings_.error(path, object.place, "Exactly one of connection_string or account_url must be set");
  }

  const Submission& submission_;
  Findings& findings_;
};

Value defaulted(const Value& value, const Type& type);

Value defaulted_object(const Value& object, const Type& type) {
  Value full = Value::map();
  full.place = object.place;
  const bool is_chosen = type.variants.empty() || chosen_variant(type, object) != nullptr;
  for (const Field* field : fields_of(type, object)) {
    if (field->effect == Effect::kDropped) continue;
    if (!is_chosen && type.field(field->key) == nullptr) continue;
    const Value* value = given(object, field->key);
    Value filled = defaulted(value != nullptr ? *value : built_in(field->initial), *field->type);
    const auto entry = std::ranges::find(object.entries, field->key, &Entry::key);
    full.entries.push_back(
        {field->key, entry == object.entries.end() ? yaml::Place() : entry->place, std::move(filled)});
  }
  // Keys of a custom searcher.
  for (const Entry& entry : object.entries)
    if (full.find(entry.key) == nullptr) full.entries.push_back(entry);
  return full;
}

Value defaulted_policies(const Value& policies) {
  Value lower = Value::map(), upper = Value::map();
  lower.set(kPoliciesKey, built_in(kDefaultPolicies));
  upper.set(kPoliciesKey, policies);
  return *merge(upper, lower).find(kPoliciesKey);
}

Value defaulted(const Value& value, const Type& type) {
  if (value.is_null()) return value;
  if (is_object(type)) return defaulted_object(value, type);
  if (type.merge == MergeRule::kLogPolicies) return defaulted_policies(value);
  Value full = value;
  if (type.shape == Shape::kList && is_object(*type.item)) {
    for (Value& item : full.items) item = defaulted(item, *type.item);
  }
  if (type.shape == Shape::kPerDevice) {
    for (const std::string_view kind : kDeviceKinds) {
      if (full.find(kind) == nullptr) full.set(kind, type.item->shape == Shape::kList ? Value::list() : Value());
    }
  }
  return full;
}

}  // namespace

Value with_submission(Value merged, const Submission& submission) {
  if (given(merged, "name") == nullptr && !submission.name.empty()) merged.set("name", Value::of_text(submission.name));
  const Value* reproducibility = given(merged, "reproducibility");
  if (reproducibility == nullptr || given(*reproducibility, "experiment_seed") == nullptr) {
    Value object = reproducibility != nullptr ? *reproducibility : Value::map();
    object.set("experiment_seed", Value::of_integer(submission.experiment_seed));
    merged.set("reproducibility", std::move(object));
  }
  return merged;
}

void check_complete(const Value& merged, const Submission& submission, Findings& findings) {
  CompletenessCheck(submission, findings).check(merged, experiment_type(), "");
}

Value with_defaults(const Value& merged) { return defaulted_object(merged, experiment_type()); }

}  // namespace volador::experiments
