#include "tune/results/result_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <ctime>
#include <memory>

#include "runtime/csv_text.h"
#include "tune/results/result_logger.h"

namespace volador::tune {
namespace {

constexpr std::array<std::string_view, 10> kAdded{"training_iteration",
                                                  "time_this_iter_s",
                                                  "time_total_s",
                                                  "timestamp",
                                                  "date",
                                                  "trial_id",
                                                  "done",
                                                  "hostname",
                                                  "node",
                                                  "pid"};

bool is_added(std::string_view key) {
  for (const std::string_view added : kAdded) {
    if (added == key) return true;
  }
  return false;
}

// Returns the number of bytes of valid UTF-8 at this position; 0: none.
size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto follows = [&](size_t i, uint8_t low = 0x80, uint8_t high = 0xBF) {
    return i < text.size() && byte(i) >= low && byte(i) <= high;
  };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    return follows(1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    return follows(1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

const std::string& DateText::of(WallTime time) {
  const int64_t second = std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
  if (second != second_) {
    second_ = second;
    const std::time_t value = second;
    std::tm parts{};
    localtime_r(&value, &parts);
    text_ = fmt::format("{:04}-{:02}-{:02}_{:02}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                        parts.tm_hour, parts.tm_min, parts.tm_sec);
  }
  return text_;
}

void ResultCells::number(std::string_view key, double value) {
  Text place{buffer_.size(), 0, buffer_.size(), 0};
  if (std::isfinite(value)) {
    std::array<char, 32> digits;
    const bool whole = value == std::floor(value) && std::abs(value) < 1e15;  // "1700000000", not "1.7e+09".
    const auto end = whole
                         ? std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<int64_t>(value)).ptr
                         : std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    buffer_.append(digits.data(), end);
    place.json_size = place.csv_size = buffer_.size() - place.json_at;
  } else {
    const std::string_view word = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    if (std::isnan(value))
      buffer_ += "null";
    else
      append_json_text(buffer_, word);
    place.json_size = buffer_.size() - place.json_at;
    place.csv_at = buffer_.size();
    buffer_ += word;
    place.csv_size = word.size();
  }
  placed_.emplace_back(key, place);
}

void ResultCells::text(std::string_view key, std::string_view value) {
  Text place{buffer_.size(), 0, 0, value.size()};
  append_json_text(buffer_, value);
  place.json_size = buffer_.size() - place.json_at;
  place.csv_at = buffer_.size();
  buffer_ += value;
  placed_.emplace_back(key, place);
}

void ResultCells::build(const ResultRow& row) {
  buffer_.clear();
  placed_.clear();
  cells_.clear();
  for (const auto& [key, value] : row.metrics) {
    if (!is_added(key)) number(key, value);
  }
  number(kAdded[0], static_cast<double>(row.step));
  number(kAdded[1], row.time_this_iter_s);
  number(kAdded[2], row.time_total_s);
  number(kAdded[3],
         static_cast<double>(std::chrono::floor<std::chrono::seconds>(row.reported).time_since_epoch().count()));
  text(kAdded[4], date_.of(row.reported));
  text(kAdded[5], to_string(row.trial));
  const Text done{buffer_.size(), row.done ? size_t{4} : size_t{5}, buffer_.size(), row.done ? size_t{4} : size_t{5}};
  buffer_ += row.done ? "true" : "false";
  placed_.emplace_back(kAdded[6], done);
  text(kAdded[7], row.hostname);
  text(kAdded[8], row.node);
  number(kAdded[9], row.pid);
  for (const auto& [key, place] : placed_) {
    cells_.push_back({key, std::string_view(buffer_).substr(place.json_at, place.json_size),
                      std::string_view(buffer_).substr(place.csv_at, place.csv_size)});
  }
}

size_t CsvColumns::add(const ResultCells& cells) {
  size_t added = 0;
  for (size_t i = 0; i < cells.cells().size(); ++i) {
    const std::string_view key = cells.cells()[i].key;
    if (i < names_.size() && *names_[i] == key) continue;
    if (index_.contains(key)) continue;
    names_.push_back(std::make_unique<std::string>(key));
    index_.emplace(*names_.back(), names_.size() - 1);
    ++added;
  }
  return added;
}

size_t CsvColumns::index(std::string_view name) const { return index_.at(name); }

std::string CsvColumns::header() const {
  std::string line;
  for (size_t i = 0; i < names_.size(); ++i) {
    if (i > 0) line += ',';
    append_csv_text(line, *names_[i]);
  }
  return line + '\n';
}

void append_json_line(std::string& out, const ResultCells& cells) {
  out += '{';
  bool first = true;
  for (const auto& cell : cells.cells()) {
    if (!first) out += ',';
    first = false;
    append_json_text(out, cell.key);
    out += ':';
    out += cell.json;
  }
  out += "}\n";
}

void append_csv_line(std::string& out, const CsvColumns& columns, const ResultCells& cells) {
  std::vector<std::string_view> values(columns.size());
  for (const auto& cell : cells.cells()) values[columns.index(cell.key)] = cell.csv;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append_csv_text(out, values[i]);
  }
  out += '\n';
}

void widen_csv(std::string& lines, size_t count) {
  if (lines.empty()) return;
  std::string wide;
  wide.reserve(lines.size() + lines.size() / 16);
  bool quoted = false;
  for (const char c : lines) {
    if (c == '"') quoted = !quoted;
    if (c == '\n' && !quoted) wide.append(count, ',');
    wide += c;
  }
  lines = std::move(wide);
}

void append_json_text(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    const size_t length = utf8_length(text);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint8_t>(c));
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  out += '"';
}

}  // namespace volador::tune
