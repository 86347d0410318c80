// Subcommands that inspect actor processes: stack, debug, timeline.
#pragma once

#include <string>

#include "cli/commands/query_commands.h"

namespace volador::cli {

// The current stacks of an actor's process.
class StackCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string id_;
};

// The debuggers in which Python actors and tasks wait: lists them, or attaches this terminal to one.
class DebugCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  Outcome list(control::ClusterApi& api, const Context& context) const;

  std::string id_;
};

// Recent calls of actors and tasks, for a trace viewer.
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
