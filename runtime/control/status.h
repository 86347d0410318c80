// Error <-> gRPC status. The code travels as a number in the details, so the round trip is exact between our own processes;
// a foreign status is mapped by its gRPC code.
#pragma once

#include <string_view>

#include "runtime/result.h"

namespace grpc {
class Status;
}

namespace volador::control {

// kInvalidArgument→INVALID_ARGUMENT, kNotFound→NOT_FOUND, kInfeasible→FAILED_PRECONDITION, kUnavailable→UNAVAILABLE,
// kUnknownOutcome→ABORTED, kCancelled→CANCELLED, kUnauthenticated→UNAUTHENTICATED, kPermissionDenied→PERMISSION_DENIED,
// kInternal→INTERNAL, kActorDied and kApplication→UNKNOWN, kTimeout→DEADLINE_EXCEEDED.
// Messages are cut at 4 KiB (HTTP/2 headers are limited) and lose bytes that are not UTF-8.
grpc::Status to_status(const Error& error);

// The inverse; `address` is what was tried and goes in front of messages that the transport made. status is not OK.
Error from_status(const grpc::Status& status, std::string_view address);

// Whether the address was reached and has no server.
bool nobody_listens(const grpc::Status& status);

}  // namespace volador::control
