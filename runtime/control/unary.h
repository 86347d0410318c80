// Helpers for blocking calls. For the .cc files of this library only.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

#include "runtime/control/channel.h"
#include "runtime/control/status.h"
#include "runtime/result.h"

namespace volador::control {

inline void set_timeout(grpc::ClientContext& context, std::chrono::milliseconds timeout) {
  context.set_deadline(std::chrono::system_clock::now() + timeout);
}

// Calls `method` of `stub` once. `lost`, if given, is set to whether the connection ended before the answer.
template <class Reply, class Stub, class Request>
Result<Reply> ask_once(const Channel& channel, Stub& stub,
                       grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                       grpc::ClientContext& context, const Request& request, bool* lost = nullptr) {
  Reply reply;
  const grpc::Status status = (stub.*method)(&context, request, &reply);
  if (lost != nullptr) *lost = connection_lost(status);
  if (!status.ok()) return make_error(from_status(status, channel.address()));
  return reply;
}

// Calls `attempt(&lost)` again while it sets `lost`, for up to 10 s or until `stop` is requested. For requests that
// may be repeated.
template <class Attempt>
auto repeat_while_lost(const std::stop_token& stop, Attempt attempt) {
  using namespace std::chrono_literals;
  const auto until = std::chrono::steady_clock::now() + 10s;
  std::mutex mutex;
  std::condition_variable_any stopped;
  for (auto pause = 50ms;; pause = std::min(2 * pause, 1000ms)) {
    bool lost = false;
    auto result = attempt(&lost);
    if (!lost || stop.stop_requested() || std::chrono::steady_clock::now() + pause >= until) return result;
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, stop, pause, [] { return false; });
  }
}

// Converts an ErrorInfo: code 0 is success.
template <class ErrorInfo>
Result<void> check_reply(const ErrorInfo& error) {
  if (error.code() == 0) return {};
  return make_error(error_code_from(int64_t{error.code()}), error.message());
}

}  // namespace volador::control
