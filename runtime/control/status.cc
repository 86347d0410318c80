#include "runtime/control/status.h"

#include <fmt/format.h>
#include <grpcpp/support/status.h>

#include <charconv>
#include <string>

#include "runtime/utf8.h"

namespace volador::control {
namespace {

constexpr std::string_view kDetailsPrefix = "volador-error:";
constexpr size_t kMessageBytes = 4096;

grpc::StatusCode grpc_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ErrorCode::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case ErrorCode::kInfeasible:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case ErrorCode::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case ErrorCode::kUnknownOutcome:
      return grpc::StatusCode::ABORTED;
    case ErrorCode::kCancelled:
      return grpc::StatusCode::CANCELLED;
    case ErrorCode::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case ErrorCode::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case ErrorCode::kInternal:
      return grpc::StatusCode::INTERNAL;
    case ErrorCode::kActorDied:
    case ErrorCode::kApplication:
      return grpc::StatusCode::UNKNOWN;
    case ErrorCode::kTimeout:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case ErrorCode::kObjectLost:
      return grpc::StatusCode::DATA_LOSS;
    case ErrorCode::kStoreFull:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  return grpc::StatusCode::INTERNAL;
}

ErrorCode code_of(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNIMPLEMENTED:
      return ErrorCode::kInvalidArgument;
    case grpc::StatusCode::NOT_FOUND:
      return ErrorCode::kNotFound;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return ErrorCode::kInfeasible;
    case grpc::StatusCode::UNAVAILABLE:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return ErrorCode::kUnavailable;
    case grpc::StatusCode::ABORTED:
      return ErrorCode::kUnknownOutcome;
    case grpc::StatusCode::CANCELLED:
      return ErrorCode::kCancelled;
    case grpc::StatusCode::UNAUTHENTICATED:
      return ErrorCode::kUnauthenticated;
    case grpc::StatusCode::PERMISSION_DENIED:
      return ErrorCode::kPermissionDenied;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return ErrorCode::kTimeout;
    default:
      return ErrorCode::kInternal;
  }
}

std::string clean(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = utf8_sequence(text, 0);
    if (out.size() + size > kMessageBytes) break;
    out += text.substr(0, size);
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out;
}

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// gRPC ends a stream that way if its connection closed before the status of the call was known.
bool stream_removed(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNKNOWN && status.error_details().empty() &&
         contains(status.error_message(), "Stream removed");
}

// Rewords a transport error and names the next step.
std::string transport_message(const grpc::Status& status, std::string_view address) {
  const std::string& text = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return fmt::format("{} did not answer in time.", address);
  }
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    return fmt::format("{} does not know this request: it runs another version of Volador ({}).", address, text);
  }
  if (nobody_listens(status)) {
    return fmt::format(
        "nothing listens at {} (connection refused). Check that the head runs: `volador status` on its machine.",
        address);
  }
  if (contains(text, "keepalive")) {
    return fmt::format("{} fell silent: it did not answer a keepalive ping.", address);
  }
  if (contains(text, "No route to host") || contains(text, "Network is unreachable")) {
    return fmt::format("{} is unreachable ({}). Check the address and the network.", address,
                       contains(text, "No route") ? "no route to host" : "network is unreachable");
  }
  if (contains(text, "Socket closed") || contains(text, "reset by peer") || contains(text, "GOAWAY") ||
      contains(text, "Broken pipe") || stream_removed(status)) {
    return fmt::format("the connection to {} was lost.", address);
  }
  return fmt::format("{}: {}", address, text.empty() ? "no reason given" : text);
}

}  // namespace

// gRPC reports this only in the text.
bool nobody_listens(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty() &&
         contains(status.error_message(), "Connection refused");
}

bool connection_lost(const grpc::Status& status) {
  return (status.error_code() == grpc::StatusCode::UNAVAILABLE && status.error_details().empty()) ||
         stream_removed(status);
}

grpc::Status to_status(const Error& error) {
  return grpc::Status(grpc_code(error.code), clean(error.message),
                      fmt::format("{}{}", kDetailsPrefix, static_cast<int>(error.code)));
}

Error from_status(const grpc::Status& status, std::string_view address) {
  const std::string details = status.error_details();
  if (details.starts_with(kDetailsPrefix)) {
    int number = 0;
    std::from_chars(details.data() + kDetailsPrefix.size(), details.data() + details.size(), number);
    return {error_code_from(int64_t{number}), status.error_message()};
  }
  const ErrorCode code = connection_lost(status) ? ErrorCode::kUnavailable : code_of(status.error_code());
  return {code, transport_message(status, address)};
}

}  // namespace volador::control
