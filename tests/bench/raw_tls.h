// The limits between two machines: one TLS 1.3 connection, a blocking thread on each side, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace volador::bench {

// Serves one connection after another: each says in its first 16 bytes what it wants. Does not return.
[[noreturn]] void serve_raw(const std::string& address, uint16_t port);

// Mean time of one round trip of 64 bytes, in microseconds.
double raw_tls_echo_us(const std::string& address, uint16_t port, size_t calls);
// Of one that the server sends, in GB/s (10^9).
double raw_tls_stream_gb_per_s(const std::string& address, uint16_t port, uint64_t bytes);
double raw_tcp_stream_gb_per_s(const std::string& address, uint16_t port, uint64_t bytes);

}  // namespace volador::bench
