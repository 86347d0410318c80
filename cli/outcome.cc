#include "cli/outcome.h"

namespace volador::cli {

ExitCode exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return ExitCode::kUsage;
    case ErrorCode::kNotFound:
      return ExitCode::kNotFound;
    case ErrorCode::kInfeasible:
      return ExitCode::kInfeasible;
    case ErrorCode::kUnavailable:
      return ExitCode::kUnreachable;
    case ErrorCode::kUnauthenticated:
    case ErrorCode::kPermissionDenied:
      return ExitCode::kAccess;
    case ErrorCode::kTimeout:
      return ExitCode::kTimeout;
    case ErrorCode::kUnknownOutcome:
    case ErrorCode::kCancelled:
    case ErrorCode::kInternal:
    case ErrorCode::kActorDied:
    case ErrorCode::kApplication:
    case ErrorCode::kObjectLost:
    case ErrorCode::kStoreFull:
      return ExitCode::kFailed;
  }
  return ExitCode::kFailed;
}

tl::unexpected<Failure> fail(Error error) {
  const ExitCode exit_code = exit_code_of(error.code);
  return fail(exit_code, std::move(error));
}

}  // namespace volador::cli
