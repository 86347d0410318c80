// A listening port of a cluster of the bench's own, with a peer there that has proved who it is.
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
  // "head": its gRPC port, and calls of its API. "dashboard": its HTTP port, and requests with a token on a connection that is kept.
  // "data": of the worker, and calls of its object store with a certificate. Throws std::runtime_error.
  static std::unique_ptr<AttackedPort> start(std::string_view kind);
  virtual ~AttackedPort() = default;

  uint16_t port() const { return port_; }
  pid_t process() const { return process_; }  // That listens.
  // One call and its answer; false: there was none.
  virtual bool ask() = 0;

 protected:
  explicit AttackedPort(bool dashboard);
  const StartedCluster cluster_;
  uint16_t port_ = 0;
  pid_t process_ = 0;
};

}  // namespace volador::bench
