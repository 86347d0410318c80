#include "cli/render/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "runtime/language/text_width.h"
#include "runtime/result.h"

namespace volador::cli {

namespace {

// Length of the sequence "\x1b[…m" at the start of the text in bytes; 0: none.
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
    const auto [point, length] = front_code_point(text);
    width += columns_of(point);
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
    const auto [point, length] = escape > 0 ? std::pair<uint32_t, size_t>{0, escape} : front_code_point(text);
    const size_t own = escape > 0 ? 0 : columns_of(point);
    is_full = is_full || width + own + 1 > columns;  // The last column is reserved for the mark.
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

Table::Layout Table::layout(size_t columns_max) const {
  Layout layout;
  std::vector<size_t> natural;
  for (size_t i = 0; i < columns_.size(); ++i) {
    size_t width = 0;
    bool any = rows_.empty();
    for (const auto& row : rows_) {
      width = std::max(width, display_width(row[i]));
      any = any || !row[i].empty();
    }
    if (columns_max > 0 && columns_[i].width_max > 0) width = std::min(width, columns_[i].width_max);
    width = std::max(width, display_width(columns_[i].title));
    natural.push_back(width);
    layout.used.push_back(any);
    const bool shrinks = columns_max > 0 && columns_[i].width_min > 0;
    layout.widths.push_back(!any ? 0
                            : shrinks
                                ? std::min(width, std::max(columns_[i].width_min, display_width(columns_[i].title)))
                                : width);
  }
  if (columns_max == 0) return layout;

  constexpr size_t kBetween = 2;
  const auto total = [&] {
    size_t sum = 0;
    for (const size_t width : layout.widths) sum += width == 0 ? 0 : width + (sum == 0 ? 0 : kBetween);
    return sum;
  };
  while (total() > columns_max) {
    size_t last = columns_.size();
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (layout.widths[i] > 0 && columns_[i].rank > 0 &&
          (last == columns_.size() || columns_[i].rank >= columns_[last].rank))
        last = i;
    }
    if (last == columns_.size()) break;  // Lines must be truncated.
    layout.widths[last] = 0;
  }
  // The remaining width goes to the columns that were shrunk.
  size_t spare = columns_max - std::min(columns_max, total());
  for (const bool first : {true, false}) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (layout.widths[i] == 0 || columns_[i].first != first) continue;
      const size_t more = std::min(spare, natural[i] - layout.widths[i]);
      layout.widths[i] += more;
      spare -= more;
    }
  }
  return layout;
}

std::vector<std::string> Table::left_out(size_t columns_max) const {
  const Layout made = layout(columns_max);
  std::vector<std::string> titles;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (made.used[i] && made.widths[i] == 0) titles.push_back(columns_[i].title);
  }
  return titles;
}

std::string Table::text(size_t columns_max) const {
  const Layout made = layout(columns_max);
  std::string out;
  auto line = [&](auto cell) {
    std::string text;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const size_t width = made.widths[i];
      if (!made.used[i] || (width == 0 && columns_max > 0)) continue;
      std::string content = cell(i);
      if (columns_max > 0 && display_width(content) > width) {
        const bool is_plain = content.find('\x1b') == std::string::npos;
        content =
            columns_[i].cut == Cut::kMiddle && is_plain ? cut_middle(content, width) : cut_to_width(content, width);
      }
      const std::string padding(width - display_width(content), ' ');
      if (!text.empty()) text += "  ";
      text += columns_[i].align == Align::kRight ? padding + content : content + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += (columns_max > 0 ? cut_to_width(text, columns_max) : text) + "\n";
  };
  line([&](size_t i) -> const std::string& { return columns_[i].title; });
  for (const auto& row : rows_) line([&](size_t i) -> const std::string& { return row[i]; });
  return out;
}

std::string titled(const std::string& title, std::string_view value, size_t columns) {
  const size_t width = display_width(title);
  return fmt::format("  {}{}{}\n", title, std::string(width < columns ? columns - width : 1, ' '), value);
}

std::string fitted(const Table& table, const Terminal& terminal) {
  std::string out = table.text(terminal.columns());
  const std::vector<std::string> left_out = table.left_out(terminal.columns());
  if (left_out.empty()) return out;
  const std::string note =
      terminal.fill("… not shown: {}; --wide shows all", fmt::format("{}", fmt::join(left_out, ", ")));
  return out + terminal.paint(Colour::kFaint, cut_to_width(note, terminal.columns())) + "\n";
}

std::string wrapped(const std::vector<std::string>& parts, std::string_view separator, size_t columns, size_t indent) {
  std::string out;
  std::string line;
  for (const std::string& part : parts) {
    const bool begins = line.find_first_not_of(' ') == std::string::npos;
    if (!begins && columns > 0 && display_width(line) + display_width(separator) + display_width(part) > columns) {
      out += line + "\n";
      line = std::string(indent, ' ') + part;
    } else {
      if (!begins) line += separator;
      line += part;
    }
    if (columns > 0) line = cut_to_width(line, columns);
  }
  return out + line + "\n";
}

}  // namespace volador::cli
