#include "experiments/katib/indentation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace volador::experiments::katib {

std::optional<IndentationHint> indentation_hint(std::string_view text, int error_line) {
  std::vector<size_t> blocks{0};  // Columns at which the blocks around the line begin.
  int number = 0;
  while (!text.empty() && number < error_line) {
    ++number;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    if (line.starts_with("---")) {
      blocks = {0};
      continue;
    }
    if (line[first] == '\t')
      return IndentationHint{number, static_cast<int>(first) + 1, "a tab indents this line; YAML wants spaces"};
    if (first < blocks.back() && std::ranges::find(blocks, first) == blocks.end()) {
      return IndentationHint{
          number, static_cast<int>(first) + 1,
          fmt::format(
              "not valid YAML: this line has {} spaces before it, but the blocks around it have {}; indent it as "
              "the lines that it belongs to",
              first, fmt::join(blocks, ", "))};
    }
    while (blocks.back() > first) blocks.pop_back();
    if (blocks.back() < first) blocks.push_back(first);
    // "- name: lr" begins a block of its own behind the dash.
    for (size_t at = first; line.substr(at).starts_with("- ");) {
      at = line.find_first_not_of(' ', at + 1);
      if (at == std::string_view::npos) break;
      if (line.substr(at).find(": ") != std::string_view::npos || line.ends_with(':')) blocks.push_back(at);
    }
  }
  return std::nullopt;
}

}  // namespace volador::experiments::katib
