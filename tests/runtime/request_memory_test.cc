#include "runtime/request_memory.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

using Memory = RequestMemory<Result<std::string>>;

class RequestMemoryTest : public ::testing::Test {
 protected:
  Memory::Respond once(const std::string& id, const std::string& what, const std::string& by = "ann") {
    return memory_.once({.by = by, .id = id, .what = what}, [this](const Result<std::string>& answer) {
      got_.push_back(answer ? *answer : answer.error().message);
    });
  }
  std::vector<std::string> got_;
  Memory memory_{{.refusal = [](const Error& error) -> Result<std::string> { return make_error(error); },
                  .is_failure = [](const Result<std::string>& answer) { return !answer.has_value(); }}};
};

TEST_F(RequestMemoryTest, AnswersEachRequestOnce) {
  const auto first = once("a", "drain heron");
  EXPECT_EQ(once("a", "drain heron"), nullptr) << "it waits for the first";
  EXPECT_TRUE(got_.empty());
  first("1");
  EXPECT_EQ(got_, (std::vector<std::string>{"1", "1"}));
  EXPECT_EQ(once("a", "drain heron"), nullptr);
  EXPECT_EQ(got_.size(), 3u);
  EXPECT_EQ(once("a", "drain wren"), nullptr);
  EXPECT_NE(got_.back().find("was another request"), std::string::npos);
  EXPECT_NE(once("", "x"), nullptr);
  EXPECT_NE(once("", "x"), nullptr);
}

TEST_F(RequestMemoryTest, AnIdIsItsClientsAlone) {
  once("a", "make a token")("secret");
  const auto other = once("a", "make a token", "bob");
  ASSERT_NE(other, nullptr);
  other("another");
  EXPECT_EQ(got_, (std::vector<std::string>{"secret", "another"}));
}

TEST_F(RequestMemoryTest, WhatFailedOrWasDroppedIsCarriedOutAnew) {
  once("b", "x")(make_error(ErrorCode::kUnavailable, "not now"));
  auto second = once("b", "x");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(once("b", "x"), nullptr);
  second = nullptr;
  EXPECT_EQ(got_.size(), 1u) << "nobody answers for what the stopping server dropped";
  EXPECT_NE(once("b", "x"), nullptr);
}

TEST_F(RequestMemoryTest, RemembersTheNewestOnly) {
  once("a", "x")("1");
  for (size_t i = 0; i < kRequestsRemembered; ++i) once(std::to_string(i), "x")("2");
  EXPECT_NE(once("a", "x"), nullptr);
  EXPECT_EQ(once(std::to_string(kRequestsRemembered - 1), "x"), nullptr);
}

TEST_F(RequestMemoryTest, AnIdThatIsTooLongIsRefused) {
  EXPECT_NE(once(std::string(kRequestIdBytesMax, 'x'), "x"), nullptr);
  EXPECT_EQ(once(std::string(kRequestIdBytesMax + 1, 'x'), "x"), nullptr);
  EXPECT_NE(got_.back().find("1025 bytes"), std::string::npos);
}

}  // namespace
}  // namespace volador
