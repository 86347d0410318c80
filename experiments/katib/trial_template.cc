#include "experiments/katib/trial_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "experiments/katib/object_fields.h"
#include "runtime/nearest_word.h"

namespace volador::experiments::katib {
namespace {

using yaml::Entry;
using yaml::Value;

constexpr std::string_view kParameterPrefix = "${trialParameters.";
constexpr std::string_view kTrialPrefix = "${trialSpec.";

// Calls `found` with the name of each placeholder that begins with `prefix`, and replaces it by what that returns.
std::string replace_placeholders(
    std::string_view text, std::string_view prefix,
    const std::function<std::string(std::string_view name, std::string_view whole)>& found) {
  std::string out;
  while (true) {
    const size_t begin = text.find(prefix);
    const size_t end = begin == std::string_view::npos ? begin : text.find('}', begin);
    if (end == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, begin));
    out += found(text.substr(begin + prefix.size(), end - begin - prefix.size()), text.substr(begin, end + 1 - begin));
    text.remove_prefix(end + 1);
  }
}

using Visit = std::function<void(const std::string& text, const std::string& path, const yaml::Place& place)>;

void visit_texts(const Value& value, const std::string& path, const Visit& visit) {
  if (value.is_text()) visit(value.text, path, value.place);
  for (size_t i = 0; i < value.items.size(); ++i) visit_texts(value.items[i], path_of_item(path, i), visit);
  for (const Entry& entry : value.entries) {
    visit(entry.key, path_below(path, entry.key), entry.place);
    visit_texts(entry.value, path_below(path, entry.key), visit);
  }
}

std::string text_at(const Value& object, std::string_view key) {
  const Value* value = object.find(key);
  return value != nullptr && value->is_text() ? value->text : "";
}

// The annotation or label of the template's object; no value: it has none.
std::optional<std::string> metadata_value(const Value& object, std::string_view map, std::string_view key) {
  const Value* metadata = object.find("metadata");
  const Value* values = metadata == nullptr ? nullptr : metadata->find(map);
  const Value* value = values == nullptr ? nullptr : values->find(key);
  return value != nullptr && value->is_text() ? std::optional(value->text) : std::nullopt;
}

std::optional<std::string> value_of(const TrialReference& reference, const Value& object, const Metadata& trial) {
  switch (reference.what) {
    case TrialReference::What::kName:
      return trial.name;
    case TrialReference::What::kNamespace:
      return trial.name_space;
    case TrialReference::What::kKind:
      return text_at(object, "kind");
    case TrialReference::What::kApiVersion:
      return text_at(object, "apiVersion");
    case TrialReference::What::kAnnotation:
      return metadata_value(object, "annotations", reference.key);
    case TrialReference::What::kLabel:
      return metadata_value(object, "labels", reference.key);
  }
  return std::nullopt;
}

using Values = std::map<std::string, std::string, std::less<>>;

Value with_values(const Value& given, const Values& values) {
  const auto replace = [&](const std::string& text) {
    return replace_placeholders(text, kParameterPrefix, [&](std::string_view name, std::string_view whole) {
      const auto found = values.find(name);
      return found == values.end() ? std::string(whole) : found->second;
    });
  };
  Value out = given;
  if (out.is_text()) out.text = replace(out.text);
  for (Value& item : out.items) item = with_values(item, values);
  for (Entry& entry : out.entries) {
    entry.key = replace(entry.key);
    entry.value = with_values(entry.value, values);
  }
  return out;
}

class TemplateCheck {
 public:
  TemplateCheck(const TrialTemplate& trial_template, const std::vector<std::string>& parameters, std::string_view path,
                Findings& findings)
      : template_(trial_template), parameters_(parameters), path_(path), findings_(findings) {}

  void run() {
    check_declarations();
    check_uses();
    check_metadata();
  }

 private:
  std::string path_of(size_t index, std::string_view key) const {
    return path_below(path_of_item(path_below(path_, "trialParameters"), index), key);
  }

  void check_declarations() {
    std::map<std::string, const TrialParameter*> references;
    for (size_t i = 0; i < template_.parameters.size(); ++i) {
      const TrialParameter& one = template_.parameters[i];
      if (!one.name.empty() && !declared_.emplace(one.name, i).second)
        findings_.error(path_of(i, "name"), one.place,
                        fmt::format("the name {} is declared twice; change one", one.name));
      if (one.reference.empty()) continue;
      const auto [first, added] = references.emplace(one.reference, &one);
      if (!added) {
        findings_.error(
            path_of(i, "reference"), one.place,
            fmt::format("{} and {} refer both to {}; use one of them", first->second->name, one.name, one.reference));
      }
      check_reference(one, path_of(i, "reference"));
    }
  }

  void check_reference(const TrialParameter& one, const std::string& path) {
    if (one.reference.starts_with("${")) {
      const auto reference = trial_reference(one.reference);
      if (!reference) {
        findings_.error(path, one.place,
                        fmt::format("expected ${{trialSpec.Name}}, Namespace, Kind, APIVersion, Annotations[KEY] or "
                                    "Labels[KEY], got \"{}\"",
                                    one.reference));
      } else if (!value_of(*reference, template_.trial_spec, {})) {
        findings_.error(
            path, one.place,
            fmt::format("the metadata of trialSpec has no {} {}",
                        reference->what == TrialReference::What::kLabel ? "label" : "annotation", reference->key));
      }
      return;
    }
    if (parameters_.empty() || std::ranges::find(parameters_, one.reference) != parameters_.end()) return;
    findings_.error(
        path, one.place,
        fmt::format("spec.parameters has no parameter {}{}", one.reference, did_you_mean(one.reference, parameters_)));
  }

  void check_uses() {
    std::vector<std::string> names;
    for (const auto& [name, index] : declared_) names.push_back(name);
    std::set<std::string, std::less<>> used;
    visit_texts(template_.trial_spec, path_below(path_, "trialSpec"),
                [&](const std::string& text, const std::string& path, const yaml::Place& place) {
                  replace_placeholders(text, kParameterPrefix, [&](std::string_view name, std::string_view whole) {
                    used.emplace(name);
                    if (!declared_.contains(std::string(name))) {
                      findings_.error(path, place,
                                      fmt::format("{}: trialParameters has no parameter {}{}", whole, name,
                                                  did_you_mean(name, names)));
                    }
                    return std::string();
                  });
                  replace_placeholders(text, kTrialPrefix, [&](std::string_view, std::string_view whole) {
                    findings_.error(path, place,
                                    fmt::format("{}: only trialParameters refer to the trial; declare one with this "
                                                "reference and use ${{trialParameters.NAME}}",
                                                whole));
                    return std::string();
                  });
                });
    for (const auto& [name, index] : declared_) {
      if (used.contains(name)) continue;
      findings_.error(path_of(index, "name"), template_.parameters[index].place,
                      fmt::format("{} is not used in trialSpec; use ${{trialParameters.{}}} or remove it", name, name));
    }
  }

  void check_metadata() {
    const Value* metadata = template_.trial_spec.find("metadata");
    for (const char* key : {"name", "namespace"}) {
      const Value* value = metadata == nullptr ? nullptr : metadata->find(key);
      if (value == nullptr || value->is_null()) continue;
      findings_.error(path_below(path_, fmt::format("trialSpec.metadata.{}", key)), value->place,
                      "each trial gets its own; remove it");
    }
  }

  const TrialTemplate& template_;
  const std::vector<std::string>& parameters_;
  const std::string path_;
  Findings& findings_;
  std::map<std::string, size_t> declared_;  // Index of each parameter.
};

}  // namespace

std::optional<Conditions> default_conditions(std::string_view kind) {
  const auto conditions = [](std::string_view success) {
    const auto condition = [](std::string_view type) {
      return fmt::format(R"(status.conditions.#(type=="{}")#|#(status=="True")#)", type);
    };
    return Conditions{condition(success), condition("Failed")};
  };
  if (kind == "Job" || kind == "TrainJob") return conditions("Complete");
  if (kind == "PyTorchJob" || kind == "TFJob" || kind == "MPIJob") return conditions("Succeeded");
  return std::nullopt;
}

std::optional<TrialReference> trial_reference(std::string_view text) {
  using What = TrialReference::What;
  if (!text.starts_with(kTrialPrefix) || !text.ends_with('}')) return std::nullopt;
  text.remove_prefix(kTrialPrefix.size());
  text.remove_suffix(1);
  static constexpr std::pair<std::string_view, What> kPlain[] = {
      {"Name", What::kName}, {"Namespace", What::kNamespace}, {"Kind", What::kKind}, {"APIVersion", What::kApiVersion}};
  for (const auto& [name, what] : kPlain)
    if (text == name) return TrialReference{what, {}};
  static constexpr std::pair<std::string_view, What> kIndexed[] = {{"Annotations[", What::kAnnotation},
                                                                   {"Labels[", What::kLabel}};
  for (const auto& [prefix, what] : kIndexed) {
    if (!text.starts_with(prefix) || !text.ends_with(']') || text.size() <= prefix.size() + 1) continue;
    return TrialReference{what, std::string(text.substr(prefix.size(), text.size() - prefix.size() - 1))};
  }
  return std::nullopt;
}

void check_template(const TrialTemplate& trial_template, const std::vector<std::string>& parameters,
                    std::string_view path, Findings& findings) {
  TemplateCheck(trial_template, parameters, path, findings).run();
}

Result<Value> substitute(const TrialTemplate& trial_template, const Metadata& trial,
                         const katib::Assignments& assignments) {
  Values values;
  for (const TrialParameter& one : trial_template.parameters) {
    std::optional<std::string> value;
    if (const auto reference = trial_reference(one.reference)) {
      value = value_of(*reference, trial_template.trial_spec, trial);
    } else {
      const auto found = std::ranges::find(assignments, one.reference, &Setting::name);
      if (found != assignments.end()) value = found->value;
    }
    if (!value) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("trialParameters: {}: trial {} has no value of {}",
                                                                 one.name, trial.name, one.reference));
    }
    values[one.name] = std::move(*value);
  }
  Value object = with_values(trial_template.trial_spec, values);
  if (!object.is_map())
    return make_error(ErrorCode::kInvalidArgument, fmt::format("trialSpec: expected a map, got {}", shown(object)));
  const Value* given = object.find("metadata");
  Value metadata = given != nullptr && given->is_map() ? *given : Value::map();
  metadata.set("name", Value::of_text(trial.name));
  metadata.set("namespace", Value::of_text(trial.name_space));
  if (!trial.labels.empty()) {
    const Value* own = metadata.find("labels");
    Value labels = own != nullptr && own->is_map() ? *own : Value::map();
    for (const auto& [key, value] : trial.labels)
      if (labels.find(key) == nullptr) labels.set(key, Value::of_text(value));
    metadata.set("labels", std::move(labels));
  }
  object.set("metadata", std::move(metadata));
  return object;
}

}  // namespace volador::experiments::katib
