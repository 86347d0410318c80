#include "dashboard/request_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/base64.h"
#include "runtime/nearest_word.h"

namespace volador::dashboard {
namespace {

using Json = nlohmann::ordered_json;
using Type = BodyField::Type;

constexpr int kDepthMax = 32;

bool is_number(const Json& value) { return value.is_number() || value.is_null(); }

bool is_objective(const Json& value) {
  return value.is_object() && value.size() == 2 && value.contains("metric") && value["metric"].is_string() &&
         value.contains("mode") && value["mode"].is_string();
}

bool is_integer(const Json& value, int64_t least, int64_t most) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(most);
  return value.get<int64_t>() >= least && value.get<int64_t>() <= most;
}

bool is_of(Type type, const Json& value) {
  switch (type) {
    case Type::kText:
      return value.is_string();
    case Type::kBytes:
      return value.is_string() && from_base64(value.get_ref<const std::string&>()).has_value();
    case Type::kInteger:
      return is_integer(value, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    case Type::kInteger32:
      return is_integer(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    case Type::kUnsigned32:
      return is_integer(value, 0, std::numeric_limits<uint32_t>::max());
    case Type::kNumber:
      return is_number(value);
    case Type::kBoolean:
      return value.is_boolean();
    case Type::kObject:
    case Type::kMembers:
      return value.is_object();
    case Type::kListOfMembers:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_object(); });
    case Type::kIntegers:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& one) { return is_of(Type::kInteger, one); });
    case Type::kNumbers:
      return value.is_array() && std::all_of(value.begin(), value.end(), is_number);
    case Type::kTexts:
      return value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
    case Type::kNumbersByName:
      return value.is_object() && std::all_of(value.begin(), value.end(), is_number);
    case Type::kIntegersByName:
      return value.is_object() &&
             std::all_of(value.begin(), value.end(), [](const Json& one) { return is_of(Type::kInteger, one); });
    case Type::kTextsByName:
      return value.is_object() &&
             std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_string(); });
    case Type::kObjectives:
      return value.is_array() && std::all_of(value.begin(), value.end(), is_objective);
  }
  return false;
}

std::string_view words_of(Type type) {
  switch (type) {
    case Type::kText:
      return "a text";
    case Type::kBytes:
      return "a text in base64";
    case Type::kInteger:
      return "a whole number below 2^63";
    case Type::kInteger32:
      return "a whole number below 2^31";
    case Type::kUnsigned32:
      return "a whole number from 0, below 2^32";
    case Type::kNumber:
      return "a number, or null for NaN";
    case Type::kBoolean:
      return "true or false";
    case Type::kObject:
    case Type::kMembers:
      return "an object";
    case Type::kListOfMembers:
      return "a list of objects";
    case Type::kIntegers:
      return "a list of whole numbers below 2^63";
    case Type::kNumbers:
      return "a list of numbers, null for NaN";
    case Type::kTexts:
      return "a list of texts";
    case Type::kNumbersByName:
      return "an object of numbers by name, null for NaN";
    case Type::kIntegersByName:
      return "an object of whole numbers below 2^63 by name";
    case Type::kTextsByName:
      return "an object of texts by name";
    case Type::kObjectives:
      return "a list of {\"metric\":\"loss\",\"mode\":\"min\"}";
  }
  return "something else";
}

Json schema_of(const BodyField& field) {
  switch (field.type) {
    case Type::kText:
      return {{"type", "string"}};
    case Type::kBytes:
      return {{"type", "string"}, {"format", "byte"}};
    case Type::kInteger:
      return {{"type", "integer"},
              {"format", "int64"},
              {"minimum", std::numeric_limits<int64_t>::min()},
              {"maximum", std::numeric_limits<int64_t>::max()}};
    case Type::kInteger32:
      return {{"type", "integer"},
              {"format", "int32"},
              {"minimum", std::numeric_limits<int32_t>::min()},
              {"maximum", std::numeric_limits<int32_t>::max()}};
    case Type::kUnsigned32:
      return {{"type", "integer"}, {"minimum", 0}, {"maximum", std::numeric_limits<uint32_t>::max()}};
    case Type::kNumber:
      return {{"type", "number"}, {"nullable", true}};
    case Type::kBoolean:
      return {{"type", "boolean"}};
    case Type::kObject:
      return {{"type", "object"}};
    case Type::kIntegers:
      return {{"type", "array"}, {"items", schema_of(BodyField{.type = Type::kInteger})}};
    case Type::kNumbers:
      return {{"type", "array"}, {"items", {{"type", "number"}, {"nullable", true}}}};
    case Type::kTexts:
      return {{"type", "array"}, {"items", {{"type", "string"}}}};
    case Type::kNumbersByName:
      return {{"type", "object"}, {"additionalProperties", {{"type", "number"}, {"nullable", true}}}};
    case Type::kIntegersByName:
      return {{"type", "object"}, {"additionalProperties", schema_of(BodyField{.type = Type::kInteger})}};
    case Type::kTextsByName:
      return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
    case Type::kMembers:
      return schema_of(std::span<const BodyField>(field.members));
    case Type::kListOfMembers:
      return {{"type", "array"}, {"items", schema_of(std::span<const BodyField>(field.members))}};
    case Type::kObjectives:
      return {{"type", "array"},
              {"items",
               {{"type", "object"},
                {"properties",
                 {{"metric", {{"type", "string"}}}, {"mode", {{"type", "string"}, {"enum", {"min", "max"}}}}}},
                {"required", {"metric", "mode"}},
                {"additionalProperties", false}}}};
  }
  return {};
}

// Destroying deeply nested values recurses, so hostile nesting is rejected first.
bool is_too_deep(std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted && c == '\\') ++at;
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > kDepthMax) return true;
  }
  return false;
}

// Checks the members of an object; `at` is its path: empty for the body.
Result<void> check_members_of(const Json& object, std::span<const BodyField> fields, const std::string& at) {
  const auto refuse = [](std::string why) { return make_error(ErrorCode::kInvalidArgument, std::move(why)); };
  std::vector<std::string> names;
  for (const BodyField& field : fields) names.emplace_back(field.name);
  for (const auto& [name, value] : object.items()) {
    const auto field =
        std::find_if(fields.begin(), fields.end(), [&name = name](const BodyField& one) { return one.name == name; });
    if (field == fields.end()) {
      return refuse(fmt::format("{}: there is no member \"{}\"{}; known: {}", at.empty() ? "body" : at,
                                name.substr(0, 80), did_you_mean(name.substr(0, 80), names),
                                names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
    }
    const std::string path = at.empty() ? name : at + "." + name;
    if (!is_of(field->type, value))
      return refuse(fmt::format("{}: expected {}, got {}", path, words_of(field->type),
                                value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 80)));
    if (field->type == Type::kMembers) VOLADOR_TRY(check_members_of(value, field->members, path));
    if (field->type != Type::kListOfMembers) continue;
    for (size_t i = 0; i < value.size(); ++i)
      VOLADOR_TRY(check_members_of(value[i], field->members, fmt::format("{}[{}]", path, i)));
  }
  for (const BodyField& field : fields) {
    if (!field.required || object.contains(field.name)) continue;
    const std::string about = field.about.empty() ? "" : fmt::format(" ({})", field.about);
    return refuse(fmt::format("{}{}{}: it is missing; expected {}{}", at, at.empty() ? "" : ".", field.name,
                              words_of(field.type), about));
  }
  return {};
}

}  // namespace

Result<Json> parse_body(std::string_view text, std::span<const BodyField> fields) {
  const auto refuse = [](std::string why) { return make_error(ErrorCode::kInvalidArgument, std::move(why)); };
  if (is_too_deep(text)) return refuse(fmt::format("body: more than {} levels of nesting", kDepthMax));
  Json body = Json::parse(text.empty() ? "{}" : text, nullptr, false);
  if (!body.is_object()) return refuse("body: expected a JSON object");
  VOLADOR_TRY(check_members_of(body, fields, {}));
  return body;
}

std::span<const BodyField> page_body_fields() {
  static const std::vector<BodyField> kFields{{.name = "port",
                                               .type = Type::kInteger32,
                                               .about = "of the server, on the loopback address of the rank's machine",
                                               .required = true},
                                              {.name = "rank", .type = Type::kInteger32}};
  return kFields;
}

Json schema_of(std::span<const BodyField> fields) {
  Json properties = Json::object(), required = Json::array();
  for (const BodyField& field : fields) {
    Json one = schema_of(field);
    if (!field.about.empty()) one["description"] = field.about;
    properties[std::string(field.name)] = std::move(one);
    if (field.required) required.push_back(field.name);
  }
  Json out{{"type", "object"}, {"properties", properties}, {"additionalProperties", false}};
  if (!required.empty()) out["required"] = required;
  return out;
}

double number_of(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

}  // namespace volador::dashboard
