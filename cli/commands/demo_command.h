// volador demo.
#pragma once

#include "cli/command.h"

namespace volador::cli {

class DemoCommand final : public Command {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  int samples_ = 0;  // 0: enough for a minute.
  bool once_ = false;
};

}  // namespace volador::cli
