#include "runtime/yaml/writer.h"

#include <fmt/format.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>

#include "runtime/text.h"
#include "runtime/yaml/reader.h"

namespace volador::yaml {
namespace {

nlohmann::ordered_json json_of(const Value& value) {
  switch (value.kind) {
    case Kind::kNull:
      return nullptr;
    case Kind::kBoolean:
      return value.boolean;
    case Kind::kInteger:
      return value.integer;
    case Kind::kNumber:
      return value.number;
    case Kind::kText:
      return value.text;
    case Kind::kList: {
      auto list = nlohmann::ordered_json::array();
      for (const Value& item : value.items) list.push_back(json_of(item));
      return list;
    }
    case Kind::kMap:
      break;
  }
  // ordered_json looks a key up in all of them; keys of a map are unique, so that they are only added.
  nlohmann::ordered_json::object_t map;
  for (const Entry& entry : value.entries) map.emplace_back(entry.key, json_of(entry.value));
  return map;
}

// Shortest text that reads as the same number, with a point, without which YAML 1.1 reads 1e-05 as a text.
std::string number_text(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find('.') == std::string::npos) {
    const size_t exponent = text.find('e');
    text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  }
  return text;
}

// Whether some reader takes the text for something else when it has no quotes.
bool needs_quotes(std::string_view text) {
  if (!plain_scalar(text).is_text()) return true;
  const std::string lower = lower_case(text);
  for (const std::string_view word : {"yes", "no", "on", "off", "y", "n", "<<", "="})
    if (lower == word) return true;
  // Numbers, times of day, dates, .inf and .nan of YAML 1.1.
  const char first = text.front();
  if ((first >= '0' && first <= '9') || first == '+' || first == '-' || first == '.') return true;
  // What yaml-cpp itself decides on: indicators, spaces at the ends and control characters are left to it.
  return text.back() == ' ' || text.find_first_of("\n\t#:") != std::string_view::npos;
}

void emit_text(YAML::Emitter& out, const std::string& text) {
  if (needs_quotes(text)) out << YAML::DoubleQuoted;
  out << text;
}

void emit(YAML::Emitter& out, const Value& value) {
  switch (value.kind) {
    case Kind::kNull:
      out << YAML::Null;
      return;
    case Kind::kBoolean:
      out << value.boolean;
      return;
    case Kind::kInteger:
      out << value.integer;
      return;
    case Kind::kNumber:
      out << number_text(value.number);
      return;
    case Kind::kText:
      emit_text(out, value.text);
      return;
    case Kind::kList:
      if (value.items.empty()) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const Value& item : value.items) emit(out, item);
      out << YAML::EndSeq;
      return;
    case Kind::kMap:
      if (value.entries.empty()) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const Entry& entry : value.entries) {
        out << YAML::Key;
        emit_text(out, entry.key);
        out << YAML::Value;
        emit(out, entry.value);
      }
      out << YAML::EndMap;
      return;
  }
}

}  // namespace

std::string json_text(const Value& value, int indent) {
  return json_of(value).dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string yaml_text(const Value& value) {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  emit(out, value);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace volador::yaml
