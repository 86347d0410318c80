// What programs and the command line of one user need to reach a cluster that was started on this machine: access.json
// in the cluster's folder (0600), and which cluster was started last. The head's process writes them, volador::init and
// the command line read them.
#pragma once

#include <string>

#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

struct ClusterAccess {
  std::string cluster;      // Its name.
  std::string cluster_id;   // 32 hex digits.
  std::string address;      // host:port of the head.
  std::string fingerprint;  // Of the cluster's authority, as security/digest.h prints it.
  std::string token;        // Of an operator. Secret.
};

// Makes the cluster's folder where it is missing. Errors as write_file_atomic.
[[nodiscard]] Result<void> save_access(const Paths& paths, const ClusterAccess& access);
// kNotFound: no such cluster, or no head of it was started here. kInvalidArgument: the file holds something else.
[[nodiscard]] Result<ClusterAccess> load_access(const Paths& paths, std::string_view cluster);

// The cluster started last on this machine.
[[nodiscard]] Result<void> save_current_cluster(const Paths& paths, std::string_view cluster);
// kNotFound: none was started.
[[nodiscard]] Result<std::string> load_current_cluster(const Paths& paths);

}  // namespace volador
