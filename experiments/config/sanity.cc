#include "experiments/config/sanity.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "experiments/config/forms.h"
#include "experiments/config/schema.h"
#include "runtime/nearest_word.h"
#include "runtime/utf8.h"

namespace volador::experiments {
namespace {

using yaml::Entry;
using yaml::Kind;
using yaml::Value;

constexpr size_t kShownBytesMax = 80;
constexpr const char* kLengthRule =
    "a length object must have one attribute named \"batches\", \"records\", or \"epochs\"";
constexpr const char* kOldDeviceKind = "gpu";
constexpr const char* kCuda = "cuda";

std::string shown(const Value& value, bool secret) {
  switch (value.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kBoolean:
      return value.boolean ? "true" : "false";
    case Kind::kInteger:
      return secret ? "a number" : fmt::format("{}", value.integer);
    case Kind::kNumber:
      return secret ? "a number" : fmt::format("{}", value.number);
    case Kind::kText:
      return secret ? "another text" : fmt::format("\"{}\"", plain_text(value.text, kShownBytesMax));
  }
  return "";
}

std::string shown_key(std::string_view key) { return plain_text(key, kShownBytesMax); }

// Where keys of the schema are: "slots_per_trial" → {"resources"}.
using KeyIndex = std::map<std::string, std::set<std::string>, std::less<>>;

void index_keys(const Type& type, const std::string& path, KeyIndex& index) {
  const auto add = [&](const std::vector<Field>& fields) {
    for (const Field& field : fields) {
      if (field.effect == Effect::kUsed) index[field.key].insert(path);
      const Type& below = field.type->shape == Shape::kList ? *field.type->item : *field.type;
      index_keys(below, path_below(path, field.key), index);
    }
  };
  add(type.fields);
  for (const Variant& variant : type.variants) add(variant.fields);
}

const KeyIndex& key_index() {
  static const KeyIndex index = [] {
    KeyIndex made;
    index_keys(experiment_type(), "", made);
    return made;
  }();
  return index;
}

// "; did you mean max_trials?", or "; it belongs below resources", or nothing.
std::string hint_for(std::string_view key, const std::string& path, const std::vector<std::string>& known) {
  const auto elsewhere = key_index().find(key);
  if (elsewhere != key_index().end() && elsewhere->second.size() == 1 && *elsewhere->second.begin() != path) {
    const std::string& place = *elsewhere->second.begin();
    return place.empty() ? "; it belongs at the top level" : fmt::format("; it belongs below {}", place);
  }
  return did_you_mean(key, known);
}

class SanityCheck {
 public:
  explicit SanityCheck(Findings& findings) : findings_(findings) {}

  // The canonical form; no value: null, or refused with an error.
  std::optional<Value> check(const Value& value, const Type& type, const std::string& path) {
    if (value.is_null()) {
      if (type.not_null) refuse(value, type, path);
      return std::nullopt;
    }
    switch (type.shape) {
      case Shape::kAny:
        return value;
      case Shape::kBoolean:
        return value.kind == Kind::kBoolean ? std::optional(value) : refuse(value, type, path);
      case Shape::kInteger:
      case Shape::kNumber:
        return number(value, type, path);
      case Shape::kText:
        return text(value, type, path);
      case Shape::kTextOrTexts:
        return text_or_texts(value, type, path);
      case Shape::kList:
        return list(value, type, path);
      case Shape::kFreeMap:
        return free_map(value, type, path);
      case Shape::kObject:
        return object(value, type, path);
      case Shape::kUnion:
        return choice_of_objects(value, type, path);
      case Shape::kLength:
      case Shape::kSearcherLength:
        return length(value, type, path);
      case Shape::kMemory:
        return memory(value, type, path);
      case Shape::kDevice:
        return device(value, type, path);
      case Shape::kPerDevice:
        return per_device(value, type, path);
      case Shape::kHyperparameters:
        return hyperparameters(value, type, path);
      case Shape::kLogAction:
        return log_action(value, path);
    }
    return std::nullopt;
  }

 private:
  std::nullopt_t refuse(const Value& value, const Type& type, const std::string& path, std::string_view hint = {}) {
    findings_.error(path, value.place,
                    fmt::format("expected {}, got {}{}", expectation(type), shown(value, type.secret), hint));
    return std::nullopt;
  }

  std::optional<Value> number(const Value& value, const Type& type, const std::string& path) {
    Value read = value;
    if (type.shape == Shape::kInteger && value.kind == Kind::kNumber) {
      constexpr double kExact = 9007199254740992.0;  // 2^53.
      if (std::trunc(value.number) != value.number || std::abs(value.number) > kExact) return refuse(value, type, path);
      read = Value::of_integer(static_cast<int64_t>(value.number));
      read.place = value.place;
    }
    if (!read.is_number()) return refuse(value, type, path);
    const double amount = read.as_number();
    if (type.min && (amount < *type.min || (type.above_min && amount == *type.min))) return refuse(value, type, path);
    if (type.max && amount > *type.max) return refuse(value, type, path);
    return read;
  }

  std::optional<Value> text(const Value& value, const Type& type, const std::string& path) {
    if (!value.is_text()) {
      const bool is_scalar = !value.is_list() && !value.is_map();
      return refuse(value, type, path, is_scalar && type.choices.empty() ? "; put it in quotes" : "");
    }
    if (type.text_check != nullptr) {
      if (const std::string rule = type.text_check(value.text); !rule.empty()) {
        findings_.error(path, value.place,
                        type.unshown ? rule : fmt::format("{}, got {}", rule, shown(value, type.secret)));
        return std::nullopt;
      }
    }
    if (type.choices.empty() || std::ranges::find(type.choices, value.text) != type.choices.end()) return value;
    for (const auto& [misspelled, choice] : type.choice_aliases) {
      if (value.text != misspelled) continue;
      findings_.warning(path, value.place, fmt::format("{} is read as {}; write {}", misspelled, choice, choice));
      Value read = Value::of_text(choice);
      read.place = value.place;
      return read;
    }
    return refuse(value, type, path, did_you_mean(value.text, type.choices));
  }

  std::optional<Value> text_or_texts(const Value& value, const Type& type, const std::string& path) {
    if (value.is_text() && !value.text.empty()) return value;
    if (!value.is_list() || value.items.empty()) return refuse(value, type, path);
    for (size_t i = 0; i < value.items.size(); ++i) {
      if (value.items[i].is_text()) continue;
      findings_.error(path_of_item(path, i), value.items[i].place,
                      fmt::format("expected a text, got {}; put it in quotes", shown(value.items[i], false)));
      return std::nullopt;
    }
    return value;
  }

  std::optional<Value> list(const Value& value, const Type& type, const std::string& path) {
    if (!value.is_list()) return refuse(value, type, path);
    Value read = Value::list();
    read.place = value.place;
    for (size_t i = 0; i < value.items.size(); ++i) {
      const std::string item_path = path_of_item(path, i);
      auto item = check(value.items[i], *type.item, item_path);
      // Lists of any values hold null too.
      if (!item && type.item->shape == Shape::kAny) item = value.items[i];
      if (!item) continue;
      if (type.merge == MergeRule::kLogPolicies) refuse_second_name(read, *item, item_path);
      read.items.push_back(std::move(*item));
    }
    return read;
  }

  void refuse_second_name(const Value& before, const Value& policy, const std::string& path) {
    const Value* name = policy.find("name");
    if (name == nullptr) return;
    for (const Value& other : before.items) {
      const Value* taken = other.find("name");
      if (taken == nullptr || taken->text != name->text) continue;
      findings_.error(path_below(path, "name"), name->place,
                      fmt::format("log_policies have duplicated names {}; the first is at {}", shown(*name, false),
                                  taken->place.text()));
      return;
    }
  }

  std::optional<Value> free_map(const Value& value, const Type& type, const std::string& path) {
    if (!value.is_map()) return refuse(value, type, path);
    if (type.item != nullptr) {
      for (const Entry& entry : value.entries) check(entry.value, *type.item, path_below(path, entry.key));
    }
    return value;
  }

  std::optional<Value> object(const Value& value, const Type& type, const std::string& path) {
    if (!value.is_map()) return refuse(value, type, path);
    std::vector<const Field*> fields;
    for (const Field& field : type.fields) fields.push_back(&field);
    return with_fields(value, type, path, fields, /*is_open=*/false);
  }

  // A union: without a variant only the common fields are checked; the others wait for the layer that has the variant.
  std::optional<Value> choice_of_objects(const Value& given, const Type& type, const std::string& path) {
    if (!given.is_map()) return refuse(given, type, path);
    Value value = given;
    read_old_adaptive(value, type, path);
    const Variant* variant = chosen_variant(type, value);
    return with_fields(value, type, path, fields_of(type, value), variant != nullptr && variant->is_open);
  }

  // `adaptive` without the budget of the old searcher means adaptive_asha.
  void read_old_adaptive(Value& value, const Type& type, const std::string& path) {
    Value* name = value.find(type.variant_key);
    if (type.variant_key != "name" || name == nullptr || !name->is_text() || name->text != "adaptive") return;
    if (value.find("budget") != nullptr) return;
    findings_.warning(path_below(path, "name"), name->place,
                      "adaptive without a budget is read as adaptive_asha; write adaptive_asha");
    name->text = "adaptive_asha";
  }

  std::optional<Value> with_fields(const Value& value, const Type& type, const std::string& path,
                                   const std::vector<const Field*>& fields, bool is_open) {
    Value read = Value::map();
    read.place = value.place;
    const bool is_chosen = type.variants.empty() || chosen_variant(type, value) != nullptr;
    for (const Entry& entry : value.entries) {
      const Field* field = field_of(entry, path, fields);
      if (field == nullptr) {
        if (is_open) {
          read.set(entry.key, entry.value);
        } else {
          refuse_key(entry, value, type, path, fields);
        }
        continue;
      }
      const std::string field_path = path_below(path, field->key);
      if (field->effect == Effect::kDropped) {
        if (!entry.value.is_null())
          findings_.warning(field_path, entry.place, "is accepted, but has no effect; remove it");
        continue;
      }
      if (read.find(field->key) != nullptr) {
        findings_.error(field_path, entry.place, fmt::format("given twice, here as {}; remove one of them", entry.key));
        continue;
      }
      const bool is_checked = is_chosen || type.field(field->key) != nullptr;
      auto below = is_checked              ? check(entry.value, *field->type, field_path)
                   : entry.value.is_null() ? std::nullopt
                                           : std::optional(entry.value);
      // A value that may be null is there even so: `val` of a constant.
      if (!below && field->need == Need::kRequired && !field->type->not_null && entry.value.is_null())
        below = entry.value;
      if (!below) continue;
      const bool is_empty = (below->is_map() && below->entries.empty()) || (below->is_list() && below->items.empty());
      if (field->effect == Effect::kUnused && !is_empty)
        findings_.warning(field_path, entry.place, "is accepted, but Volador does not use it");
      read.entries.push_back({field->key, entry.place, std::move(*below)});
    }
    for (const Field* field : fields) {
      const bool is_given =
          std::ranges::any_of(value.entries, [&](const Entry& entry) { return names(entry, *field); });
      if (field->need == Need::kRequired && !is_given)
        findings_.error(path_below(path, field->key), value.place, "is required; add it");
    }
    if (type.check != nullptr) type.check(read, path, findings_);
    return read;
  }

  static bool names(const Entry& entry, const Field& field) {
    return entry.key == field.key || std::ranges::find(field.aliases, entry.key) != field.aliases.end();
  }

  const Field* field_of(const Entry& entry, const std::string& path, const std::vector<const Field*>& fields) {
    for (const Field* field : fields)
      if (entry.key == field->key) return field;
    for (const Field* field : fields) {
      if (std::ranges::find(field->aliases, entry.key) == field->aliases.end()) continue;
      findings_.warning(path_below(path, entry.key), entry.place,
                        fmt::format("is read as {}; write {}", field->key, field->key));
      return field;
    }
    return nullptr;
  }

  void refuse_key(const Entry& entry, const Value& value, const Type& type, const std::string& path,
                  const std::vector<const Field*>& fields) {
    const std::string key_path = path_below(path, shown_key(entry.key));
    if (const Variant* variant = chosen_variant(type, value)) {
      std::vector<std::string> others;
      for (const Variant& other : type.variants)
        if (std::ranges::find(other.fields, entry.key, &Field::key) != other.fields.end()) others.push_back(other.name);
      if (!others.empty()) {
        findings_.error(key_path, entry.place,
                        fmt::format("there is no such key with {}: {}; it belongs to {}", type.variant_key,
                                    variant->name, fmt::join(others, ", ")));
        return;
      }
    }
    std::vector<std::string> known;
    for (const Field* field : fields) known.push_back(field->key);
    findings_.error(key_path, entry.place, fmt::format("there is no such key{}", hint_for(entry.key, path, known)));
  }

  std::optional<Value> length(const Value& value, const Type& type, const std::string& path) {
    if (type.shape == Shape::kSearcherLength && value.is_number())
      return number(value, {.shape = Shape::kInteger, .min = type.min}, path);
    if (!value.is_map()) return refuse(value, type, path);
    const std::vector<std::string> units(std::begin(kLengthUnits), std::end(kLengthUnits));
    const std::string key = value.entries.size() == 1 ? value.entries.front().key : "";
    if (std::ranges::find(units, key) == units.end()) {
      const Value& where = value.entries.empty() ? value : value.entries.front().value;
      findings_.error(path, value.entries.empty() ? where.place : value.entries.front().place,
                      kLengthRule + (key.empty() ? "" : did_you_mean(key, units)));
      return std::nullopt;
    }
    const Type count{.shape = Shape::kInteger, .min = type.min, .not_null = true};
    auto amount = check(value.entries.front().value, count, path_below(path, key));
    if (!amount) return std::nullopt;
    Value read = Value::map();
    read.place = value.place;
    read.entries.push_back({key, value.entries.front().place, std::move(*amount)});
    return read;
  }

  std::optional<Value> memory(const Value& value, const Type& type, const std::string& path) {
    if (value.kind == Kind::kInteger && value.integer >= 0) return value;
    const auto bytes = value.is_text() ? memory_bytes(value.text) : std::nullopt;
    if (!bytes) {
      findings_.error(path, value.place,
                      fmt::format("must be a valid memory size: {}, got {}", expectation(type), shown(value, false)));
      return std::nullopt;
    }
    Value read = Value::of_integer(*bytes);
    read.place = value.place;
    return read;
  }

  std::optional<Value> device(const Value& value, const Type& type, const std::string& path) {
    if (!value.is_text()) return value.is_map() ? object(value, type, path) : refuse(value, type, path);
    const auto parts = device_of(value.text);
    if (!parts) return refuse(value, type, path);
    Value read = Value::map();
    read.place = value.place;
    const auto add = [&](const char* key, const std::string& text) {
      Value part = Value::of_text(text);
      part.place = value.place;
      read.set(key, std::move(part));
    };
    add("host_path", parts->host_path);
    add("container_path", parts->container_path);
    add("mode", parts->mode);
    return read;
  }

  std::optional<Value> per_device(const Value& value, const Type& type, const std::string& path) {
    Value read = Value::map();
    read.place = value.place;
    if (!value.is_map()) {
      if (value.is_list() != (type.item->shape == Shape::kList)) return refuse(value, type, path);
      const auto all = check(value, *type.item, path);
      if (!all) return std::nullopt;
      for (const std::string_view kind : kDeviceKinds) read.set(kind, *all);
      return read;
    }
    for (const Entry& entry : value.entries) {
      std::string kind = entry.key;
      if (kind == kOldDeviceKind) {
        findings_.warning(path_below(path, kind), entry.place, "is read as cuda; write cuda");
        if (const Value* newer = value.find(kCuda); newer != nullptr && !newer->is_null()) continue;
        kind = kCuda;
      }
      const std::vector<std::string> kinds(std::begin(kDeviceKinds), std::end(kDeviceKinds));
      if (std::ranges::find(kinds, kind) == kinds.end()) {
        findings_.error(path_below(path, shown_key(kind)), entry.place,
                        fmt::format("there is no such kind of device{}; the kinds are {}", did_you_mean(kind, kinds),
                                    fmt::join(kinds, ", ")));
        continue;
      }
      auto below = check(entry.value, *type.item, path_below(path, kind));
      if (below) read.set(kind, std::move(*below));
    }
    return read;
  }

  std::optional<Value> hyperparameters(const Value& value, const Type& type, const std::string& path) {
    if (!value.is_map()) return refuse(value, type, path);
    Value read = Value::map();
    read.place = value.place;
    read.entries.reserve(value.entries.size());
    for (const Entry& entry : value.entries) {
      auto below = hyperparameter(entry.value, path_below(path, shown_key(entry.key)));
      if (below) read.entries.push_back({entry.key, entry.place, std::move(*below)});
    }
    return read;
  }

  std::optional<Value> hyperparameter(const Value& value, const std::string& path) {
    if (!value.is_map()) {
      Value read = Value::map();
      read.place = value.place;
      Value type = Value::of_text("const");
      type.place = value.place;
      read.set("type", std::move(type));
      read.entries.push_back({"val", value.place, value});
      return read;
    }
    const Value* kind = value.find("type");
    if (kind == nullptr) return hyperparameters(value, {}, path);
    std::vector<std::string> names;
    for (const Variant& type : hyperparameter_types()) names.push_back(type.name);
    const auto found = std::ranges::find(hyperparameter_types(), kind->text, &Variant::name);
    if (!kind->is_text() || found == hyperparameter_types().end()) {
      findings_.error(path_below(path, "type"), kind->place,
                      fmt::format("expected one of {}, got {}; a map of hyperparameters has no key type{}",
                                  fmt::join(names, ", "), shown(*kind, false), did_you_mean(kind->text, names)));
      return std::nullopt;
    }
    static const Field type_field{.key = "type", .type = std::make_shared<const Type>(Type{.shape = Shape::kText})};
    std::vector<const Field*> fields{&type_field};
    for (const Field& field : found->fields) fields.push_back(&field);
    const Type shape{.shape = Shape::kObject, .check = check_hyperparameter};
    return with_fields(value, shape, path, fields, /*is_open=*/false);
  }

  std::optional<Value> log_action(const Value& value, const std::string& path) {
    const Value* action = value.is_map() && value.entries.size() == 1 ? value.find("type") : &value;
    if (action != nullptr && action->is_text() && (action->text == "cancel_retries" || action->text == "exclude_node"))
      return *action;
    findings_.error(path, value.place,
                    fmt::format("must be one of \"cancel_retries\" or \"exclude_node\", got {}", shown(value, false)));
    return std::nullopt;
  }

  Findings& findings_;
};

}  // namespace

std::string expectation(const Type& type) {
  const auto range = [&]() -> std::string {
    if (type.min && type.max) return fmt::format(" from {} to {}", *type.min, *type.max);
    if (type.min) return fmt::format(" {} {}", type.above_min ? "above" : "of at least", *type.min);
    if (type.max) return fmt::format(" of at most {}", *type.max);
    return "";
  };
  switch (type.shape) {
    case Shape::kAny:
      return "a value";
    case Shape::kBoolean:
      return "true or false";
    case Shape::kInteger:
      return "a whole number" + range();
    case Shape::kNumber:
      return "a number" + range();
    case Shape::kText:
      return type.choices.empty() ? "a text" : fmt::format("one of {}", fmt::join(type.choices, ", "));
    case Shape::kTextOrTexts:
      return "a text or a list of texts";
    case Shape::kList:
      return "a list";
    case Shape::kFreeMap:
    case Shape::kObject:
    case Shape::kUnion:
      return "a map";
    case Shape::kHyperparameters:
      return "a map of hyperparameters by name";
    case Shape::kLength:
      return "a length such as {batches: 100}";
    case Shape::kSearcherLength:
      return "a length such as {batches: 100}, or a number";
    case Shape::kMemory:
      return "bytes, or a text such as 128M or 1.5G";
    case Shape::kDevice:
      return "a map, or a text such as /dev/infiniband:/dev/infiniband:rw";
    case Shape::kPerDevice:
      return fmt::format("{}, or a map with the keys cpu, cuda and rocm",
                         type.item->shape == Shape::kList ? "a list of NAME=VALUE" : "a text");
    case Shape::kLogAction:
      return "cancel_retries or exclude_node";
  }
  return "";
}

yaml::Value sane(const yaml::Value& layer, Findings& findings) {
  if (layer.is_null()) return Value::map();
  if (!layer.is_map()) {
    findings.error("", layer.place,
                   fmt::format("expected a map of keys such as `name: mnist`, got {}", shown(layer, false)));
    return Value::map();
  }
  auto read = SanityCheck(findings).check(layer, experiment_type(), "");
  return read ? std::move(*read) : Value::map();
}

}  // namespace volador::experiments
