// A private cluster of one process: one more start of the same executable that becomes, by forks made before any thread exists,
// head, worker and template. It ends with the process that started it, whatever way that ends.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

// A variable of the environment; empty where it is not set.
std::string environment(const char* name);

struct LocalClusterOptions {
  std::optional<double> num_cpus;
  std::optional<int> num_gpus;
  double memory_threshold = 0.95;
  std::optional<int64_t> object_store_memory;
  std::optional<int64_t> object_spill_limit;
};

class LocalCluster {
 public:
  // Returns when head and worker are ready; typically 0.1 s, and what code before init() takes.
  static Result<std::unique_ptr<LocalCluster>> start(const LocalClusterOptions& options);
  // Stops it and waits for its end.
  ~LocalCluster();

  // Where it keeps its files: a folder of its own, removed at the end.
  const Paths& paths() const { return paths_; }

 private:
  explicit LocalCluster(Paths paths) : paths_(std::move(paths)) {}
  net::UniqueFd control_;  // Its end-of-file stops the cluster.
  pid_t pid_ = -1;
  Paths paths_;
};

// The other end, in the process started for it.
[[noreturn]] void run_local_cluster(net::UniqueFd control);

}  // namespace volador
