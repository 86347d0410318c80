// Explains lines whose indentation makes a YAML file unreadable, as in examples that a page or a book has reflowed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace volador::experiments::katib {

struct IndentationHint {
  int line = 0, column = 0;  // From 1.
  std::string what;
};

// The first line up to `error_line` that is indented less than its neighbours but as no block around it. No value: there is
// none, and the file is wrong in another way.
std::optional<IndentationHint> indentation_hint(std::string_view text, int error_line);

}  // namespace volador::experiments::katib
