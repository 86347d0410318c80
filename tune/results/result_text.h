// How one result looks as a line of JSON and as a line of CSV. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/clock.h"

namespace volador::tune {

struct ResultRow;

// "2026-11-21_10-02-11" in local time, as Tune writes dates. Remembers the last second. One thread.
class DateText {
 public:
  const std::string& of(WallTime time);

 private:
  int64_t second_ = INT64_MIN;
  std::string text_;
};

// The keys and values of one row in order: the reported metrics first, then the added keys.
class ResultCells {
 public:
  struct Cell {
    std::string_view key;
    std::string_view json;  // Ready for result.json.
    std::string_view csv;   // Not quoted yet.
  };

  // Views into `row` and into this, until the next build.
  void build(const ResultRow& row);
  const std::vector<Cell>& cells() const { return cells_; }

 private:
  struct Text {
    size_t json_at, json_size, csv_at, csv_size;
  };
  void number(std::string_view key, double value);
  void text(std::string_view key, std::string_view value);

  std::vector<Cell> cells_;
  std::vector<std::pair<std::string_view, Text>> placed_;
  std::string buffer_;
  DateText date_;
};

// The columns of one table, in the order of their first appearance.
class CsvColumns {
 public:
  // Adds the keys that are new; gives how many.
  size_t add(const ResultCells& cells);
  size_t size() const { return names_.size(); }
  size_t index(std::string_view name) const;  // The name is there.
  std::string header() const;                 // A line.

 private:
  std::vector<std::unique_ptr<std::string>> names_;     // Pointers: the names themselves never move.
  std::unordered_map<std::string_view, size_t> index_;  // Views into names_.
};

void append_json_line(std::string& out, const ResultCells& cells);
void append_csv_line(std::string& out, const CsvColumns& columns, const ResultCells& cells);
// Adds `count` empty cells to the end of each line; line breaks within quotes end no line.
void widen_csv(std::string& lines, size_t count);

// "text" with quotes and escapes; bytes that are no UTF-8 become U+FFFD.
void append_json_text(std::string& out, std::string_view text);

}  // namespace volador::tune
