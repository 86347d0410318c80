#include "experiments/config/forms.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>

#include "runtime/text.h"

namespace volador::experiments {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Multiplies digits of a decimal number exactly: `whole`.`fraction` × 2^`shift`, rounded down.
std::optional<int64_t> scaled(std::string_view whole, std::string_view fraction, int shift) {
  unsigned __int128 value = 0;
  constexpr unsigned __int128 kMost = std::numeric_limits<int64_t>::max();
  for (const char digit : whole) {
    value = value * 10 + static_cast<unsigned>(digit - '0');
    if (value > kMost) return std::nullopt;
  }
  value <<= shift;  // At most 63 + 50 bits.
  // 18 digits decide: fraction × 2^50 < 10^18 × 2^50 < 2^110.
  unsigned __int128 part = 0, divisor = 1;
  for (const char digit : fraction.substr(0, 18)) {
    part = part * 10 + static_cast<unsigned>(digit - '0');
    divisor *= 10;
  }
  value += (part << shift) / divisor;
  if (value > kMost) return std::nullopt;
  return static_cast<int64_t>(value);
}

// The words of a command; quotes are not looked at.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  if (!word.empty()) words.push_back(std::move(word));
  return words;
}

bool is_identifier(std::string_view text, bool dots) {
  if (text.empty() || is_digit(text.front())) return false;
  return std::ranges::all_of(text, [dots](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || (dots && (c == '.' || c == '/'));
  });
}

bool is_trial_class(std::string_view word) {
  const size_t colon = word.find(':');
  return colon != std::string_view::npos && is_identifier(word.substr(0, colon), true) &&
         is_identifier(word.substr(colon + 1), false);
}

}  // namespace

std::optional<int64_t> memory_bytes(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && is_digit(text[at])) ++at;
  std::string_view whole = text.substr(0, at), fraction;
  if (at < text.size() && text[at] == '.') {
    const size_t begin = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    fraction = text.substr(begin, at - begin);
    if (fraction.empty()) return std::nullopt;
  } else if (whole.empty()) {
    return std::nullopt;
  }
  if (at < text.size() && text[at] == ' ') ++at;
  std::string unit;
  for (const char c : text.substr(at)) unit += lower_case(c);
  if (unit.empty() || unit == "b") return scaled(whole, fraction, 0);
  constexpr std::string_view kUnits = "kmgtp";
  const size_t power = kUnits.find(unit.front());
  const std::string_view rest = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "b" && rest != "ib")) return std::nullopt;
  return scaled(whole, fraction, 10 * static_cast<int>(power + 1));
}

std::optional<DeviceText> device_of(std::string_view text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ':') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  if (parts.size() < 2 || parts.size() > 3 || !parts[0].starts_with('/') || !parts[1].starts_with('/'))
    return std::nullopt;
  if (parts.size() == 3 && parts[2].find_first_not_of("rwm") != std::string::npos) return std::nullopt;
  return DeviceText{parts[0], parts[1], parts.size() == 3 && !parts[2].empty() ? parts[2] : "mrw"};
}

std::optional<std::string_view> variable_name(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0) return std::nullopt;
  const std::string_view name = text.substr(0, equals);
  const bool plain = std::ranges::all_of(name, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != 0x7f; });
  return plain ? std::optional(name) : std::nullopt;
}

bool names_secret(std::string_view variable) {
  std::string upper;
  for (const char c : variable) upper += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string_view word : {"PASSWORD", "PASSWD", "SECRET", "TOKEN", "CREDENTIAL", "PRIVATE", "API_KEY",
                                      "APIKEY", "ACCESS_KEY", "CONNECTION_STRING"})
    if (upper.find(word) != std::string::npos) return true;
  return upper == "KEY" || upper.ends_with("_KEY") || upper.ends_with("_PASS") || upper.ends_with("_PWD");
}

std::optional<std::string> trial_class_of(const std::vector<std::string>& entrypoint) {
  const std::vector<std::string> words = entrypoint.size() == 1 ? words_of(entrypoint.front()) : entrypoint;
  if (words.empty() || !is_trial_class(words.back())) return std::nullopt;
  const bool launched = std::ranges::any_of(words, [](const std::string& word) {
    return word.starts_with("determined.launch.") || word.starts_with("determined.exec.");
  });
  return words.size() == 1 || launched ? std::optional(words.back()) : std::nullopt;
}

bool has_parent_component(std::string_view path) {
  return std::ranges::any_of(std::filesystem::path(path), [](const auto& component) { return component == ".."; });
}

bool is_inside(std::string_view path, std::string_view folder) {
  const auto root = std::filesystem::path(folder).lexically_normal();
  const auto whole = (root / std::filesystem::path(path)).lexically_normal();
  const auto relative = whole.lexically_relative(root);
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace volador::experiments
