// volador tune replay | simulate: repeats the decisions of a run's program, and simulates searches in virtual time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/command.h"
#include "tune/results/experiment_journal.h"

namespace volador::cli {

// The program from the journal, verified; reports if its executable has changed.
tl::expected<tune::JournalProgram, Failure> program_to_start(const std::filesystem::path& directory,
                                                             const Context& context);

class TuneReplayCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string directory_;
};

class TuneSimulateCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string directory_, metric_, plot_;
  std::vector<std::string> schedulers_{"fifo", "asha", "hyperband"};
  int64_t trials_ = 256, slots_ = 16, max_t_ = 81, seeds_ = 10;
  double time_limit_ = 0, straggler_ = 0, speed_ = 0, drop_ = 0, fail_ = 0, step_ = 1, parallel_ = 0.9;
};

}  // namespace volador::cli
