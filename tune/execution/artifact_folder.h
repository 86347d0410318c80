// The artifacts folder of a trial, and detection of its new or changed files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador::tune {

class ArtifactFolder {
 public:
  // Creates nothing. `bytes_max`: limit for all its files together; 0: artifacts are disabled.
  ArtifactFolder(std::filesystem::path path, int64_t bytes_max) : path_(std::move(path)), bytes_max_(bytes_max) {}

  const std::filesystem::path& path() const { return path_; }
  // Whether the folder exists.
  bool is_used() const;

  struct Packed {
    int64_t files = 0;
    std::string sha256;
    int64_t archive_bytes = 0;
  };
  // Packs the files that are new or changed since the last call (by size, time and inode) into an archive; no value:
  // nothing changed, or artifacts are disabled. kInvalidArgument: the folder contains a link, socket or device, or more
  // than bytes_max; names it. This error is returned once; later calls return no value.
  [[nodiscard]] Result<std::optional<Packed>> pack_changed(const std::filesystem::path& archive);
  // Removes the folder and its contents.
  void clear();

 private:
  struct Stamp {
    int64_t bytes = 0, changed_ns = 0;
    uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  [[nodiscard]] Result<std::map<std::string, Stamp>> look() const;

  const std::filesystem::path path_;
  const int64_t bytes_max_;
  std::map<std::string, Stamp> packed_;  // By path relative to the folder.
  bool refused_ = false;
};

// Driver side: unpacks the archive next to `target` and moves each of its files into it, replacing existing ones. If
// this fails, files in `target` are unchanged.
[[nodiscard]] Result<void> add_artifacts(const std::filesystem::path& archive, const std::string& sha256,
                                         const std::filesystem::path& target);

}  // namespace volador::tune
