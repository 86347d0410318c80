// A value of a line of result.json as a number. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace volador::tune {

// NaN where the value is null, an infinity where it is the text "inf" or "-inf": JSON has none of them. None: it is no number.
// `Json`: of nlohmann.
template <class Json>
std::optional<double> result_number(std::string_view key, const Json& value) {
  if (value.is_number()) return value.template get<double>();
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_string() || key == "date" || key == "trial_id" || key == "hostname" || key == "node") return std::nullopt;
  const auto& text = value.template get_ref<const std::string&>();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  return text == "-inf" ? std::optional(-std::numeric_limits<double>::infinity()) : std::nullopt;
}

}  // namespace volador::tune
