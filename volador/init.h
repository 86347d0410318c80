// Connects a program to a cluster.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/resources.h"

namespace volador {

// Options of init(). All have defaults. Options that are not set are read from the environment, then from volador.yaml
// where it has the setting (docs/getting-started.md): address, token, token_file, cluster; for a private cluster
// num_cpus, num_gpus, memory_threshold, object_store_memory and object_spill_limit.
struct InitOptions {
  // host:port of a head, or "local" for a private cluster of this process. Default: VOLADOR_ADDRESS or `address` of
  // volador.yaml, else the last cluster started on this machine and not stopped, else where `volador login` signed in
  // last, else a private cluster, which a line on stderr announces.
  std::string address = {};
  // Time to wait for the head of a cluster that was started on this machine and not stopped, if it does not respond: it
  // may have been killed and be restarting. 0: do not wait. Default: VOLADOR_HEAD_WAIT ("30s"), else 30 s.
  std::optional<std::chrono::milliseconds> head_wait = {};
  // Default: VOLADOR_TOKEN, else `token` or `token_file` of volador.yaml, else that of the sign-in at the address (`volador
  // login`), else the file that `volador start --head` wrote for its user on this machine.
  std::string token = {};
  std::string actor_namespace = {};     // Namespace of actor names. Default: VOLADOR_NAMESPACE, else "default".
  std::optional<double> num_cpus = {};  // For a private cluster. Default: the machine's CPUs.
  std::optional<int> num_gpus = {};     // For a private cluster; GPUs beyond the machine's are simulated.
  // For a private cluster: fraction of used memory at which the largest actor is ended; 0: never. Default: 0.95.
  std::optional<double> memory_threshold = {};
  // For a private cluster: size of the object store in bytes. Default: 30 % of the memory.
  std::optional<int64_t> object_store_memory = {};
  // For a private cluster: bytes on disk for spilled objects. Default: half of the free space.
  std::optional<int64_t> object_spill_limit = {};
  bool logs_to_driver = true;  // Prints the output of actors on this process's stderr.
};

// Connection of this process to its cluster. Its destructor ends the actors that are not detached and stops a private
// cluster.
class Cluster {
 public:
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  const std::string& name() const;
  const std::string& address() const;
  bool is_private() const;
  ResourceSet resources() const;  // Total of the cluster.
  // Same as the destructor. Idempotent.
  void shutdown();

  struct Impl;
  explicit Cluster(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Connects to a cluster. Call it first in main and keep the result: in a process started to run actors it never
// returns, and code before the call runs in each of those processes. Throws volador::Exception: kUnavailable (no head;
// the message lists what was tried), kUnauthenticated, kInvalidArgument (an option, a variable or a line of
// volador.yaml).
[[nodiscard]] Cluster init(int argc, char** argv, const InitOptions& options = {});
[[nodiscard]] Cluster init(const InitOptions& options = {});

}  // namespace volador
