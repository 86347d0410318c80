// Tables with aligned columns for text in any script.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/render/terminal.h"

namespace volador::cli {

// Returns the terminal columns of UTF-8 text: wide East Asian characters take two, combining marks and escape sequences
// none, invalid bytes one each.
size_t display_width(std::string_view text);

// Truncates text to a width, with "…" at the end; escape sequences are kept.
std::string cut_to_width(std::string_view text, size_t columns);

// Makes text reported by a cluster safe to print: control characters become '?'.
std::string printable(std::string_view text);
// As printable(), for a whole line, in which tabs are kept.
std::string printable_line(std::string_view text);

// Joins parts into a line, or into several if it would be wider than `columns` (0: unlimited). Further lines are
// indented. A part that is wider than a line is truncated. Ends with a line break.
std::string wrapped(const std::vector<std::string>& parts, std::string_view separator, size_t columns, size_t indent);

enum class Align : uint8_t { kLeft, kRight };
// The part of an overlong text that is removed.
enum class Cut : uint8_t { kEnd, kMiddle };

inline constexpr size_t kNameColumns = 24;  // Maximum width of names if lines have a limit.

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
    // If lines have a limit, the columns with the highest rank are omitted first; 0: never.
    int rank = 0;
    size_t width_max = 0;  // Wider cells are truncated; 0: unlimited.
    size_t width_min = 0;  // The column may shrink to this width before columns are omitted; 0: it does not shrink.
    Cut cut = Cut::kEnd;
    bool first = false;  // Gets the remaining width of the line before other shrunk columns.
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Takes as many cells as there are columns. A cell may contain escape sequences.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Returns a title line, then one line per row; two spaces between columns, none at the ends of lines. Columns that
  // are empty in every row are omitted. `columns_max`: maximum width of lines; 0: unlimited, and no column is omitted.
  std::string text(size_t columns_max = 0) const;
  // Titles of non-empty columns that text(columns_max) omits.
  std::vector<std::string> left_out(size_t columns_max) const;

 private:
  struct Layout {
    std::vector<size_t> widths;  // 0: the column is omitted.
    std::vector<bool> used;      // It has contents.
  };
  Layout layout(size_t columns_max) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "  scheduler   ASHA …": a line with a title, padded by its display width to `columns`, and a value.
std::string titled(const std::string& title, std::string_view value, size_t columns = 12);

// Returns the table in lines that fit the terminal, and a line that names the omitted columns.
std::string fitted(const Table& table, const Terminal& terminal);

}  // namespace volador::cli
