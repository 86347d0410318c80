#include "tune/display/live_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace volador::tune {
namespace {

constexpr int kRowsMax = 12;
constexpr int kColumnsMax = 10'000;
constexpr int kLinesBesideRows = 10;  // Headline, both best lines, titles, truncation notes, errors, results.
constexpr std::string_view kBeginUpdate = "\x1b[?2026h";  // Terminals that support it show the frame at once; others
                                                          // ignore it.
constexpr std::string_view kEndUpdate = "\x1b[?2026l";

// Without the elapsed time, to detect other changes.
std::string headline_without_time(const ProgressSnapshot& snapshot) {
  ProgressSnapshot copy;
  copy.name = snapshot.name;
  std::copy(std::begin(snapshot.counts), std::end(snapshot.counts), std::begin(copy.counts));
  copy.trials_total = snapshot.trials_total;
  copy.ending = snapshot.ending;
  return progress_headline(copy);
}

}  // namespace

TerminalState terminal_state(int fd) {
  TerminalState state;
  const char* term = std::getenv("TERM");
  const std::string_view kind = term == nullptr ? "" : term;
  state.is_terminal = ::isatty(fd) == 1 && !kind.empty() && kind != "dumb";
  const char* no_colour = std::getenv("NO_COLOR");
  state.colour = state.is_terminal && (no_colour == nullptr || *no_colour == '\0');
  state.language = language_of(LanguageVariables::of_this_process());
  winsize size{};
  if (state.is_terminal && ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
    state.columns = size.ws_col;
    state.rows = size.ws_row;
  }
  const char* columns = std::getenv("COLUMNS");
  const int wanted = columns == nullptr ? 0 : std::atoi(columns);
  if (state.is_terminal && wanted >= 20) state.columns = std::min(wanted, kColumnsMax);
  return state;
}

LiveDisplay::LiveDisplay(LiveDisplayOptions options) : options_(std::move(options)) {}

bool LiveDisplay::is_due(BootTime now) const {
  return !drawn_ || now - *drawn_ >= (options_.terminal().is_terminal ? options_.frame : options_.line);
}

void LiveDisplay::update(const ProgressSnapshot& snapshot, BootTime now) {
  if (!is_due(now)) return;
  drawn_ = now;
  draw(snapshot, options_.terminal(), false);
}

void LiveDisplay::finish(const ProgressSnapshot& snapshot) {
  draw(snapshot, options_.terminal(), true);
  shown_.clear();
}

void LiveDisplay::draw(const ProgressSnapshot& snapshot, const TerminalState& terminal, bool last) {
  if (!terminal.is_terminal) {
    const std::string headline = headline_without_time(snapshot);
    const std::string best = progress_best_line(snapshot, terminal.language);
    std::string out;
    if (last) {
      for (const std::string& line :
           progress_lines(snapshot, {.columns = 160, .rows_max = kRowsMax, .language = terminal.language}))
        out += line + "\n";
    } else {
      if (headline != plain_headline_) out += progress_headline(snapshot, terminal.language) + "\n";
      if (best != plain_best_) out += best + "\n";
    }
    plain_headline_ = headline;
    plain_best_ = best;
    if (!out.empty()) options_.write(out);
    return;
  }
  int rows_max = std::clamp(terminal.rows - kLinesBesideRows, 1, kRowsMax);
  const auto lines_with = [&](int rows) {
    return progress_lines(snapshot, {.columns = std::max(20, terminal.columns - 1),
                                     .rows_max = rows,
                                     .colour = terminal.colour,
                                     .language = terminal.language});
  };
  std::vector<std::string> lines = lines_with(rows_max);
  // The headline took more lines than kLinesBesideRows counts: trial rows are dropped rather than the lines below them.
  const int too_many = static_cast<int>(lines.size()) - (terminal.rows - 1);
  if (!last && too_many > 0 && rows_max > 1) {
    rows_max = std::max(1, rows_max - too_many);
    lines = lines_with(rows_max);
  }
  if (!last && static_cast<int>(lines.size()) > terminal.rows - 1)
    lines.resize(static_cast<size_t>(std::max(1, terminal.rows - 1)));
  std::string frame{kBeginUpdate};
  frame += erased();
  for (const std::string& line : lines) frame += line + "\n";
  frame += kEndUpdate;
  options_.write(frame);
  shown_ = std::move(lines);
}

std::string LiveDisplay::erased() {
  return shown_.empty() ? std::string() : fmt::format("\x1b[{}A\r\x1b[J", shown_.size());
}

void LiveDisplay::say(const Reason& notice) { print(notice.text(options_.terminal().language)); }

void LiveDisplay::print(std::string_view text) {
  if (shown_.empty()) {
    options_.write(fmt::format("{}\n", text));
    return;
  }
  std::string frame{kBeginUpdate};
  frame += erased();
  frame += text;
  frame += '\n';
  for (const std::string& line : shown_) frame += line + "\n";
  frame += kEndUpdate;
  options_.write(frame);
}

}  // namespace volador::tune
