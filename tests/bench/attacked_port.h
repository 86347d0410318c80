// A listening port of a cluster of the benchmark, with an authenticated peer.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "tests/bench/started_cluster.h"

namespace volador::bench {

class AttackedPort {
 public:
  // "head": its gRPC port, and calls of its API. "dashboard": its HTTP port, and requests with a token on a persistent
  // connection. "data": the worker's data port, and calls of its object store with a certificate. Throws
  // std::runtime_error.
  static std::unique_ptr<AttackedPort> start(std::string_view kind);
  virtual ~AttackedPort() = default;

  uint16_t port() const { return port_; }
  pid_t process() const { return process_; }  // The listening process.
  // Makes one call; returns false if there was no response.
  virtual bool ask() = 0;

 protected:
  explicit AttackedPort(bool dashboard);
  const StartedCluster cluster_;
  uint16_t port_ = 0;
  pid_t process_ = 0;
};

}  // namespace volador::bench
