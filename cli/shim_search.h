// Where the Python package's shims are, which take the place of the package determined in trials.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

#include "runtime/net/unique_fd.h"

namespace volador::cli {

// Asks the job's Python, while the head is asked. The answer is kept in the node's folder of warm processes and counts
// for a minute, for the same Python with the same variables, so that most trials start no Python for it.
class ShimSearch {
 public:
  ShimSearch();
  ShimSearch(const ShimSearch&) = delete;
  ShimSearch& operator=(const ShimSearch&) = delete;
  ~ShimSearch();

  // Empty: the package is not installed.
  std::string result();

 private:
  void start();

  std::filesystem::path kept_;  // The file of the answer; empty: it is not kept.
  std::string known_;
  pid_t pid_ = 0;  // 0: it has ended, or there is no Python.
  net::UniqueFd out_;
};

}  // namespace volador::cli
