// Limits guessing: after too many failures of one peer its attempts are refused for a while. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>

#include "runtime/clock.h"

namespace volador::head {

struct FailureThrottleOptions {
  int failures_max = 10;  // Within `window`.
  std::chrono::seconds window{60};
  size_t peers_max = 4096;  // Limit of tracked peers; the one with the oldest failure is dropped.
};

class FailureThrottle {
 public:
  explicit FailureThrottle(const FailureThrottleOptions& options = {}) : options_(options) {}

  // Time until the peer's next attempt is accepted; 0: now.
  std::chrono::nanoseconds wait(BootTime now, const std::string& peer) const;
  void failed(BootTime now, const std::string& peer);
  void succeeded(const std::string& peer) { peers_.erase(peer); }

 private:
  struct Failures {
    int count = 0;
    BootTime first{};
  };
  FailureThrottleOptions options_;
  std::map<std::string, Failures> peers_;
};

}  // namespace volador::head
