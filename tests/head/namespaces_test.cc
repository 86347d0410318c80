// Actor names in namespaces: ownership, lookup, and persistence in the journal.
#include <gmock/gmock.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

class NamespacesTest : public CoreFixture {
 protected:
  static protocol::ClientMessage named(uint8_t actor, const std::string& name,
                                       const std::string& actor_namespace = {}) {
    auto message = spawn_message(actor, 0);
    message.mutable_spawn()->mutable_spec()->set_name(name);
    message.mutable_spawn()->mutable_spec()->set_namespace_(actor_namespace);
    message.mutable_spawn()->mutable_spec()->set_detached(true);
    return message;
  }
  static protocol::ClientMessage find(const std::string& name, const std::string& actor_namespace = {}) {
    protocol::ClientMessage message;
    message.mutable_find()->set_name(name);
    message.mutable_find()->set_namespace_(actor_namespace);
    return message;
  }
  // Id number of the actor in the last reply.
  int found() const {
    return last_reply().actor().actor_id().empty() ? -1 : static_cast<uint8_t>(last_reply().actor().actor_id()[0]);
  }
};

TEST_F(NamespacesTest, AProgramsNamesAreThoseOfItsNamespace) {
  join(kNode1, 1, 4);
  hello(kDriver1, 1, "");
  hello(ClientSession{2}, 2, "team-a");
  send(named(1, "hits"), kDriver1);
  send(named(2, "hits"), ClientSession{2});
  EXPECT_FALSE(last_reply().has_error()) << last_reply().error().message();
  EXPECT_EQ(info(1).namespace_(), "default");
  EXPECT_EQ(info(2).namespace_(), "team-a");
  send(find("hits"), kDriver1);
  EXPECT_EQ(found(), 1);
  send(find("hits"), ClientSession{2});
  EXPECT_EQ(found(), 2);
  send(find("hits", "team-a"), kDriver1);
  EXPECT_EQ(found(), 2);
  send(find("hits", "default"), ClientSession{2});
  EXPECT_EQ(found(), 1);
  send(find("hits", "team-b"), kDriver1);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kNotFound));
  EXPECT_THAT(last_reply().error().message(), HasSubstr("no living actor is named \"hits\" in namespace \"team-b\""));
  send(named(3, "hits", "team-a"), kDriver1);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("in namespace \"team-a\""));
}

TEST_F(NamespacesTest, WhatAnActorMakesAndLooksForIsInItsOwn) {
  join(kNode1, 1, 4);
  hello(kDriver1, 1, "");
  send(named(1, "parent", "team-a"));
  const auto parent = last_start();
  EXPECT_EQ(parent.spec().namespace_(), "team-a") << "self() knows it";
  ready(kNode1, parent);
  protocol::WorkerMessage relay;
  relay.mutable_relay()->set_host_id(parent.host_id());
  *relay.mutable_relay()->mutable_message() = named(2, "child");
  take(core->on_node_message(now, kNode1, relay));
  EXPECT_EQ(last_start().spec().namespace_(), "team-a");
  *relay.mutable_relay()->mutable_message() = find("child");
  take(core->on_node_message(now, kNode1, relay));
  EXPECT_EQ(to_nodes.back().message.relayed().message().reply().actor().actor_id(), raw(test_id<ActorId>(2)));
  send(find("child"));
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kNotFound))
      << "the program's own namespace is the default one";
}

TEST_F(NamespacesTest, TheJournalKeepsThemAndOlderRowsAreOfTheDefaultOne) {
  join(kNode1, 1, 4);
  hello(kDriver1, 1, "team-a");
  send(named(1, "hits"));
  send(named(2, "old", "default"));
  // As written by a head without namespaces.
  auto& row = rows.at({std::string(kActorsTable), raw(test_id<ActorId>(2))});
  protocol::ActorRecord record;
  ASSERT_TRUE(record.ParseFromString(row));
  record.mutable_spec()->clear_namespace_();
  row = record.SerializeAsString();
  restart_head();
  hello(ClientSession{5}, 1, "team-a");
  send(find("hits"), ClientSession{5});
  EXPECT_EQ(found(), 1);
  send(find("old"), ClientSession{5});
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kNotFound));
  send(find("old", "default"), ClientSession{5});
  EXPECT_EQ(found(), 2);
  send(named(3, "old", "default"), ClientSession{5});
  EXPECT_THAT(last_reply().error().message(), HasSubstr("is held by actor"));
}

TEST_F(NamespacesTest, OneThatIsNoNameIsRefused) {
  join(kNode1, 1, 4);
  hello(kDriver1, 1, "team a");
  EXPECT_EQ(closed_clients.size(), 1u);
  EXPECT_THAT(to_clients.back().message.refused().message(),
              HasSubstr("namespace \"team a\": expected 1 to 63 letters"));
  hello(ClientSession{2}, 2, "");
  send(named(1, "hits", "a/b"), ClientSession{2});
  EXPECT_THAT(last_reply().error().message(), HasSubstr("namespace \"a/b\""));
}

TEST_F(NamespacesTest, ListsAndExplanationsNameIt) {
  join(kNode1, 1, 4);
  hello(kDriver1, 1, "team-a");
  send(named(1, "hits"));
  const auto listed = core->lists().actors(now, {});
  ASSERT_EQ(listed.actors_size(), 1);
  EXPECT_EQ(listed.actors(0).namespace_(), "team-a");
  EXPECT_THAT(*core->explainer().text(now, "team-a/hits"), HasSubstr("Counter, team-a/hits"));
  EXPECT_THAT(*core->explainer().text(now, "hits"), HasSubstr("team-a/hits"));
}

}  // namespace
}  // namespace volador::head
