#include "cli/render/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>

#include "runtime/language/reason.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

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

size_t line_columns(bool is_terminal, size_t terminal_columns, std::string_view columns_variable) {
  constexpr size_t kMin = 20;
  constexpr size_t kUsual = 80;
  size_t wanted = 0;
  const auto [end, code] =
      std::from_chars(columns_variable.data(), columns_variable.data() + columns_variable.size(), wanted);
  const bool is_number = code == std::errc() && end == columns_variable.data() + columns_variable.size();
  if (is_number && wanted >= kMin) return wanted;
  if (!is_terminal) return 0;
  return terminal_columns == 0 ? kUsual : std::max(terminal_columns, kMin);
}

bool is_yes(std::string_view answer) {
  const size_t begin = answer.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  std::string word(answer.substr(begin, answer.find_last_not_of(" \t\r\n") - begin + 1));
  std::transform(word.begin(), word.end(), word.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return word == "y" || word == "yes" || word == "是";
}

Terminal::Options Terminal::options_of_this_process() {
  winsize size{};
  const bool is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const bool has_size = is_terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return {.colour_out = wants_colour(STDOUT_FILENO, variable("NO_COLOR"), variable("TERM")),
          .colour_error = wants_colour(STDERR_FILENO, variable("NO_COLOR"), variable("TERM")),
          .json = false,
          .columns = line_columns(is_terminal, has_size ? size.ws_col : 0, variable("COLUMNS")),
          .language = language_of(LanguageVariables::of_this_process())};
}

Terminal Terminal::with_columns(size_t columns) const {
  Options options = options_;
  options.columns = columns;
  return Terminal(options);
}

std::string Terminal::reason(std::string_view text, std::string_view why_json) const {
  const auto known =
      options_.language == Language::kEnglish || why_json.empty() ? std::nullopt : Reason::from_json(why_json);
  return known ? known->text(options_.language) : std::string(text);
}

// A reason replaces as many lines of the text as it has itself.
std::string Terminal::explanation(const v1::ExplainReply& reply) const {
  if (options_.language == Language::kEnglish) return reply.text();
  std::string out;
  std::string_view left = reply.text();
  for (const std::string& why : reply.why()) {
    const auto known = Reason::from_json(why);
    if (!known && !why.empty()) return reply.text();  // From a newer Volador: its number of lines is unknown.
    const std::string said = known ? known->text(options_.language) : std::string();
    const size_t indent = std::min(left.find_first_not_of(' '), left.size());
    std::string_view lines = left;
    for (auto count = std::count(said.begin(), said.end(), '\n'); count >= 0; --count)
      left.remove_prefix(std::min(left.find('\n'), left.size() - 1) + 1);
    lines.remove_suffix(left.size());
    known ? out.append(indent, ' ').append(said).append("\n") : out.append(lines);
  }
  return out.append(left);
}

bool Terminal::confirms(std::string_view question) const {
  if (::isatty(STDIN_FILENO) != 1) return true;
  std::fprintf(stderr, "%.*s [y/N] ", static_cast<int>(question.size()), question.data());
  std::string answer;
  std::getline(std::cin, answer);
  return is_yes(answer);
}

std::string Terminal::paint(Colour colour, std::string_view text) const {
  return painted(options_.colour_out, colour, text);
}

std::string Terminal::paint_state(std::string_view state) const {
  Colour colour = Colour::kNone;
  if (state == "alive" || state == "running") colour = Colour::kGreen;
  if (state == "finished" || state == "succeeded" || state == "ready" || state == "connected") colour = Colour::kGreen;
  if (state == "suspect" || state == "draining" || state == "unhealthy" || state == "stopping" ||
      state == "restarting" || state == "pending" || state == "starting")
    colour = Colour::kYellow;
  if (state == "dead" || state == "error" || state == "failed" || state == "expired") colour = Colour::kRed;
  return paint(colour, word(state));
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
  note(fmt::format("{} {}", painted(options_.colour_error, Colour::kRed, tr("error:")), to_string(failure.error)));
}

}  // namespace volador::cli
