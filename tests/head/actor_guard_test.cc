// What the head shows of actors that a service beside it guards.
#include "head/kernel/actor_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using security::principal_of_token;
using security::TokenRole;
using ::testing::HasSubstr;

// Shows the actors in `shown` to the token "ada", and knows those in `known`.
class FakeGuard final : public ActorGuard {
 public:
  std::string_view token_id() const override { return "service"; }
  std::optional<bool> shows(ActorId actor, const security::Principal& by) const override {
    if (!known.contains(actor)) return std::nullopt;
    return by.token_id == "ada" && shown.contains(actor);
  }
  bool owns(DriverId driver) const override { return driver == own; }
  std::set<ActorId> known, shown;
  DriverId own;
};

class ActorGuardTest : public CoreFixture {
 protected:
  static constexpr ClientSession kService{1}, kBob{2}, kRoot{3}, kAdaProgram{4};
  static constexpr uint8_t kRank = 0xa1, kPlain = 0xb1;

  ActorGuardTest() {
    options.guard = guard;
    restart_head();
    hello_with(kService, 1, "service", TokenRole::kOperator);
    hello_with(kBob, 2, "bob", TokenRole::kDriver);
    hello_with(kRoot, 3, "root", TokenRole::kOperator);
    hello_with(kAdaProgram, 4, "ada", TokenRole::kDriver);
    join(kNode1, 1, 4);
    spawn(kRank, 1, 0, kService);
    ready(kNode1, last_start());
    spawn(kPlain, 1, 0, kBob);
    ready(kNode1, last_start());
    guard->known = guard->shown = {test_id<ActorId>(kRank)};
  }

  void hello_with(ClientSession session, uint8_t driver, const std::string& token, TokenRole role) {
    protocol::ClientMessage message;
    protocol::Hello& body = *message.mutable_hello();
    body.set_protocol_version(1);
    body.set_driver_id(raw(test_id<DriverId>(driver)));
    body.set_name("program");
    take(core->on_client_message(now, session, message, principal_of_token(token, role)));
  }
  // What the head tells a program that asks for the actor.
  protocol::ActorInfo watched(ClientSession session, uint8_t actor) {
    seen.clear();
    protocol::ClientMessage message;
    message.mutable_watch()->set_actor_id(raw(test_id<ActorId>(actor)));
    send(message, session);
    return info(actor);
  }
  protocol::ActorInfo told_of_failed_call(ClientSession session, uint8_t actor) {
    seen.clear();
    protocol::ClientMessage message;
    message.mutable_failed_call()->set_actor_id(raw(test_id<ActorId>(actor)));
    send(message, session);
    return info(actor);
  }
  static std::string id(uint8_t actor) { return to_string(test_id<ActorId>(actor)); }
  const Lookups& lookups() const { return core->lookups(); }

  const std::shared_ptr<FakeGuard> guard = std::make_shared<FakeGuard>();
  const security::Principal ada = principal_of_token("ada", TokenRole::kDriver),
                            bob = principal_of_token("bob", TokenRole::kDriver),
                            eve = principal_of_token("eve", TokenRole::kViewer),
                            root = principal_of_token("root", TokenRole::kOperator);
};

TEST_F(ActorGuardTest, AGuardedActorExistsOnlyForThoseToWhomTheGuardShowsIt) {
  const std::string unknown = lookups().find_log_source("nothing", bob).error().message;
  EXPECT_THAT(unknown, HasSubstr("no actor, trial, placement group or node has this name or id"));
  for (const security::Principal& by : {bob, eve, security::Principal()}) {
    for (const Error& error :
         {lookups().find_log_source(id(kRank), by).error(), lookups().find_running(id(kRank), by).error(),
          lookups().check_shown(id(kRank).substr(0, 8), by).error()}) {
      EXPECT_EQ(error.code, ErrorCode::kNotFound);
      EXPECT_THAT(error.message, HasSubstr(unknown.substr(unknown.find(": "))));
    }
    EXPECT_FALSE(lookups().shows_files_of("a1000000", by));
  }
  for (const security::Principal& by : {ada, root}) {
    EXPECT_TRUE(lookups().find_log_source(id(kRank), by));
    EXPECT_TRUE(lookups().find_running(id(kRank), by));
    EXPECT_TRUE(lookups().check_shown(id(kRank), by));
    EXPECT_TRUE(lookups().shows_files_of("a1000000", by));
  }
}

TEST_F(ActorGuardTest, OtherActorsAreShownToAll) {
  guard->known.insert(test_id<ActorId>(kPlain));  // The guard is not asked.
  for (const security::Principal& by : {ada, bob, eve, root}) {
    EXPECT_TRUE(lookups().find_log_source(id(kPlain), by));
    EXPECT_TRUE(lookups().find_running(id(kPlain), by));
    EXPECT_TRUE(lookups().shows_files_of("b1000000", by));
    EXPECT_TRUE(lookups().check_shown("nothing", by)) << "the operation itself says that there is none";
  }
}

TEST_F(ActorGuardTest, AGuardedActorThatTheGuardHasForgottenIsForOperators) {
  guard->known.clear();
  EXPECT_FALSE(lookups().find_log_source(id(kRank), ada));
  EXPECT_FALSE(lookups().shows_files_of("a1000000", ada));
  EXPECT_TRUE(lookups().find_log_source(id(kRank), root));
}

TEST_F(ActorGuardTest, AnActorThatTheHeadHasForgottenIsShownUnlessTheGuardHidesIt) {
  EXPECT_TRUE(lookups().shows(test_id<ActorId>(0xc1), bob)) << "of an old trial";
  guard->known.insert(test_id<ActorId>(0xc1));
  EXPECT_FALSE(lookups().shows(test_id<ActorId>(0xc1), bob));
  EXPECT_FALSE(lookups().shows_files_of("c1000000", bob)) << "whose file it is cannot be told";
  EXPECT_TRUE(lookups().shows_files_of("c1000000", root));
}

TEST_F(ActorGuardTest, OnlyProgramsOfTheServiceAndOfOperatorsGetTheAddress) {
  for (const ClientSession session : {kService, kRoot}) {
    EXPECT_EQ(watched(session, kRank).state(), protocol::ALIVE);
    EXPECT_EQ(told_of_failed_call(session, kRank).address().unix_path(), "/run/host.sock");
  }
  for (const ClientSession session : {kBob, kAdaProgram}) {
    EXPECT_EQ(watched(session, kRank).state(), protocol::DEAD);
    EXPECT_THAT(watched(session, kRank).cause().message(), HasSubstr("no such actor"));
    EXPECT_FALSE(told_of_failed_call(session, kRank).has_address());
    EXPECT_EQ(watched(session, kPlain).state(), protocol::ALIVE);
  }
  clear();
  send(kill_message(kRank), kService);
  for (const auto& out : to_clients) {
    EXPECT_TRUE(!out.message.has_actor() || out.message.actor().actor_id() != raw(test_id<ActorId>(kRank)) ||
                out.session == kService || out.session == kRoot);
  }
}

TEST_F(ActorGuardTest, ItHoldsAfterARestartOfTheHeadAndAfterTheActorsEnd) {
  send(kill_message(kRank), kService);
  restart_head();
  EXPECT_FALSE(lookups().find_log_source(id(kRank), bob));
  EXPECT_TRUE(lookups().check_shown(id(kRank), ada));
  EXPECT_FALSE(lookups().check_shown(id(kRank), bob));
}

// The head may not know the service's driver: its journal is new, or the service has not connected yet.
TEST_F(ActorGuardTest, OtherTokensDoNotConnectAsTheServicesDriver) {
  constexpr uint8_t kOwn = 0x77;
  guard->own = test_id<DriverId>(kOwn);
  for (const char* token : {"bob", "root"}) {
    hello_with(ClientSession{9}, kOwn, token, TokenRole::kOperator);
    EXPECT_THAT(to_clients.back().message.refused().message(), HasSubstr("belongs to the cluster")) << token;
  }
  hello_with(ClientSession{9}, kOwn, "service", TokenRole::kOperator);
  EXPECT_TRUE(to_clients.back().message.has_welcome());
}

}  // namespace
}  // namespace volador::head
