#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/process_title.h"
#include "cli/settings_flags.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  volador::cli::SettingsFlags::hide_secrets(argc, argv);
  volador::cli::ProcessTitle title(argc, argv);
  return volador::cli::run_command_line(arguments, volador::PathEnvironment::of_this_process(), title);
}
