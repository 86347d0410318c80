// Formats one result as a line of JSON and as a line of CSV. Pure.
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

// "2026-11-21_10-02-11" in local time, the date format of Ray Tune. Caches the last second. Single-threaded.
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
    std::string_view json;  // Formatted for result.json.
    std::string_view csv;   // Not quoted yet.
  };

  // Cells are views into `row` and into this object, valid until the next build.
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

// The columns of a table, in the order of first appearance.
class CsvColumns {
 public:
  // Adds new keys; returns their number.
  size_t add(const ResultCells& cells);
  size_t size() const { return names_.size(); }
  size_t index(std::string_view name) const;  // Requires that the name is present.
  std::string header() const;                 // Returns the header line.

 private:
  std::vector<std::unique_ptr<std::string>> names_;     // Pointers, so that the names never move.
  std::unordered_map<std::string_view, size_t> index_;  // Views into names_.
};

void append_json_line(std::string& out, const ResultCells& cells);
void append_csv_line(std::string& out, const CsvColumns& columns, const ResultCells& cells);
// Appends `count` empty cells to each line; line breaks within quotes do not end a line.
void widen_csv(std::string& lines, size_t count);

// Appends a quoted and escaped string; invalid UTF-8 becomes U+FFFD.
void append_json_text(std::string& out, std::string_view text);

}  // namespace volador::tune
