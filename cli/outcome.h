// How a command ends: well, or with an error and the exit code that scripts decide by.
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "runtime/result.h"

namespace volador::cli {

// docs/troubleshooting.md lists them; they never change their meaning.
enum class ExitCode : int {
  kOk = 0,
  kFailed = 1,       // What was asked for failed.
  kUsage = 2,        // Unknown or missing flag, or a value that a flag cannot have.
  kConfig = 3,       // The configuration file or an environment variable is wrong.
  kUnreachable = 4,  // The head cannot be reached.
  kAccess = 5,       // Token or certificate refused, or not allowed with it.
  kNotFound = 6,
  kInfeasible = 7,  // No node could ever do it.
  kTimeout = 8,
};

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
// For errors of a head: the code decides.
tl::unexpected<Failure> fail(Error error);
// For errors of files and processes of this machine: always kFailed.
inline tl::unexpected<Failure> fail_here(Error error) { return fail(ExitCode::kFailed, std::move(error)); }

ExitCode exit_code_of(ErrorCode code);

}  // namespace volador::cli
