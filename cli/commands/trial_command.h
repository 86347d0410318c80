// volador trial describe | logs | kill | metrics | download, volador checkpoint list | describe | download | rm: trials and
// checkpoints of experiments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/query_commands.h"
#include "cli/experiment_calls.h"

namespace volador::cli {

class TrialCommand final : public CommandGroup {
 public:
  TrialCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Describe final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    int64_t id_ = 0;
  };
  class Logs final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    int64_t id_ = 0;
    OutputOptions output_;
  };
  class Kill final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::vector<int64_t> ids_;
  };
  class Download final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    int64_t id_ = 0;
    bool best_ = false, latest_ = false;
    std::string target_;
  };
};

class CheckpointCommand final : public CommandGroup {
 public:
  CheckpointCommand();
  CLI::App* declare(CLI::App& root) override;

 private:
  class Describe final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string id_;
  };
  class Download final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::string id_, target_;
  };
  class Remove final : public ClusterCommand {
   public:
    CLI::App* declare(CLI::App& root) override;
    Outcome run(const Context& context) override;

   private:
    std::vector<std::string> ids_;
  };
};

}  // namespace volador::cli
