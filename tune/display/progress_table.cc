#include "tune/display/progress_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/language/text_width.h"

namespace volador::tune {
namespace {

constexpr int kParameterWidthMax = 20;
constexpr int kNameWidthMax = 24;
constexpr int kNarrowNameWidth = 16;  // If lines have less than kWide columns.
constexpr int kWide = 100;
constexpr size_t kErrorsMax = 3;
// The order in which statuses are shown and counted.
constexpr std::array kOrder{TrialStatus::kRunning, TrialStatus::kStopped,     TrialStatus::kFinished,
                            TrialStatus::kFailed,  TrialStatus::kInterrupted, TrialStatus::kUnstarted,
                            TrialStatus::kPaused,  TrialStatus::kWaiting};

std::string pad(const std::string& text, int width, bool right) {
  const int missing = width - display_width(text);
  if (missing <= 0) return text;
  const std::string spaces(static_cast<size_t>(missing), ' ');
  return right ? spaces + text : text + spaces;
}

std::string_view colour_of(TrialStatus status) {
  switch (status) {
    case TrialStatus::kRunning:
      return "\x1b[36m";
    case TrialStatus::kFinished:
      return "\x1b[32m";
    case TrialStatus::kFailed:
      return "\x1b[31m";
    case TrialStatus::kInterrupted:
      return "\x1b[33m";
    case TrialStatus::kStopped:
    case TrialStatus::kPaused:
    case TrialStatus::kUnstarted:
    case TrialStatus::kWaiting:
      return "\x1b[2m";
  }
  return {};
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789.+-e") == std::string::npos &&
         text.find_first_of("0123456789") != std::string::npos;
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

// Better values first; trials without a value last.
bool ranks_before(const ProgressRow& a, const ProgressRow& b, Mode mode) {
  if (a.value.has_value() != b.value.has_value()) return a.value.has_value();
  return a.value && better(*a.value, *b.value, mode);
}

// Distributes the rows: running trials first (at most three quarters if others have ended), then the best ended ones,
// then waiting ones.
std::vector<const ProgressRow*> choose(const ProgressSnapshot& snapshot, size_t rows_max) {
  std::vector<const ProgressRow*> running, ended, waiting_rows;
  for (const ProgressRow& row : snapshot.rows) {
    (row.status == TrialStatus::kRunning ? running : has_ended(row.status) ? ended : waiting_rows).push_back(&row);
  }
  const auto before = [&](const ProgressRow* a, const ProgressRow* b) { return ranks_before(*a, *b, snapshot.mode); };
  const size_t for_ended =
      std::min(ended.size(), rows_max - std::min(rows_max, std::min(running.size(), rows_max - rows_max / 4)));
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

// Returns a printable name with its middle cut out.
std::string short_name(std::string_view name, int width) {
  return cut_middle(cut_to_width(name, display_width(name)), static_cast<size_t>(width));
}

std::vector<Column> columns_of(const ProgressSnapshot& snapshot, const std::vector<const ProgressRow*>& rows,
                               const TableLimits& limits) {
  const auto tr = [&](std::string_view english) { return std::string(translated(limits.language, english)); };
  const int node_width = limits.columns < kWide ? kNarrowNameWidth : kNameWidthMax;
  std::vector<Column> columns{{tr("trial"), {}}, {tr("status"), {}}, {tr("node"), {}}, {tr("step"), {}, true}};
  if (!snapshot.metric.empty()) columns.push_back({short_name(snapshot.metric, kParameterWidthMax), {}, true});
  const size_t resources = columns.size();
  const bool resized = std::ranges::any_of(rows, [](const ProgressRow* row) { return !row->resources.empty(); });
  if (resized) columns.push_back({tr("resources"), {}});
  const size_t first_parameter = columns.size();
  for (const std::string& name : snapshot.parameters) columns.push_back({short_name(name, kNameWidthMax), {}});
  for (const ProgressRow* row : rows) {
    columns[0].cells.push_back(row->trial);
    columns[1].cells.push_back(std::string(translated_word(limits.language, to_string(row->status))));
    columns[2].cells.push_back(short_name(row->node, node_width));
    columns[3].cells.push_back(row->step > 0 ? std::to_string(row->step) : "");
    if (!snapshot.metric.empty()) columns[4].cells.push_back(row->value ? format_value(*row->value) : "");
    if (resized) columns[resources].cells.push_back(row->resources);
    for (size_t i = first_parameter; i < columns.size(); ++i) {
      const size_t at = i - first_parameter;
      columns[i].cells.push_back(at < row->parameters.size() ? cut_to_width(row->parameters[at], kParameterWidthMax)
                                                             : "");
    }
  }
  for (size_t i = first_parameter; i < columns.size(); ++i) {
    columns[i].right =
        std::ranges::all_of(columns[i].cells, [](const std::string& cell) { return cell.empty() || is_number(cell); });
  }
  return columns;
}

void append_table(std::vector<std::string>& lines, const ProgressSnapshot& snapshot,
                  const std::vector<const ProgressRow*>& rows, const TableLimits& limits) {
  std::vector<Column> columns = columns_of(snapshot, rows, limits);
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
      if (limits.colour && line > 0 && i == 1)
        cell = fmt::format("{}{}\x1b[0m", colour_of(rows[line - 1]->status), cell);
      text += i == 0 ? " " : "  ";
      text += cell;
    }
    while (text.ends_with(' ')) text.pop_back();
    lines.push_back(std::move(text));
  }
  if (left_out > 0) {
    const auto tr = [&](std::string_view english) { return fill_translated(limits.language, english, left_out); };
    lines.push_back(cut_to_width(left_out == 1 ? tr(" …  1 more column: a wider terminal shows it")
                                               : tr(" …  {} more columns: a wider terminal shows them"),
                                 limits.columns));
  }
}

void append_cut_off(std::vector<std::string>& lines, const ProgressSnapshot& snapshot,
                    const std::vector<const ProgressRow*>& rows, const TableLimits& limits) {
  int64_t running = snapshot.counts[static_cast<int>(TrialStatus::kRunning)];
  int64_t ended = 0;
  int64_t waits = waiting(snapshot);
  for (const TrialStatus status : kOrder) {
    if (has_ended(status)) ended += snapshot.counts[static_cast<int>(status)];
  }
  for (const ProgressRow* row : rows)
    (row->status == TrialStatus::kRunning ? running : has_ended(row->status) ? ended : waits) -= 1;
  std::string text;
  const auto part = [&](int64_t count, std::string_view what) {
    if (count <= 0) return;
    const std::string_view word = translated_word(limits.language, what);
    text += text.empty() ? fill_translated(limits.language, "{} more {}", count, word)
                         : fmt::format(", {} {}", count, word);
  };
  part(running, "running");
  part(ended, "ended");
  part(waits, "waiting");
  if (!text.empty()) {
    const std::string& name = snapshot.key.empty() ? snapshot.name : snapshot.key;
    lines.push_back(cut_to_width(fmt::format(" …  {}: volador list trials {}", text, name), limits.columns));
  }
}

void append_errors(std::vector<std::string>& lines, const ProgressSnapshot& snapshot, const TableLimits& limits) {
  size_t failed = 0;
  for (const ProgressRow& row : snapshot.rows) {
    if (row.status != TrialStatus::kFailed) continue;
    if (++failed > kErrorsMax) continue;
    const std::string error = row.error.text(limits.language);
    const std::string first = error.substr(0, error.find('\n'));
    const std::string text = cut_to_width(
        fill_translated(limits.language, " {} failed at step {}: {}", row.trial, row.step, first), limits.columns);
    lines.push_back(limits.colour ? "\x1b[31m" + text + "\x1b[0m" : text);
  }
  if (failed > kErrorsMax)
    lines.push_back(cut_to_width(
        fill_translated(limits.language, " …  {} more failed: see error.txt in their directories", failed - kErrorsMax),
        limits.columns));
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
    const auto [point, length] = front_code_point(text);
    width += static_cast<int>(volador::columns_of(point));
    text.remove_prefix(length);
  }
  return width;
}

std::string cut_to_width(std::string_view text, int columns) {
  std::string out;
  int width = 0;
  size_t last_fitting = 0;  // Bytes of `out` that leave room for "…".
  while (!text.empty()) {
    const auto [point, length] = front_code_point(text);
    const int next = static_cast<int>(volador::columns_of(point));
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

namespace {

// Name and scheduler; trials by status; resources and times. The parts of a group are joined by " · ".
std::array<std::string, 3> headline_groups(const ProgressSnapshot& snapshot, Language language) {
  const auto tr = [&](std::string_view english, const auto&... values) {
    return fill_translated(language, english, values...);
  };
  int64_t total = 0;
  for (const int64_t count : snapshot.counts) total += count;
  std::string counts;
  for (const TrialStatus status : kOrder) {
    const bool waits = status == TrialStatus::kWaiting;
    const int64_t count = waits ? waiting(snapshot) : snapshot.counts[static_cast<int>(status)];
    if (count == 0) continue;
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, translated_word(language, to_string(status)));
    if (waits && !snapshot.waiting_reason.empty())
      counts += fmt::format(" ({})", snapshot.waiting_reason.text(language));
  }
  const int64_t all = snapshot.trials_total ? std::max(total, *snapshot.trials_total) : total;
  std::string trials = snapshot.trials_total ? (all == 1 ? tr("1 trial") : tr("{} trials", all))
                                             : (all == 1 ? tr("1 trial so far") : tr("{} trials so far", all));
  if (!counts.empty()) trials += ": " + counts;
  std::string rest = snapshot.resources;
  if (!rest.empty()) rest += " · ";
  rest += format_elapsed(snapshot.elapsed);
  if (snapshot.goes_on) rest += ", " + format_left(snapshot.left, language);
  if (!snapshot.ending.empty()) rest += " · " + std::string(translated(language, snapshot.ending));
  return {fmt::format("{} · {}", snapshot.name, snapshot.scheduler), std::move(trials), std::move(rest)};
}

// Returns the headline in as few lines as possible, broken between groups. A group wider than a line is truncated at
// its end, without losing a number of a later group.
std::vector<std::string> headlines(const ProgressSnapshot& snapshot, const TableLimits& limits) {
  std::vector<std::string> lines;
  for (const std::string& group : headline_groups(snapshot, limits.language)) {
    if (!lines.empty() && display_width(lines.back()) + 3 + display_width(group) <= limits.columns) {
      lines.back() += " · " + group;
    } else {
      lines.push_back((lines.empty() ? "" : "  ") + group);
    }
  }
  for (std::string& line : lines) line = cut_to_width(line, limits.columns);
  return lines;
}

}  // namespace

std::string progress_headline(const ProgressSnapshot& snapshot, Language language) {
  const auto groups = headline_groups(snapshot, language);
  return fmt::format("{} · {} · {}", groups[0], groups[1], groups[2]);
}

std::string format_left(const std::optional<TimeLeft>& left, Language language) {
  if (!left) return std::string(translated(language, "– left"));
  const auto text = [](double seconds) {
    return format_elapsed(std::chrono::seconds(std::llround(std::max(seconds, 0.0))));
  };
  const std::string low = text(left->low), high = text(left->high);
  if (low == high) return fill_translated(language, "about {} left", text(left->seconds));
  return fill_translated(language, "about {} left ({} to {})", text(left->seconds), low, high);
}

std::string progress_best_line(const ProgressSnapshot& snapshot, Language language) {
  if (!snapshot.best) return {};
  const ProgressBest& best = *snapshot.best;
  std::string line = fill_translated(language, "best {}  {} {} at step {} ", best.trial, snapshot.metric,
                                     format_value(best.value), best.step);
  for (size_t i = 0; i < std::min(snapshot.parameters.size(), best.parameters.size()); ++i) {
    line += fmt::format("  {} {}", snapshot.parameters[i], best.parameters[i]);
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string progress_best_so_far_line(const ProgressSnapshot& snapshot, Language language) {
  if (!snapshot.best_so_far) return {};
  const ProgressBest& best = *snapshot.best_so_far;
  if (snapshot.best && snapshot.best->trial == best.trial && snapshot.best->value == best.value) return {};
  return fill_translated(language, "best so far {}  {} {} at step {}", best.trial, snapshot.metric,
                         format_value(best.value), best.step);
}

std::vector<std::string> progress_lines(const ProgressSnapshot& snapshot, const TableLimits& limits) {
  std::vector<std::string> lines;
  for (const std::string& line : headlines(snapshot, limits))
    lines.push_back(limits.colour ? "\x1b[1m" + line + "\x1b[0m" : line);
  if (const std::string best = progress_best_line(snapshot, limits.language); !best.empty())
    lines.push_back(cut_to_width(best, limits.columns));
  if (const std::string best = progress_best_so_far_line(snapshot, limits.language); !best.empty())
    lines.push_back(cut_to_width(best, limits.columns));
  if (!snapshot.rows.empty() && limits.rows_max > 0) {
    const auto rows = choose(snapshot, static_cast<size_t>(limits.rows_max));
    append_table(lines, snapshot, rows, limits);
    append_cut_off(lines, snapshot, rows, limits);
    append_errors(lines, snapshot, limits);
  }
  if (!snapshot.directory.empty())
    lines.push_back(cut_to_width(fill_translated(limits.language, "results  {}", snapshot.directory), limits.columns));
  return lines;
}

}  // namespace volador::tune
