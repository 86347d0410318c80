// The folder in which a trial leaves files that its user wants to keep, and what of them is new.
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
  // Nothing is made here; `bytes_max`: of all its files together; 0: nothing of it is wanted.
  ArtifactFolder(std::filesystem::path path, int64_t bytes_max) : path_(std::move(path)), bytes_max_(bytes_max) {}

  const std::filesystem::path& path() const { return path_; }
  // Whether somebody has made it.
  bool is_used() const;

  struct Packed {
    int64_t files = 0;
    std::string sha256;
    int64_t archive_bytes = 0;
  };
  // An archive of what is new or has changed since the last one (by size, time and inode); no value: nothing has, or
  // nothing is wanted. kInvalidArgument: a link, socket or device in it; more than bytes_max; names it. Said once:
  // later calls have nothing then.
  [[nodiscard]] Result<std::optional<Packed>> pack_changed(const std::filesystem::path& archive);
  // Removes it with all that it has.
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
  std::map<std::string, Stamp> packed_;  // By path below the folder.
  bool refused_ = false;
};

// On the driver's side: unpacks the archive beside `target` and moves each of its files into it, over what stands
// there. Files that are there already stay as they are where something fails.
[[nodiscard]] Result<void> add_artifacts(const std::filesystem::path& archive, const std::string& sha256,
                                         const std::filesystem::path& target);

}  // namespace volador::tune
