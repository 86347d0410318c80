// Helpers for blocking calls. For the .cc files of this library only.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <chrono>

#include "runtime/control/channel.h"
#include "runtime/control/status.h"
#include "runtime/result.h"

namespace volador::control {

inline void set_timeout(grpc::ClientContext& context, std::chrono::milliseconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

// Calls `method` of `stub` once.
template <class Reply, class Stub, class Request>
Result<Reply> ask_once(const Channel& channel, Stub& stub,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       grpc::ClientContext& context, const Request& request) {
  Reply reply;
  const grpc::Status status = (stub.*method)(&context, request, &reply);
  if (!status.ok()) return make_error(from_status(status, channel.address()));
  return reply;
}

// Converts an ErrorInfo: code 0 is success.
template <class ErrorInfo>
Result<void> check_reply(const ErrorInfo& error) {
  if (error.code() == 0) return {};
  return make_error(error_code_from(int64_t{error.code()}), error.message());
}

}  // namespace volador::control
