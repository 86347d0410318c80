// A job's code folder as an archive, without what need not travel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

// Patterns of .voladorignore and .detignore, as in .gitignore: one a line; `#` begins a comment; a `/` at the end means
// folders only; a pattern with another `/` is relative to the folder, others match names at any depth; `!` before a
// pattern takes a file back in. `*` and `?` do not match `/`, `**` does.
class IgnoreRules {
 public:
  // Also ignores .git, __pycache__, .venv, node_modules and .ipynb_checkpoints.
  explicit IgnoreRules(std::string_view text);
  // `path` is relative to the folder.
  bool ignores(const std::string& path, bool is_directory) const;

 private:
  struct Rule {
    std::vector<std::string> pattern;  // Its parts between slashes.
    bool directories_only = false;
    bool keeps = false;
  };
  void add(std::string_view line);
  std::vector<Rule> rules_;
};

struct PackedCode {
  std::string sha256;  // Hash of the archive, in hex.
  int64_t archive_bytes = 0;
  int64_t content_bytes = 0;
  int64_t files = 0;
};

// Packs the folder into `archive`. In a git repository the files that git ignores do not travel either.
// kInvalidArgument: not a folder, the files exceed kFilesBytesMax (the message names the largest), or a file cannot
// travel (a symbolic link that leaves the folder, a socket), or one of `needed` is not among them.
Result<PackedCode> pack_code(const std::filesystem::path& folder, const std::filesystem::path& archive,
                             const std::vector<std::string>& needed = {});

}  // namespace volador::jobs
