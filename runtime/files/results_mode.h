// Permissions of files and folders with results.
#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/result.h"

namespace volador {

// Modes of files and folders with results.
struct ResultsMode {
  unsigned file = 0600;
  unsigned directory = 0700;  // File mode plus search permission for all who may read.

  bool operator==(const ResultsMode&) const = default;
};

// `text`: file mode in octal, "0640". The owner must have read and write permission (06xx); others may not have write
// permission without read permission. kInvalidArgument: names the variable, the text and the rule.
[[nodiscard]] Result<ResultsMode> parse_results_mode(std::string_view text);

// Returns the mode of this process from VOLADOR_RESULTS_MODE, read at the first call; default: owner only. The umask
// may remove further permissions.
[[nodiscard]] const Result<ResultsMode>& results_mode();

// Creates the folder and its missing parents with results_mode(). An existing folder is unchanged. Errors as
// make_private_directory, and those of the variable.
[[nodiscard]] Result<void> make_results_directory(const std::filesystem::path& directory);

}  // namespace volador
