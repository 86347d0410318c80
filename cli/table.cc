#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/result.h"

namespace volador::cli {

namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

// East Asian Wide and Fullwidth (UAX #11), in blocks.
constexpr std::array<Range, 17> kWide{{{0x1100, 0x115f},
                                       {0x231a, 0x231b},
                                       {0x23e9, 0x23ec},
                                       {0x2e80, 0x303e},
                                       {0x3041, 0x33ff},
                                       {0x3400, 0x4dbf},
                                       {0x4e00, 0x9fff},
                                       {0xa000, 0xa4cf},
                                       {0xa960, 0xa97f},
                                       {0xac00, 0xd7a3},
                                       {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f},
                                       {0xff00, 0xff60},
                                       {0xffe0, 0xffe6},
                                       {0x1f300, 0x1f64f},
                                       {0x1f900, 0x1f9ff},
                                       {0x20000, 0x3fffd}}};
// Combining marks, joiners and selectors.
constexpr std::array<Range, 9> kZero{{{0x0300, 0x036f},
                                      {0x0483, 0x0489},
                                      {0x0591, 0x05bd},
                                      {0x0610, 0x061a},
                                      {0x064b, 0x065f},
                                      {0x200b, 0x200f},
                                      {0x20d0, 0x20ff},
                                      {0xfe00, 0xfe0f},
                                      {0xfe20, 0xfe2f}}};

template <size_t n>
bool is_in(const std::array<Range, n>& ranges, uint32_t point) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return point >= range.first && point <= range.last; });
}

// The code point at the front and how many bytes it takes; a byte that starts none stands for itself.
std::pair<uint32_t, size_t> front_point(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xc2 && lead < 0xe0 ? 2
                        : lead >= 0xe0 && lead < 0xf0 ? 3
                        : lead >= 0xf0 && lead < 0xf5 ? 4
                                                      : 0;
  if (length <= 1 || text.size() < length) return {lead, 1};
  uint32_t point = lead & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if ((byte & 0xc0) != 0x80) return {lead, 1};
    point = point << 6 | (byte & 0x3f);
  }
  return {point, length};
}

// How many bytes of "\x1b[…m" the text starts with; 0: none.
size_t escape_length(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    if (const size_t escape = escape_length(text); escape > 0) {
      text.remove_prefix(escape);
      continue;
    }
    auto [point, length] = front_point(text);
    width += is_in(kZero, point) ? 0 : is_in(kWide, point) ? 2 : 1;
    text.remove_prefix(length);
  }
  return width;
}

std::string cut_to_width(std::string_view text, size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  std::string out;
  size_t width = 0;
  bool is_full = false;
  while (!text.empty()) {
    const size_t escape = escape_length(text);
    const auto [point, length] = escape > 0 ? std::pair<uint32_t, size_t>{0, escape} : front_point(text);
    const size_t own = escape > 0 || is_in(kZero, point) ? 0 : is_in(kWide, point) ? 2 : 1;
    is_full = is_full || width + own + 1 > columns;  // The last column is for the mark.
    if (escape > 0 || !is_full) out += text.substr(0, length);
    width += is_full ? 0 : own;
    text.remove_prefix(length);
  }
  return columns == 0 ? out : out + "…";
}

std::string printable(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) c = '?';
  return out;
}

std::string printable_line(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if ((static_cast<uint8_t>(c) < 0x20 && c != '\t') || c == 0x7f) c = '?';
  return out;
}

void Table::add(std::vector<std::string> cells) {
  VOLADOR_CHECK(cells.size() == columns_.size(), std::to_string(cells.size()));
  rows_.push_back(std::move(cells));
}

std::string Table::text() const {
  std::vector<size_t> widths;
  std::vector<bool> used;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = display_width(columns_[i].title);
    bool any = rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, display_width(row[i]));
      any = any || !row[i].empty();
    }
    widths.push_back(width);
    used.push_back(any);
  }

  std::string out;
  auto line = [&](auto cell) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (!used[i]) continue;
      const std::string& content = cell(i);
      const std::string padding(widths[i] - display_width(content), ' ');
      if (!text.empty()) text += "  ";
      text += columns_[i].align == Align::kRight ? padding + content : content + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](size_t i) -> const std::string& { return row[i]; });
  return out;
}

}  // namespace volador::cli
