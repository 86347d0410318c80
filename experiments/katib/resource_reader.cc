#include "experiments/katib/resource_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "experiments/katib/experiment_reader.h"
#include "experiments/katib/indentation.h"
#include "experiments/katib/object_fields.h"
#include "experiments/katib/training_job.h"
#include "runtime/nearest_word.h"
#include "runtime/quantities.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments::katib {
namespace {

using yaml::Entry;
using yaml::Value;

constexpr size_t kLabelMax = 63;

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter_or_digit(char c) { return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z'); }

// Lower-case letters, digits and "-", with no "-" at its ends.
bool is_dns_label(std::string_view text, size_t most) {
  const auto ends_well = [](char c) { return is_lower(c) || is_digit(c); };
  return !text.empty() && text.size() <= most && ends_well(text.front()) && ends_well(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

bool is_label_text(std::string_view text) {
  return !text.empty() && text.size() <= kLabelMax && is_letter_or_digit(text.front()) &&
         is_letter_or_digit(text.back()) &&
         std::ranges::all_of(text, [](char c) { return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.'; });
}

// Labels and annotations have keys such as "team" and "example.com/team".
bool is_metadata_key(std::string_view key) {
  const size_t slash = key.find('/');
  if (slash == std::string_view::npos) return is_label_text(key);
  const std::string_view prefix = key.substr(0, slash);
  const bool is_domain = !prefix.empty() && prefix.size() <= 253 && std::ranges::all_of(prefix, [](char c) {
    return is_lower(c) || is_digit(c) || c == '-' || c == '.';
  });
  return is_domain && is_label_text(key.substr(slash + 1));
}

class ResourceReader {
 public:
  ResourceReader(std::string_view default_namespace, ResourceReading& reading)
      : default_namespace_(default_namespace), reading_(reading), findings_(reading.findings) {}

  // A document: a resource, or a list of them.
  void read(const Value& document) {
    if (document.is_null()) return;
    const Value* kind = document.find("kind");
    if (kind == nullptr || !kind->is_text() || (kind->text != "List" && kind->text != "ExperimentList")) {
      read_resource(document);
      return;
    }
    ObjectFields list(&document, "", findings_);
    list.each("items", [&](const Value& item, const std::string&) { read_resource(item); });
  }

 private:
  void read_resource(const Value& given) {
    const size_t errors_before = findings_.errors().size();
    Resource resource;
    resource.object = given;
    ObjectFields fields(&resource.object, "", findings_);
    if (!fields.is_given()) return;
    if (!read_kind(fields, resource)) return;
    if (resource.kind == "Experiment") lift_keys_of_spec(resource.object);
    ObjectFields top(&resource.object, "", findings_);
    top.ignore({"apiVersion", "kind", "status"});
    read_metadata(top, resource);
    const auto key = std::tuple(resource.kind, resource.metadata.name_space, resource.metadata.name);
    if (const auto [first, added] = places_.emplace(key, given.place); !added && !resource.metadata.name.empty()) {
      findings_.error("metadata.name", given.place,
                      fmt::format("the {} {} is given twice, first at {}; remove one of them", resource.kind,
                                  resource.metadata.name, first->second.text()));
    }
    if (resource.kind == "Experiment") {
      resource.experiment = read_experiment(top, findings_);
    } else {
      read_training_job(resource.object, "", "", findings_);
      top.ignore({"spec"});
    }
    top.finish();
    if (findings_.errors().size() != errors_before || findings_.errors_left_out() > 0) return;
    complete(resource);
    if (reading_.resources.size() < kResourcesMax) {
      reading_.resources.push_back(std::move(resource));
    } else {
      findings_.error("", given.place, fmt::format("expected at most {} resources in a file", kResourcesMax));
    }
  }

  bool read_kind(ObjectFields& fields, Resource& resource) {
    std::vector<std::string> names, versions;
    for (const ResourceKind& one : resource_kinds()) {
      if (!one.is_given) continue;
      names.emplace_back(one.name);
      for (const std::string_view version : one.api_versions) versions.emplace_back(version);
    }
    const Value* kind = fields.take("kind");
    const Value* version = fields.take("apiVersion");
    if (kind == nullptr) {
      fields.require("kind", fmt::format("one of {}", fmt::join(names, ", ")));
      return false;
    }
    const ResourceKind* known = kind->is_text() ? resource_kind(kind->text) : nullptr;
    if (known != nullptr && !known->is_given) {
      fields.error(
          "kind", kind,
          fmt::format("a {} is made by its experiment and cannot be applied; apply the Experiment", known->name));
      return false;
    }
    if (known == nullptr) {
      std::string hint;
      if (kind->is_text()) {
        const auto meant = kind_of(kind->text);
        hint = meant ? fmt::format("; write {}", *meant) : did_you_mean(kind->text, names);
      }
      fields.error("kind", kind,
                   fmt::format("expected one of {}, got {}{}", fmt::join(names, ", "), shown(*kind), hint));
      return false;
    }
    resource.kind = known->name;
    if (version == nullptr) {
      fields.require("apiVersion", fmt::format("for kind {} it is {}", known->name, known->api_versions.front()));
      return false;
    }
    resource.api_version = version->is_text() ? version->text : "";
    if (std::ranges::find(known->api_versions, resource.api_version) != known->api_versions.end()) return true;
    fields.error("apiVersion", version,
                 fmt::format("expected {} for kind {}, got {}{}", fmt::join(known->api_versions, " or "), known->name,
                             shown(*version), did_you_mean(resource.api_version, versions)));
    return false;
  }

  // Parts of spec that stand at the top level are errors, and are checked all the same.
  void lift_keys_of_spec(Value& object) {
    const std::vector<std::string>& keys = experiment_keys();
    for (size_t i = 0; i < object.entries.size();) {
      const Entry& entry = object.entries[i];
      const auto known = std::ranges::find_if(keys, [&](const std::string& key) {
        return std::ranges::equal(key, entry.key,
                                  [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
      });
      if (known == keys.end()) {
        ++i;
        continue;
      }
      const std::string spelling =
          *known == entry.key ? "" : fmt::format("; keys are case-sensitive: write {}", *known);
      findings_.error(entry.key, entry.place,
                      fmt::format("belongs below spec; indent it more than the line spec:{}", spelling));
      Entry lifted = entry;
      lifted.key = *known;
      object.entries.erase(object.entries.begin() + static_cast<ptrdiff_t>(i));
      Value* spec = object.find("spec");
      if (spec == nullptr) {
        Value made = Value::map();
        made.place = lifted.place;
        object.set("spec", std::move(made));
        spec = object.find("spec");
      }
      if (spec->is_map() && spec->find(lifted.key) == nullptr) spec->entries.push_back(std::move(lifted));
    }
  }

  void read_metadata(ObjectFields& top, Resource& resource) {
    ObjectFields fields = top.object("metadata");
    if (!fields.is_given()) {
      if (top.take("metadata") == nullptr) top.require("metadata", "with the name of the resource");
      return;
    }
    fields.ignore({"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
                   "deletionGracePeriodSeconds", "managedFields", "finalizers", "ownerReferences", "selfLink"});
    Metadata& metadata = resource.metadata;
    metadata.name = fields.text("name").value_or("");
    if (const Value* generated = fields.take("generateName"); generated != nullptr && metadata.name.empty()) {
      fields.error("generateName", generated, "names are not made up; give metadata.name");
    } else if (fields.take("name") == nullptr) {
      fields.require("name");
    } else {
      check_name(fields, resource);
    }
    metadata.name_space = fields.text("namespace").value_or(std::string(default_namespace_));
    if (!is_dns_label(metadata.name_space, kLabelMax)) {
      fields.error("namespace", fields.take("namespace"),
                   fmt::format("expected lower-case letters, digits and \"-\", at most {}, got \"{}\"", kLabelMax,
                               metadata.name_space));
    }
    metadata.labels = fields.pairs("labels");
    metadata.annotations = fields.pairs("annotations");
    for (const char* key : {"labels", "annotations"}) {
      const bool is_label = std::string_view(key) == "labels";
      for (const auto& [name, value] : is_label ? metadata.labels : metadata.annotations) {
        if (!is_metadata_key(name)) {
          fields.error(key, fields.take(key),
                       fmt::format("expected keys such as team or example.com/team, got \"{}\"", name));
        } else if (is_label && !value.empty() && !is_label_text(value)) {
          fields.error(key, fields.take(key),
                       fmt::format("{}: expected at most {} letters, digits, \"-\", \"_\" and \".\", got \"{}\"", name,
                                   kLabelMax, value));
        }
      }
    }
    fields.finish();
  }

  void check_name(ObjectFields& fields, const Resource& resource) {
    const std::string& name = resource.metadata.name;
    const bool is_experiment = resource.kind == "Experiment";
    const size_t most = is_experiment ? kExperimentNameMax : kResourceNameMax;
    const bool begins_well = !is_experiment || (!name.empty() && is_lower(name.front()));
    if (!fields.take("name")->is_text() || (begins_well && is_dns_label(name, most))) return;
    fields.error("name", fields.take("name"),
                 fmt::format("expected at most {} lower-case letters, digits and \"-\", {}, got \"{}\"", most,
                             is_experiment ? "beginning with a letter and ending with a letter or digit"
                                           : "beginning and ending with a letter or digit",
                             name));
  }

  // The object as it is kept: without what a server adds, with its namespace and the defaults.
  static void complete(Resource& resource) {
    Value& object = resource.object;
    object.erase("status");
    Value& metadata = *object.find("metadata");
    for (const char* key :
         {"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
          "deletionGracePeriodSeconds", "managedFields", "finalizers", "ownerReferences", "selfLink", "generateName"})
      metadata.erase(key);
    metadata.set("namespace", Value::of_text(resource.metadata.name_space));
    if (resource.experiment) add_defaults(*resource.experiment, object);
  }

  const std::string_view default_namespace_;
  ResourceReading& reading_;
  Findings& findings_;
  std::map<std::tuple<std::string, std::string, std::string>, yaml::Place> places_;
};

// The first difference between two values, as a path; empty: there is none.
std::string first_difference(const Value& a, const Value& b, const std::string& path) {
  if (a == b) return {};
  if (a.is_map() && b.is_map()) {
    for (const Value* one : {&a, &b}) {
      for (const Entry& entry : one->entries) {
        const Value *in_a = a.find(entry.key), *in_b = b.find(entry.key);
        const std::string below = path_below(path, entry.key);
        if (in_a == nullptr || in_b == nullptr) return below;
        if (std::string found = first_difference(*in_a, *in_b, below); !found.empty()) return found;
      }
    }
  }
  if (a.is_list() && b.is_list() && a.items.size() == b.items.size()) {
    for (size_t i = 0; i < a.items.size(); ++i)
      if (std::string found = first_difference(a.items[i], b.items[i], path_of_item(path, i)); !found.empty())
        return found;
  }
  return path;
}

Value spec_of(const Resource& resource) {
  const Value* spec = resource.object.find("spec");
  return spec == nullptr ? Value::map() : *spec;
}

}  // namespace

Error ResourceReading::error() const {
  VOLADOR_CHECK(!is_valid());
  std::string text;
  for (const Finding& finding : findings.errors()) text += (text.empty() ? "" : "\n") + finding.text();
  if (const size_t others = findings.errors_left_out(); others > 0)
    text += fmt::format("\nand {}", counted(others, "further error"));
  return {ErrorCode::kInvalidArgument, std::move(text)};
}

ResourceReading read_resources(std::string_view text, std::string_view file_name, std::string_view default_namespace) {
  ResourceReading reading;
  const auto documents = yaml::read_documents(text, file_name);
  if (!documents) {
    yaml::Problem problem = documents.error();
    if (const auto hint = indentation_hint(text, problem.place.line)) {
      problem.place.line = hint->line;
      problem.place.column = hint->column;
      problem.what = hint->what;
    }
    reading.findings.error("", problem.place, problem.what);
    return reading;
  }
  ResourceReader reader(default_namespace, reading);
  for (const yaml::Document& document : *documents) {
    for (const yaml::Problem& problem : document.problems) reading.findings.error("", problem.place, problem.what);
    reader.read(document.root);
  }
  if (reading.is_valid() && reading.resources.empty()) {
    reading.findings.error("", {std::make_shared<const std::string>(file_name), 1, 1},
                           "the file has no resource; a resource has apiVersion, kind, metadata and spec");
  }
  if (!reading.is_valid()) reading.resources.clear();
  return reading;
}

Result<Resource> resource_of(std::string_view json) {
  ResourceReading reading = read_resources(json, "resource.json");
  if (!reading.is_valid()) return make_error(reading.error());
  if (reading.resources.size() != 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("expected one resource, got {}", reading.resources.size()));
  }
  return std::move(reading.resources.front());
}

Result<Change> change_of(const Resource& present, const Resource& given) {
  Value before = spec_of(present), after = spec_of(given);
  if (present.kind == "Experiment") {
    for (const char* key : {"parallelTrialCount", "maxTrialCount", "maxFailedTrialCount"}) {
      before.erase(key);
      after.erase(key);
    }
  }
  if (const std::string difference = first_difference(before, after, "spec"); !difference.empty()) {
    const std::string rule =
        present.kind == "Experiment"
            ? "only parallelTrialCount, maxTrialCount and maxFailedTrialCount of an experiment can be changed"
            : fmt::format("the spec of a {} cannot be changed", present.kind);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} {}: {}: {}; delete it first, or apply it under another name", present.kind,
                                  present.metadata.name, difference, rule));
  }
  return present.object == given.object ? Change::kUnchanged : Change::kConfigured;
}

}  // namespace volador::experiments::katib
