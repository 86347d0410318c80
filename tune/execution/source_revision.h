// The git revision of the sources that a program was started from.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace volador::tune {

struct SourceRevision {
  std::string commit;    // 40 hex digits; empty: no repository, or git is not installed.
  std::string branch;    // Empty: detached HEAD.
  bool changed = false;  // Tracked files differ from the commit.
  std::string diff;      // The differences, truncated at kDiffBytesMax.
  static constexpr size_t kDiffBytesMax = size_t{256} << 10;
};

// Returns the revision of the repository that contains the folder. Runs `git` a few times, for `patience` in total:
// results that are late are left out and its processes are killed. Takes no locks in the repository and runs no diff
// program and no file system monitor that it configures.
SourceRevision source_revision(const std::filesystem::path& directory,
                               std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace volador::tune
