// volador tune checkpoint list | extract: the checkpoints of a run on disk.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace volador::cli {

class TuneCheckpointCommand final : public CommandGroup {
 public:
  TuneCheckpointCommand();
  CLI::App* declare(CLI::App& root) override;
};

class TuneCheckpointListCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string directory_, trial_;
};

class TuneCheckpointExtractCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string directory_, trial_, out_;
  int64_t step_ = 0;
};

}  // namespace volador::cli
