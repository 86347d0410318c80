#include "jobs/job_yaml.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/job_spec.h"
#include "runtime/nearest_word.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kBytesSuffix = "_bytes";
constexpr std::string_view kSecondsSuffix = "_s";
// Set by the command line, not by a user.
// Fields that are not for users.
bool is_internal(std::string_view field) { return field == "files_sha256" || field == "trial"; }
constexpr std::string_view kNameField = "name";
constexpr const char* kAlternativesKey = "alternatives";
constexpr const char* kTasksKey = "tasks";
constexpr std::string_view kWhatAJobIs = "a job is a map of fields, such as `command: [python3, train.py]`";

class YamlReader {
 public:
  explicit YamlReader(std::string name) : name_(std::move(name)) {}

  // Sets the fields of the message that the map has. `what`: "a job is a map of fields, such as …".
  Result<void> read(Message& message, const YAML::Node& root, std::string_view what) const {
    if (!root.IsMap()) return at(root, std::string(what));
    std::set<int> given;
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>("");
      const Found found = field_of(*message.GetDescriptor(), key);
      if (found.field == nullptr) {
        return at(entry.first, fmt::format("there is no field \"{}\"{}", key,
                                           did_you_mean(key, known_keys(*message.GetDescriptor()))));
      }
      if (!given.insert(found.field->number()).second)
        return at(entry.first, fmt::format("{}: given twice; remove one of them", key));
      VOLADOR_TRY(set(message, *found.field, found.unit, key, entry.second));
    }
    return {};
  }

  tl::unexpected<Error> at(const YAML::Node& node, const std::string& what) const {
    const YAML::Mark mark = node.Mark();  // Negative for an empty document.
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}:{}:{}: {}", name_, std::max(mark.line, 0) + 1,
                                                               std::max(mark.column, 0) + 1, what));
  }

 private:
  enum class Unit : uint8_t { kNone, kBytes, kSeconds };
  struct Found {
    const FieldDescriptor* field = nullptr;
    Unit unit = Unit::kNone;
  };

  // A field by its name, or by its name without the unit.
  static Found field_of(const Descriptor& type, const std::string& key) {
    if (is_internal(key)) return {};
    if (const auto* exact = type.FindFieldByName(key)) return {.field = exact, .unit = Unit::kNone};
    if (const auto* bytes = type.FindFieldByName(key + std::string(kBytesSuffix)))
      return {.field = bytes, .unit = Unit::kBytes};
    if (const auto* seconds = type.FindFieldByName(key + std::string(kSecondsSuffix)))
      return {.field = seconds, .unit = Unit::kSeconds};
    return {};
  }

  static std::vector<std::string> known_keys(const Descriptor& type) {
    std::vector<std::string> keys;
    for (int i = 0; i < type.field_count(); ++i) {
      std::string key = type.field(i)->name();
      if (is_internal(key)) continue;
      for (const std::string_view suffix : {kBytesSuffix, kSecondsSuffix}) {
        if (key.ends_with(suffix)) {
          key.resize(key.size() - suffix.size());
          break;
        }
      }
      keys.push_back(std::move(key));
    }
    return keys;
  }

  template <class T>
  Result<T> scalar(const YAML::Node& node, const std::string& key, std::string_view expected) const {
    T value{};
    const bool sound = node.IsScalar() && YAML::convert<T>::decode(node, value);
    if (sound) return value;
    return at(node, fmt::format("{}: expected {}, got \"{}\"", key, expected, text_of_node(node)));
  }

  static std::string text_of_node(const YAML::Node& node) {
    if (node.IsScalar()) return node.Scalar();
    return node.IsSequence() ? "a list" : node.IsMap() ? "a map" : "nothing";
  }

  Result<int64_t> whole(const YAML::Node& node, Unit unit, const std::string& key) const {
    if (unit == Unit::kBytes) {
      auto bytes = node.IsScalar() ? parse_byte_count(node.Scalar())
                                   : Result<int64_t>(make_error(ErrorCode::kInvalidArgument, "expected a size"));
      if (!bytes) return at(node, fmt::format("{}: {}, such as 16GiB", key, bytes.error().message));
      return *bytes;
    }
    if (unit == Unit::kSeconds) {
      auto time = node.IsScalar()
                      ? parse_duration(node.Scalar())
                      : Result<std::chrono::nanoseconds>(make_error(ErrorCode::kInvalidArgument, "expected a time"));
      if (!time) return at(node, fmt::format("{}: {}, such as 2h", key, time.error().message));
      return std::chrono::ceil<std::chrono::seconds>(*time).count();
    }
    return scalar<int64_t>(node, key, "a whole number");
  }

  Result<void> set(Message& spec, const FieldDescriptor& field, Unit unit, const std::string& key,
                   const YAML::Node& node) const {
    const Reflection& reflection = *spec.GetReflection();
    if (field.is_map()) return set_map(spec, field, key, node);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field.is_repeated())
      return read(*reflection.MutableMessage(&spec, &field), node, fmt::format("{}: expected a map of fields", key));
    if (field.message_type() == v1::LogPolicy::descriptor())
      return set_policies(dynamic_cast<v1::JobSpec&>(spec), key, node);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return set_named(spec, field, key, node);
    if (field.is_repeated()) {
      reflection.ClearField(&spec, &field);
      if (node.IsScalar() && field.name() == "command") {
        for (const char* word : {"bash", "-c"}) reflection.AddString(&spec, &field, word);
        reflection.AddString(&spec, &field, node.Scalar());
        return {};
      }
      if (!node.IsSequence()) return at(node, fmt::format("{}: expected a list, got \"{}\"", key, text_of_node(node)));
      for (const auto& item : node) {
        if (!item.IsScalar()) return at(item, fmt::format("{}: expected texts, got {}", key, text_of_node(item)));
        reflection.AddString(&spec, &field, item.Scalar());
      }
      return {};
    }
    if (auto* job = dynamic_cast<v1::JobSpec*>(&spec); job != nullptr && field.name() == "nodes") {
      const auto counts = node.IsScalar() ? parse_node_counts(node.Scalar()) : parse_node_counts(text_of_node(node));
      if (!counts) return at(node, counts.error().message);
      job->set_nodes(counts->nodes);
      if (counts->min_nodes > 0) job->set_min_nodes(counts->min_nodes);
      return {};
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32: {
        const auto value = whole(node, unit, key);
        if (!value) return make_error(value.error());
        if (*value < std::numeric_limits<int32_t>::min() || *value > std::numeric_limits<int32_t>::max())
          return at(node, fmt::format("{}: {} is out of range", key, *value));
        reflection.SetInt32(&spec, &field, static_cast<int32_t>(*value));
        return {};
      }
      case FieldDescriptor::CPPTYPE_INT64: {
        const auto value = whole(node, unit, key);
        if (!value) return make_error(value.error());
        reflection.SetInt64(&spec, &field, *value);
        return {};
      }
      case FieldDescriptor::CPPTYPE_BOOL: {
        const auto value = scalar<bool>(node, key, "true or false");
        if (!value) return make_error(value.error());
        reflection.SetBool(&spec, &field, *value);
        return {};
      }
      case FieldDescriptor::CPPTYPE_DOUBLE: {
        const auto value = scalar<double>(node, key, "a number");
        if (!value) return make_error(value.error());
        reflection.SetDouble(&spec, &field, *value);
        return {};
      }
      default: {
        if (!node.IsScalar()) return at(node, fmt::format("{}: expected a text, got {}", key, text_of_node(node)));
        reflection.SetString(&spec, &field, node.Scalar());
        return {};
      }
    }
  }

  Result<void> set_policies(v1::JobSpec& job, const std::string& key, const YAML::Node& node) const {
    if (!node.IsSequence())
      return at(node, fmt::format("{}: expected a list of maps, got \"{}\"", key, text_of_node(node)));
    job.clear_log_policies();
    for (const auto& item : node) {
      VOLADOR_TRY(read(*job.add_log_policies(), item,
                       fmt::format("{}: expected maps such as {{pattern: NaN, action: notify}}", key)));
    }
    return {};
  }

  // A list of messages that have names is a map from a name to the other fields.
  Result<void> set_named(Message& message, const FieldDescriptor& field, const std::string& key,
                         const YAML::Node& node) const {
    if (!node.IsMap()) return at(node, fmt::format("{}: expected a map by name, got \"{}\"", key, text_of_node(node)));
    for (const auto& entry : node) {
      const auto name = entry.first.as<std::string>("");
      Message& item = *message.GetReflection()->AddMessage(&message, &field);
      item.GetReflection()->SetString(&item, item.GetDescriptor()->FindFieldByName(std::string(kNameField)), name);
      if (entry.second.IsNull()) continue;
      VOLADOR_TRY(read(item, entry.second, fmt::format("{}.{}: expected a map of fields", key, name)));
    }
    return {};
  }

  // The map of a field. Reflection is not used: it does not work with ThreadSanitizer, with which the library itself was
  // not built.
  struct Maps {
    google::protobuf::Map<std::string, std::string>* texts = nullptr;
    google::protobuf::Map<std::string, double>* numbers = nullptr;
  };
  static Maps maps_of(Message& message, const std::string& field) {
    if (auto* project = dynamic_cast<v1::Project*>(&message)) return {.numbers = project->mutable_limits()};
    auto& job = dynamic_cast<v1::JobSpec&>(message);
    if (field == "resources") return {.numbers = job.mutable_resources()};
    if (field == "secrets") return {.texts = job.mutable_secrets()};
    return {.texts = field == "env" ? job.mutable_env() : job.mutable_labels()};
  }

  Result<void> set_map(Message& message, const FieldDescriptor& field, const std::string& key,
                       const YAML::Node& node) const {
    if (!node.IsMap()) return at(node, fmt::format("{}: expected a map, got \"{}\"", key, text_of_node(node)));
    const Maps maps = maps_of(message, field.name());
    for (const auto& entry : node) {
      const auto name = entry.first.as<std::string>("");
      const std::string path = fmt::format("{}.{}", key, name);
      if (!entry.second.IsScalar())
        return at(entry.second, fmt::format("{}: expected one value, got {}", path, text_of_node(entry.second)));
      if (maps.texts != nullptr) {
        (*maps.texts)[name] = entry.second.Scalar();
        continue;
      }
      double amount = 0;
      if (name == "memory") {
        const auto bytes = whole(entry.second, Unit::kBytes, path);
        if (!bytes) return make_error(bytes.error());
        amount = static_cast<double>(*bytes);
      } else {
        const auto number = scalar<double>(entry.second, path, "a number");
        if (!number) return make_error(number.error());
        amount = *number;
      }
      (*maps.numbers)[name] = amount;
    }
    return {};
  }

  const std::string name_;
};

tl::unexpected<Error> error_of(const YAML::Exception& wrong, const std::string& name) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}:{}:{}: {}", name, wrong.mark.line + 1, wrong.mark.column + 1, wrong.msg));
}

// The message with the fields of the text.
template <class T>
Result<T> message_from_yaml(T message, const std::string& text, const std::string& name, std::string_view what) {
  try {
    VOLADOR_TRY(YamlReader(name).read(message, YAML::Load(text), what));
    return message;
  } catch (const YAML::Exception& wrong) {
    return error_of(wrong, name);
  }
}

void emit_resources(YAML::Emitter& out, const google::protobuf::Map<std::string, double>& limits) {
  const std::map<std::string, double> sorted(limits.begin(), limits.end());
  out << YAML::BeginMap;
  for (const auto& [resource, amount] : sorted) {
    out << YAML::Key << resource << YAML::Value;
    constexpr int64_t kMiB = 1 << 20;
    const auto bytes = static_cast<int64_t>(amount);
    if (resource == "memory" && bytes % (kMiB << 10) == 0) {
      out << fmt::format("{}GiB", bytes / (kMiB << 10));
    } else if (resource == "memory") {
      out << (bytes % kMiB == 0 ? fmt::format("{}MiB", bytes / kMiB) : std::to_string(bytes));
    } else {
      out << amount;
    }
  }
  out << YAML::EndMap;
}

// Without the maxima that are not set.
void emit_maxima(YAML::Emitter& out, const v1::JobMaxima& maxima) {
  out << YAML::Key << "maxima" << YAML::Value << YAML::BeginMap;
  const auto emit = [&out](const char* field, int64_t value) {
    if (value != 0) out << YAML::Key << field << YAML::Value << value;
  };
  emit("restarts", maxima.restarts());
  emit("resumes", maxima.resumes());
  emit("graceful_s", maxima.graceful_s());
  emit("debug_s", maxima.debug_s());
  emit("duration_s", maxima.duration_s());
  out << YAML::EndMap;
}

// Writes "list: {name: {…}}", if the list has entries. `fields` writes the fields of one.
template <class Entries, class Fields>
void emit_named(YAML::Emitter& out, const char* list, const Entries& entries, const Fields& fields) {
  if (entries.empty()) return;
  out << YAML::Key << list << YAML::Value << YAML::BeginMap;
  for (const auto& entry : entries) {
    out << YAML::Key << entry.name() << YAML::Value << YAML::BeginMap;
    fields(entry);
    if constexpr (requires { entry.note(); }) {
      if (!entry.note().empty()) out << YAML::Key << "note" << YAML::Value << entry.note();
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
}

void emit_text(YAML::Emitter& out, const char* key, const std::string& text) {
  if (!text.empty()) out << YAML::Key << key << YAML::Value << text;
}

template <class Texts>
void emit_texts(YAML::Emitter& out, const char* key, const Texts& texts) {
  if (texts.empty()) return;
  out << YAML::Key << key << YAML::Value << YAML::Flow << YAML::BeginSeq;
  for (const std::string& text : texts) out << text;
  out << YAML::EndSeq;
}

// Secrets are hidden already; see without_secrets().
void emit_notifications(YAML::Emitter& out, const v1::QueueSettings& settings) {
  emit_named(out, "notifications", settings.notifications(), [&](const v1::Notification& each) {
    emit_text(out, "kind", each.kind());
    emit_text(out, "url", each.url());
    emit_text(out, "secret", each.secret());
    emit_texts(out, "addresses", each.addresses());
    emit_texts(out, "events", each.events());
    emit_texts(out, "projects", each.projects());
  });
  if (!settings.has_mail()) return;
  const v1::MailServer& mail = settings.mail();
  out << YAML::Key << "mail" << YAML::Value << YAML::BeginMap;
  emit_text(out, "host", mail.host());
  if (mail.port() != 0) out << YAML::Key << "port" << YAML::Value << mail.port();
  emit_text(out, "security", mail.security());
  emit_text(out, "user", mail.user());
  emit_text(out, "password", mail.password());
  emit_text(out, "from", mail.from());
  out << YAML::EndMap;
}

}  // namespace

Result<v1::JobSpec> with_fields(const v1::JobSpec& job, const std::string& map, const std::string& name) {
  return message_from_yaml(job, map, name, kWhatAJobIs);
}

Result<JobSet> jobs_from_yaml(const std::string& text, const std::string& name) {
  try {
    YAML::Node root = YAML::Load(text);
    JobSet set;
    if (root.IsMap()) {
      for (auto [key, lists] : {std::pair(kAlternativesKey, &set.alternatives), std::pair(kTasksKey, &set.tasks)}) {
        const YAML::Node list = root[key];
        if (!list) continue;
        if (!list.IsSequence()) return YamlReader(name).at(list, fmt::format("{}: expected a list of maps", key));
        for (const YAML::Node& fields : list) {
          v1::JobSpec unused;
          VOLADOR_TRY(YamlReader(name).read(unused, fields, fmt::format("{}: expected maps of fields", key)));
          YAML::Emitter out;
          out << fields;
          lists->emplace_back(out.c_str());
        }
        root.remove(key);
      }
    }
    VOLADOR_TRY(YamlReader(name).read(set.base, root, kWhatAJobIs));
    return set;
  } catch (const YAML::Exception& wrong) {
    return error_of(wrong, name);
  }
}

Result<v1::QueueSettings> settings_from_yaml(const std::string& text, const std::string& name) {
  return message_from_yaml(v1::QueueSettings(), text, name,
                           "the settings of the queue are a map of fields, such as `projects: {vision: {weight: 2}}`");
}

std::string yaml_of(const v1::QueueSettings& settings) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  out << YAML::Key << "preemption" << YAML::Value << settings.preemption();
  emit_named(out, "pools", settings.pools(), [&](const v1::Pool& pool) {
    if (pool.projects().empty()) return;
    out << YAML::Key << "projects" << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const std::string& project : pool.projects()) out << project;
    out << YAML::EndSeq;
  });
  emit_named(out, "projects", settings.projects(), [&](const v1::Project& project) {
    out << YAML::Key << "weight" << YAML::Value << project.weight();
    if (!project.limits().empty()) {
      out << YAML::Key << "limits" << YAML::Value;
      emit_resources(out, project.limits());
    }
    if (project.urgent_jobs() > 0) out << YAML::Key << "urgent_jobs" << YAML::Value << project.urgent_jobs();
    if (project.members().empty()) return;
    out << YAML::Key << "members" << YAML::Value << YAML::Flow << YAML::BeginSeq;
    for (const std::string& member : project.members()) out << member;
    out << YAML::EndSeq;
  });
  emit_named(out, "environments", settings.environments(), [&](const v1::Environment& environment) {
    out << YAML::Key << "source" << YAML::Value << environment.source();
  });
  emit_notifications(out, settings);
  if (settings.has_maxima()) emit_maxima(out, settings.maxima());
  if (settings.private_jobs()) out << YAML::Key << "private_jobs" << YAML::Value << true;
  out << YAML::Key << "version" << YAML::Value << settings.version();
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace volador::jobs
