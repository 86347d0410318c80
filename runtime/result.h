// Errors as plain data, and values-or-errors. An Error crosses the wire and becomes an exception only at the public edge.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace volador {

// What the caller should do about an error. A new code only where some caller acts differently.
enum class ErrorCode : uint8_t {
  kInvalidArgument = 1,   // Fix the argument.
  kNotFound = 2,          // There is no such thing.
  kInfeasible = 3,        // Never possible on this cluster.
  kUnavailable = 4,       // Not done; retry.
  kUnknownOutcome = 5,    // May be done; retry with the same request id.
  kCancelled = 6,         // Somebody asked for it to stop.
  kUnauthenticated = 7,   // Show a valid token or certificate.
  kPermissionDenied = 8,  // This role may not do it.
  kInternal = 9,          // A bug of Volador.
  kActorDied = 10,        // The actor ended and does not come back; the message has the cause.
  kApplication = 11,      // User code threw; the message has the type and text.
  kTimeout = 12,          // The caller's deadline passed; the call may have been executed.
  kObjectLost = 13,       // The object went with its node, or nobody referred to it any more; put it again.
  kStoreFull = 14,        // No room for an object; drop references or allow more memory.
};

// "kNotFound" and so on. An unknown value gives "kInternal".
std::string_view to_string(ErrorCode code);
// The inverse of to_string; kInternal for an unknown name or number (a newer peer).
ErrorCode error_code_from(std::string_view name);
ErrorCode error_code_from(int64_t number);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // Names the thing, the value, the rule and the next step.
  std::string why = {};  // The message as data (Reason::to_json), for who says it in other words; empty: the message alone.

  bool operator==(const Error&) const = default;
};

// "message   [kCode]", as a terminal shows it after "error: ".
std::string to_string(const Error& error);

template <class T>
using Result = tl::expected<T, Error>;

// make_error(kNotFound, "…") converts to any Result<T>.
inline tl::unexpected<Error> make_error(ErrorCode code, std::string message) {
  return tl::unexpected<Error>(Error{code, std::move(message)});
}
inline tl::unexpected<Error> make_error(Error error) { return tl::unexpected<Error>(std::move(error)); }

// What the public edge throws: Future::get, spawn, tune::run. what() is to_string(error()).
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

// For our own bugs only, never for what a peer or a user sent: prints the expression and the values, then aborts.
#define VOLADOR_CHECK(condition, ...)                                                                  \
  do {                                                                                                 \
    if (!(condition)) ::volador::check_failed(#condition, __FILE__, __LINE__, ::std::string{__VA_ARGS__}); \
  } while (false)

// Returns the error of a Result from the enclosing function.
#define VOLADOR_TRY(expression)                                                          \
  do {                                                                                   \
    auto volador_try_result = (expression);                                              \
    if (!volador_try_result) return ::volador::make_error(std::move(volador_try_result).error()); \
  } while (false)
