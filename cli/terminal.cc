#include "cli/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace volador::cli {

namespace {

std::string_view escape_of(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "";
    case Colour::kBold:
      return "\x1b[1m";
    case Colour::kFaint:
      return "\x1b[2m";
    case Colour::kRed:
      return "\x1b[31m";
    case Colour::kGreen:
      return "\x1b[32m";
    case Colour::kYellow:
      return "\x1b[33m";
  }
  return "";
}

std::string painted(bool wanted, Colour colour, std::string_view text) {
  if (!wanted || colour == Colour::kNone || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape_of(colour), text);
}

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

}  // namespace

bool wants_colour(int fd, std::string_view no_color, std::string_view term) {
  return no_color.empty() && !term.empty() && term != "dumb" && ::isatty(fd) == 1;
}

Terminal::Options Terminal::options_of_this_process() {
  return {.colour_out = wants_colour(STDOUT_FILENO, variable("NO_COLOR"), variable("TERM")),
          .colour_error = wants_colour(STDERR_FILENO, variable("NO_COLOR"), variable("TERM"))};
}

std::string Terminal::paint(Colour colour, std::string_view text) const {
  return painted(options_.colour_out, colour, text);
}

std::string Terminal::paint_state(std::string_view state) const {
  Colour colour = Colour::kNone;
  if (state == "alive" || state == "running") colour = Colour::kGreen;
  if (state == "suspect" || state == "draining" || state == "restarting" || state == "pending" || state == "starting")
    colour = Colour::kYellow;
  if (state == "dead" || state == "error" || state == "failed") colour = Colour::kRed;
  return paint(colour, state);
}

void Terminal::print(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Terminal::note(std::string_view text) const {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

void Terminal::print(const Failure& failure) const {
  if (options_.json) {
    const nlohmann::ordered_json json{{"error",
                                       {{"code", to_string(failure.error.code)},
                                        {"message", failure.error.message},
                                        {"exit_code", static_cast<int>(failure.exit_code)}}}};
    note(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  note(fmt::format("{} {}", painted(options_.colour_error, Colour::kRed, "error:"), to_string(failure.error)));
}

}  // namespace volador::cli
