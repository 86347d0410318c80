// volador.v1.Studies over gRPC. What keeps the studies stands beside the head.
#pragma once

#include <memory>

namespace grpc {
class Service;
}
namespace volador::control {
class StudiesPort;
}

namespace volador::head {

// Thread safe.
class StudyService {
 public:
  StudyService();
  ~StudyService();

  grpc::Service* service();
  // Null (the start): this head keeps none. Where this returns, the one before is not called any more.
  void set_port(control::StudiesPort* port);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
