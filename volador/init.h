// How a program becomes part of a cluster.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "runtime/resources.h"

namespace volador {

// Every field has a default. What is not set here comes from the environment, else from volador.yaml where that has the setting
// (docs/getting-started.md): address, token, token_file, cluster; of a private cluster num_cpus, num_gpus, memory_threshold,
// object_store_memory and object_spill_limit.
struct InitOptions {
  // host:port of a head, or "local" for a private cluster of this process. Else VOLADOR_ADDRESS or `address` of volador.yaml, else the
  // cluster that was started last on this machine if it has not been stopped, else a private one, which a line on stderr says.
  std::string address = {};
  // How long to wait for the head of a cluster that was started on this machine and not stopped, where it does not answer: it may
  // have been killed and be about to start again. Else VOLADOR_HEAD_WAIT ("30s"), else 30 s; 0: not at all.
  std::optional<std::chrono::milliseconds> head_wait = {};
  std::string token = {};       // Else VOLADOR_TOKEN, else `token` or `token_file` of volador.yaml, else the file that `volador start --head` left for its user on this machine.
  std::string actor_namespace = {};  // Of the names of actors; else VOLADOR_NAMESPACE, else "default".
  std::optional<double> num_cpus = {};  // Of a private cluster; else those of the machine.
  std::optional<int> num_gpus = {};     // Of a private cluster; more than there are: simulated ones.
  std::optional<double> memory_threshold = {};  // Of a private cluster: share of memory in use at which the largest actor is ended; 0: never. Else 0.95.
  std::optional<int64_t> object_store_memory = {};  // Of a private cluster: bytes that objects may take; else 30 % of the memory.
  std::optional<int64_t> object_spill_limit = {};   // Of a private cluster: bytes on disk for what does not fit; else half of what is free.
  bool logs_to_driver = true;   // What actors print appears on this process's stderr.
};

// The connection of this process. Leaving main destroys it: the actors that are not detached end, a private cluster stops.
class Cluster {
 public:
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  const std::string& name() const;
  const std::string& address() const;
  bool is_private() const;
  ResourceSet resources() const;  // In all.
  // As the destructor; repeatable.
  void shutdown();

  struct Impl;
  explicit Cluster(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

// Call it first in main, and keep what it returns: in a process that was started to run actors it never returns, and code before it
// runs in each of those. Throws volador::Exception: kUnavailable (no head there; says what was tried), kUnauthenticated,
// kInvalidArgument (an option, a variable or a line of volador.yaml).
[[nodiscard]] Cluster init(int argc, char** argv, const InitOptions& options = {});
[[nodiscard]] Cluster init(const InitOptions& options = {});

}  // namespace volador
