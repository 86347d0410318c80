// The cluster that a command or a program refers to, and the token with which it connects. Commands and programs find
// both in the same order: what they are given, the settings, the sign-in (`volador login`), what a head left here.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/config.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

struct GivenTarget {
  std::string address = {};
  std::string cluster = {};  // Name of a cluster of this machine; only without an address.
  std::string token = {};
};

// Completes what is not given from the settings address, cluster, token and token_file. Errors as token_setting.
[[nodiscard]] Result<GivenTarget> with_settings(GivenTarget given, const Config& config);

struct ClusterTarget {
  std::string address;
  std::string token = {};
  std::string local_cluster = {};  // Name of the cluster if its head was started on this machine.
  std::string user = {};           // Whose sign-in the token is; empty: the token is from elsewhere.
};

// The address is by default that of the named or last started cluster of this machine, else that of the newest sign-in.
// The token is by default that of the sign-in at the address, else the one that the head left here. A sign-in at
// another cluster that had the address of a local head before is not used. kUnavailable: no cluster is known here.
// kUnauthenticated: the sign-in has expired, or there is no token for the address. kNotFound: the named cluster has no
// head here. kInvalidArgument: a file of this machine is damaged.
[[nodiscard]] Result<ClusterTarget> find_cluster(const GivenTarget& given, const Paths& paths, int64_t now_ms);

// An error of the cluster. If it refused the token, the message names the sign-in that the token is from.
Error with_sign_in(Error error, const ClusterTarget& target);

}  // namespace volador
