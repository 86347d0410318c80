#include "runtime/quantities.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace volador {

namespace {

tl::unexpected<Error> expected_but(std::string_view what, std::string_view got) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("expected {}, got \"{}\"", what, got.substr(0, 80)));
}

// Removes and returns the number at the start of `text`.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(value)) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::string_view take_letters(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  size_t length = 0;
  while (length < text.size() &&
         ((text[length] >= 'a' && text[length] <= 'z') || (text[length] >= 'A' && text[length] <= 'Z')))
    ++length;
  std::string_view letters = text.substr(0, length);
  text.remove_prefix(length);
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  return letters;
}

struct Unit {
  std::string_view name;
  double factor;
};

constexpr std::array<Unit, 8> kDurationUnits{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {"d", 86400e9}}};
constexpr std::array<Unit, 10> kByteUnits{{{"", 1},
                                           {"B", 1},
                                           {"kB", 1e3},
                                           {"MB", 1e6},
                                           {"GB", 1e9},
                                           {"TB", 1e12},
                                           {"KiB", 1024.0},
                                           {"MiB", 1024.0 * 1024},
                                           {"GiB", 1024.0 * 1024 * 1024},
                                           {"TiB", 1024.0 * 1024 * 1024 * 1024}}};
constexpr double kIntegerEdge = 9.2e18;  // Below 2^63, so that the conversion is defined.

template <size_t n>
std::optional<double> factor_of(const std::array<Unit, n>& units, std::string_view name) {
  for (const Unit& unit : units)
    if (unit.name == name) return unit.factor;
  return std::nullopt;
}

}  // namespace

Result<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return expected_but("an integer", text);
  return value;
}

Result<double> parse_real(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || !std::isfinite(value))
    return expected_but("a number", text);
  return value;
}

Result<bool> parse_boolean(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return expected_but("true or false", text);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  if (text == "0") return std::chrono::nanoseconds(0);
  std::string_view rest = text;
  double total = 0;
  bool any = false;
  while (!rest.empty()) {
    auto number = take_number(rest);
    auto factor = factor_of(kDurationUnits, take_letters(rest));
    if (!number || *number < 0 || !factor)
      return expected_but("a duration with its unit such as 500ms, 3.5s or 10min", text);
    total += *number * *factor;
    any = true;
  }
  if (!any || total > kIntegerEdge) return expected_but("a duration with its unit such as 500ms, 3.5s or 10min", text);
  return std::chrono::nanoseconds(std::llround(total));
}

Result<int64_t> parse_byte_count(std::string_view text) {
  std::string_view rest = text;
  auto number = take_number(rest);
  auto factor = factor_of(kByteUnits, take_letters(rest));
  if (!number || *number < 0 || !factor || !rest.empty() || *number * *factor > kIntegerEdge)
    return expected_but("a size such as 512MiB, 8GiB or 2GB", text);
  return std::llround(*number * *factor);
}

Result<std::map<std::string, std::string>> parse_pairs(std::string_view text) {
  std::map<std::string, std::string> pairs;
  if (text.empty()) return pairs;
  std::string_view rest = text;
  while (true) {
    const size_t comma = rest.find(',');
    const std::string_view pair = rest.substr(0, comma);
    const size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) return expected_but("pairs such as zone=a,disk=ssd", text);
    if (!pairs.emplace(pair.substr(0, equals), pair.substr(equals + 1)).second)
      return expected_but(fmt::format("each key once, but \"{}\" comes twice", pair.substr(0, equals)), text);
    if (comma == std::string_view::npos) return pairs;
    rest.remove_prefix(comma + 1);
  }
}

std::string format_duration(std::chrono::nanoseconds duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  const int64_t whole = static_cast<int64_t>(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  return fmt::format("{} d {} h", whole / 86400, whole % 86400 / 3600);
}

std::string counted(std::string_view number, std::string_view one, std::string_view many) {
  if (number == "1") return fmt::format("1 {}", one);
  return many.empty() ? fmt::format("{} {}s", number, one) : fmt::format("{} {}", number, many);
}

}  // namespace volador
