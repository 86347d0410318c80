#include "cli/password_input.h"

#include <fmt/format.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/paths.h"
#include "runtime/security/user.h"

namespace volador::cli {
namespace {

constexpr size_t kFileBytesMax = 4096;

// Turns off the terminal's echo for its lifetime.
class SilentInput {
 public:
  SilentInput() {
    on_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    termios silent = before_;
    silent.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (on_) on_ = ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &silent) == 0;
  }
  ~SilentInput() {
    if (on_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  SilentInput(const SilentInput&) = delete;
  SilentInput& operator=(const SilentInput&) = delete;

 private:
  termios before_{};
  bool on_ = false;
};

// Byte for byte, so that a second password can follow on the next line.
std::string line_of_input() {
  std::string line;
  char c = 0;
  while (line.size() <= security::kPasswordBytesMax && ::read(STDIN_FILENO, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::string asked(const std::string& question) {
  std::string answer;
  {
    const SilentInput silent;  // Before the question, whose answer may come at once.
    std::fputs((question + ": ").c_str(), stderr);
    answer = first_line(line_of_input());
  }
  std::fputs("\n", stderr);
  return answer;
}

}  // namespace

tl::expected<std::string, Failure> read_password(const Terminal& terminal, const std::string& question,
                                                 const std::string& file) {
  std::string password;
  if (!file.empty() && file != "-") {
    auto text = read_file_limited(file, kFileBytesMax);
    if (!text) return usage_error(fmt::format("--password-file: {}", text.error().message));
    password = first_line(std::move(*text));
  } else {
    const bool asks = file.empty() && ::isatty(STDIN_FILENO) == 1;
    password = asks ? asked(question) : first_line(line_of_input());
  }
  if (password.empty())
    return usage_error(terminal.tr("no password: type it, or write it to the standard input or to --password-file"));
  return password;
}

tl::expected<std::string, Failure> read_new_password(const Terminal& terminal, const std::string& question,
                                                     const std::string& file) {
  auto password = read_password(terminal, question, file);
  if (!password || !file.empty() || ::isatty(STDIN_FILENO) != 1) return password;
  if (asked(terminal.tr("Again")) != *password) return usage_error(terminal.tr("the two passwords differ"));
  return password;
}

}  // namespace volador::cli
