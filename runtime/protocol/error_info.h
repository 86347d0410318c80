// An error as messages carry it.
#pragma once

#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::protocol {

inline void fill(ErrorInfo& info, const Error& error) {
  info.set_code(static_cast<int>(error.code));
  info.set_message(error.message);
}

}  // namespace volador::protocol
