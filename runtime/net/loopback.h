#pragma once

#include <string>

namespace volador::net {

// Whether `host` names this machine only: an address in 127.0.0.0/8, ::1, or "localhost". Expects no port; resolves
// nothing, so that "127.example.org" is not taken for an address.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace volador::net
