// A private cluster of one process: the same executable is started once more and forks, before any thread exists, into
// head, worker and template. The cluster ends with the process that started it, however that ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

// The value of an environment variable; empty if unset.
std::string environment(const char* name);

struct Embedding;

// As in InitOptions.
struct LocalClusterOptions {
  std::optional<double> num_cpus;
  std::optional<int> num_gpus;
  double memory_threshold = 0.95;
  std::optional<int64_t> object_store_memory;
  std::optional<int64_t> object_spill_limit;
};

class LocalCluster {
 public:
  // Returns when head and worker are ready: typically after 0.1 s, plus the time of code before init().
  // `embedding`: null unless the executable is an interpreter.
  static Result<std::unique_ptr<LocalCluster>> start(const LocalClusterOptions& options, const Embedding* embedding);
  // Stops the cluster and waits for its end.
  ~LocalCluster();

  // The folder with its files, which is removed at the end.
  const Paths& paths() const { return paths_; }

 private:
  explicit LocalCluster(Paths paths) : paths_(std::move(paths)) {}
  net::UniqueFd control_;  // End-of-file on it stops the cluster.
  pid_t pid_ = -1;
  Paths paths_;
};

// Main function of the process started for the cluster.
[[noreturn]] void run_local_cluster(net::UniqueFd control);

}  // namespace volador
