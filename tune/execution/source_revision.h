// Which revision of its sources a program was started from, as git knows it.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace volador::tune {

struct SourceRevision {
  std::string commit;    // 40 hex digits; empty: the folder is in no repository, or there is no git.
  std::string branch;    // Empty: none is checked out.
  bool changed = false;  // Tracked files differ from the commit.
  std::string diff;      // By how; cut at kDiffBytesMax.
  static constexpr size_t kDiffBytesMax = size_t{256} << 10;
};

// Of the repository that holds the folder. Runs `git` a few times, for `patience` in all: what it has not said by then is left out, and what
// it started is ended. Takes no lock of the repository and runs no differ and no file system monitor that it names.
SourceRevision source_revision(const std::filesystem::path& directory, std::chrono::milliseconds patience = std::chrono::seconds(5));

}  // namespace volador::tune
