// Tracking of processes shared by several actors.
#include <gtest/gtest.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

class SharedHostsInTheHead : public CoreFixture {
 protected:
  SharedHostsInTheHead() {
    hello();
    join(kNode1, 1, 8);
    join(kNode2, 2, 8);
  }
  protocol::StartHost spawn_shared(uint8_t actor, double cpus = 0) {
    auto message = spawn_message(actor, cpus);
    message.mutable_spawn()->mutable_spec()->set_isolation(protocol::ISOLATION_SHARED);
    message.mutable_spawn()->mutable_spec()->set_max_restarts(1);
    send(message);
    return last_start();
  }
  NodeSession node_of(const protocol::StartHost& start) const {
    for (const auto& out : to_nodes) {
      if (out.message.has_start_host() && out.message.start_host().host_id() == start.host_id()) return out.session;
    }
    return {};
  }
  std::string name_of(const protocol::StartHost& start) const { return node_of(start) == kNode1 ? "n1" : "n2"; }
  // Reports `process` as the id of its process.
  void ready_in(const protocol::StartHost& start, const std::string& process) {
    protocol::WorkerMessage message;
    fill_report(*message.mutable_host_ready(), start);
    message.mutable_host_ready()->mutable_address()->set_host_id(process);
    take(core->on_node_message(now, node_of(start), message));
  }
  bool may_certify(const std::string& node, const protocol::StartHost& host) const {
    return core->lookups().may_certify(node, id_from_raw<HostId>(host.host_id())).has_value();
  }
};

TEST_F(SharedHostsInTheHead, AHostOutlivesTheActorWhoseIdItBears) {
  const auto first = spawn_shared(1);
  ready_in(first, first.host_id());
  auto second = spawn_shared(2);
  for (uint8_t actor = 3; node_of(second) != node_of(first); ++actor) second = spawn_shared(actor);
  ready_in(second, first.host_id());
  EXPECT_EQ(seen[second.spec().actor_id()].address().host_id(), first.host_id());
  EXPECT_EQ(seen[second.spec().actor_id()].isolation(), protocol::ISOLATION_SHARED);
  send(kill_message(1));
  ended(node_of(first), first, protocol::DeathCause::KILLED);
  EXPECT_TRUE(may_certify(name_of(first), first)) << "the process goes on under this id";
  EXPECT_FALSE(may_certify(name_of(first) == "n1" ? "n2" : "n1", first));
  send(kill_message(second.spec().actor_id()[0]));
  ended(node_of(second), second, protocol::DeathCause::KILLED);
  EXPECT_FALSE(may_certify(name_of(first), first)) << "nobody is in it any more";
}

TEST_F(SharedHostsInTheHead, LogsOfOneAreThoseOfAllThatShareItsProcess) {
  const auto first = spawn_shared(1);
  ready_in(first, first.host_id());
  auto second = spawn_shared(2);
  uint8_t last = 2;
  for (uint8_t actor = 3; node_of(second) != node_of(first); ++actor) second = spawn_shared(last = actor);
  ready_in(second, first.host_id());
  const auto source = core->lookups().find_log_source(to_string(test_id<ActorId>(last)));
  ASSERT_TRUE(source);
  EXPECT_EQ(source->writers, (std::vector<ActorId>{test_id<ActorId>(last), test_id<ActorId>(1)}));
  send(kill_message(1));
  ended(node_of(first), first, protocol::DeathCause::KILLED);
  EXPECT_EQ(core->lookups().find_log_source(to_string(test_id<ActorId>(last)))->writers.size(), 2u)
      << "what it wrote is still there";
}

TEST_F(SharedHostsInTheHead, ANodeCannotClaimTheIdOfAnotherNodesHost) {
  const auto victim = spawn_shared(1);
  ready_in(victim, victim.host_id());
  auto other = spawn_shared(2, 6);
  for (uint8_t actor = 3; node_of(other) == node_of(victim); ++actor) other = spawn_shared(actor, 6);
  ready_in(other, victim.host_id());
  EXPECT_EQ(seen[other.spec().actor_id()].address().host_id(), other.host_id());
  send(kill_message(1));
  ended(node_of(victim), victim, protocol::DeathCause::KILLED);
  EXPECT_FALSE(may_certify(name_of(other), victim));
}

TEST_F(SharedHostsInTheHead, WhatAProcessHasAsAWholeIsRefused) {
  auto message = spawn_message(1, 0);
  protocol::ActorSpec& spec = *message.mutable_spawn()->mutable_spec();
  spec.set_isolation(protocol::ISOLATION_SHARED);
  (*spec.mutable_env())["LANG"] = "C";
  send(message);
  ASSERT_FALSE(to_clients.empty());
  EXPECT_EQ(to_clients.back().message.reply().error().code(), static_cast<int32_t>(ErrorCode::kInvalidArgument));
  EXPECT_NE(to_clients.back().message.reply().error().message().find("isolation shared"), std::string::npos);
}

}  // namespace
}  // namespace volador::head
