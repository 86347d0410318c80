#include "train/data/csv_rows.h"

#include <charconv>
#include <cmath>
#include <utility>

#include "runtime/result.h"
#include "runtime/text.h"

namespace volador::train {
CsvRows::CsvRows(std::string_view text, char separator, std::string name)
    : text_(text), separator_(separator), name_(std::move(name)) {
  if (separator == '"' || separator == '\n' || separator == '\r')
    throw Exception(Error{ErrorCode::kInvalidArgument,
                          name_ + ": separator: expected a character other than a quote and a line break"});
  if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
}

void CsvRows::fail(int64_t line, const std::string& text) const {
  throw Exception(Error{ErrorCode::kInvalidArgument, name_ + ":" + std::to_string(line) + ": " + text});
}

// at_ is behind the opening quote; afterwards behind the closing one.
std::string_view CsvRows::quoted_cell() {
  const size_t begin = at_;
  const int64_t begin_line = line_;
  bool doubled = false;
  while (true) {
    const size_t found = text_.find_first_of("\"\n", at_);
    if (found == std::string_view::npos) fail(begin_line, "a quoted cell begins here and does not end");
    at_ = found + 1;
    if (text_[found] == '\n') {
      ++line_;
    } else if (at_ < text_.size() && text_[at_] == '"') {
      doubled = true;
      ++at_;
    } else {
      break;
    }
  }
  const std::string_view raw = text_.substr(begin, at_ - 1 - begin);
  if (!doubled) return raw;
  std::string& cell = unquoted_.emplace_back();
  for (size_t i = 0; i < raw.size(); ++i) {
    cell += raw[i];
    if (raw[i] == '"') ++i;
  }
  return cell;
}

bool CsvRows::next(std::vector<std::string_view>& cells) {
  cells.clear();
  unquoted_.clear();
  while (at_ < text_.size() && (text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n")) {
    at_ += text_[at_] == '\n' ? 1 : 2;
    ++line_;
  }
  if (at_ >= text_.size()) return false;
  row_line_ = line_;
  while (true) {
    const size_t filled = text_.find_first_not_of(separator_ == ' ' ? "\t" : separator_ == '\t' ? " " : " \t", at_);
    const bool quoted = filled != std::string_view::npos && text_[filled] == '"';
    std::string_view cell;
    if (quoted) {
      at_ = filled + 1;
      cell = quoted_cell();
    }
    const char ends[] = {separator_, '\n'};
    const size_t end = std::min(text_.find_first_of(std::string_view(ends, 2), at_), text_.size());
    const std::string_view rest = trimmed(text_.substr(at_, end - at_));
    if (!quoted) {
      cell = rest;
    } else if (!rest.empty()) {
      fail(line_, "expected a separator after a quoted cell, got \"" + std::string(rest.substr(0, 20)) + "\"");
    }
    cells.push_back(cell);
    at_ = end + 1;
    if (end == text_.size()) return true;
    if (text_[end] == '\n') {
      ++line_;
      return true;
    }
    if (at_ >= text_.size()) {  // The text ends with a separator.
      cells.emplace_back();
      return true;
    }
  }
}

std::optional<double> number_of(std::string_view text) {
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range && end == text.data() + text.size()) {
    // Too small is 0, too large is no finite number.
    value = std::strtod(std::string(text).c_str(), nullptr);
  } else if (error != std::errc() || end != text.data() + text.size()) {
    return {};
  }
  if (!std::isfinite(value)) return {};
  return value;
}

}  // namespace volador::train
