// TCP connections with a time limit; errors name what was tried.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::security {

using SteadyTime = std::chrono::steady_clock::time_point;

// Owning socket descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

// Waits until the socket is readable (or writable). False: the deadline passed.
bool wait_for(int fd, bool writable, SteadyTime deadline);

// Returns a connected, non-blocking socket. Tries all addresses of the host, which share the remaining time.
// kInvalidArgument: the address. kUnavailable: no such host, refused, unreachable, timed out.
[[nodiscard]] Result<Socket> connect_tcp(std::string_view address, SteadyTime deadline);

}  // namespace volador::security
