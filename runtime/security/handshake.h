// A bare TLS handshake with a head: finds out whose it is before anything is said, and names the reason of a refusal
// (gRPC would only say UNAVAILABLE). Blocks up to the timeout, which covers name resolution, connecting and the handshake.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "runtime/security/digest.h"
#include "runtime/security/peer_identity.h"

namespace volador::security {

// "10.0.0.1:6380", "[::1]:6380", "node-3:6380".
struct HostPort {
  std::string host;
  std::string port;
};
// kInvalidArgument: no port, or one outside 1…65535; the message shows the form.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view address);

struct ProbeReply {
  Fingerprint authority;
  std::string authority_pem;
  PeerIdentity head;
};

// Finds the authority in the chain of the head at `address` and checks that it signed the head's certificate. Trusts nothing:
// compare the fingerprint next.
// kInvalidArgument: the address. kUnavailable: refused, unreachable, timed out, closed; says what was tried.
// kUnauthenticated: something answers there that is not TLS, or not a Volador head, or its certificate is not valid now
// (a clock is wrong: the message has both times).
[[nodiscard]] Result<ProbeReply> probe_authority(std::string_view address, std::chrono::milliseconds timeout, const Clock& clock);

// probe_authority, then the fingerprint. kUnauthenticated: another cluster, with both fingerprints and the next step.
[[nodiscard]] Result<ProbeReply> probe_expected(std::string_view address, const Fingerprint& expected,
                                                std::chrono::milliseconds timeout, const Clock& clock);

// The whole handshake as gRPC does it, with our certificate: succeeds where the head accepted it.
// Errors as above, and kUnauthenticated with the alert's reason (expired, unknown authority, revoked…).
[[nodiscard]] Result<void> check_connection(std::string_view address, const Credentials& credentials,
                                            std::chrono::milliseconds timeout, const Clock& clock);

// "10.0.0.1:6380 belongs to another cluster: …".
Error other_cluster_error(std::string_view address, const Fingerprint& found, const Fingerprint& expected);

}  // namespace volador::security
