// Rows of comma-separated values (RFC 4180). Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::train {

// Reads the rows of a text one after the other. Cells may be quoted; a quoted cell may contain separators, line breaks
// and doubled quotes. Lines end with LF or CRLF. Skips empty lines and a UTF-8 byte order mark.
class CsvRows {
 public:
  // `text` outlives the object. `name` stands in errors.
  CsvRows(std::string_view text, char separator, std::string name);

  // Reads the next row into `cells`, without spaces and tabs around unquoted cells. The cells are valid until the next
  // call. False: the text has ended.
  // kInvalidArgument: a quoted cell does not end, or text follows its end; the message has name and line.
  bool next(std::vector<std::string_view>& cells);

  // Line at which the row of the last next() began, from 1.
  int64_t line() const { return row_line_; }

 private:
  std::string_view quoted_cell();
  [[noreturn]] void fail(int64_t line, const std::string& text) const;

  std::string_view text_;
  char separator_;
  std::string name_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t row_line_ = 0;
  std::deque<std::string> unquoted_;  // Cells with doubled quotes.
};

// A finite number; a leading '+' is allowed. std::nullopt: the text is no number.
std::optional<double> number_of(std::string_view text);

}  // namespace volador::train
