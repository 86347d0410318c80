#include "experiments/config/finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/utf8.h"

namespace volador::experiments {
namespace {

constexpr size_t kPathBytesMax = 300;

void keep(std::vector<Finding>& findings, size_t& left_out, Finding finding) {
  if (std::ranges::find(findings, finding) != findings.end()) return;
  if (findings.size() == Findings::kFindingsMax) {
    ++left_out;
    return;
  }
  findings.push_back(std::move(finding));
}

}  // namespace

std::string Finding::text() const {
  const std::string where = place.text();
  return fmt::format("{}{}{}{}", path, path.empty() ? "" : ": ", message,
                     where.empty() ? where : fmt::format(" ({})", where));
}

void Findings::error(std::string_view path, const yaml::Place& place, std::string message) {
  keep(errors_, errors_left_out_, {plain_text(path, kPathBytesMax), std::move(message), place});
}

void Findings::warning(std::string_view path, const yaml::Place& place, std::string message) {
  keep(warnings_, warnings_left_out_, {plain_text(path, kPathBytesMax), std::move(message), place});
}

bool Findings::has_error_at(std::string_view path) const {
  return std::ranges::any_of(errors_, [path](const Finding& error) {
    const std::string_view found = error.path;
    return found.starts_with(path) && (found.size() == path.size() || found[path.size()] == '[');
  });
}

std::string path_below(std::string_view parent, std::string_view key) {
  return parent.empty() ? std::string(key) : fmt::format("{}.{}", parent, key);
}

std::string path_of_item(std::string_view parent, size_t index) { return fmt::format("{}[{}]", parent, index); }

}  // namespace volador::experiments
