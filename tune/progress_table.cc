#include "tune/progress_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace volador::tune {
namespace {

constexpr int kParameterWidthMax = 20;
constexpr int kNameWidthMax = 24;
constexpr size_t kErrorsMax = 3;
// The order in which statuses are shown and counted.
constexpr std::array kOrder{TrialStatus::kRunning, TrialStatus::kStopped,     TrialStatus::kFinished, TrialStatus::kFailed,
                            TrialStatus::kInterrupted, TrialStatus::kPaused, TrialStatus::kWaiting};

// The code point at the front and its length; an invalid byte stands for itself.
std::pair<char32_t, size_t> code_point(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const size_t length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  if (length == 1 || text.size() < length) return {first, 1};
  char32_t point = first & (0xFFU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<uint8_t>(text[i]) & 0xC0U) != 0x80) return {first, 1};
    point = point << 6 | (static_cast<uint8_t>(text[i]) & 0x3FU);
  }
  return {point, length};
}

int width_of(char32_t point) {
  struct Range {
    char32_t first, last;
  };
  constexpr std::array<Range, 5> kZero{{{0x300, 0x36F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}}};
  constexpr std::array<Range, 10> kWide{{{0x1100, 0x115F},
                                         {0x2E80, 0x303E},
                                         {0x3041, 0xA4CF},
                                         {0xAC00, 0xD7A3},
                                         {0xF900, 0xFAFF},
                                         {0xFE30, 0xFE6F},
                                         {0xFF00, 0xFF60},
                                         {0xFFE0, 0xFFE6},
                                         {0x1F300, 0x1FAFF},
                                         {0x20000, 0x3FFFD}}};
  for (const Range& range : kZero) {
    if (point >= range.first && point <= range.last) return 0;
  }
  for (const Range& range : kWide) {
    if (point >= range.first && point <= range.last) return 2;
  }
  return 1;
}

std::string pad(const std::string& text, int width, bool right) {
  const int missing = width - display_width(text);
  if (missing <= 0) return text;
  const std::string spaces(static_cast<size_t>(missing), ' ');
  return right ? spaces + text : text + spaces;
}

std::string_view colour_of(TrialStatus status) {
  switch (status) {
    case TrialStatus::kRunning: return "\x1b[36m";
    case TrialStatus::kFinished: return "\x1b[32m";
    case TrialStatus::kFailed: return "\x1b[31m";
    case TrialStatus::kInterrupted: return "\x1b[33m";
    case TrialStatus::kStopped:
    case TrialStatus::kPaused:
    case TrialStatus::kWaiting: return "\x1b[2m";
  }
  return {};
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-e") == std::string::npos && text.find_first_of("0123456789") != std::string::npos;
}

int64_t waiting(const ProgressSnapshot& snapshot) {
  int64_t known = 0;
  for (const int64_t count : snapshot.counts) known += count;
  const int64_t unknown = snapshot.trials_total ? std::max<int64_t>(0, *snapshot.trials_total - known) : 0;
  return snapshot.counts[static_cast<int>(TrialStatus::kWaiting)] + unknown;
}

struct Column {
  std::string title;
  std::vector<std::string> cells;
  bool right = false;
  int width() const {
    int widest = display_width(title);
    for (const std::string& cell : cells) widest = std::max(widest, display_width(cell));
    return widest;
  }
};

// Better values first; trials without one last.
bool ranks_before(const ProgressRow& a, const ProgressRow& b, Mode mode) {
  if (a.value.has_value() != b.value.has_value()) return a.value.has_value();
  return a.value && better(*a.value, *b.value, mode);
}

// Rows are shared out: running ones first (at most three quarters while others have ended), then the best of those that ended, then waiting ones.
std::vector<const ProgressRow*> choose(const ProgressSnapshot& snapshot, size_t rows_max) {
  std::vector<const ProgressRow*> running, ended, waiting_rows;
  for (const ProgressRow& row : snapshot.rows) {
    (row.status == TrialStatus::kRunning ? running : has_ended(row.status) ? ended : waiting_rows).push_back(&row);
  }
  const auto before = [&](const ProgressRow* a, const ProgressRow* b) { return ranks_before(*a, *b, snapshot.mode); };
  const size_t for_ended = std::min(ended.size(), rows_max - std::min(rows_max, std::min(running.size(), rows_max - rows_max / 4)));
  const size_t for_running = std::min(running.size(), rows_max - for_ended);
  const size_t for_waiting = std::min(waiting_rows.size(), rows_max - for_ended - for_running);
  std::partial_sort(ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(for_ended), ended.end(), before);
  std::partial_sort(running.begin(), running.begin() + static_cast<std::ptrdiff_t>(for_running), running.end(), before);
  std::vector<const ProgressRow*> chosen(running.begin(), running.begin() + static_cast<std::ptrdiff_t>(for_running));
  chosen.insert(chosen.end(), ended.begin(), ended.begin() + static_cast<std::ptrdiff_t>(for_ended));
  std::stable_sort(chosen.begin(), chosen.end(), before);
  chosen.insert(chosen.end(), waiting_rows.begin(), waiting_rows.begin() + static_cast<std::ptrdiff_t>(for_waiting));
  return chosen;
}

std::vector<Column> columns_of(const ProgressSnapshot& snapshot, const std::vector<const ProgressRow*>& rows) {
  std::vector<Column> columns{{"trial", {}}, {"status", {}}, {"node", {}}, {"step", {}, true}};
  if (!snapshot.metric.empty()) columns.push_back({cut_to_width(snapshot.metric, kParameterWidthMax), {}, true});
  const size_t resources = columns.size();
  const bool resized = std::ranges::any_of(rows, [](const ProgressRow* row) { return !row->resources.empty(); });
  if (resized) columns.push_back({"resources", {}});
  const size_t first_parameter = columns.size();
  for (const std::string& name : snapshot.parameters) columns.push_back({cut_to_width(name, kNameWidthMax), {}});
  for (const ProgressRow* row : rows) {
    columns[0].cells.push_back(row->trial);
    columns[1].cells.push_back(std::string(to_string(row->status)));
    columns[2].cells.push_back(cut_to_width(row->node, kNameWidthMax));
    columns[3].cells.push_back(row->step > 0 ? std::to_string(row->step) : "");
    if (!snapshot.metric.empty()) columns[4].cells.push_back(row->value ? format_value(*row->value) : "");
    if (resized) columns[resources].cells.push_back(row->resources);
    for (size_t i = first_parameter; i < columns.size(); ++i) {
      const size_t at = i - first_parameter;
      columns[i].cells.push_back(at < row->parameters.size() ? cut_to_width(row->parameters[at], kParameterWidthMax) : "");
    }
  }
  for (size_t i = first_parameter; i < columns.size(); ++i) {
    columns[i].right = std::ranges::all_of(columns[i].cells, [](const std::string& cell) { return cell.empty() || is_number(cell); });
  }
  return columns;
}

void append_table(std::vector<std::string>& lines, const ProgressSnapshot& snapshot, const std::vector<const ProgressRow*>& rows,
                  const TableLimits& limits) {
  std::vector<Column> columns = columns_of(snapshot, rows);
  int used = 0;
  size_t shown = 0;
  while (shown < columns.size()) {
    const int width = columns[shown].width() + (shown == 0 ? 1 : 2);
    if (used + width > limits.columns && shown > 0) break;
    used += width;
    ++shown;
  }
  const size_t left_out = columns.size() - shown;
  columns.resize(shown);
  for (size_t line = 0; line <= rows.size(); ++line) {
    std::string text;
    for (size_t i = 0; i < columns.size(); ++i) {
      const Column& column = columns[i];
      std::string cell = pad(line == 0 ? column.title : column.cells[line - 1], column.width(), column.right);
      if (limits.colour && line == 0) cell = "\x1b[1m" + cell + "\x1b[0m";
      if (limits.colour && line > 0 && i == 1) cell = fmt::format("{}{}\x1b[0m", colour_of(rows[line - 1]->status), cell);
      text += i == 0 ? " " : "  ";
      text += cell;
    }
    while (text.ends_with(' ')) text.pop_back();
    lines.push_back(std::move(text));
  }
  if (left_out > 0) {
    lines.push_back(cut_to_width(fmt::format(" …  {} more column{}: a wider terminal shows {}", left_out, left_out == 1 ? "" : "s", left_out == 1 ? "it" : "them"),
                                 limits.columns));
  }
}

void append_cut_off(std::vector<std::string>& lines, const ProgressSnapshot& snapshot, const std::vector<const ProgressRow*>& rows, int width) {
  int64_t running = snapshot.counts[static_cast<int>(TrialStatus::kRunning)];
  int64_t ended = 0;
  int64_t waits = waiting(snapshot);
  for (const TrialStatus status : kOrder) {
    if (has_ended(status)) ended += snapshot.counts[static_cast<int>(status)];
  }
  for (const ProgressRow* row : rows) (row->status == TrialStatus::kRunning ? running : has_ended(row->status) ? ended : waits) -= 1;
  std::string text;
  const auto part = [&](int64_t count, std::string_view what) {
    if (count <= 0) return;
    text += fmt::format("{}{}{} {}", text.empty() ? "" : ", ", count, text.empty() ? " more" : "", what);
  };
  part(running, "running");
  part(ended, "ended");
  part(waits, "waiting");
  if (!text.empty()) lines.push_back(cut_to_width(fmt::format(" …  {}: volador list trials {}", text, snapshot.key.empty() ? snapshot.name : snapshot.key), width));
}

void append_errors(std::vector<std::string>& lines, const ProgressSnapshot& snapshot, const TableLimits& limits) {
  size_t failed = 0;
  for (const ProgressRow& row : snapshot.rows) {
    if (row.status != TrialStatus::kFailed) continue;
    if (++failed > kErrorsMax) continue;
    const std::string first = row.error.substr(0, row.error.find('\n'));
    const std::string text = cut_to_width(fmt::format(" {} failed at step {}: {}", row.trial, row.step, first), limits.columns);
    lines.push_back(limits.colour ? "\x1b[31m" + text + "\x1b[0m" : text);
  }
  if (failed > kErrorsMax) lines.push_back(cut_to_width(fmt::format(" …  {} more failed: see error.txt in their directories", failed - kErrorsMax), limits.columns));
}

}  // namespace

std::string format_elapsed(std::chrono::nanoseconds elapsed) {
  const int64_t seconds = std::max<int64_t>(0, std::chrono::floor<std::chrono::seconds>(elapsed).count());
  if (seconds < 3600) return fmt::format("{}:{:02}", seconds / 60, seconds % 60);
  return fmt::format("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

std::string format_value(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (value == std::floor(value) && std::abs(value) < 1e7) return std::to_string(static_cast<int64_t>(value));
  std::array<char, 32> text;
  const auto [end, code] = std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::general, 4);
  return {text.data(), end};
}

int display_width(std::string_view text) {
  int width = 0;
  while (!text.empty()) {
    const auto [point, length] = code_point(text);
    width += width_of(point);
    text.remove_prefix(length);
  }
  return width;
}

std::string cut_to_width(std::string_view text, int columns) {
  std::string out;
  int width = 0;
  size_t last_fitting = 0;  // Bytes of `out` that leave room for "…".
  while (!text.empty()) {
    const auto [point, length] = code_point(text);
    const int next = width_of(point);
    if (width + next > columns) {
      out.resize(last_fitting);
      return columns > 0 ? out + "…" : out;
    }
    if (point < 0x20 || point == 0x7F || (point >= 0x80 && length == 1)) {
      out += '?';
    } else {
      out += text.substr(0, length);
    }
    width += next;
    if (width <= columns - 1) last_fitting = out.size();
    text.remove_prefix(length);
  }
  return out;
}

std::string progress_headline(const ProgressSnapshot& snapshot) {
  int64_t total = 0;
  for (const int64_t count : snapshot.counts) total += count;
  std::string counts;
  for (const TrialStatus status : kOrder) {
    const bool waits = status == TrialStatus::kWaiting;
    const int64_t count = waits ? waiting(snapshot) : snapshot.counts[static_cast<int>(status)];
    if (count == 0) continue;
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, to_string(status));
    if (waits && !snapshot.waiting_reason.empty()) counts += fmt::format(" ({})", snapshot.waiting_reason);
  }
  const int64_t all = snapshot.trials_total ? std::max(total, *snapshot.trials_total) : total;
  std::string line = fmt::format("{} · {} · {} trial{}{}{}{}", snapshot.name, snapshot.scheduler, all, all == 1 ? "" : "s",
                                 snapshot.trials_total ? "" : " so far", counts.empty() ? "" : ": ", counts);
  if (!snapshot.resources.empty()) line += " · " + snapshot.resources;
  line += " · " + format_elapsed(snapshot.elapsed);
  if (snapshot.left) line += fmt::format(", about {} left", format_elapsed(*snapshot.left));
  if (!snapshot.ending.empty()) line += " · " + snapshot.ending;
  return line;
}

std::string progress_best_line(const ProgressSnapshot& snapshot) {
  if (!snapshot.best || !snapshot.best->value) return {};
  const ProgressRow& best = *snapshot.best;
  std::string line = fmt::format("best {}  {} {} at step {} ", best.trial, snapshot.metric, format_value(*best.value), best.step);
  for (size_t i = 0; i < std::min(snapshot.parameters.size(), best.parameters.size()); ++i) {
    line += fmt::format("  {} {}", snapshot.parameters[i], best.parameters[i]);
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::vector<std::string> progress_lines(const ProgressSnapshot& snapshot, const TableLimits& limits) {
  std::vector<std::string> lines;
  lines.push_back(cut_to_width(progress_headline(snapshot), limits.columns));
  if (limits.colour) lines.back() = "\x1b[1m" + lines.back() + "\x1b[0m";
  if (const std::string best = progress_best_line(snapshot); !best.empty()) lines.push_back(cut_to_width(best, limits.columns));
  if (!snapshot.rows.empty() && limits.rows_max > 0) {
    const auto rows = choose(snapshot, static_cast<size_t>(limits.rows_max));
    append_table(lines, snapshot, rows, limits);
    append_cut_off(lines, snapshot, rows, limits.columns);
    append_errors(lines, snapshot, limits);
  }
  if (!snapshot.directory.empty()) lines.push_back(cut_to_width("results  " + snapshot.directory, limits.columns));
  return lines;
}

}  // namespace volador::tune
