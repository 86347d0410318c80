#include <unistd.h>

#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/process_title.h"
#include "cli/settings_flags.h"
#include "jobs/remote/rsh_client.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
  // Stands for ssh in jobs and is started for each remote command, so nothing else is prepared before it.
  if (!arguments.empty() && arguments.front() == "job-rsh")
    _exit(volador::jobs::run_job_rsh({arguments.begin() + 1, arguments.end()}));
  volador::cli::SettingsFlags::hide_secrets(argc, argv);
  volador::cli::ProcessTitle title(argc, argv);
  return volador::cli::run_command_line(arguments, volador::PathEnvironment::of_this_process(), title);
}
