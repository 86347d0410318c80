// JSON as the command line prints it.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace volador::cli {

// Ends with a line feed; what is no UTF-8 is replaced.
inline std::string text_of(const nlohmann::ordered_json& json, int indent = 2) {
  return json.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

// JSON has no NaN or infinity: such a value is null, as an absent one is.
inline nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json number(const std::optional<double>& value) {
  return value ? number(*value) : nlohmann::ordered_json();
}

// A reason as data; null where its text is all there is.
inline nlohmann::ordered_json why_json(const std::string& why) {
  return why.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json::parse(why, nullptr, /*allow_exceptions=*/false);
}

}  // namespace volador::cli
