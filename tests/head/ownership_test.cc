// Who may kill and remove what other tokens created.
#include "head/kernel/ownership.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using security::TokenRole;
using ::testing::HasSubstr;

class OwnershipTest : public CoreFixture {
 protected:
  static constexpr ClientSession kAda{1}, kBob{2}, kOperator{3};

  void hello_with(ClientSession session, uint8_t driver, const std::string& token,
                  TokenRole role = TokenRole::kDriver) {
    protocol::ClientMessage message;
    protocol::Hello& body = *message.mutable_hello();
    body.set_protocol_version(1);
    body.set_driver_id(raw(test_id<DriverId>(driver)));
    body.set_name("program");
    take(core->on_client_message(now, session, message, security::principal_of_token(token, role)));
  }
  int refusal() const { return last_reply().error().code(); }
  static constexpr int kDenied = static_cast<int>(ErrorCode::kPermissionDenied);

  void create_group(ClientSession session, uint8_t group) {
    protocol::ClientMessage message;
    message.mutable_create_group()->set_request_id(raw(test_id<GroupId>(group)));
    protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
    spec.set_group_id(raw(test_id<GroupId>(group)));
    (*spec.add_bundles()->mutable_amounts())["cpus"] = kUnit;
    send(message, session);
  }
  void remove_group(ClientSession session, uint8_t group) {
    protocol::ClientMessage message;
    message.mutable_remove_group()->set_request_id(raw(test_id<RequestId>(++requests)));
    message.mutable_remove_group()->set_group_id(raw(test_id<GroupId>(group)));
    send(message, session);
  }
};

TEST_F(OwnershipTest, ProgramsOfTheSameTokenKillEachOthersActors) {
  hello_with(kAda, 1, "ada");
  hello_with(kBob, 2, "ada");
  spawn(5, 1, 0, kAda);
  send(kill_message(5), kBob);
  EXPECT_EQ(refusal(), 0) << last_reply().error().message();
  EXPECT_EQ(state(5), protocol::DEAD);
}

TEST_F(OwnershipTest, ProgramsOfAnotherTokenAreRefusedAndToldTheRule) {
  hello_with(kAda, 1, "ada");
  hello_with(kBob, 2, "bob");
  spawn(5, 1, 0, kAda);
  send(kill_message(5), kBob);
  EXPECT_EQ(refusal(), kDenied);
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("belongs to token ada; a program may kill what programs of its own token bob created"));
  EXPECT_NE(state(5), protocol::DEAD);
}

TEST_F(OwnershipTest, OperatorsKillEverything) {
  hello_with(kAda, 1, "ada");
  hello_with(kOperator, 3, "root", TokenRole::kOperator);
  spawn(5, 1, 0, kAda);
  send(kill_message(5), kOperator);
  EXPECT_EQ(refusal(), 0) << last_reply().error().message();
}

TEST_F(OwnershipTest, ClientsCannotStateAnotherOwner) {
  hello_with(kAda, 1, "ada");
  hello_with(kBob, 2, "bob");
  auto message = spawn_message(5);
  message.mutable_spawn()->mutable_spec()->mutable_owner()->set_token_id("bob");
  send(message, kAda);
  send(kill_message(5), kBob);
  EXPECT_EQ(refusal(), kDenied);
}

TEST_F(OwnershipTest, OwnersSurviveARestartOfTheHead) {
  hello_with(kAda, 1, "ada");
  spawn(5, 1, 0, kAda);
  create_group(kAda, 6);
  restart_head();
  hello_with(kBob, 2, "bob");
  send(kill_message(5), kBob);
  EXPECT_EQ(refusal(), kDenied);
  remove_group(kBob, 6);
  EXPECT_EQ(refusal(), kDenied);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("placement group"));
  hello_with(kAda, 1, "ada");
  send(kill_message(5), kAda);
  EXPECT_EQ(refusal(), 0) << last_reply().error().message();
}

TEST_F(OwnershipTest, DriverOfAnotherTokenCannotTakeOverAStream) {
  hello_with(kAda, 1, "ada");
  hello_with(kBob, 1, "bob");
  EXPECT_THAT(closed_clients, ::testing::ElementsAre(kBob));
  restart_head();
  clear();
  hello_with(kBob, 1, "bob");
  EXPECT_THAT(closed_clients, ::testing::ElementsAre(kBob));
}

TEST_F(OwnershipTest, ObjectsOfJournalsWithoutOwnersMayBeChangedByEverybody) {
  hello(kAda, 1);
  spawn(5, 1, 0, kAda);
  hello_with(kBob, 2, "bob");
  send(kill_message(5), kBob);
  EXPECT_EQ(refusal(), 0) << last_reply().error().message();
}

TEST_F(OwnershipTest, ListsNameTheOwner) {
  hello_with(kAda, 1, "ada");
  spawn(5, 1, 0, kAda);
  EXPECT_EQ(core->lists().actors(now, v1::ListRequest()).actors(0).owner(), "ada");
}

}  // namespace
}  // namespace volador::head
