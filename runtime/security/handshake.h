// A plain TLS handshake with a head: identifies the cluster before any data is sent, and determines the reason of a
// rejection (gRPC reports only UNAVAILABLE). Blocks up to the timeout, which covers name resolution, connecting and the
// handshake.
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
// kInvalidArgument: no port, or one outside 1…65535; the message shows the format.
[[nodiscard]] Result<HostPort> parse_host_port(std::string_view address);

// Authority and identity of a probed head.
struct ProbeReply {
  Fingerprint authority;
  std::string authority_pem;
  PeerIdentity head;
};

// Finds the authority in the certificate chain of the head at `address` and checks that it signed the head's
// certificate. Not trusted yet: the caller must compare the fingerprint.
// kInvalidArgument: the address. kUnavailable: refused, unreachable, timed out, closed; names what was tried.
// kUnauthenticated: not TLS, not a Volador head, or a certificate that is not valid now (a clock is wrong: the message
// has both times).
[[nodiscard]] Result<ProbeReply> probe_authority(std::string_view address, std::chrono::milliseconds timeout,
                                                 const Clock& clock);

// As probe_authority, and compares the fingerprint. kUnauthenticated: another cluster; has both fingerprints and the
// next step.
[[nodiscard]] Result<ProbeReply> probe_expected(std::string_view address, const Fingerprint& expected,
                                                std::chrono::milliseconds timeout, const Clock& clock);

// Performs gRPC's whole handshake with our certificate: succeeds if the head accepts it. Errors as above, and
// kUnauthenticated with the alert's reason (expired, unknown authority, revoked…).
[[nodiscard]] Result<void> check_connection(std::string_view address, const Credentials& credentials,
                                            std::chrono::milliseconds timeout, const Clock& clock);

// "10.0.0.1:6380 belongs to another cluster: …".
Error other_cluster_error(std::string_view address, const Fingerprint& found, const Fingerprint& expected);

}  // namespace volador::security
