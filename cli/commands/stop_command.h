// volador stop: ends the processes of a cluster on this machine, and nothing else.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/settings_flags.h"

namespace volador::cli {

class StopCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  [[nodiscard]] tl::expected<std::vector<std::string>, Failure> clusters(const Context& context) const;

  SettingsFlags settings_;
  bool all_ = false;
  bool for_restart_ = false;
  std::string patience_ = "10s";
};

}  // namespace volador::cli
