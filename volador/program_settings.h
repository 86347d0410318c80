// Settings for init() from the environment and volador.yaml, read like those of the commands.
#pragma once

#include <string>

#include "runtime/config.h"
#include "runtime/paths.h"
#include "runtime/result.h"
#include "volador/init.h"

namespace volador {

// Options of init() completed from the settings.
struct ProgramSettings {
  InitOptions options;       // The given options, completed from the settings.
  std::string cluster = {};  // Name of the requested cluster on this machine; empty: the last one started.
};

// kInvalidArgument, kNotFound: the file named by token_file cannot be read.
[[nodiscard]] Result<ProgramSettings> apply_settings(InitOptions given, const Config& config);

// The settings of this process. Errors as for load_config: an invalid file or variable.
[[nodiscard]] Result<Config> load_program_settings(const Paths& paths);

}  // namespace volador
