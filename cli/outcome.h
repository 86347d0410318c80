// Result of a command: success, or an error with an exit code for scripts.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "runtime/result.h"

namespace volador::cli {

// Listed in docs/troubleshooting.md; the meanings are stable.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,       // The requested action failed.
  kUsage = 2,        // Unknown or missing flag, or invalid value of a flag.
  kConfig = 3,       // The configuration file or an environment variable is invalid.
  kUnreachable = 4,  // The head cannot be reached.
  kAccess = 5,       // Token or certificate rejected, or permission denied.
  kNotFound = 6,
  kInfeasible = 7,  // No node can ever do it.
  kTimeout = 8,
};

// Without a message nothing is printed: the exit code is that of a command that was run.
struct Failure {
  ExitCode exit_code = ExitCode::kFailed;
  Error error;
};

using Outcome = tl::expected<void, Failure>;

inline tl::unexpected<Failure> fail(ExitCode exit_code, Error error) {
  return tl::unexpected<Failure>(Failure{exit_code, std::move(error)});
}
inline tl::unexpected<Failure> usage_error(std::string message) {
  return fail(ExitCode::kUsage, Error{ErrorCode::kInvalidArgument, std::move(message)});
}
// For errors of a head: the exit code follows from the error code.
tl::unexpected<Failure> fail(Error error);
// For errors of files and processes of this machine: always kFailed.
inline tl::unexpected<Failure> fail_here(Error error) { return fail(ExitCode::kFailed, std::move(error)); }

ExitCode exit_code_of(ErrorCode code);

}  // namespace volador::cli
