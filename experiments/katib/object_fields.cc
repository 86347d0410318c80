#include "experiments/katib/object_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "runtime/nearest_word.h"
#include "runtime/utf8.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments::katib {
namespace {

using yaml::Entry;
using yaml::Kind;
using yaml::Value;

constexpr size_t kShownBytesMax = 80;

bool same_but_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Where the keys of an Experiment belong.
std::string_view parent_of_key(std::string_view key) {
  static constexpr std::pair<std::string_view, std::string_view> kParents[] = {
      {"objective", "spec"},
      {"algorithm", "spec"},
      {"earlyStopping", "spec"},
      {"parallelTrialCount", "spec"},
      {"maxTrialCount", "spec"},
      {"maxFailedTrialCount", "spec"},
      {"resumePolicy", "spec"},
      {"nasConfig", "spec"},
      {"metricsCollectorSpec", "spec"},
      {"trialTemplate", "spec"},
      {"goal", "spec.objective"},
      {"objectiveMetricName", "spec.objective"},
      {"additionalMetricNames", "spec.objective"},
      {"metricStrategies", "spec.objective"},
      {"primaryContainerName", "spec.trialTemplate"},
      {"trialParameters", "spec.trialTemplate"},
      {"trialSpec", "spec.trialTemplate"},
      {"successCondition", "spec.trialTemplate"},
      {"failureCondition", "spec.trialTemplate"},
      {"parameterType", "spec.parameters[]"},
      {"feasibleSpace", "spec.parameters[]"},
      {"fileSystemPath", "spec.metricsCollectorSpec.source"},
      {"pytorchReplicaSpecs", "spec"},
      {"tfReplicaSpecs", "spec"},
      {"mpiReplicaSpecs", "spec"},
      {"runPolicy", "spec"},
  };
  for (const auto& [known, parent] : kParents)
    if (known == key) return parent;
  return {};
}

}  // namespace

std::string shown(const Value& value) {
  switch (value.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kText:
      return fmt::format("\"{}\"", plain_text(value.text, kShownBytesMax));
    case Kind::kBoolean:
    case Kind::kInteger:
    case Kind::kNumber:
      break;
  }
  return yaml::json_text(value);
}

std::optional<std::string> scalar_text(const Value& value) {
  if (value.is_text()) return value.text;
  if (value.is_null() || value.is_list() || value.is_map()) return std::nullopt;
  return yaml::json_text(value);
}

ObjectFields::ObjectFields(const Value* value, std::string path, Findings& findings)
    : path_(std::move(path)), findings_(findings) {
  if (value == nullptr || value->is_null()) return;
  place_ = value->place;
  if (value->is_map()) {
    map_ = value;
  } else {
    findings_.error(path_, value->place, fmt::format("expected a map, got {}", shown(*value)));
  }
}

const Value* ObjectFields::take(std::string_view key) {
  known_.emplace(key);
  if (map_ == nullptr) return nullptr;
  if (const Value* value = map_->find(key)) return value->is_null() ? nullptr : value;
  for (const Entry& entry : map_->entries) {
    if (!same_but_case(entry.key, key)) continue;
    if (reported_.insert(entry.key).second) {
      findings_.error(path_below(path_, entry.key), entry.place,
                      fmt::format("there is no such key; keys are case-sensitive: write {}", key));
    }
    return entry.value.is_null() ? nullptr : &entry.value;
  }
  return nullptr;
}

void ObjectFields::refuse(std::string_view key, const Value& value, std::string_view expected, std::string_view hint) {
  findings_.error(path(key), value.place, fmt::format("expected {}, got {}{}", expected, shown(value), hint));
}

ObjectFields ObjectFields::object(std::string_view key) { return {take(key), path(key), findings_}; }

std::optional<std::string> ObjectFields::text(std::string_view key) {
  const Value* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_text()) return value->text;
  refuse(key, *value, "a text", value->is_list() || value->is_map() ? "" : "; put it in quotes");
  return std::nullopt;
}

std::optional<std::string> ObjectFields::one_of(std::string_view key, const std::vector<std::string>& choices) {
  const Value* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_text() && std::ranges::find(choices, value->text) != choices.end()) return value->text;
  std::string hint;
  if (value->is_text()) {
    const auto right = std::ranges::find_if(choices, [&](const auto& one) { return same_but_case(one, value->text); });
    hint = right != choices.end() ? fmt::format("; write {}", *right) : did_you_mean(value->text, choices);
  }
  refuse(key, *value, fmt::format("one of {}", fmt::join(choices, ", ")), hint);
  return std::nullopt;
}

std::optional<bool> ObjectFields::boolean(std::string_view key) {
  const Value* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (value->kind == Kind::kBoolean) return value->boolean;
  refuse(key, *value, "true or false");
  return std::nullopt;
}

std::optional<int64_t> ObjectFields::whole_number(std::string_view key, int64_t min, int64_t max) {
  const Value* value = take(key);
  if (value == nullptr) return std::nullopt;
  std::optional<int64_t> number;
  if (value->kind == Kind::kInteger) number = value->integer;
  if (value->is_text()) {
    int64_t read = 0;
    const char* end = value->text.data() + value->text.size();
    const auto [stop, failed] = std::from_chars(value->text.data(), end, read);
    if (failed == std::errc() && stop == end) number = read;
  }
  if (number && *number >= min && *number <= max) return number;
  const std::string range = max == std::numeric_limits<int32_t>::max() ? fmt::format("of at least {}", min)
                                                                       : fmt::format("from {} to {}", min, max);
  refuse(key, *value, fmt::format("a whole number {}", range));
  return std::nullopt;
}

std::optional<double> ObjectFields::number(std::string_view key) {
  const Value* value = take(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->as_number();
  refuse(key, *value, "a number", value->is_text() ? "; write it without quotes" : "");
  return std::nullopt;
}

std::vector<std::string> ObjectFields::texts(std::string_view key) {
  std::vector<std::string> out;
  each(key, [&](const Value& item, const std::string& item_path) {
    if (item.is_text()) {
      out.push_back(item.text);
      return;
    }
    const bool is_scalar = scalar_text(item).has_value();
    findings_.error(item_path, item.place,
                    fmt::format("expected a text, got {}{}", shown(item), is_scalar ? "; put it in quotes" : ""));
  });
  return out;
}

std::map<std::string, std::string> ObjectFields::pairs(std::string_view key) {
  std::map<std::string, std::string> out;
  const Value* value = take(key);
  if (value == nullptr) return out;
  if (!value->is_map()) {
    refuse(key, *value, "a map");
    return out;
  }
  for (const Entry& entry : value->entries) {
    if (entry.value.is_text()) {
      out.emplace(entry.key, entry.value.text);
      continue;
    }
    const bool is_scalar = scalar_text(entry.value).has_value();
    findings_.error(
        path_below(path(key), entry.key), entry.value.place,
        fmt::format("expected a text, got {}{}", shown(entry.value), is_scalar ? "; put it in quotes" : ""));
  }
  return out;
}

void ObjectFields::each(std::string_view key,
                        const std::function<void(const Value& item, const std::string& path)>& read) {
  const Value* value = take(key);
  if (value == nullptr) return;
  if (!value->is_list()) {
    refuse(key, *value, "a list");
    return;
  }
  for (size_t i = 0; i < value->items.size(); ++i) read(value->items[i], path_of_item(path(key), i));
}

void ObjectFields::require(std::string_view key, std::string_view next_step) {
  findings_.error(path(key), place_, fmt::format("is required; {}", next_step));
}

void ObjectFields::error(std::string_view key, const Value* value, std::string message) {
  findings_.error(path(key), value == nullptr ? place_ : value->place, std::move(message));
}

void ObjectFields::ignore(std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) take(key);
}

void ObjectFields::finish() {
  if (map_ == nullptr) return;
  const std::vector<std::string> known(known_.begin(), known_.end());
  for (const Entry& entry : map_->entries) {
    if (known_.contains(entry.key) || reported_.contains(entry.key)) continue;
    const std::string_view parent = parent_of_key(entry.key);
    const std::string hint = !parent.empty() && parent != path_ && !path_.ends_with(parent)
                                 ? fmt::format("; it belongs below {}, indent it so", parent)
                                 : did_you_mean(entry.key, known);
    findings_.error(path_below(path_, plain_text(entry.key, kShownBytesMax)), entry.place,
                    fmt::format("there is no such key{}", hint));
  }
}

}  // namespace volador::experiments::katib
