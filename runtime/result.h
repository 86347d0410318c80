// Errors as plain data, and Result types. An Error is serialized between processes and becomes an exception only in the
// public API.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace volador {

// Tells the caller how to react. A new code is added only if some caller acts differently.
enum class ErrorCode : uint8_t {
  kInvalidArgument = 1,   // Fix the argument.
  kNotFound = 2,          // It does not exist.
  kInfeasible = 3,        // Never possible on this cluster.
  kUnavailable = 4,       // Not done; retry.
  kUnknownOutcome = 5,    // May be done; retry with the same request id.
  kCancelled = 6,         // Cancelled on request.
  kUnauthenticated = 7,   // Present a valid token or certificate.
  kPermissionDenied = 8,  // The role does not permit it.
  kInternal = 9,          // A bug in Volador.
  kActorDied = 10,        // The actor has permanently ended; the message has the cause.
  kApplication = 11,      // User code threw; the message has the type and text.
  kTimeout = 12,          // The caller's deadline passed; the call may have been executed.
  kObjectLost = 13,       // The object was lost with its node or had no reference left; put it again.
  kStoreFull = 14,        // No room for an object; drop references or allow more memory.
};

// "kNotFound" and so on. An unknown value gives "kInternal".
std::string_view to_string(ErrorCode code);
// The inverse of to_string; kInternal for an unknown name or number (from a newer peer).
ErrorCode error_code_from(std::string_view name);
ErrorCode error_code_from(int64_t number);

// Code and message of a failure.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;   // Names the thing, the value, the rule and the next step.
  std::string why = {};  // The message as data (Reason::to_json), for translation; empty: there is only the message.

  bool operator==(const Error&) const = default;
};

// "message   [kCode]", as printed after "error: ".
std::string to_string(const Error& error);

template <class T>
using Result = tl::expected<T, Error>;

// make_error(kNotFound, "…") converts to any Result<T>.
inline tl::unexpected<Error> make_error(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
inline tl::unexpected<Error> make_error(Error error) { return tl::unexpected<Error>(std::move(error)); }

// Exception of the public API: Future::get, spawn, tune::run. what() is to_string(error()).
class Exception : public std::exception {
 public:
  explicit Exception(Error error) : error_(std::move(error)), what_(to_string(error_)) {}
  const char* what() const noexcept override { return what_.c_str(); }
  const Error& error() const noexcept { return error_; }
  ErrorCode code() const noexcept { return error_.code; }

 private:
  Error error_;
  std::string what_;
};

[[noreturn]] void check_failed(const char* expression, const char* file, int line, const std::string& values);

}  // namespace volador

// For internal bugs only, never for input of peers or users: prints the expression and the values, then aborts.
#define VOLADOR_CHECK(condition, ...)                                                                      \
  do {                                                                                                     \
    if (!(condition)) ::volador::check_failed(#condition, __FILE__, __LINE__, ::std::string{__VA_ARGS__}); \
  } while (false)

// Returns from the enclosing function with the Result's error, if it has one.
#define VOLADOR_TRY(expression)                                                                   \
  do {                                                                                            \
    auto volador_try_result = (expression);                                                       \
    if (!volador_try_result) return ::volador::make_error(std::move(volador_try_result).error()); \
  } while (false)
