// The subcommands that look into processes of actors: stack, timeline.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"

namespace volador::cli {

// Where the threads of an actor's process are now.
class StackCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string id_;
};

// What actors and tasks ran lately, for a viewer of traces.
class TimelineCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string id_;
  std::string output_ = "volador-timeline.json";
  int limit_ = 0;
};

}  // namespace volador::cli
