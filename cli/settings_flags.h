// Flags that stand for settings: declared from the table of settings, resolved together with environment and file.
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
  // Declares --config and a flag for each key ("num_cpus" → --num-cpus, "log.level" → --log-level). Refers to this
  // object from then on.
  void declare(CLI::App& app, const std::vector<std::string>& keys);

  // Overwrites a token in the process's argument vector, where every user of the machine can read it. The caller has
  // copied the arguments before.
  static void hide_secrets(int argc, char** argv);

  // kUsage: a flag's value is wrong. kConfig: the file or an environment variable is wrong.
  [[nodiscard]] tl::expected<Config, Failure> resolve(const Paths& paths) const;

 private:
  std::vector<std::pair<std::string, std::string>> flags_;
  std::string config_file_;
};

}  // namespace volador::cli
