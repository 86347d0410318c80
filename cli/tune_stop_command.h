// volador tune stop: ends a running experiment, or one of its trials, in order.
#pragma once

#include <filesystem>
#include <string>

#include "cli/command.h"

namespace volador::cli {

class TuneStopCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  struct Stopped {
    std::string experiment, trial;  // Whole names; no trial: all of it.
  };
  // Through its directory, where its program looks for requests.
  tl::expected<Stopped, Failure> stop_here(const std::filesystem::path& directory) const;
  // The argument itself, or the one run of the results folder that goes on and has this name or starts so.
  tl::expected<std::filesystem::path, Failure> directory() const;

  std::string experiment_, trial_;
};

}  // namespace volador::cli
