// volador katib serve-suggestions: our search algorithms for clients of Katib's gRPC API.
#pragma once

#include <cstdint>
#include <string>

#include "cli/command.h"

namespace volador::cli {

class KatibCommand final : public CommandGroup {
 public:
  KatibCommand();
  CLI::App* declare(CLI::App& root) override;
};

class KatibServeCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string address_ = "127.0.0.1";
  uint16_t port_ = 6789;
};

}  // namespace volador::cli
