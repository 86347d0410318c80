// Flags for settings: declared from the table of settings and resolved together with environment and file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/outcome.h"
#include "runtime/config.h"
#include "runtime/paths.h"

namespace CLI {
class App;
}

namespace volador::cli {

class SettingsFlags {
 public:
  // Declares --config and a flag for each key ("num_cpus" → --num-cpus, "log.level" → --log-level), which refer to this
  // object from then on.
  void declare(CLI::App& app, const std::vector<std::string>& keys);

  // Overwrites a token in the process's argument vector, which every user of the machine can read. The caller must have
  // copied the arguments before.
  static void hide_secrets(int argc, char** argv);

  // kUsage: a flag's value is invalid. kConfig: the file or an environment variable is invalid.
  [[nodiscard]] tl::expected<Config, Failure> resolve(const Paths& paths) const;

 private:
  std::vector<std::pair<std::string, std::string>> flags_;
  std::string config_file_;
};

}  // namespace volador::cli
