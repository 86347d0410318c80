// What init() does without an option of its own: the settings of the environment and of volador.yaml, as the commands read them.
#pragma once

#include <string>

#include "runtime/config.h"
#include "runtime/paths.h"
#include "runtime/result.h"
#include "volador/init.h"

namespace volador {

struct ProgramSettings {
  InitOptions options;       // As given, with what settings say in place of what was left out.
  std::string cluster = {};  // Of this machine, which the program asks for by its name; empty: the one started last.
};

// kInvalidArgument, kNotFound: the file of token_file cannot be read.
[[nodiscard]] Result<ProgramSettings> apply_settings(InitOptions given, const Config& config);

// The settings of this process. Errors as load_config: a file or variable that says something wrong.
[[nodiscard]] Result<Config> load_program_settings(const Paths& paths);

}  // namespace volador
