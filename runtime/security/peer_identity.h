// Who is at the other end, read from its certificate. The chain was checked before: this only reads.
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

struct PeerIdentity {
  Role role = Role::kDriver;
  std::string name;                    // CN: the node's or user's name; of a host, its id in hex.
  ClusterId cluster;                   // O.
  std::string token_id;                // What it joined with, of a host its node; empty for heads.
  std::string serial;                  // Hex.
  std::vector<std::string> dns_names;  // SAN.
  WallTime not_before;
  WallTime not_after;
};

// The first certificate of a PEM text, as gRPC's auth context carries it ("x509_pem_cert").
// kUnauthenticated: not a certificate, or not one that a Volador authority makes; never crashes on garbage.
[[nodiscard]] Result<PeerIdentity> parse_peer_identity(std::string_view certificate_pem);
[[nodiscard]] Result<PeerIdentity> peer_identity_of(const x509_st* certificate);
// kUnauthenticated also where the peer showed none.
[[nodiscard]] Result<PeerIdentity> peer_identity_of(const ssl_st* connection);

}  // namespace volador::security
