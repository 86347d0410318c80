// Users, their tokens and their passwords, without a network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "head/shell/authorizer.h"
#include "head/shell/bounded_worker.h"
#include "head/shell/password.h"
#include "head/shell/sign_on_user.h"
#include "head/shell/user_group_table.h"
#include "head/shell/user_table.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/random.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const WallTime kUsersNow{std::chrono::seconds(1'700'000'000)};

v1::User user_named(const std::string& name, const std::string& role = "user") {
  v1::User user;
  user.set_name(name);
  user.set_role(role);
  return user;
}

TEST(UserTableTest, AUserIsAddedChangedAndRemoved) {
  UserTable table;
  v1::User mei = user_named("mei", "");
  mei.set_mail("mei@example.org");
  auto added = table.put(mei, "hash", kUsersNow);
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_TRUE(added->created);
  EXPECT_EQ(added->record.role(), "user") << "the default";
  EXPECT_EQ(to_api(added->record).created_ms(), 1'700'000'000'000);

  mei.set_disabled(true);
  auto changed = table.put(mei, "", kUsersNow + 1h);
  ASSERT_TRUE(changed);
  EXPECT_FALSE(changed->created);
  EXPECT_EQ(changed->record.password(), "hash") << "an empty password leaves the present one";
  EXPECT_EQ(changed->record.created_wall_ns(), added->record.created_wall_ns());

  UserTable again;
  ASSERT_EQ(changed->journal.size(), 1u);
  EXPECT_TRUE(again.load(changed->journal[0].key, *changed->journal[0].value));
  EXPECT_FALSE(again.load("other", *changed->journal[0].value)) << "the key is not the name";
  ASSERT_NE(again.find("mei"), nullptr);
  EXPECT_TRUE(again.find("mei")->disabled());

  auto removed = again.remove("mei");
  ASSERT_TRUE(removed);
  EXPECT_FALSE(removed->journal[0].value.has_value());
  EXPECT_EQ(again.remove("mei").error().code, ErrorCode::kNotFound);
}

TEST(UserTableTest, RepliesNeverHaveTheHash) {
  UserTable table;
  const auto added = table.put(user_named("mei"), "the hash", kUsersNow);
  EXPECT_THAT(to_api(added->record).DebugString(), ::testing::Not(HasSubstr("the hash")));
  EXPECT_TRUE(to_api(added->record).password_set());
}

TEST(UserTableTest, RulesOfTheFields) {
  UserTable table;
  const auto refusal = [&table](const v1::User& user) {
    const auto put = table.put(user, "", kUsersNow);
    return put ? std::string("none") : put.error().message;
  };
  for (const char* name : {"", "Mei", "-mei", "mei kim", "méi", "a/b"})
    EXPECT_THAT(refusal(user_named(name)), HasSubstr("is no name of a user")) << name;
  EXPECT_THAT(refusal(user_named(std::string(65, 'a'))), HasSubstr("1 to 64"));
  EXPECT_EQ(refusal(user_named(std::string(64, 'a'))), "none");
  EXPECT_THAT(refusal(user_named("mei", "admin")), HasSubstr("role: expected user, operator or viewer, got \"admin\""));
  v1::User mei = user_named("mei");
  mei.set_mail("mei");
  EXPECT_THAT(refusal(mei), HasSubstr("mail: \"mei\" is no address"));
  mei.set_mail("");
  mei.set_full_name("a\nb");
  EXPECT_THAT(refusal(mei), HasSubstr("full_name: "));
  mei.set_full_name("");
  mei.set_subject("1234");
  EXPECT_EQ(refusal(mei), "none");
  v1::User kim = user_named("kim");
  kim.set_subject("1234");
  EXPECT_THAT(refusal(kim), HasSubstr("is that of user mei"));
}

TEST(PasswordTest, AHashMatchesItsPasswordOnly) {
  const auto hash = password_hash("correct horse");
  ASSERT_TRUE(hash) << hash.error().message;
  EXPECT_TRUE(hash->starts_with("$argon2id$v=19$m=65536,t=2,p=1$")) << *hash;
  EXPECT_THAT(*hash, ::testing::Not(HasSubstr("correct horse")));
  EXPECT_TRUE(password_matches("correct horse", *hash));
  EXPECT_FALSE(password_matches("correct horsf", *hash));
  EXPECT_FALSE(password_matches("", *hash));
  EXPECT_FALSE(password_matches("correct horse", ""));
  EXPECT_FALSE(password_matches("correct horse", "no hash"));
  EXPECT_NE(*password_hash("correct horse"), *hash) << "each has its salt";
  // The costs are those of a user's hash, so that both checks take the same time.
  EXPECT_EQ(hash_of_no_password().substr(0, 31), hash->substr(0, 31));
  EXPECT_FALSE(password_matches("", hash_of_no_password()));
}

TEST(PasswordTest, RulesOfNewPasswords) {
  EXPECT_TRUE(security::check_new_password("12345678"));
  EXPECT_TRUE(security::check_new_password(std::string(1024, 'x')));
  EXPECT_THAT(security::check_new_password("1234567").error().message, HasSubstr("7 bytes; expected 8 to 1024"));
  EXPECT_FALSE(security::check_new_password(std::string(1025, 'x')));
  EXPECT_FALSE(security::check_new_password(std::string("1234\0005678", 9)));
}

TEST(BoundedWorkerTest, TooManyPiecesAreRefusedAndStopDropsThem) {
  BoundedWorker worker;
  std::promise<void> begun;
  std::promise<void> go_on;
  ASSERT_TRUE(worker.add([&] {
    begun.set_value();
    go_on.get_future().wait();
  }));
  begun.get_future().wait();
  int done = 0;
  for (size_t i = 0; i < BoundedWorker::kQueueMax; ++i) ASSERT_TRUE(worker.add([&done] { ++done; }));
  EXPECT_FALSE(worker.add([&done] { ++done; }));
  go_on.set_value();
  std::promise<void> last;
  while (!worker.add([&last] { last.set_value(); })) {
  }
  last.get_future().wait();
  EXPECT_EQ(done, static_cast<int>(BoundedWorker::kQueueMax));
  worker.stop();
  EXPECT_FALSE(worker.add([] {}));
}

class UserTokensTest : public ::testing::Test {
 protected:
  UserTokensTest() { put("mei"); }

  void put(const std::string& name, const std::string& role = "user", bool disabled = false) {
    v1::User user = user_named(name, role);
    user.set_disabled(disabled);
    const auto added = authorizer_.put_user(user, "");
    EXPECT_TRUE(added) << added.error().message;
  }
  std::string token(security::TokenRole role, const std::string& user, bool sign_in = false) {
    auto created = authorizer_.create_token({}, role, 0ms, "", {.user = user, .sign_in = sign_in});
    EXPECT_TRUE(created) << created.error().message;
    ids_.push_back(created->token.id);
    return security::token_text(created->token).reveal();
  }
  std::string bearer(const std::string& text) {
    const auto found = authorizer_.bearer(text);
    return found ? fmt::format("{} {}", to_string(found->role), found->user) : found.error().message;
  }

  SystemClock clock_;
  SystemRandom random_;
  Authorizer authorizer_{new_id<ClusterId>(random_), clock_};
  std::vector<std::string> ids_;
};

TEST_F(UserTokensTest, ATokenAllowsNoMoreThanItsUser) {
  const std::string text = token(security::TokenRole::kOperator, "mei");
  EXPECT_EQ(bearer(text), "driver mei");
  put("mei", "viewer");
  EXPECT_EQ(bearer(text), "viewer mei");
  put("mei", "operator");
  EXPECT_EQ(bearer(text), "operator mei");
  EXPECT_EQ(bearer(token(security::TokenRole::kDriver, "mei")), "driver mei") << "nor more than itself";
  EXPECT_EQ(bearer(token(security::TokenRole::kDriver, "")), "driver ");
}

TEST_F(UserTokensTest, TokensOfADisabledUserAreRefusedUntilItIsEnabled) {
  const std::string text = token(security::TokenRole::kDriver, "mei");
  put("mei", "user", true);
  EXPECT_THAT(bearer(text), HasSubstr("belongs to user mei, who is disabled"));
  EXPECT_EQ(authorizer_.account(ids_[0]).error().code, ErrorCode::kUnauthenticated);
  const auto joins = authorizer_.check_join(ids_[0], security::parse_token(text)->secret.reveal(),
                                            security::Role::kDriver, "10.0.0.7");
  EXPECT_EQ(joins.error().code, ErrorCode::kUnauthenticated);
  put("mei");
  EXPECT_EQ(bearer(text), "driver mei");
}

TEST_F(UserTokensTest, DeletingAUserRevokesItsTokensForGood) {
  const std::string text = token(security::TokenRole::kDriver, "mei");
  const std::string other = token(security::TokenRole::kDriver, "");
  const auto removed = authorizer_.remove_user("mei");
  ASSERT_TRUE(removed);
  EXPECT_THAT(removed->tokens, ElementsAre(ids_[0]));
  EXPECT_EQ(removed->journal.size(), 2u) << "the token and the user";
  put("mei");
  EXPECT_THAT(bearer(text), HasSubstr("was revoked")) << "another user of this name gets none of them";
  EXPECT_EQ(bearer(other), "driver ");
}

TEST_F(UserTokensTest, OnlySignInsEndWithANewPassword) {
  const std::string first = token(security::TokenRole::kDriver, "mei", true);
  const std::string second = token(security::TokenRole::kDriver, "mei", true);
  const std::string lasting = token(security::TokenRole::kDriver, "mei");
  EXPECT_THAT(authorizer_.end_sign_ins("mei", ids_[1]).tokens, ElementsAre(ids_[0]));
  EXPECT_THAT(bearer(first), HasSubstr("was revoked"));
  EXPECT_EQ(bearer(second), "driver mei");
  EXPECT_EQ(bearer(lasting), "driver mei");
  EXPECT_THAT(authorizer_.end_sign_ins("kim").tokens, IsEmpty());
}

TEST_F(UserTokensTest, TheOldestSignInMakesRoom) {
  const std::string oldest = token(security::TokenRole::kDriver, "mei", true);
  for (size_t i = 1; i < TokenTable::kSignInsMax; ++i) token(security::TokenRole::kDriver, "mei", true);
  EXPECT_EQ(bearer(oldest), "driver mei");
  token(security::TokenRole::kDriver, "mei", true);
  EXPECT_THAT(bearer(oldest), HasSubstr("was revoked"));
}

v1::UserGroup group_named(const std::string& name, const std::vector<std::string>& members = {}) {
  v1::UserGroup group;
  group.set_name(name);
  group.mutable_members()->Assign(members.begin(), members.end());
  return group;
}

TEST(UserGroupTableTest, MembersComeAndGo) {
  UserGroupTable table;
  ASSERT_TRUE(table.create(group_named("vision", {"mei", "kim", "mei"}), kUsersNow));
  ASSERT_TRUE(table.create(group_named("nlp"), kUsersNow));
  EXPECT_THAT(table.find("vision")->members(), ElementsAre("kim", "mei"));
  EXPECT_EQ(table.find("vision")->created_ms(), 1'700'000'000'000);
  const auto changed = table.change("vision", {"ada"}, {"kim", "nora"});
  ASSERT_TRUE(changed);
  EXPECT_THAT(changed->group.members(), ElementsAre("ada", "mei"));
  EXPECT_THAT(table.of("kim"), IsEmpty());
  EXPECT_THAT(table.of("mei"), ElementsAre("vision"));

  UserGroupTable again;
  ASSERT_EQ(changed->journal.size(), 1u);
  EXPECT_TRUE(again.load("vision", *changed->journal[0].value));
  EXPECT_FALSE(again.load("other", *changed->journal[0].value)) << "the key is not the name";
  EXPECT_THAT(again.of("ada"), ElementsAre("vision"));

  EXPECT_EQ(table.set_groups_of("mei", {"nlp", "unknown"}).size(), 2u);
  EXPECT_THAT(table.of("mei"), ElementsAre("nlp"));
  EXPECT_THAT(table.set_groups_of("mei", {"nlp"}), IsEmpty()) << "nothing has changed";
  const auto removed = table.remove("nlp");
  ASSERT_TRUE(removed);
  EXPECT_FALSE(removed->journal[0].value.has_value());
  EXPECT_THAT(table.of("mei"), IsEmpty());
  EXPECT_EQ(table.list().size(), 1u);
}

TEST(UserGroupTableTest, ErrorsNameTheGroup) {
  UserGroupTable table;
  ASSERT_TRUE(table.create(group_named("vision"), kUsersNow));
  EXPECT_THAT(table.create(group_named("vision"), kUsersNow).error().message, HasSubstr("group vision exists"));
  EXPECT_THAT(table.create(group_named("@vision"), kUsersNow).error().message,
              HasSubstr("\"@vision\" is no name of a group"));
  v1::UserGroup noted = group_named("nlp");
  noted.set_note("two\nlines");
  EXPECT_THAT(table.create(noted, kUsersNow).error().message, HasSubstr("note: 9 bytes"));
  EXPECT_EQ(table.change("visoin", {}, {}).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(table.remove("visoin").error().message,
              HasSubstr("there is no group \"visoin\"; `volador group list` shows the groups; did you mean vision?"));
}

TEST_F(UserTokensTest, GroupsHaveUsersOnlyAndADeletedUserLeavesThem) {
  EXPECT_THAT(authorizer_.create_group(group_named("vision", {"nora"})).error().message,
              HasSubstr("there is no user \"nora\""));
  ASSERT_TRUE(authorizer_.create_group(group_named("vision", {"mei"})));
  EXPECT_EQ(authorizer_.change_group("vision", {"nora"}, {}).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(authorizer_.groups_of("mei"), ElementsAre("vision"));
  EXPECT_EQ(authorizer_.remove_user("mei")->journal.size(), 2u) << "the user and the group";
  put("mei");
  EXPECT_THAT(authorizer_.groups_of("mei"), IsEmpty()) << "another user of this name";
}

SignOnOptions example_provider() {
  return {.issuer = "https://id.example.org", .client_id = "volador", .label = "Lab"};
}

TEST_F(UserTokensTest, ASignOnFindsItsUserByTheSubject) {
  const SignOnOptions options = example_provider();
  ASSERT_TRUE(authorizer_.create_group(group_named("vision")));
  auto first =
      authorizer_.sign_on({.subject = "7", .name = "ada", .mail = "ada@example.org", .groups = {{"vision"}}}, options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_TRUE(first->created);
  EXPECT_EQ(first->user.role(), "user");
  EXPECT_EQ(first->journal.size(), 2u) << "the user and the group";
  EXPECT_THAT(authorizer_.groups_of("ada"), ElementsAre("vision"));

  put("mei", "operator");
  const auto again = authorizer_.sign_on({.subject = "7", .name = "mei", .mail = "new@example.org"}, options);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->user.name(), "ada") << "a new name at the provider does not make another user";
  EXPECT_EQ(again->user.mail(), "new@example.org");
  EXPECT_THAT(authorizer_.groups_of("ada"), ElementsAre("vision")) << "without a groups claim";
  EXPECT_THAT(authorizer_.sign_on({.subject = "7", .name = "ada", .mail = "new@example.org"}, options)->journal,
              IsEmpty())
      << "nothing has changed";

  const auto taken = authorizer_.sign_on({.subject = "auth0|8", .name = "mei"}, options);
  EXPECT_EQ(taken.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(taken.error().message, HasSubstr("volador user set mei --subject='auth0|8'"));
  const auto nameless = authorizer_.sign_on({.subject = "9", .name = "Mei Lin"}, options);
  EXPECT_THAT(nameless.error().message, HasSubstr("the claim preferred_username of Lab gives no name"));
  SignOnOptions linking = options;
  linking.link_users = true;
  EXPECT_EQ(authorizer_.sign_on({.subject = "8", .name = "mei"}, linking)->user.role(), "operator");
  EXPECT_FALSE(authorizer_.sign_on({.subject = "9", .name = "mei"}, linking)) << "it is linked to another person";
}

TEST_F(UserTokensTest, ASignOnIsRefusedWithTheReason) {
  SignOnOptions options = example_provider();
  ASSERT_TRUE(authorizer_.sign_on({.subject = "7", .name = "ada"}, options));
  v1::User ada = user_named("ada");
  ada.set_subject("7");
  ada.set_disabled(true);
  ASSERT_TRUE(authorizer_.put_user(ada, ""));
  EXPECT_THAT(authorizer_.sign_on({.subject = "7", .name = "ada"}, options).error().message,
              HasSubstr("user ada is disabled; an operator changes that with `volador user set ada --enable`"));
  options.create_users = false;
  EXPECT_THAT(authorizer_.sign_on({.subject = "8", .name = "eve"}, options).error().message,
              HasSubstr("there is no user for eve of Lab; an operator adds one with `volador user add eve"));
}

}  // namespace
}  // namespace volador::head
