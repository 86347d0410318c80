#include "dashboard/sign_in.h"

#include <gtest/gtest.h>

namespace volador::dashboard {
namespace {

using namespace std::chrono_literals;

class SignInTest : public ::testing::Test {
 protected:
  SignIn sign_in_;
  FakeClock clock_;
  const Visitor operator_{.token_id = "t1", .access = Access::kOperator};
};

TEST_F(SignInTest, AKeyOpensOneSession) {
  const std::string key = sign_in_.make_key(operator_, clock_.wall());
  const auto session = sign_in_.redeem(key, clock_.wall());
  ASSERT_TRUE(session.has_value());
  EXPECT_EQ(sign_in_.find(*session, clock_.wall())->visitor.token_id, "t1");
  EXPECT_FALSE(sign_in_.redeem(key, clock_.wall()).has_value());
  EXPECT_FALSE(sign_in_.redeem("", clock_.wall()).has_value());
}

TEST_F(SignInTest, KeysAndSessionsEnd) {
  const std::string key = sign_in_.make_key(operator_, clock_.wall());
  const std::string session = sign_in_.open(operator_, clock_.wall());
  clock_.advance(SignIn::kKeyLife);
  EXPECT_FALSE(sign_in_.redeem(key, clock_.wall()).has_value());
  EXPECT_TRUE(sign_in_.find(session, clock_.wall()).has_value());
  clock_.advance(SignIn::kSessionLife);
  EXPECT_FALSE(sign_in_.find(session, clock_.wall()).has_value());
}

TEST_F(SignInTest, ASessionThatWasClosedIsGone) {
  const std::string session = sign_in_.open(operator_, clock_.wall());
  sign_in_.close(session);
  EXPECT_FALSE(sign_in_.find(session, clock_.wall()).has_value());
}

TEST_F(SignInTest, SessionsSurviveARestartWithoutTheirSecrets) {
  const std::string session = sign_in_.open({.token_id = "t2", .access = Access::kViewer}, clock_.wall());
  const std::string saved = sign_in_.save(clock_.wall());
  EXPECT_EQ(saved.find(session), std::string::npos);
  SignIn again;
  again.load(saved, clock_.wall());
  const auto found = again.find(session, clock_.wall());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->visitor.token_id, "t2");
  EXPECT_EQ(found->visitor.access, Access::kViewer);
}

TEST_F(SignInTest, WhatCannotBeReadIsLeftOut) {
  for (const char* text :
       {"", "{}", "[1]", "[{\"hash\":1}]",
        "[{\"hash\":\"a\",\"token\":\"b\",\"access\":\"operator\",\"expires_ns\":9223372036854775807}]"}) {
    SignIn again;
    again.load(text, clock_.wall());
    EXPECT_EQ(again.save(clock_.wall()), "[]") << text;
  }
}

TEST_F(SignInTest, NumbersOfKeysAndSessionsAreBounded) {
  const std::string first = sign_in_.make_key(operator_, clock_.wall());
  for (size_t n = 0; n < SignIn::kKeysMax; ++n) {
    clock_.advance(1ms);
    sign_in_.make_key(operator_, clock_.wall());
  }
  EXPECT_FALSE(sign_in_.redeem(first, clock_.wall()).has_value());
  const std::string session = sign_in_.open(operator_, clock_.wall());
  for (size_t n = 0; n < SignIn::kSessionsMax; ++n) {
    clock_.advance(1ms);
    sign_in_.open(operator_, clock_.wall());
  }
  EXPECT_FALSE(sign_in_.find(session, clock_.wall()).has_value());
}

TEST(RequestBrake, APeerThatAsksTooOftenWaitsAndOthersDoNot) {
  RequestBrake brake;
  FakeClock clock;
  int passed = 0;
  for (int n = 0; n < 10'000; ++n) passed += brake.may_ask("a", clock.now());
  EXPECT_EQ(passed, static_cast<int>(RequestBrake::kBurst));
  EXPECT_TRUE(brake.may_ask("b", clock.now()));
  clock.advance(1s);
  EXPECT_TRUE(brake.may_ask("a", clock.now()));
}

TEST(RequestBrake, APeerThatGuessesWaitsAMinute) {
  RequestBrake brake;
  FakeClock clock;
  for (int n = 0; n < RequestBrake::kFailuresMax; ++n) {
    EXPECT_TRUE(brake.may_guess("a", clock.now()));
    brake.guessed_wrong("a", clock.now());
  }
  EXPECT_FALSE(brake.may_guess("a", clock.now()));
  EXPECT_TRUE(brake.may_guess("b", clock.now()));
  clock.advance(RequestBrake::kWindow);
  EXPECT_TRUE(brake.may_guess("a", clock.now()));
}

}  // namespace
}  // namespace volador::dashboard
