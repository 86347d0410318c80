// Shell completion. The scripts call the binary (`volador __complete WORD…`), so that they never become outdated.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace volador::cli {

// Returns the candidates for the last word: subcommands, flags, or values. Pure.
std::vector<std::string> completions(CLI::App& root, const std::vector<std::string>& words);

// volador completion bash|zsh|fish.
class CompletionCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string shell_;
};

}  // namespace volador::cli
