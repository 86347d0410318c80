// volador version.
#pragma once

#include "cli/command.h"

namespace volador::cli {

class VersionCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;
};

// Returns "volador 0.1.0 (gcc 12.2.0, grpc 1.51.1, control protocol 1)".
std::string version_line();

}  // namespace volador::cli
