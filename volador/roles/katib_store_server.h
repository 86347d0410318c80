// Katib's metric store for early stopping services: api.v1.beta1.DBManager without TLS and token, on 127.0.0.1, since
// Katib's services call the address that a request for rules names in that way.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/result.h"

namespace volador {

class KatibStoreServer {
 public:
  using Get = std::function<void(const api::v1::beta1::GetObservationLogRequest& request,
                                 std::function<void(Result<api::v1::beta1::GetObservationLogReply>)> done)>;
  // Serves GetObservationLog at a free port when it returns; the other calls answer UNIMPLEMENTED. `get` is called on
  // threads of gRPC.
  [[nodiscard]] static Result<std::unique_ptr<KatibStoreServer>> start(Get get);
  // Ends calls in progress; waits until `get` has answered or dropped them.
  ~KatibStoreServer();

  // 127.0.0.1 and the port.
  const std::string& address() const;

 private:
  struct Impl;
  explicit KatibStoreServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace volador
