// volador dashboard.
#pragma once

#include "cli/commands/query_commands.h"

namespace volador::cli {

class DashboardCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

}  // namespace volador::cli
