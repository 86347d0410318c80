// Members of a row in JSON. Heads of other versions have other members: missing ones are null, empty or the default.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace volador::cli {

const nlohmann::json& member(const nlohmann::json& row, const char* name);
// Printable; "" if the member is no text.
std::string text_member(const nlohmann::json& row, const char* name);
double number_member(const nlohmann::json& row, const char* name, double otherwise);

}  // namespace volador::cli
