// What makes a cluster the same one after a restart of its head: name, id, address and the tokens that were printed.
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
  std::string bind;          // Host or IP address; empty: not served yet.
  int port = 0;
  std::string advertise;     // host:port that others dial.
  uint64_t generation = 0;   // Of the journal, at its last opening.
  std::string operator_token, join_token, driver_token;  // Texts; secret.

  bool operator==(const ClusterIdentity&) const = default;
};

// A short word of which no cluster of this user's exists on this machine ("heron"; with a number once all are taken).
std::string pick_cluster_name(const Paths& paths, Random& random);

// kNotFound: no such file. kInvalidArgument: it holds something else; kPermissionDenied: others may read it.
[[nodiscard]] Result<ClusterIdentity> load_identity(const std::filesystem::path& file);
[[nodiscard]] Result<void> save_identity(const std::filesystem::path& file, const ClusterIdentity& identity);

}  // namespace volador::head
