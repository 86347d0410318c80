#include "cli/command.h"

#include <CLI/CLI.hpp>

namespace volador::cli {

void Command::declare_json(CLI::App& app) {
  app.add_flag("--json", json_, "Print JSON, in a form that stays the same; errors too");
}

}  // namespace volador::cli
