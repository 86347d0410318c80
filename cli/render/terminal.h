// Output of commands for terminals, pipes and JSON consumers. Data goes to stdout, messages go to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/outcome.h"
#include "runtime/language/language.h"

namespace volador::v1 {
class ExplainReply;
}

namespace volador::cli {

enum class Colour : uint8_t { kNone, kBold, kFaint, kRed, kGreen, kYellow };

// Whether escape sequences may be written to a stream: it is a terminal, NO_COLOR is unset or empty, and TERM is not
// "dumb".
bool wants_colour(int fd, std::string_view no_color, std::string_view term);

// Maximum width of lines: COLUMNS if it is a number of at least 20; otherwise the terminal's width, or 80 if unknown;
// in a pipe or a file 0, unlimited, so that programs get every column and whole names.
size_t line_columns(bool is_terminal, size_t terminal_columns, std::string_view columns_variable);

// Whether an answer to "[y/N]" is affirmative: y, yes or 是, in any case, with surrounding spaces.
bool is_yes(std::string_view answer);

class Terminal {
 public:
  struct Options {
    bool colour_out = false;
    bool colour_error = false;
    bool json = false;
    size_t columns = 0;  // Width of lines on stdout; 0: unlimited.
    Language language = Language::kEnglish;
  };
  explicit Terminal(Options options) : options_(options) {}
  // Options from this process's streams and environment.
  static Options options_of_this_process();

  bool json() const { return options_.json; }
  void set_json(bool json) { options_.json = json; }
  size_t columns() const { return options_.columns; }
  // Returns a copy with another line width.
  Terminal with_columns(size_t columns) const;

  Language language() const { return options_.language; }
  void set_language(Language language) { options_.language = language; }
  // Translates to the user's language; `english` must be a literal, which a test looks up in the catalogue.
  std::string tr(std::string_view english) const { return std::string(translated(options_.language, english)); }
  template <class... Args>
  std::string fill(std::string_view english, const Args&... args) const {
    return fill_translated(options_.language, english, args...);
  }

  // Colours the text if stdout supports colours.
  std::string paint(Colour colour, std::string_view text) const;
  // A state of a node, actor or trial, coloured and translated.
  std::string paint_state(std::string_view state) const;
  // Translates a word that the cluster reported.
  std::string word(std::string_view word) const { return std::string(translated_word(options_.language, word)); }

  // Returns a reason in the user's language: from its structured data if this version has the sentence, otherwise its
  // text.
  std::string reason(std::string_view text, std::string_view why_json) const;
  // The lines of an explanation.
  std::string explanation(const v1::ExplainReply& reply) const;

  // Asks the question if stdin is a terminal, and waits for the answer. Otherwise, as in scripts, returns true.
  bool confirms(std::string_view question) const;

  void print(std::string_view text) const;  // To stdout, unchanged.
  void note(std::string_view text) const;   // A line to stderr.
  // "error: message   [kCode]" to stderr, or {"error": {"code": …, "message": …}} with --json.
  void print(const Failure& failure) const;

 private:
  Options options_;
};

}  // namespace volador::cli
