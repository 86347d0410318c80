#pragma once

#include <string>

namespace volador::net {

// Whether `host` names this machine only: an address in 127.0.0.0/8, ::1, or "localhost". Expects no port and resolves
// no names, so that "127.example.org" does not count as an address.
[[nodiscard]] bool is_loopback(const std::string& host);

}  // namespace volador::net
