// Limits between two machines: one TLS 1.3 connection with a blocking thread on each side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace volador::bench {

// Serves one connection after another; the first 16 bytes of each select the operation. Does not return.
[[noreturn]] void serve_raw(const std::string& address, uint16_t port);

// Mean time of one round trip of 64 bytes, in microseconds.
double raw_tls_echo_us(const std::string& address, uint16_t port, size_t calls);
// Throughput of a stream sent by the server, in GB/s (10^9).
double raw_tls_stream_gb_per_s(const std::string& address, uint16_t port, uint64_t bytes);
double raw_tcp_stream_gb_per_s(const std::string& address, uint16_t port, uint64_t bytes);

}  // namespace volador::bench
