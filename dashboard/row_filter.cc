#include "dashboard/row_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "dashboard/request_guard.h"

namespace volador::dashboard {
namespace {

constexpr size_t kTermsMax = 16;

std::string text_of(const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace); }

}  // namespace

Result<RowFilter> RowFilter::parse(std::string_view text) {
  RowFilter filter;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view term = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (term.empty()) continue;
    if (filter.terms_.size() >= kTermsMax) return make_error(ErrorCode::kInvalidArgument, fmt::format("filter: at most {} terms", kTermsMax));
    const size_t at = term.find_first_of("=<>");
    if (at == std::string_view::npos || at == 0) {
      filter.terms_.push_back({.value = lower(term)});
      continue;
    }
    Term made{.comparison = term[at], .member = std::string(term.substr(0, at)), .value = std::string(term.substr(at + 1))};
    if (made.comparison != '=') {
      const auto read = std::from_chars(made.value.data(), made.value.data() + made.value.size(), made.number);
      if (read.ec != std::errc() || read.ptr != made.value.data() + made.value.size()) {
        return make_error(ErrorCode::kInvalidArgument, fmt::format("filter: {}{} compares with a number, got \"{}\"", made.member, made.comparison, made.value));
      }
    }
    filter.terms_.push_back(std::move(made));
  }
  return filter;
}

bool RowFilter::needs_members() const {
  return std::any_of(terms_.begin(), terms_.end(), [](const Term& term) { return term.comparison != 0; });
}

bool RowFilter::holds(std::string_view text, const nlohmann::json& row) const {
  std::string lowered;
  return std::all_of(terms_.begin(), terms_.end(), [&](const Term& term) {
    if (term.comparison == 0) {
      if (lowered.empty()) lowered = lower(text);
      return lowered.find(term.value) != std::string::npos;
    }
    const nlohmann::json* member = member_of(row, term.member);
    if (member == nullptr) return false;
    if (term.comparison == '=' && member->is_array()) return std::any_of(member->begin(), member->end(), [&](const auto& one) { return text_of(one) == term.value; });
    if (term.comparison == '=') return text_of(*member) == term.value;
    if (!member->is_number()) return false;
    return term.comparison == '<' ? member->get<double>() < term.number : member->get<double>() > term.number;
  });
}

const nlohmann::json* member_of(const nlohmann::json& row, std::string_view path) {
  const nlohmann::json* at = &row;
  while (at->is_object()) {
    if (const auto whole = at->find(path); whole != at->end()) return &*whole;
    const size_t dot = path.find('.');
    if (dot == std::string_view::npos) return nullptr;
    const auto next = at->find(path.substr(0, dot));
    if (next == at->end()) return nullptr;
    at = &*next;
    path.remove_prefix(dot + 1);
  }
  return nullptr;
}

bool comes_before(const nlohmann::json* left, const nlohmann::json* right) {
  const auto rank = [](const nlohmann::json* value) { return value == nullptr || value->is_null() ? 2 : value->is_number() ? 0 : 1; };
  if (rank(left) != rank(right)) return rank(left) < rank(right);
  if (rank(left) == 2) return false;
  return *left < *right;
}

}  // namespace volador::dashboard
