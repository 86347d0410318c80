// Displays a running experiment: a table updated in place on a terminal, otherwise periodic plain lines.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/language/reason.h"
#include "tune/display/progress_table.h"

namespace volador::tune {

struct TerminalState {
  bool is_terminal = false;  // Supports cursor movement.
  bool colour = false;
  int columns = 100;
  int rows = 30;
  Language language = Language::kEnglish;
};
// State of the terminal at this descriptor. Respects NO_COLOR, TERM=dumb, COLUMNS, and the language variables.
TerminalState terminal_state(int fd);

struct LiveDisplayOptions {
  std::function<TerminalState()> terminal;       // Called at every update, since terminals may be resized.
  std::function<void(std::string_view)> write;   // Writes bytes to the terminal or file.
  std::chrono::nanoseconds frame{100'000'000};   // Interval between updates in place.
  std::chrono::nanoseconds line{5'000'000'000};  // Interval between plain lines.
};

// Single-threaded.
class LiveDisplay {
 public:
  explicit LiveDisplay(LiveDisplayOptions options);

  // Whether update() would draw now; otherwise no snapshot is needed.
  bool is_due(BootTime now) const;
  // On a terminal: redraws in place. Otherwise: prints the headline, and the best line if it changed, after any change.
  void update(const ProgressSnapshot& snapshot, BootTime now);
  // Prints a permanent line above the table: logs of trials, notices.
  void print(std::string_view text);
  // As print(), in the language of the terminal.
  void say(const Reason& notice);
  // Draws the final state, which remains.
  void finish(const ProgressSnapshot& snapshot);

 private:
  void draw(const ProgressSnapshot& snapshot, const TerminalState& terminal, bool last);
  std::string erased();

  LiveDisplayOptions options_;
  std::optional<BootTime> drawn_;
  std::vector<std::string> shown_;  // Lines currently shown in place on the terminal.
  std::string plain_headline_;      // Without the time.
  std::string plain_best_;
};

}  // namespace volador::tune
