// Columns that line up, whatever script their text is in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace volador::cli {

// Columns that a UTF-8 text takes in a terminal: wide East Asian letters take two, combining marks and escape sequences
// none. Bytes that are no UTF-8 take one each.
size_t display_width(std::string_view text);

// The start of a text that takes at most so many columns, with "…" at the end where something is cut off. Escape sequences stay.
std::string cut_to_width(std::string_view text, size_t columns);

// Text that a cluster reported, made safe to print: control characters become '?'.
std::string printable(std::string_view text);
// The same for a whole line, in which tabs may stay.
std::string printable_line(std::string_view text);

enum class Align : uint8_t { kLeft, kRight };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns. A cell may hold escape sequences.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // A line of titles, then a line a row; two spaces between columns, none at the ends of lines. Columns that are empty
  // in every row are left out.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace volador::cli
