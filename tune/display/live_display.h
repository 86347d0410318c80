// Shows an experiment while it runs: a table in place on a terminal, a plain line now and then elsewhere.
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
  bool is_terminal = false;  // One that can move its cursor.
  bool colour = false;
  int columns = 100;
  int rows = 30;
  Language language = Language::kEnglish;
};
// Of this descriptor, now. Obeys NO_COLOR, TERM=dumb, COLUMNS, and the variables of the language.
TerminalState terminal_state(int fd);

struct LiveDisplayOptions {
  std::function<TerminalState()> terminal;                   // Asked at every drawing: terminals change their size.
  std::function<void(std::string_view)> write;               // Bytes to the terminal or file.
  std::chrono::nanoseconds frame{100'000'000};               // Between drawings in place.
  std::chrono::nanoseconds line{5'000'000'000};              // Between plain lines.
};

// One thread.
class LiveDisplay {
 public:
  explicit LiveDisplay(LiveDisplayOptions options);

  // Whether update() would draw now: a snapshot need not be made otherwise.
  bool is_due(BootTime now) const;
  // On a terminal: draws in place. Elsewhere: prints the headline, and the best line when it changed, where something changed.
  void update(const ProgressSnapshot& snapshot, BootTime now);
  // A line that stays, above the table: logs of trials, notices.
  void print(std::string_view text);
  // The same, in the language of the terminal.
  void say(const Reason& notice);
  // The last state, which stays.
  void finish(const ProgressSnapshot& snapshot);

 private:
  void draw(const ProgressSnapshot& snapshot, const TerminalState& terminal, bool last);
  std::string erased();

  LiveDisplayOptions options_;
  std::optional<BootTime> drawn_;
  std::vector<std::string> shown_;  // In place on the terminal now.
  std::string plain_headline_;      // Without its time.
  std::string plain_best_;
};

}  // namespace volador::tune
