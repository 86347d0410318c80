#include "dashboard/row_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "dashboard/row_scan.h"
#include "runtime/text.h"

namespace volador::dashboard {
namespace {

constexpr size_t kTermsMax = 16;

std::optional<double> decimal_of(std::string_view text) {
  double value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_number(std::string_view json) {
  return !json.empty() && (json.front() == '-' || (json.front() >= '0' && json.front() <= '9'));
}

// Whether a value equals the term: texts without quotes, numbers in any notation.
bool equals(std::string_view json, std::string_view value, const std::optional<double>& number) {
  std::string storage;
  if (json.starts_with('"')) return text_of_json(json, storage) == value;
  return json == value || (number && is_number(json) && decimal_of(json) == number);
}

bool has_element(std::string_view array, std::string_view value, const std::optional<double>& number) {
  const auto elements = nlohmann::json::parse(array, nullptr, false);
  return std::any_of(elements.begin(), elements.end(), [&](const auto& one) {
    return equals(one.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), value, number);
  });
}

}  // namespace

Result<RowFilter> RowFilter::parse(std::string_view text) {
  RowFilter filter;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view term = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (term.empty()) continue;
    if (filter.terms_.size() >= kTermsMax)
      return make_error(ErrorCode::kInvalidArgument, fmt::format("filter: at most {} terms", kTermsMax));
    const size_t at = term.find_first_of("=<>");
    if (at == std::string_view::npos || at == 0) {
      filter.terms_.push_back({.value = lower_case(term)});
      continue;
    }
    Term made{
        .comparison = term[at], .member = std::string(term.substr(0, at)), .value = std::string(term.substr(at + 1))};
    made.number = decimal_of(made.value);
    if (made.comparison != '=' && !made.number) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("filter: {}{} compares with a number, got \"{}\"",
                                                                 made.member, made.comparison, made.value));
    }
    filter.terms_.push_back(std::move(made));
  }
  return filter;
}

std::vector<std::string> RowFilter::members() const {
  std::vector<std::string> paths;
  for (const Term& term : terms_) {
    if (term.comparison != 0) paths.push_back(term.member);
  }
  return paths;
}

bool RowFilter::holds(std::string_view text, const std::vector<std::string_view>& values) const {
  std::string lowered;
  size_t compared = 0;
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    if (term.comparison == 0) {
      if (lowered.empty()) lowered = lower_case(text);
      return lowered.find(term.value) != std::string::npos;
    }
    const std::string_view value = values[compared++];
    if (value.empty()) return false;
    if (term.comparison == '=')
      return value.starts_with('[') ? has_element(value, term.value, term.number)
                                    : equals(value, term.value, term.number);
    if (!is_number(value)) return false;
    const auto number = decimal_of(value);
    return number && (term.comparison == '<' ? *number < *term.number : *number > *term.number);
  });
}

SortKey SortKey::of(std::string_view json) {
  if (json.empty() || json == "null") return {};
  if (is_number(json)) return {.kind = Kind::kNumber, .number = decimal_of(json).value_or(0)};
  std::string storage;
  return {.kind = Kind::kText, .text = std::string(json.starts_with('"') ? text_of_json(json, storage) : json)};
}

bool SortKey::operator<(const SortKey& other) const {
  if (kind != other.kind) return kind < other.kind;
  return kind == Kind::kNumber ? number < other.number : text < other.text;
}

}  // namespace volador::dashboard
