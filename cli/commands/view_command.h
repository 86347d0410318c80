// volador view DIR: the dashboard's page for results on disk.
#pragma once

#include "cli/command.h"

namespace volador::cli {

class ViewCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string folder_;
  int port_ = 0;
  bool no_browser_ = false;
};

}  // namespace volador::cli
