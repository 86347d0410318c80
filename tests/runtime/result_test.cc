#include "runtime/result.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

TEST(ErrorCode, NamesAndNumbersComeBack) {
  for (int number = 1; number <= static_cast<int>(ErrorCode::kTimeout); ++number) {
    const ErrorCode code = error_code_from(int64_t{number});
    EXPECT_EQ(static_cast<int>(code), number);
    EXPECT_EQ(error_code_from(to_string(code)), code);
  }
}

TEST(ErrorCode, WhatANewerPeerSendsCountsAsInternal) {
  EXPECT_EQ(error_code_from("kSomethingNew"), ErrorCode::kInternal);
  EXPECT_EQ(error_code_from(int64_t{0}), ErrorCode::kInternal);
  EXPECT_EQ(error_code_from(int64_t{-1}), ErrorCode::kInternal);
  EXPECT_EQ(error_code_from(int64_t{1000}), ErrorCode::kInternal);
}

Result<int> fails() { return make_error(ErrorCode::kNotFound, "no such thing"); }
Result<std::string> passes_on() {
  VOLADOR_TRY(fails());
  return "not reached";
}

TEST(Result, TryPassesTheErrorOn) {
  auto result = passes_on();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error(), (Error{ErrorCode::kNotFound, "no such thing"}));
}

TEST(Exception, SaysMessageAndCode) {
  const Exception exception(Error{ErrorCode::kInfeasible, "asks gpus 2"});
  EXPECT_STREQ(exception.what(), "asks gpus 2   [kInfeasible]");
  EXPECT_EQ(exception.code(), ErrorCode::kInfeasible);
}

TEST(CheckDeathTest, AFailedCheckPrintsExpressionAndValues) {
  const int value = 3;
  EXPECT_DEATH(VOLADOR_CHECK(value == 4, "value " + std::to_string(value)), "value == 4.*value 3");
}

}  // namespace
}  // namespace volador
