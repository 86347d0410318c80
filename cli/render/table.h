// Columns that line up, whatever script their text is in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/render/terminal.h"

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

// Parts in a line, or in several where it would be wider than `columns` (0: any width). Each further line is indented. A part that is wider than a
// line is cut. Ends with a line break.
std::string wrapped(const std::vector<std::string>& parts, std::string_view separator, size_t columns, size_t indent);

enum class Align : uint8_t { kLeft, kRight };
// Which end of a text that is too wide goes.
enum class Cut : uint8_t { kEnd, kMiddle };

inline constexpr size_t kNameColumns = 24;  // Names are cut to it where lines have a limit.

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    // Where lines have a limit: columns of the greatest number are left out first; 0: never.
    int rank = 0;
    size_t width_max = 0;  // Wider cells are cut to it; 0: as wide as they are.
    size_t width_min = 0;  // To which it may shrink before columns are left out; 0: it does not shrink.
    Cut cut = Cut::kEnd;
    bool first = false;  // It gets what is left of the line before the other columns that were shrunk.
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // As many cells as there are columns. A cell may hold escape sequences.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // A line of titles, then a line a row; two spaces between columns, none at the ends of lines. Columns that are empty
  // in every row are left out. `columns_max`: no line is wider; 0: nothing is cut and no column is left out.
  std::string text(size_t columns_max = 0) const;
  // Titles of the columns that text(columns_max) leaves out though they have contents.
  std::vector<std::string> left_out(size_t columns_max) const;

 private:
  struct Layout {
    std::vector<size_t> widths;  // 0: the column is left out.
    std::vector<bool> used;      // It has contents.
  };
  Layout layout(size_t columns_max) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// The table in lines that fit the terminal, and a line that names the columns for which there was no room.
std::string fitted(const Table& table, const Terminal& terminal);

}  // namespace volador::cli
