#include "cli/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace volador::cli {

namespace {

CLI::Validator number_that(bool (*fits)(double), const char* expected, const char* shown) {
  return CLI::Validator(
      [fits, expected](std::string& text) {
        double number = 0;
        return CLI::detail::lexical_cast(text, number) && fits(number)
                   ? std::string()
                   : fmt::format("expected {}, got \"{}\"", expected, text);
      },
      shown);
}

}  // namespace

CLI::Validator positive_number() {
  return number_that([](double number) { return number > 0; }, "a number above 0", "POSITIVE");
}
CLI::Validator number_from_zero() {
  return number_that([](double number) { return number >= 0; }, "a number of at least 0", "NONNEGATIVE");
}

void Command::declare_json(CLI::App& app) {
  app.add_flag("--json", json_, "Print JSON in a stable format, errors included");
}

void Command::declare_wide(CLI::App& app) {
  app.add_flag("--wide", wide_, "Show every column and whole names, whatever the width of the terminal");
}

Terminal Command::table_terminal(const Context& context) const {
  return wide_ ? context.terminal.with_columns(0) : context.terminal;
}

void Command::declare_yes(CLI::App& app) {
  app.add_flag("-y,--yes", yes_, "Do not ask for confirmation; without a terminal nothing is asked either");
}

Outcome Command::confirm(const Context& context, const std::string& question) const {
  if (yes_ || context.terminal.confirms(question)) return {};
  return fail(ExitCode::kFailed,
              {ErrorCode::kCancelled,
               context.terminal.tr("nothing was done: the question was not answered with yes; --yes does not ask")});
}

CLI::App* CommandGroup::declare_group(CLI::App& root, const char* name, const char* description) {
  CLI::App* app = root.add_subcommand(name, description);
  app->require_subcommand(1);
  for (auto& [declared, command] : commands_) declared = command->declare(*app);
  return app;
}

Command& CommandGroup::chosen() const {
  for (const auto& [declared, command] : commands_) {
    if (declared->parsed()) return *command;
  }
  return *commands_.front().second;
}

}  // namespace volador::cli
