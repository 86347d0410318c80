// What commands print, for people in a terminal, for pipes, and as JSON. Data goes to stdout, messages go to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/outcome.h"

namespace volador::cli {

enum class Colour : uint8_t { kNone, kBold, kFaint, kRed, kGreen, kYellow };

// Whether escape sequences may be written to a stream: it is a terminal, NO_COLOR is unset or empty, and TERM is not
// "dumb".
bool wants_colour(int fd, std::string_view no_color, std::string_view term);

class Terminal {
 public:
  struct Options {
    bool colour_out = false;
    bool colour_error = false;
    bool json = false;
  };
  explicit Terminal(Options options) : options_(options) {}
  // As this process's streams and environment say.
  static Options options_of_this_process();

  bool json() const { return options_.json; }
  void set_json(bool json) { options_.json = json; }

  // The text in a colour where stdout takes colours, else as it is.
  std::string paint(Colour colour, std::string_view text) const;
  // A state of a node, actor or trial, in its colour.
  std::string paint_state(std::string_view state) const;

  void print(std::string_view text) const;  // To stdout, as it is.
  void note(std::string_view text) const;   // A line to stderr.
  // "error: message   [kCode]" to stderr, or {"error": {"code": …, "message": …}} with --json.
  void print(const Failure& failure) const;

 private:
  Options options_;
};

}  // namespace volador::cli
