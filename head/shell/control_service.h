// volador.protocol.Control over gRPC: joins, the streams of workers and clients, certificates and programs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "head/shell/core_runner.h"
#include "runtime/clock.h"
#include "runtime/ids.h"

namespace grpc {
class Service;
}
namespace volador::security {
class Authority;
}

namespace volador::head {

class Authorizer;
class ProgramExchange;

// Thread safe.
class ControlService {
 public:
  struct Parts {
    CoreRunner& runner;
    Authorizer& authorizer;
    ProgramExchange& programs;
    const security::Authority& authority;
    const Clock& clock;
    std::string cluster_name;
    ClusterId cluster;
    std::function<void(const std::string& peer)> on_joined;  // In the format of grpc::ServerContext::peer().
  };
  explicit ControlService(Parts parts);
  ~ControlService();

  grpc::Service* service();
  // Cuts the streams of all peers that joined with the token, until they join again.
  void close_streams_of(const std::string& token_id);
  // As close_streams_of, and tells the workers that the token was revoked.
  void end_streams_of(const std::string& token_id);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
