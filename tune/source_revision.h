// Which revision of its sources a program was started from, as git knows it.
#pragma once

#include <filesystem>
#include <string>

namespace volador::tune {

struct SourceRevision {
  std::string commit;    // 40 hex digits; empty: the folder is in no repository, or there is no git.
  std::string branch;    // Empty: none is checked out.
  bool changed = false;  // Tracked files differ from the commit.
  std::string diff;      // By how; cut at kDiffBytesMax.
  static constexpr size_t kDiffBytesMax = size_t{1} << 20;
};

// Of the repository that holds the folder. Runs `git`, at most 5 s a question; takes no lock of the repository.
SourceRevision source_revision(const std::filesystem::path& directory);

}  // namespace volador::tune
