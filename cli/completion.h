// Completion for shells. The scripts call the binary again (`volador __complete WORD…`), so they never grow stale.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"

namespace volador::cli {

// What the last word may become: subcommands, flags, or the values that a word there can have. Pure.
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
