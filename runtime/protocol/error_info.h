// Conversion between Error and protocol::ErrorInfo.
#pragma once

#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::protocol {

inline void fill(ErrorInfo& info, const Error& error) {
  info.set_code(static_cast<int>(error.code));
  info.set_message(error.message);
  info.set_why(error.why);
}

inline Error error_from(const ErrorInfo& info) {
  return {error_code_from(int64_t{info.code()}), info.message(), info.why()};
}

}  // namespace volador::protocol
