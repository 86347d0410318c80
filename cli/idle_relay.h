// A port of the loopback address whose connections lead to another one, and that knows when it was last used. While the
// server behind it starts, browsers get a page that loads itself again.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "runtime/result.h"

namespace volador::cli {

// Thread safe.
class IdleRelay {
 public:
  // kUnavailable: the port is taken.
  [[nodiscard]] static Result<std::unique_ptr<IdleRelay>> open(uint16_t port);
  // Closes the port and its connections.
  ~IdleRelay();
  IdleRelay(const IdleRelay&) = delete;
  IdleRelay& operator=(const IdleRelay&) = delete;

  uint16_t port() const;
  // The server answers on this port of the loopback address.
  void lead_to(uint16_t port);
  // Time since a client connected or sent something, or since the relay was opened.
  std::chrono::milliseconds idle() const;

 private:
  struct Impl;
  explicit IdleRelay(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace volador::cli
