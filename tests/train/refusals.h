// What a call throws, for tests of errors.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "runtime/result.h"

namespace volador::train {

// kInternal "no exception": the call returned.
inline Error error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.error();
  }
  return Error{ErrorCode::kInternal, "no exception"};
}

inline void expect_refused(const std::function<void()>& call, const std::string& message) {
  const Error error = error_of(call);
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument) << error.message;
  EXPECT_EQ(error.message, message);
}

}  // namespace volador::train
