// Results directory of an experiment: `<storage_path>/<name>_<YYYY-MM-DD_HH-MM-SS>`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::tune {

class ExperimentDirectory {
 public:
  struct Options {
    std::string name;                    // Name of the experiment: a plain file name of at most 100 bytes.
    std::filesystem::path storage_path;  // Created if absent; empty: default_storage_path().
    int64_t free_bytes_min = 16 << 20;   // Minimum free space on the file system; otherwise create() fails.
  };

  // Creates the directory; another one in the same second gets the suffix "_2". Writes and removes a test file, so that
  // write errors are reported before a trial starts: kPermissionDenied, kUnavailable (no space), kInvalidArgument (the
  // name); names the path.
  [[nodiscard]] static Result<ExperimentDirectory> create(const Options& options, WallTime now);

  // Opens the directory of an earlier run. kNotFound: it does not exist, or has no journal; other errors as create().
  [[nodiscard]] static Result<ExperimentDirectory> open(const std::filesystem::path& path, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  const std::string& name() const { return name_; }  // As passed to create().
  // Returns the form for a command line: the path, quoted for the shell if necessary. A name alone would be searched in
  // the default folder only.
  std::string argument() const;
  std::string key() const {
    return path_.filename().string();
  }  // Name and time: unique within its
     // storage_path.

  // Writes experiment_state.json atomically.
  [[nodiscard]] Result<void> write_state(std::string_view json) const;

 private:
  std::string name_;
  std::filesystem::path path_;
};

// ~/volador_results; in the working directory if there is no home directory.
std::filesystem::path default_storage_path();

// Display form: "~/volador_results/digits_…" for a path in the home directory.
std::string display_path(const std::filesystem::path& path);

}  // namespace volador::tune
