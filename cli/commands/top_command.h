// volador top: a live view of the cluster in the terminal.
#pragma once

#include <string>
#include <string_view>

#include "cli/commands/query_commands.h"

namespace volador::cli {

// The first lines of a text, fitted to a screen of `rows` × `columns` (at least 1 × 1): longer lines are cut, and the
// last line says what is left out.
std::string fit_screen(std::string_view text, size_t rows, size_t columns, Language language = Language::kEnglish);

class TopCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string interval_ = "1s";
  int frames_ = 0;  // 0: until the user quits.
};

}  // namespace volador::cli
