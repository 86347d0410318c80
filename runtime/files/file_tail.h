// The newest lines of a log file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

// Last lines of a file.
struct FileTail {
  std::vector<std::string> lines;  // Oldest first.
  int64_t end = 0;                 // Offset of the next line: an incomplete last line is omitted.
};

// Returns at most `lines_max` whole lines of the last `bytes_max` bytes. Errors as file_error.
[[nodiscard]] Result<FileTail> tail_of_file(const std::filesystem::path& path, size_t lines_max, int64_t bytes_max);

}  // namespace volador
