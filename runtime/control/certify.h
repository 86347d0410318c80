// Certificates that a node asks for after it joined: those of its hosts, and its own next one.
#pragma once

#include <chrono>

#include "runtime/control/channel.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"

namespace volador::control {

// A new key and a certificate of role host for it (24 h), by Control.Certify. Blocks.
// Errors as of every call: kUnavailable, kUnauthenticated, kPermissionDenied, kTimeout.
[[nodiscard]] Result<security::Credentials> certify_host(const Channel& channel, HostId host, std::chrono::milliseconds timeout);

// The node's own next certificate, with a new key.
[[nodiscard]] Result<security::Credentials> renew_node(const Channel& channel, const std::string& name,
                                                       std::chrono::milliseconds timeout);

}  // namespace volador::control
