#include "cli/command.h"

#include <CLI/CLI.hpp>

namespace volador::cli {

void Command::declare_json(CLI::App& app) {
  app.add_flag("--json", json_, "Print JSON, in a form that stays the same; errors too");
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
