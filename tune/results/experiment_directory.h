// Where an experiment keeps its results: `<storage_path>/<name>_<YYYY-MM-DD_HH-MM-SS>`.
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
    std::string name;                     // Of the experiment: a plain file name of at most 100 bytes.
    std::filesystem::path storage_path;   // Made where absent; empty: default_storage_path().
    int64_t free_bytes_min = 16 << 20;    // Less left on the file system: refused before anything starts.
  };

  // Makes the directory; a second one of the same second gets "_2" at its end. Writes and removes a file in it, so that what cannot be
  // written is said before a trial starts: kPermissionDenied, kUnavailable (no space), kInvalidArgument (the name); names the path.
  [[nodiscard]] static Result<ExperimentDirectory> create(const Options& options, WallTime now);

  // That of an earlier run. kNotFound: there is none, or it holds no journal; else as above.
  [[nodiscard]] static Result<ExperimentDirectory> open(const std::filesystem::path& path, const std::string& name);

  const std::filesystem::path& path() const { return path_; }
  const std::string& name() const { return name_; }                           // As given.
  // As an argument of a command: its path, quoted where a shell needs that. A name alone is looked for in the default
  // folder only.
  std::string argument() const;
  std::string key() const { return path_.filename().string(); }               // Name and time: unique in its storage_path.

  // experiment_state.json, atomically.
  [[nodiscard]] Result<void> write_state(std::string_view json) const;

 private:
  std::string name_;
  std::filesystem::path path_;
};

// ~/volador_results; below the working directory where there is no home.
std::filesystem::path default_storage_path();

// "~/volador_results/digits_…" for a path below the home directory: for people.
std::string display_path(const std::filesystem::path& path);

}  // namespace volador::tune
