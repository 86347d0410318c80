// How checks of this library say no.
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "runtime/result.h"

namespace volador::tune {

// kInvalidArgument with this message.
inline tl::unexpected<Error> refuse(std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); }

// The same, thrown.
[[noreturn]] inline void throw_refusal(std::string message) { throw Exception(Error{ErrorCode::kInvalidArgument, std::move(message)}); }

// The value, or its error thrown.
template <class T>
T unwrap(Result<T> result) {
  if (!result) throw Exception(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

}  // namespace volador::tune
