#include "jobs/launch/command_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace volador::jobs {

namespace {

bool is_shell_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_part(char c) { return is_name_start(c) || is_shell_digit(c); }
bool has_shell_space(std::string_view word) { return word.find_first_of(" \t\r\n") != std::string_view::npos; }

// Length of the variable name at the start of the text.
size_t name_length(std::string_view text) {
  if (text.empty() || !is_name_start(text[0])) return 0;
  return static_cast<size_t>(std::ranges::find_if_not(text, is_name_part) - text.begin());
}

// Length of "KEY=" or "KEY+=" at the start of the word; 0: the word is no assignment.
size_t assignment_length(std::string_view word) {
  const size_t name = name_length(word);
  if (name == 0) return 0;
  if (word.substr(name).starts_with("=")) return name + 1;
  return word.substr(name).starts_with("+=") ? name + 2 : 0;
}

// Operators between statements.
bool is_control_operator(std::string_view word) {
  static constexpr std::array<std::string_view, 6> kOperators = {"&&", "||", ";", "|", "&", "|&"};
  return std::ranges::find(kOperators, word) != kOperators.end();
}

// ">", "2>", "2>&1", "&>>", "<<<" and so on, without a file name.
bool is_redirection(std::string_view word) {
  if (word == "&>" || word == "&>>") return true;
  while (!word.empty() && is_shell_digit(word[0])) word.remove_prefix(1);
  static constexpr std::array<std::string_view, 9> kOperators = {">", ">>", ">|", "<", "<<", "<<-", "<<<", "<>", ">&"};
  if (std::ranges::find(kOperators, word) != kOperators.end()) return true;
  if (!word.starts_with(">&") && !word.starts_with("<&")) return false;
  word.remove_prefix(2);
  return word.empty() || word == "-" || std::ranges::all_of(word, is_shell_digit);
}

bool is_operator(std::string_view word) { return is_control_operator(word) || is_redirection(word); }

// "train.py;" and "train.py&". A word with spaces was quoted, hence the character belongs to its text; so it does in
// the code of `python -c`.
bool ends_statement(const std::vector<std::string>& command, size_t index) {
  const std::string& word = command[index];
  if (word.size() < 2 || (word.back() != ';' && word.back() != '&') || has_shell_space(word)) return false;
  return index == 0 || (command[index - 1] != "-c" && command[index - 1] != "-e");
}

// A word that the shell may expand: safe characters and $NAME or ${NAME}.
bool has_only_variables(std::string_view word) {
  bool found = false;
  std::string rest;
  for (size_t i = 0; i < word.size();) {
    if (word[i] != '$') {
      rest += word[i++];
      continue;
    }
    const bool braces = word.substr(i + 1).starts_with("{");
    const size_t start = i + (braces ? 2 : 1);
    const size_t length = name_length(word.substr(std::min(start, word.size())));
    if (length == 0 || (braces && !word.substr(start + length).starts_with("}"))) return false;
    found = true;
    i = start + length + (braces ? 1 : 0);
  }
  return found && (rest.empty() || shell_quoted(rest) == rest);
}

std::string word_of_shell(std::string_view word) {
  return has_only_variables(word) ? fmt::format("\"{}\"", word) : shell_quoted(word);
}

std::string in_single_quotes(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

bool is_shell(std::string_view word) {
  static constexpr std::array<std::string_view, 6> kShells = {"bash", "sh", "dash", "zsh", "ksh", "ash"};
  return std::ranges::find(kShells, word.substr(word.rfind('/') + 1)) != kShells.end();
}

}  // namespace

std::string shell_quoted(std::string_view word) {
  const auto safe = [](char c) {
    return is_name_part(c) || std::string_view("%+,-./:=@").find(c) != std::string_view::npos;
  };
  return !word.empty() && std::ranges::all_of(word, safe) ? std::string(word) : in_single_quotes(word);
}

std::string bash_command_line(const std::vector<std::string>& command) {
  const std::optional<size_t> code = shell_code_index(command);
  // An operator at the start or the end has no statement on one side; "&" at the end would end the job at once.
  size_t start = 0;
  size_t end = command.size();
  while (start < end && is_control_operator(command[start])) ++start;
  while (start < end && is_control_operator(command[end - 1])) --end;
  std::string script;
  bool at_start = true;  // At the start of a statement an assignment is possible.
  for (size_t i = start; i < end; ++i) {
    const std::string_view word = command[i];
    if (i > start) script += ' ';
    if (code != i && is_operator(word)) {
      script += word;
      at_start = is_control_operator(word);
    } else if (const size_t key = assignment_length(word); at_start && key > 0) {
      script += word.substr(0, key);
      if (key < word.size()) script += word_of_shell(word.substr(key));
    } else if (code != i && ends_statement(command, i)) {
      const size_t length = word.find_last_not_of(";&") + 1;
      if (length > 0) script += word_of_shell(word.substr(0, length));
      if (i + 1 < end) script += word.substr(length);
      at_start = true;
    } else {
      script += word_of_shell(word);
      at_start = false;
    }
  }
  return "bash -c " + in_single_quotes(script);
}

std::optional<size_t> shell_code_index(const std::vector<std::string>& command) {
  size_t i = static_cast<size_t>(std::ranges::find_if(command, is_shell) - command.begin());
  bool takes_code = false;
  for (++i; i < command.size(); ++i) {
    const std::string_view word = command[i];
    if (word.size() < 2 || (word[0] != '-' && word[0] != '+')) break;
    if (word.starts_with("--")) {
      if (word == "--rcfile" || word == "--init-file") ++i;
      continue;
    }
    takes_code = takes_code || (word[0] == '-' && word.find('c') != std::string_view::npos);
    if (word.back() == 'o' || word.back() == 'O') ++i;  // The name of the option follows.
  }
  return takes_code && i < command.size() ? std::optional(i) : std::nullopt;
}

Result<void> check_command(const std::vector<std::string>& command) {
  if (std::ranges::all_of(command, &std::string::empty)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("command: expected an executable and its arguments, got {}; write for example "
                                  "python train.py, or bash -c 'python train.py && python evaluate.py'",
                                  command.empty() ? "no words" : "an empty word"));
  }
  if (command[0].empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("command: expected an executable as the first word, got an empty word; write {}",
                                  bash_command_line(std::vector(command.begin() + 1, command.end()))));
  }
  const auto refused = [&](std::string_view word, std::string_view rule) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("command: \"{}\" {}; the command is executed without a "
                                                               "shell, so start one: {}",
                                                               word, rule, bash_command_line(command)));
  };
  for (size_t i = 0; i < command.size(); ++i) {
    if (command[i].find('\0') == std::string::npos) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("command: word {} contains a zero byte, which an argument cannot contain; remove it "
                                  "or pass the data in a file",
                                  i + 1));
  }
  if (assignment_length(command[0]) > 0) {
    return refused(command[0], "is an assignment of a variable, but the first word must be an executable");
  }
  const std::optional<size_t> code = shell_code_index(command);
  for (size_t i = 0; i < command.size(); ++i) {
    if (i == code) continue;
    if (is_operator(command[i])) return refused(command[i], "is an operator of the shell");
    if (ends_statement(command, i)) {
      return refused(command[i], fmt::format("ends with \"{}\", an operator of the shell", command[i].back()));
    }
  }
  return {};
}

}  // namespace volador::jobs
