// Identity of a peer, parsed from its certificate. The chain must have been verified before.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/role.h"

struct x509_st;
struct ssl_st;

namespace volador::security {

// Contents of a peer's certificate.
struct PeerIdentity {
  Role role = Role::kDriver;
  std::string name;                    // CN: the node's or user's name; for a host, its id in hex.
  ClusterId cluster;                   // O.
  std::string token_id;                // Token used to join, for a host that of its node; empty for heads.
  std::string serial;                  // Hex.
  std::vector<std::string> dns_names;  // SAN.
  WallTime not_before;
  WallTime not_after;
};

// Parses the first certificate of a PEM text, as in gRPC's auth context ("x509_pem_cert"). kUnauthenticated: not a
// certificate, or not one of a Volador authority; safe on arbitrary input.
[[nodiscard]] Result<PeerIdentity> parse_peer_identity(std::string_view certificate_pem);
[[nodiscard]] Result<PeerIdentity> peer_identity_of(const x509_st* certificate);
// kUnauthenticated also if the peer presented none.
[[nodiscard]] Result<PeerIdentity> peer_identity_of(const ssl_st* connection);

}  // namespace volador::security
