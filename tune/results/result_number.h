// Converts a value of a line of result.json to a number. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace volador::tune {

// Returns NaN for null and an infinity for the text "inf" or "-inf", since JSON has neither. No value: not a number.
// `Json`: nlohmann's type.
template <class Json>
std::optional<double> result_number(std::string_view key, const Json& value) {
  if (value.is_number()) return value.template get<double>();
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_string() || key == "date" || key == "trial_id" || key == "hostname" || key == "node")
    return std::nullopt;
  const auto& text = value.template get_ref<const std::string&>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  return text == "-inf" ? std::optional(-std::numeric_limits<double>::infinity()) : std::nullopt;
}

}  // namespace volador::tune
