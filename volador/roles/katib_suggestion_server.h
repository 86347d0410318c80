// Our algorithms for clients of Katib's gRPC API: the services Suggestion, EarlyStopping and grpc.health.v1.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/result.h"

namespace volador {

class KatibSuggestionServer {
 public:
  // Serves without TLS when it returns. Port 0: any free one. kUnavailable: the port is taken.
  //
  // EarlyStopping reads the objective from the service DBManager that a request names; SetTrialStatus answers
  // UNIMPLEMENTED, since the status of a trial belongs to its controller.
  [[nodiscard]] static Result<std::unique_ptr<KatibSuggestionServer>> start(const std::string& address, uint16_t port);
  // Ends calls in progress after at most a second.
  ~KatibSuggestionServer();

  uint16_t port() const;

 private:
  struct Impl;
  explicit KatibSuggestionServer(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace volador
