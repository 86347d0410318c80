// volador tune plot: plots of a run, read from its directory.
#pragma once

#include <string>

#include "cli/command.h"
#include "tune/results/experiment_state.h"

namespace volador::cli {

class TunePlotCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  Outcome check_metrics(const tune::ExperimentState& state) const;

  std::string directory_, kind_ = "all", out_, metric_, mode_, scope_ = "last", group_by_, x_ = "training_iteration",
                          versus_, versus_mode_, log_, size_;
};

}  // namespace volador::cli
