// volador tensorboard start | list | open | kill | serve, and volador experiment export-events. The commands are those of
// Determined's `det tensorboard`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/commands/query_commands.h"

namespace volador::cli {

class TensorBoardCommand final : public CommandGroup {
 public:
  TensorBoardCommand();
  CLI::App* declare(CLI::App& root) override;
};

class TensorBoardStartCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<int64_t> experiments_, trials_;
  std::string idle_ = "10min", environment_, pool_;
  double cpus_ = 0;
  bool no_open_ = false;
};

class TensorBoardListCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  bool all_ = false;
};

class TensorBoardOpenCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string job_;
  int port_ = 0;
};

class TensorBoardKillCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<std::string> jobs_;
};

// What the job runs on its node. Not in the help.
class TensorBoardServeCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

// Writes event files for TensorBoard. Not in the help.
class ExportEventsCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::vector<int64_t> experiments_, trials_;
  std::string to_;
  bool follow_ = false;
};

}  // namespace volador::cli
