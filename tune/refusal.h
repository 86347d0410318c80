// Helpers that return or throw the errors of argument checks.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "runtime/result.h"

namespace volador::tune {

// Returns kInvalidArgument with this message.
inline tl::unexpected<Error> refuse(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

// Throws kInvalidArgument with this message.
[[noreturn]] inline void throw_refusal(std::string message) {
  throw Exception(Error{ErrorCode::kInvalidArgument, std::move(message)});
}

// Returns the value or throws its error.
template <class T>
T unwrap(Result<T> result) {
  if (!result) throw Exception(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace volador::tune
