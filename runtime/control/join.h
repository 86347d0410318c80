// Joins a cluster: verifies its fingerprint, presents the token's secret and receives a certificate.
#pragma once

#include <chrono>
#include <string>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "runtime/security/role.h"
#include "runtime/security/token.h"

namespace volador::control {

// Options of join().
struct JoinOptions {
  std::string address;  // Address of the head, "10.0.0.1:6380".
  security::JoinToken token;
  security::Role role = security::Role::kDriver;  // kNode, kDriver or kOperator.
  std::string name;                               // Name of the node or user; becomes the certificate's CN.
  std::chrono::milliseconds timeout{10'000};
};

// Result of join().
struct Joined {
  security::Credentials credentials;
  std::string cluster_name;
  ClusterId cluster;
};

// Blocks. The secret is sent only over a connection whose authority has the token's fingerprint. kUnavailable: refused,
// unreachable or timed out (names what was tried). kUnauthenticated: another cluster; a wrong, expired or revoked
// token; clocks too far apart. kPermissionDenied: the token does not allow this role. kInvalidArgument: an option, or
// incompatible versions.
[[nodiscard]] Result<Joined> join(const JoinOptions& options, const Clock& clock);

}  // namespace volador::control
