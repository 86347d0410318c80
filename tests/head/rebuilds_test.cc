// Reconstruction of lost objects: requests go to the owner through the head.
#include <gmock/gmock.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

constexpr ClientSession kOtherDriver{2};

class RebuildsTest : public CoreFixture {
 protected:
  RebuildsTest() {
    join(kNode1, 1, 4);
    hello();
    hello(kOtherDriver, 2);
    spawn(1);
    host = last_start();
    ready(kNode1, host);
    clear();
  }
  static protocol::ClientMessage question(const protocol::ClientName& owner) {
    protocol::ClientMessage message;
    message.mutable_rebuild()->set_request_id("a request's id..");
    *message.mutable_rebuild()->mutable_owner() = owner;
    message.mutable_rebuild()->set_number(7);
    message.mutable_rebuild()->set_depth(2);
    return message;
  }
  static protocol::ClientName program(uint8_t driver) {
    protocol::ClientName name;
    name.set_driver_id(raw(test_id<DriverId>(driver)));
    return name;
  }
  void host_says(const protocol::ClientMessage& said) {
    protocol::WorkerMessage message;
    message.mutable_relay()->set_host_id(host.host_id());
    *message.mutable_relay()->mutable_message() = said;
    take(core->on_node_message(now, kNode1, message));
  }
  protocol::StartHost host;
};

TEST_F(RebuildsTest, AnActorAsksAProgramAndGetsItsAnswer) {
  host_says(question(program(2)));
  ASSERT_EQ(to_clients.size(), 1u);
  EXPECT_EQ(to_clients[0].session, kOtherDriver);
  const auto asked = to_clients[0].message.rebuild();
  EXPECT_EQ(asked.number(), 7u);
  EXPECT_EQ(asked.depth(), 2);
  EXPECT_EQ(asked.asker().host_id(), host.host_id());
  protocol::ClientMessage answer;
  answer.mutable_rebuilt()->set_request_id(asked.request_id());
  *answer.mutable_rebuilt()->mutable_asker() = asked.asker();
  answer.mutable_rebuilt()->set_reference("there");
  clear();
  send(answer, kOtherDriver);
  ASSERT_EQ(to_nodes.size(), 1u);
  EXPECT_EQ(to_nodes[0].message.relayed().host_id(), host.host_id());
  EXPECT_EQ(to_nodes[0].message.relayed().message().rebuilt().reference(), "there");
}

TEST_F(RebuildsTest, AProgramAsksAnActor) {
  protocol::ClientName actor = program(1);
  actor.set_host_id(host.host_id());
  auto said = question(actor);
  // A client must not send requests in the name of another client.
  said.mutable_rebuild()->mutable_asker()->set_driver_id(raw(test_id<DriverId>(1)));
  send(said, kOtherDriver);
  ASSERT_EQ(to_nodes.size(), 1u);
  EXPECT_EQ(to_nodes[0].message.relayed().message().rebuild().asker().driver_id(), raw(test_id<DriverId>(2)));
}

TEST_F(RebuildsTest, AnOwnerThatHasEndedIsSaidToHaveEnded) {
  protocol::ClientName actor = program(1);
  actor.set_host_id(host.host_id());
  ended(kNode1, host);
  clear();
  for (const auto& owner : {actor, program(9)}) {
    clear();
    send(question(owner), kOtherDriver);
    ASSERT_EQ(to_clients.size(), 1u);
    EXPECT_EQ(to_clients[0].session, kOtherDriver);
    EXPECT_THAT(to_clients[0].message.rebuilt().error().message(), HasSubstr("has ended"));
  }
}

}  // namespace
}  // namespace volador::head
