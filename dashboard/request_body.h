// JSON of a request, validated against the fields of its route. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::dashboard {

// A field that a request body may have.
struct BodyField {
  enum class Type : uint8_t {
    kText,
    kBytes,  // A text in base64.
    kInteger,
    kInteger32,
    kUnsigned32,
    kNumber,
    kBoolean,
    kObject,
    kIntegers,
    kNumbers,
    kTexts,
    kNumbersByName,
    kIntegersByName,
    kTextsByName,
    kObjectives,
    kMembers,
    kListOfMembers
  };
  std::string_view name;
  Type type = Type::kText;
  std::string_view about;
  bool required = false;
  std::vector<BodyField> members = {};  // The members that an object of type kMembers may have, or each of a list.
};

// Empty text means {}. null in a number field means NaN, which JSON lacks. kInvalidArgument: not a JSON object, or an
// unknown, missing or wrongly typed member; the message names it by its path, as spec.gpus.
[[nodiscard]] Result<nlohmann::ordered_json> parse_body(std::string_view text, std::span<const BodyField> fields);

// The JSON schema, for openapi.json.
nlohmann::ordered_json schema_of(std::span<const BodyField> fields);

// The body of POST /api/v1/jobs/{job}/page.
std::span<const BodyField> page_body_fields();

// `value` is a number or null.
double number_of(const nlohmann::ordered_json& value);

}  // namespace volador::dashboard
