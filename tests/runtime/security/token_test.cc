#include "runtime/security/token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

#include "runtime/random.h"

namespace volador::security {
namespace {

using testing::HasSubstr;
using testing::Not;

Fingerprint some_fingerprint() { return {sha256("authority")}; }

std::string some_text() { return token_text(make_token(some_fingerprint(), TokenRole::kJoin)).reveal(); }

TEST(Token, ParsesWhatItMade) {
  for (const auto role : {TokenRole::kJoin, TokenRole::kDriver, TokenRole::kOperator}) {
    const JoinToken made = make_token(some_fingerprint(), role);
    const std::string text = token_text(made).reveal();
    EXPECT_TRUE(text.starts_with("vt1."));
    const auto parsed = parse_token("  " + text + "\n");
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_EQ(parsed->authority, made.authority);
    EXPECT_EQ(parsed->id, made.id);
    EXPECT_EQ(parsed->id.size(), 12U);
    EXPECT_TRUE(parsed->secret.equals(made.secret.reveal()));
    EXPECT_EQ(parsed->role, role);
  }
}

TEST(Token, TwoAreNeverEqual) {
  EXPECT_NE(make_token({}, TokenRole::kJoin).id, make_token({}, TokenRole::kJoin).id);
  EXPECT_NE(some_text(), some_text());
}

TEST(Token, WhatIsWrongIsNamedAndTheTextIsNotRepeated) {
  const std::string good = some_text();
  struct Case {
    std::string text;
    const char* says;
  };
  std::string mistyped = good;
  mistyped[60] = mistyped[60] == 'A' ? 'B' : 'A';
  const Case cases[] = {
      {"", "empty"},
      {" \n", "empty"},
      {"hello", "begins with \"vt1.\""},
      {"VT1." + good.substr(4), "begins with \"vt1.\""},
      {"vt2." + good.substr(4), "another version"},
      {"vt1.", "cut short"},
      {good.substr(0, 40), "cut short"},
      {good.substr(0, good.size() - 1), "cut short"},
      {good + "AAAA", "too long"},
      {good + std::string(10'000, 'A'), "too many"},
      {mistyped, "mistyped"},
      {"vt1." + std::string(good.size() - 4, 'q'), "this is no token of a cluster"},
      {good.substr(0, 30) + "!" + good.substr(31), "characters that no token has"},
      {good.substr(0, 30) + " " + good.substr(30), "characters that no token has"},
  };
  for (const auto& [text, says] : cases) {
    const auto parsed = parse_token(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kUnauthenticated);
    EXPECT_THAT(parsed.error().message, HasSubstr(says)) << text;
    EXPECT_THAT(parsed.error().message, Not(HasSubstr(good.substr(30, 20))));
  }
}

TEST(Token, EveryBitCounts) {
  const std::string good = some_text();
  for (size_t i = 4; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(parse_token(changed)) << i;
  }
}

TEST(Token, RandomTextsAreErrorsAndNeverCrash) {
  SeededRandom random(20261121);
  const std::string good = some_text();
  for (int i = 0; i < 20'000; ++i) {
    std::string text = random.below(2) == 0 ? good : "vt1.";
    const uint64_t edits = 1 + random.below(8);
    for (uint64_t edit = 0; edit < edits; ++edit) {
      const auto byte = static_cast<char>(random.below(256));
      switch (random.below(3)) {
        case 0:
          text += byte;
          break;
        case 1:
          text[random.below(text.size())] = byte;
          break;
        default:
          text.resize(1 + random.below(text.size()));
      }
    }
    const auto parsed = parse_token(text);
    EXPECT_TRUE(!parsed || token_text(*parsed).reveal() == good);
  }
}

TEST(Token, TheRecordMatchesItsSecretOnly) {
  const JoinToken token = make_token({}, TokenRole::kJoin);
  const std::string record = secret_record(token.secret);
  EXPECT_EQ(record.size(), 32U);
  EXPECT_TRUE(secret_matches(token.secret.reveal(), record));
  EXPECT_FALSE(secret_matches("", record));
  EXPECT_FALSE(secret_matches(token.secret.reveal().substr(1), record));
  EXPECT_FALSE(secret_matches(token.secret.reveal(), ""));
  EXPECT_FALSE(secret_matches(std::string(1 << 20, 'x'), record));
}

TEST(Token, ARefusalNamesTheRoleThatItHasAndTheOneThatJoins) {
  EXPECT_TRUE(check_joins_as("0a1b2c3d4e5f", TokenRole::kJoin, Role::kNode));
  const auto refused = check_joins_as("0a1b2c3d4e5f", TokenRole::kJoin, Role::kDriver);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused.error().message,
            "token 0a1b2c3d4e5f has role join: it cannot join as driver. Create one with `volador token create "
            "--role=driver` on the head's "
            "machine.");
}

TEST(Token, RolesAllowWhatTheySay) {
  EXPECT_TRUE(may_join_as(TokenRole::kJoin, Role::kNode));
  EXPECT_FALSE(may_join_as(TokenRole::kJoin, Role::kDriver)) << "it lets machines in, and no programs";
  EXPECT_FALSE(may_join_as(TokenRole::kJoin, Role::kOperator));
  EXPECT_FALSE(may_join_as(TokenRole::kDriver, Role::kNode));
  EXPECT_TRUE(may_join_as(TokenRole::kOperator, Role::kOperator));
  for (const Role role : {Role::kNode, Role::kDriver, Role::kOperator})
    EXPECT_TRUE(may_join_as(token_role_for(role), role));
  for (const auto token : {TokenRole::kJoin, TokenRole::kDriver, TokenRole::kOperator}) {
    EXPECT_FALSE(may_join_as(token, Role::kHead));
    EXPECT_FALSE(may_join_as(token, Role::kHost));
    EXPECT_EQ(parse_token_role(to_string(token)), token);
  }
}

TEST(SecretTest, IsNotPrintable) {
  static_assert(!fmt::is_formattable<Secret>::value);
  Secret first = Secret::random(20);
  const std::string bytes = first.reveal();
  const Secret second = std::move(first);
  EXPECT_EQ(second.reveal(), bytes);
  EXPECT_TRUE(first.empty());  // NOLINT: a moved-from secret is wiped.
}

}  // namespace
}  // namespace volador::security
