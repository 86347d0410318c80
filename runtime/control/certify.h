// Certificates that a node requests after joining: for its hosts, and its own renewal.
#pragma once

#include <chrono>
#include <stop_token>

#include "runtime/control/channel.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"

namespace volador::control {

// Creates a key and gets a certificate of role host for it (24 h) with Control.Certify. Blocks. A lost
// connection is waited for, for up to 10 s or until `stop` is requested. Errors: kUnavailable, kUnauthenticated,
// kPermissionDenied, kTimeout.
[[nodiscard]] Result<security::Credentials> certify_host(const Channel& channel, HostId host,
                                                         std::chrono::milliseconds timeout,
                                                         const std::stop_token& stop = {});

// Renews the node's own certificate with a new key.
[[nodiscard]] Result<security::Credentials> renew_node(const Channel& channel, const std::string& name,
                                                       std::chrono::milliseconds timeout);

}  // namespace volador::control
