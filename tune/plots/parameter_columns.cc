#include "tune/plots/parameter_columns.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>

#include "tune/plots/scale.h"
#include "tune/results/saved_run.h"

namespace volador::tune {
namespace {

constexpr double kLogRatio = 1000;

// Returns "loguniform(0.0001, 0.1)" from the parameter's line; empty: not found.
std::string_view domain_of(std::string_view space, const std::string& path) {
  while (!space.empty()) {
    const std::string_view line = space.substr(0, space.find('\n'));
    space.remove_prefix(std::min(space.size(), line.size() + 1));
    if (line.size() > path.size() && line.starts_with(path) && line[path.size()] == ' ')
      return line.substr(path.size() + 1);
  }
  return {};
}

// Returns the first two numbers in parentheses, for uniform and randint domains.
std::optional<std::pair<double, double>> bounds_of(std::string_view domain) {
  const size_t open = domain.find('(');
  if (open == std::string_view::npos || domain.find("uniform(") == std::string_view::npos) {
    if (domain.find("randint(") == std::string_view::npos) return std::nullopt;
  }
  const std::string text(domain.substr(open + 1));
  char* after = nullptr;
  const double lo = std::strtod(text.c_str(), &after);
  if (after == text.c_str() || *after != ',') return std::nullopt;
  const char* const second = after + 1;
  const double hi = std::strtod(second, &after);
  if (after == second || !std::isfinite(lo) || !std::isfinite(hi)) return std::nullopt;
  return std::pair(lo, hi);
}

bool is_number(const Config& value) {
  return value.kind() == Config::Kind::kInteger || value.kind() == Config::Kind::kReal;
}

using Values = std::vector<const Config*>;  // Null: absent.

// Ascending if all are numbers, otherwise alphabetical.
void fill_categories(ParameterColumn& column, const Values& values, bool numbers) {
  const auto before = [numbers](const Config* a, const Config* b) {
    return numbers ? a->real() < b->real() : to_text(*a) < to_text(*b);
  };
  Values distinct;
  for (const Config* value : values) {
    if (value != nullptr) distinct.push_back(value);
  }
  std::stable_sort(distinct.begin(), distinct.end(), before);
  std::map<std::string, double> index;
  for (const Config* value : distinct) {
    const std::string text = to_text(*value);
    if (index.emplace(text, static_cast<double>(column.categories.size())).second) column.categories.push_back(text);
  }
  for (const Config* value : values) column.values.push_back(value == nullptr ? kNoValue : index[to_text(*value)]);
}

void fill_numbers(ParameterColumn& column, const Values& values, std::string_view domain) {
  double lo = std::numeric_limits<double>::infinity(), hi = -lo;
  for (const Config* value : values) {
    column.values.push_back(value == nullptr ? kNoValue : value->real());
    if (!std::isfinite(column.values.back())) continue;
    lo = std::min(lo, column.values.back());
    hi = std::max(hi, column.values.back());
  }
  column.log = domain.empty() ? lo > 0 && hi >= kLogRatio * lo : domain.find("log") != std::string_view::npos && lo > 0;
  if (const auto bounds = bounds_of(domain); bounds && (!column.log || bounds->first > 0)) {
    lo = std::min(lo, bounds->first);
    hi = std::max(hi, bounds->second);
  }
  column.lo = lo;
  column.hi = hi;
}

}  // namespace

std::vector<ParameterColumn> parameter_columns(const std::vector<const Trial*>& trials, std::string_view space) {
  std::vector<ParameterColumn> columns;
  for (const std::string& path : varying_parameters(trials)) {
    Values values;
    bool numbers = true, finite = false;
    for (const Trial* trial : trials) {
      const Config* const value = trial->config.find(path);
      values.push_back(value);
      if (value == nullptr) continue;
      numbers = numbers && is_number(*value);
      finite = finite || (is_number(*value) && std::isfinite(value->real()));
    }
    const std::string_view domain = domain_of(space, path);
    const bool chosen = domain.starts_with("choice") || domain.starts_with("grid_search");
    ParameterColumn& column = columns.emplace_back();
    column.path = path;
    if (numbers && finite && !chosen) {
      fill_numbers(column, values, domain);
    } else {
      fill_categories(column, values, numbers);
    }
  }
  return columns;
}

}  // namespace volador::tune
