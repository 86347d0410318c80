// Conversion between Error and gRPC status. The error code is sent as a number in the details, so that it is exact
// between our processes; a foreign status is mapped by its gRPC code.
#pragma once

#include <string_view>

#include "runtime/result.h"

namespace grpc {
class Status;
}

namespace volador::control {

// kInvalidArgument→INVALID_ARGUMENT, kNotFound→NOT_FOUND, kInfeasible→FAILED_PRECONDITION, kUnavailable→UNAVAILABLE,
// kUnknownOutcome→ABORTED, kCancelled→CANCELLED, kUnauthenticated→UNAUTHENTICATED, kPermissionDenied→PERMISSION_DENIED,
// kInternal→INTERNAL, kActorDied and kApplication→UNKNOWN, kTimeout→DEADLINE_EXCEEDED. Messages are cut at 4 KiB
// (HTTP/2 headers are limited), and invalid UTF-8 is removed.
grpc::Status to_status(const Error& error);

// The inverse. `address` is prefixed to messages of the transport. status must not be OK.
Error from_status(const grpc::Status& status, std::string_view address);

// Whether the machine was reached and no server listens at the address.
bool nobody_listens(const grpc::Status& status);

// Whether the connection ended before an answer came, so that a request that may be repeated is worth a repetition.
bool connection_lost(const grpc::Status& status);

}  // namespace volador::control
