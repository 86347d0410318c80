#include "head/experiments/run_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace volador::head {
namespace {

constexpr size_t kNamesListedMax = 5;
constexpr std::string_view kDate = "_dddd-dd-dd_dd-dd-dd";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool starts_with_date(std::string_view text) {
  if (text.size() < kDate.size()) return false;
  for (size_t i = 0; i < kDate.size(); ++i) {
    if (kDate[i] == 'd' ? !is_digit(text[i]) : text[i] != kDate[i]) return false;
  }
  return true;
}

// "_2026-11-25_01-23-55_2", or nothing.
std::string_view date_of(std::string_view name) {
  std::string_view rest = name;
  size_t number = name.size();
  while (number > 0 && is_digit(name[number - 1])) --number;
  if (number > 0 && number < name.size() && name[number - 1] == '_') rest = name.substr(0, number - 1);
  for (const std::string_view dated : {rest, name}) {
    if (dated.size() > kDate.size() && starts_with_date(dated.substr(dated.size() - kDate.size())))
      return name.substr(dated.size() - kDate.size());
  }
  return {};
}

}  // namespace

std::string_view stem_of_run(std::string_view name) { return name.substr(0, name.size() - date_of(name).size()); }

bool is_later_run(std::string_view a, std::string_view b) {
  const std::string_view first = date_of(a), second = date_of(b);
  const std::string_view day = first.substr(0, kDate.size()), other_day = second.substr(0, kDate.size());
  if (day != other_day) return day > other_day;
  return std::pair(first.size(), first) > std::pair(second.size(), second);  // "_9" comes before "_10".
}

std::optional<size_t> named_run(std::span<const std::string_view> names, std::string_view text) {
  std::optional<size_t> newest, newest_of_stem;
  bool one_stem = true;
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == text) return i;
    const auto is_newer = [&](const std::optional<size_t>& than) {
      return !than || is_later_run(names[i], names[*than]);
    };
    one_stem = one_stem && stem_of_run(names[i]) == stem_of_run(names[0]);
    if (is_newer(newest)) newest = i;
    if (stem_of_run(names[i]) == text && is_newer(newest_of_stem)) newest_of_stem = i;
  }
  return newest_of_stem ? newest_of_stem : one_stem ? newest : std::nullopt;
}

std::string listed(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesListedMax);
  std::string text =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (names.size() > shown) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace volador::head
