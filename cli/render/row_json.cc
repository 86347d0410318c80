#include "cli/render/row_json.h"

#include <nlohmann/json.hpp>

#include "cli/render/table.h"

namespace volador::cli {

const nlohmann::json& member(const nlohmann::json& row, const char* name) {
  static const nlohmann::json kNothing;
  const auto found = row.is_object() ? row.find(name) : row.end();
  return row.is_object() && found != row.end() ? *found : kNothing;
}

std::string text_member(const nlohmann::json& row, const char* name) {
  const nlohmann::json& value = member(row, name);
  return value.is_string() ? printable(value.get<std::string>()) : "";
}

double number_member(const nlohmann::json& row, const char* name, double otherwise) {
  const nlohmann::json& value = member(row, name);
  return value.is_number() ? value.get<double>() : otherwise;
}

}  // namespace volador::cli
