// The JSON of a request, checked against what its route says that it takes. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>

#include "runtime/result.h"

namespace volador::dashboard {

struct BodyField {
  enum class Type : uint8_t { kText, kInteger, kNumber, kBoolean, kObject, kNumbers, kTexts, kObjectives };
  std::string_view name;
  Type type = Type::kText;
  std::string_view about;
  bool required = false;
};

// Empty text is {}. In numbers null is NaN, which JSON cannot say. kInvalidArgument: no JSON object, a member that the
// route does not know, one that is missing or of another type; names it.
[[nodiscard]] Result<nlohmann::ordered_json> parse_body(std::string_view text, std::span<const BodyField> fields);

// As JSON schema, for openapi.json.
nlohmann::ordered_json schema_of(std::span<const BodyField> fields);

// Of a number or null.
double number_of(const nlohmann::ordered_json& value);

}  // namespace volador::dashboard
