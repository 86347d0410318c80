#include "jobs/job_yaml.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/nearest_word.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr std::string_view kBytesSuffix = "_bytes";
constexpr std::string_view kSecondsSuffix = "_s";
// Set by the command line, not by a user.
constexpr std::string_view kInternalField = "files_sha256";

class YamlReader {
 public:
  explicit YamlReader(std::string name) : name_(std::move(name)) {}

  Result<v1::JobSpec> read(const YAML::Node& root) const {
    v1::JobSpec spec;
    if (!root.IsMap()) return at(root, "a job is a map of fields, such as `command: [python3, train.py]`");
    std::set<int> given;
    for (const auto& entry : root) {
      const auto key = entry.first.as<std::string>("");
      const Found found = field_of(key);
      if (found.field == nullptr)
        return at(entry.first, fmt::format("there is no field \"{}\"{}", key, did_you_mean(key, known_keys())));
      if (!given.insert(found.field->number()).second)
        return at(entry.first, fmt::format("{}: given twice; remove one of them", key));
      VOLADOR_TRY(set(spec, *found.field, found.unit, key, entry.second));
    }
    return spec;
  }

 private:
  enum class Unit : uint8_t { kNone, kBytes, kSeconds };
  struct Found {
    const FieldDescriptor* field = nullptr;
    Unit unit = Unit::kNone;
  };

  tl::unexpected<Error> at(const YAML::Node& node, const std::string& what) const {
    const YAML::Mark mark = node.Mark();  // Negative for an empty document.
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{}:{}:{}: {}", name_, std::max(mark.line, 0) + 1,
                                                               std::max(mark.column, 0) + 1, what));
  }

  // A field by its name, or by its name without the unit.
  static Found field_of(const std::string& key) {
    const auto* type = v1::JobSpec::descriptor();
    if (key == kInternalField) return {};
    if (const auto* exact = type->FindFieldByName(key)) return {.field = exact, .unit = Unit::kNone};
    if (const auto* bytes = type->FindFieldByName(key + std::string(kBytesSuffix)))
      return {.field = bytes, .unit = Unit::kBytes};
    if (const auto* seconds = type->FindFieldByName(key + std::string(kSecondsSuffix)))
      return {.field = seconds, .unit = Unit::kSeconds};
    return {};
  }

  static std::vector<std::string> known_keys() {
    std::vector<std::string> keys;
    const auto* type = v1::JobSpec::descriptor();
    for (int i = 0; i < type->field_count(); ++i) {
      std::string key = type->field(i)->name();
      if (key == kInternalField) continue;
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

  Result<void> set(v1::JobSpec& spec, const FieldDescriptor& field, Unit unit, const std::string& key,
                   const YAML::Node& node) const {
    const Reflection& reflection = *v1::JobSpec::GetReflection();
    if (field.is_map()) return set_map(spec, field, key, node);
    if (field.is_repeated()) {
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

  Result<void> set_map(v1::JobSpec& spec, const FieldDescriptor& field, const std::string& key,
                       const YAML::Node& node) const {
    if (!node.IsMap()) return at(node, fmt::format("{}: expected a map, got \"{}\"", key, text_of_node(node)));
    for (const auto& entry : node) {
      const auto name = entry.first.as<std::string>("");
      const std::string path = fmt::format("{}.{}", key, name);
      if (!entry.second.IsScalar())
        return at(entry.second, fmt::format("{}: expected one value, got {}", path, text_of_node(entry.second)));
      if (field.name() == "resources") {
        const auto amount = scalar<double>(entry.second, path, "a number");
        if (!amount) return make_error(amount.error());
        (*spec.mutable_resources())[name] = *amount;
      } else if (field.name() == "env") {
        (*spec.mutable_env())[name] = entry.second.Scalar();
      } else {
        (*spec.mutable_labels())[name] = entry.second.Scalar();
      }
    }
    return {};
  }

  const std::string name_;
};

}  // namespace

Result<v1::JobSpec> spec_from_yaml(const std::string& text, const std::string& name) {
  try {
    return YamlReader(name).read(YAML::Load(text));
  } catch (const YAML::Exception& wrong) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}:{}:{}: {}", name, wrong.mark.line + 1, wrong.mark.column + 1, wrong.msg));
  }
}

}  // namespace volador::jobs
