// volador job usage: CPU and GPU hours by project, owner or day.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class JobUsageCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string from_, to_, by_ = "project";
  bool csv_ = false;
};

}  // namespace volador::cli
