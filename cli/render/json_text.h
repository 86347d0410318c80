// JSON output of the command line.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace volador::cli {

// Ends with a line feed; invalid UTF-8 is replaced.
inline std::string text_of(const nlohmann::ordered_json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// NaN and infinities become null, like absent values, since JSON has neither.
inline nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json number(const std::optional<double>& value) {
  return value ? number(*value) : nlohmann::ordered_json();
}

// Returns a reason as structured data; null if only its text is known.
inline nlohmann::ordered_json why_json(const std::string& why) {
  return why.empty() ? nlohmann::ordered_json()
                     : nlohmann::ordered_json::parse(why, nullptr, /*allow_exceptions=*/false);
}

}  // namespace volador::cli
