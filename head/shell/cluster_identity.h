// The identity of a cluster, which survives restarts of its head: name, id, address and the printed tokens.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/ids.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {
class Random;
}

namespace volador::head {

// cluster.json in the head's folder (0600).
struct ClusterIdentity {
  std::string name;
  ClusterId id;
  std::string bind;  // Host name or IP address; empty: never served.
  int port = 0;
  std::string advertise;                                 // host:port under which others reach the head.
  uint64_t generation = 0;                               // Generation of the journal at its last opening.
  std::string operator_token, join_token, driver_token;  // Token texts; secret.

  bool operator==(const ClusterIdentity&) const = default;
};

// A short name ("heron") that no cluster of this user on this machine has; with a number once all are taken.
std::string pick_cluster_name(const Paths& paths, Random& random);

// kNotFound: no such file. kInvalidArgument: invalid content; kPermissionDenied: other users may read it.
[[nodiscard]] Result<ClusterIdentity> load_identity(const std::filesystem::path& file);
[[nodiscard]] Result<void> save_identity(const std::filesystem::path& file, const ClusterIdentity& identity);

}  // namespace volador::head
