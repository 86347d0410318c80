// Access data of clusters started on this machine by this user: access.json in the cluster's folder (0600), and the
// name of the cluster started last. Written by the head's process, read by volador::init and the command line.
#pragma once

#include <optional>
#include <string>

#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

// Contents of access.json.
struct ClusterAccess {
  std::string cluster;      // Cluster name.
  std::string cluster_id;   // 32 hex digits.
  std::string address;      // host:port of the head.
  std::string fingerprint;  // Fingerprint of the cluster's authority, formatted as in security/digest.h.
  std::string token;        // Operator token. Secret.
};

// Creates the cluster's folder if needed. Errors as write_file_atomic.
[[nodiscard]] Result<void> save_access(const Paths& paths, const ClusterAccess& access);
// kNotFound: no such cluster, or none of its heads was started here. kInvalidArgument: the file has other contents.
[[nodiscard]] Result<ClusterAccess> load_access(const Paths& paths, std::string_view cluster);

// That of the local cluster whose head has this address; null: there is none. Damaged files are passed over.
std::optional<ClusterAccess> access_at(const Paths& paths, const std::string& address);

// The cluster started last on this machine.
[[nodiscard]] Result<void> save_current_cluster(const Paths& paths, std::string_view cluster);
// kNotFound: none was started.
[[nodiscard]] Result<std::string> load_current_cluster(const Paths& paths);

}  // namespace volador
