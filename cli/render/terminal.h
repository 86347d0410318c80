// What commands print, for people in a terminal, for pipes, and as JSON. Data goes to stdout, messages go to stderr.
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

// How wide lines may be: COLUMNS where that is a number from 20 on; else the terminal's width, 80 where it does not tell; else, in a pipe or a
// file, 0: any width, so that what reads it gets every column and whole names.
size_t line_columns(bool is_terminal, size_t terminal_columns, std::string_view columns_variable);

// Whether an answer to "[y/N]" agrees: y, yes or 是, in any case, with spaces around.
bool is_yes(std::string_view answer);

class Terminal {
 public:
  struct Options {
    bool colour_out = false;
    bool colour_error = false;
    bool json = false;
    size_t columns = 0;  // Of lines to stdout; 0: any.
    Language language = Language::kEnglish;
  };
  explicit Terminal(Options options) : options_(options) {}
  // As this process's streams and environment say.
  static Options options_of_this_process();

  bool json() const { return options_.json; }
  void set_json(bool json) { options_.json = json; }
  size_t columns() const { return options_.columns; }
  // The same with lines of another width.
  Terminal with_columns(size_t columns) const;

  Language language() const { return options_.language; }
  void set_language(Language language) { options_.language = language; }
  // The text in the language of the user; `english` is a literal, which a test looks up in the catalogue.
  std::string tr(std::string_view english) const { return std::string(translated(options_.language, english)); }
  template <class... Args>
  std::string fill(std::string_view english, const Args&... args) const {
    return fill_translated(options_.language, english, args...);
  }

  // The text in a colour where stdout takes colours, else as it is.
  std::string paint(Colour colour, std::string_view text) const;
  // A state of a node, actor or trial, in its colour and in the user's language.
  std::string paint_state(std::string_view state) const;
  // A word of the cluster in the user's language.
  std::string word(std::string_view word) const { return std::string(translated_word(options_.language, word)); }

  // Why something is as it is, in the user's language: from its data where this Volador knows the sentence, else its text.
  std::string reason(std::string_view text, std::string_view why_json) const;
  // The lines of an explanation.
  std::string explanation(const v1::ExplainReply& reply) const;

  // Asks the question where stdin is a terminal, and waits for the answer. Elsewhere, in scripts, nothing is asked: true.
  bool confirms(std::string_view question) const;

  void print(std::string_view text) const;  // To stdout, as it is.
  void note(std::string_view text) const;   // A line to stderr.
  // "error: message   [kCode]" to stderr, or {"error": {"code": …, "message": …}} with --json.
  void print(const Failure& failure) const;

 private:
  Options options_;
};

}  // namespace volador::cli
