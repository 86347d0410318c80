#include "runtime/outgoing/form.h"

#include <algorithm>
#include <cstdint>

namespace volador::outgoing {
namespace {

constexpr size_t kFieldsMax = 32;
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

bool is_unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at] == '+' ? ' ' : text[at];
      continue;
    }
    if (at + 2 >= text.size()) return std::nullopt;
    uint32_t value = 0;
    for (const char digit : text.substr(at + 1, 2)) {
      const size_t known = kHexDigits.find(digit >= 'a' && digit <= 'f' ? static_cast<char>(digit - 32) : digit);
      if (known == std::string_view::npos) return std::nullopt;
      value = value << 4 | static_cast<uint32_t>(known);
    }
    out += static_cast<char>(value);
    at += 2;
  }
  return out;
}

}  // namespace

std::string percent_encoded(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c)) {
      out += c;
    } else {
      out += '%';
      out += kHexDigits[static_cast<uint8_t>(c) >> 4];
      out += kHexDigits[static_cast<uint8_t>(c) & 15];
    }
  }
  return out;
}

std::string form_text(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out;
  for (const auto& [name, value] : fields)
    out += (out.empty() ? "" : "&") + percent_encoded(name) + "=" + percent_encoded(value);
  return out;
}

std::optional<std::map<std::string, std::string>> parse_form(std::string_view text) {
  std::map<std::string, std::string> fields;
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view pair = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    auto name = percent_decoded(pair.substr(0, equals));
    auto value = percent_decoded(equals < pair.size() ? pair.substr(equals + 1) : std::string_view());
    if (!name || !value || fields.size() >= kFieldsMax) return std::nullopt;
    fields.emplace(std::move(*name), std::move(*value));
  }
  return fields;
}

}  // namespace volador::outgoing
