// volador train list | show | logs | stop: training runs. A training run is an experiment whose scheduler text begins
// with "train" (train/report/run_report.h).
#pragma once

#include <filesystem>
#include <string>

#include "cli/command.h"
#include "cli/commands/query_commands.h"
#include "cli/commands/tune_control_command.h"
#include "tune/results/saved_run.h"

namespace volador::cli {

class TrainCommand final : public CommandGroup {
 public:
  TrainCommand();
  CLI::App* declare(CLI::App& root) override;
};

// Training runs of a cluster, running and ended ones.
class TrainListCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string state_;
  int limit_ = 100;
};

// A run from its directory, without a cluster. It can be followed until its end.
class TrainShowCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  Outcome follow(const Context& context, const std::filesystem::path& directory, tune::SavedRun run) const;

  std::string directory_;
  bool follow_ = false;
};

// Output of the actor of one rank.
class TrainLogsCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string run_;
  int rank_ = 0;
  bool follow_ = false;
  int tail_ = 100;
};

class TrainStopCommand final : public TuneControlCommand {
 public:
  TrainStopCommand() : TuneControlCommand(tune::RequestAct::kStop) {}
  CLI::App* declare(CLI::App& root) override;
};

}  // namespace volador::cli
