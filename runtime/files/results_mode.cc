#include "runtime/files/results_mode.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "runtime/make_directory.h"

namespace volador {
namespace {

constexpr unsigned kOwnerReadsAndWrites = 0600;
constexpr unsigned kReadAndWrite = 0666;

// Whether group and others have read permission wherever they have write permission.
bool writers_read(unsigned mode) { return ((mode & 0022) << 1 & ~mode & 0044) == 0; }

}  // namespace

Result<ResultsMode> parse_results_mode(std::string_view text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  const bool is_octal = error == std::errc() && end == text.data() + text.size() && text.size() <= 4;
  if (!is_octal || (mode & ~kReadAndWrite) != 0 || (mode & kOwnerReadsAndWrites) != kOwnerReadsAndWrites ||
      !writers_read(mode)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("VOLADOR_RESULTS_MODE: expected the mode of a file that its owner reads and writes, in "
                    "octal and without execute bits, such as 0600, 0640 or 0644; got \"{}\"",
                    text));
  }
  return ResultsMode{.file = mode, .directory = mode | (mode & 0444) >> 2};
}

const Result<ResultsMode>& results_mode() {
  static const Result<ResultsMode> mode = [] {
    const char* text = std::getenv("VOLADOR_RESULTS_MODE");
    return text == nullptr || *text == '\0' ? Result<ResultsMode>(ResultsMode{}) : parse_results_mode(text);
  }();
  return mode;
}

Result<void> make_results_directory(const std::filesystem::path& directory) {
  const auto& mode = results_mode();
  if (!mode) return make_error(mode.error());
  return make_directory(directory, mode->directory);
}

}  // namespace volador
