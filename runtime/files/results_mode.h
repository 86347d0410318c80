// Permissions of the files and folders that hold results.
#pragma once

#include <filesystem>
#include <string_view>

#include "runtime/result.h"

namespace volador {

struct ResultsMode {
  unsigned file = 0600;
  unsigned directory = 0700;  // That of a file, with permission to enter for whoever may read.

  bool operator==(const ResultsMode&) const = default;
};

// `text` is the mode of a file in octal, "0640". The owner must be able to read and write (06xx); nobody else may
// write without reading. kInvalidArgument: names the variable, the text and the rule.
[[nodiscard]] Result<ResultsMode> parse_results_mode(std::string_view text);

// That of this process, from VOLADOR_RESULTS_MODE as it was at the first call; only the owner where it is not set. The
// umask may take further permissions away.
[[nodiscard]] const Result<ResultsMode>& results_mode();

// Makes the folder and those above it that are missing, with results_mode(). A folder that exists is left as it is.
// Errors: as make_private_directory, and those of the variable.
[[nodiscard]] Result<void> make_results_directory(const std::filesystem::path& directory);

}  // namespace volador
