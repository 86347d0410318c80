// volador top: the cluster in a terminal, drawn anew while it is looked at.
#pragma once

#include <string>
#include <string_view>

#include "cli/commands/query_commands.h"

namespace volador::cli {

// The first lines of a text that fit a screen of `rows` × `columns`; longer lines are cut, and what is left out is said in the last line.
// At least one row and one column.
std::string fit_screen(std::string_view text, size_t rows, size_t columns, Language language = Language::kEnglish);

class TopCommand final : public ClusterCommand {
 public:
  CLI::App* declare(CLI::App& root) override;
  Outcome run(const Context& context) override;

 private:
  std::string interval_ = "1s";
  int frames_ = 0;  // 0: until it is ended.
};

}  // namespace volador::cli
