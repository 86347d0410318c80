#include "dashboard/operation_json.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/base64.h"
#include "runtime/quantities.h"

namespace volador::dashboard {
namespace {

using Json = nlohmann::ordered_json;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool is_bytes(const FieldDescriptor& field) { return field.type() == FieldDescriptor::TYPE_BYTES; }

BodyField::Type type_of(const FieldDescriptor& field) {
  using Type = BodyField::Type;
  const bool many = field.is_repeated();
  if (field.is_map()) {
    const FieldDescriptor& value = *field.message_type()->map_value();
    return value.cpp_type() == FieldDescriptor::CPPTYPE_STRING  ? Type::kTextsByName
           : value.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ? Type::kIntegersByName
                                                                : Type::kNumbersByName;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return Type::kBoolean;
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return many ? Type::kNumbers : Type::kNumber;
    case FieldDescriptor::CPPTYPE_INT32:
      return Type::kInteger32;
    case FieldDescriptor::CPPTYPE_UINT32:
      return Type::kUnsigned32;
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
      return many ? Type::kIntegers : Type::kInteger;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return many ? Type::kListOfMembers : Type::kMembers;
    case FieldDescriptor::CPPTYPE_STRING:
      if (many) return Type::kTexts;
      if (is_bytes(field)) return Type::kBytes;
      return field.options().GetExtension(v1::field).json() ? Type::kObject : Type::kText;
    default:
      return Type::kObject;
  }
}

BodyField body_field_of(const FieldDescriptor& field) {
  const v1::Field& options = field.options().GetExtension(v1::field);
  BodyField out{.name = field.name(), .type = type_of(field), .about = options.about(), .required = options.required()};
  if (out.type != BodyField::Type::kMembers && out.type != BodyField::Type::kListOfMembers) return out;
  const auto& message = *field.message_type();
  for (int at = 0; at < message.field_count(); ++at) out.members.push_back(body_field_of(*message.field(at)));
  return out;
}

bool is_in_path(const v1::HttpRoute& route, const std::string& name) {
  return route.path().find("{" + name + "}") != std::string::npos;
}

bool is_in_body(const v1::HttpRoute& route, const std::string& name) {
  if (is_in_path(route, name) || route.set().contains(name)) return false;
  return route.body().empty() || std::find(route.body().begin(), route.body().end(), name) != route.body().end();
}

bool is_json(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_STRING && field.options().GetExtension(v1::field).json();
}

std::string text_of(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

void set(Message& message, const FieldDescriptor& field, const Json& value);

void set_members(Message& message, const Json& object) {
  for (const auto& [name, one] : object.items()) set(message, *message.GetDescriptor()->FindFieldByName(name), one);
}

void set(Message& message, const FieldDescriptor& field, const Json& value) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_map()) {
    for (const auto& [key, one] : value.items()) {
      Message& entry = *reflection.AddMessage(&message, &field);
      set(entry, *field.message_type()->map_key(), key);
      set(entry, *field.message_type()->map_value(), one);
    }
    return;
  }
  if (field.is_repeated()) {
    for (const Json& one : value) {
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING)
        reflection.AddString(&message, &field, one.get<std::string>());
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) reflection.AddInt64(&message, &field, one.get<int64_t>());
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) reflection.AddDouble(&message, &field, number_of(one));
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE)
        set_members(*reflection.AddMessage(&message, &field), one);
    }
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, value.get<bool>());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, number_of(value));
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, value.get<int32_t>());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, value.get<int64_t>());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, value.get<uint32_t>());
    case FieldDescriptor::CPPTYPE_STRING:
      if (is_bytes(field))
        return reflection.SetString(&message, &field, from_base64(value.get<std::string>()).value_or(""));
      return reflection.SetString(&message, &field, value.is_string() ? value.get<std::string>() : text_of(value));
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return set_members(*reflection.MutableMessage(&message, &field), value);
    default:
      break;
  }
  VOLADOR_CHECK(false, field.full_name());  // A type not used by any route yet.
}

Json real(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// One value of a field; `at` is the index in a repeated field, or -1.
Json value_of(const Message& message, const FieldDescriptor& field, int at) {
  const Reflection& reflection = *message.GetReflection();
  const auto get = [&](auto one, auto repeated) {
    return at < 0 ? (reflection.*one)(message, &field) : (reflection.*repeated)(message, &field, at);
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return get(&Reflection::GetBool, &Reflection::GetRepeatedBool);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return real(get(&Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return real(get(&Reflection::GetFloat, &Reflection::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_INT32:
      return get(&Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return get(&Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return get(&Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return get(&Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (at < 0 ? reflection.GetEnum(message, &field) : reflection.GetRepeatedEnum(message, &field, at))->name();
    case FieldDescriptor::CPPTYPE_STRING:
      if (is_bytes(field) && at < 0) return base64(reflection.GetString(message, &field));
      return at < 0 ? reflection.GetString(message, &field) : reflection.GetRepeatedString(message, &field, at);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return json_of(at < 0 ? reflection.GetMessage(message, &field)
                            : reflection.GetRepeatedMessage(message, &field, at));
  }
  return nullptr;
}

}  // namespace

std::vector<BodyField> body_fields_of(const operations::Entry& operation, const v1::HttpRoute& route) {
  std::vector<BodyField> out;
  const auto& request = *operation.method->input_type();
  for (int at = 0; at < request.field_count(); ++at) {
    const FieldDescriptor& field = *request.field(at);
    if (!is_in_body(route, field.name())) continue;
    out.push_back(body_field_of(field));
  }
  return out;
}

Result<std::unique_ptr<Message>> request_of(const operations::Entry& operation, const v1::HttpRoute& route,
                                            const std::map<std::string, std::string>& path, const Json& body) {
  const auto& type = *operation.method->input_type();
  std::unique_ptr<Message> request(google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
  const auto field = [&](const std::string& name) -> const FieldDescriptor& {
    const FieldDescriptor* found = type.FindFieldByName(name);
    VOLADOR_CHECK(found != nullptr, name);
    return *found;
  };
  for (const auto& [name, value] : path) {
    if (field(name).cpp_type() != FieldDescriptor::CPPTYPE_INT64) {
      set(*request, field(name), value);
      continue;
    }
    const auto number = parse_integer(value);
    if (!number)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("{}: expected a whole number in the path, got \"{}\"", name, value.substr(0, 80)));
    set(*request, field(name), *number);
  }
  for (const auto& [name, value] : route.set()) set(*request, field(name), value);
  for (const auto& [name, value] : body.items()) set(*request, field(name), value);
  return request;
}

Json json_of(const Message& message) {
  Json out = Json::object();
  const auto& type = *message.GetDescriptor();
  for (int index = 0; index < type.field_count(); ++index) {
    const FieldDescriptor& field = *type.field(index);
    const Reflection& reflection = *message.GetReflection();
    if (field.is_map()) {
      Json& entries = out[field.name()] = Json::object();
      for (int at = 0; at < reflection.FieldSize(message, &field); ++at) {
        const Message& entry = reflection.GetRepeatedMessage(message, &field, at);
        const Json key = value_of(entry, *entry.GetDescriptor()->map_key(), -1);
        entries[key.is_string() ? key.get<std::string>() : text_of(key)] =
            value_of(entry, *entry.GetDescriptor()->map_value(), -1);
      }
    } else if (field.is_repeated()) {
      Json& list = out[field.name()] = Json::array();
      for (int at = 0; at < reflection.FieldSize(message, &field); ++at) list.push_back(value_of(message, field, at));
    } else if (is_json(field)) {
      Json value = Json::parse(reflection.GetString(message, &field), nullptr, false);
      if (!value.is_discarded()) out[field.name()] = std::move(value);
    } else if (!field.has_presence() || reflection.HasField(message, &field)) {
      out[field.name()] = value_of(message, field, -1);
    }
  }
  return out;
}

Json schema_of(const google::protobuf::Descriptor& message) {
  Json properties = Json::object(), required = Json::array();
  for (int index = 0; index < message.field_count(); ++index) {
    const FieldDescriptor& field = *message.field(index);
    Json one;
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        one = {{"type", "boolean"}};
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        one = {{"type", "number"}, {"nullable", true}};
        break;
      case FieldDescriptor::CPPTYPE_STRING:
      case FieldDescriptor::CPPTYPE_ENUM:
        one = is_json(field) ? Json::object() : Json{{"type", "string"}};
        if (is_bytes(field)) one["format"] = "byte";
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        one = field.is_map() ? Json{{"type", "object"}} : schema_of(*field.message_type());
        break;
      default:
        one = {{"type", "integer"}};
        break;
    }
    properties[field.name()] =
        field.is_repeated() && !field.is_map() ? Json{{"type", "array"}, {"items", std::move(one)}} : std::move(one);
    if (!field.has_presence() && !is_json(field)) required.push_back(field.name());
  }
  Json out{{"type", "object"}, {"properties", std::move(properties)}};
  if (!required.empty()) out["required"] = std::move(required);
  return out;
}

}  // namespace volador::dashboard
