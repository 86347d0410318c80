// Entry point of the volador binary: parses the arguments and returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "runtime/paths.h"

namespace volador::cli {

class ProcessTitle;

// `arguments`: without the program's name.
int run_command_line(const std::vector<std::string>& arguments, const PathEnvironment& environment,
                     ProcessTitle& title);

// The same as run_command_line() with `experiment run-trial`, in less time.
int run_trial_command(const PathEnvironment& environment, ProcessTitle& title);

}  // namespace volador::cli
