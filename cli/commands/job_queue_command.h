// volador job queue: pools and projects of the job queue, and its settings.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class JobQueueCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string apply_;
  bool yaml_ = false;
};

}  // namespace volador::cli
