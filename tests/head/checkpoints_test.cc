// Checkpoints of actors: accepted from the current incarnation, passed to the next one, removed with the actor.
#include <gmock/gmock.h>

#include "head/actors/checkpoint_table.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

protocol::Checkpoint checkpoint(uint64_t epoch, uint64_t sequence, const std::string& archive) {
  protocol::Checkpoint made;
  made.set_epoch(epoch);
  made.set_sequence(sequence);
  made.set_archive(archive);
  return made;
}

TEST(CheckpointTableTest, KeepsTheNewestWhateverTheOrder) {
  CheckpointTable table{Limits{}};
  const auto actor = test_id<ActorId>(1);
  EXPECT_EQ(table.find(actor), nullptr);
  EXPECT_TRUE(*table.keep(actor, checkpoint(1, 2, "b")));
  EXPECT_FALSE(*table.keep(actor, checkpoint(1, 1, "a")));
  EXPECT_FALSE(*table.keep(actor, checkpoint(1, 2, "again")));
  EXPECT_TRUE(*table.keep(actor, checkpoint(2, 1, "c")));
  EXPECT_FALSE(*table.keep(actor, checkpoint(1, 9, "d")));
  EXPECT_EQ(table.find(actor)->archive(), "c");
  table.check_invariants();
  EXPECT_TRUE(table.drop(actor));
  EXPECT_FALSE(table.drop(actor));
  table.check_invariants();
}

TEST(CheckpointTableTest, LimitsAreNamed) {
  Limits limits;
  limits.checkpoint_bytes = 10;
  limits.checkpoints_bytes = 15;
  CheckpointTable table{limits};
  const auto large = table.keep(test_id<ActorId>(1), checkpoint(1, 1, std::string(11, 'x')));
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(large.error().message, HasSubstr("at most 10 B"));
  EXPECT_TRUE(*table.keep(test_id<ActorId>(1), checkpoint(1, 1, std::string(10, 'x'))));
  const auto full = table.keep(test_id<ActorId>(2), checkpoint(1, 1, std::string(6, 'x')));
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, ErrorCode::kUnavailable);
  // The replaced checkpoint frees its space.
  EXPECT_TRUE(*table.keep(test_id<ActorId>(1), checkpoint(1, 2, std::string(9, 'x'))));
  EXPECT_TRUE(*table.keep(test_id<ActorId>(2), checkpoint(1, 1, std::string(6, 'x'))));
  table.check_invariants();
}

class CheckpointsTest : public CoreFixture {
 protected:
  void keep(const protocol::StartHost& by, const protocol::Checkpoint& made, NodeSession node = kNode1) {
    protocol::WorkerMessage message;
    message.mutable_relay()->set_host_id(by.host_id());
    auto& request = *message.mutable_relay()->mutable_message()->mutable_checkpoint();
    request.set_request_id(raw(test_id<RequestId>(++requests)));
    *request.mutable_checkpoint() = made;
    take(core->on_node_message(now, node, message));
  }
  // The last reply to the host; no value: none.
  std::optional<protocol::Reply> answer() const {
    for (auto out = to_nodes.rbegin(); out != to_nodes.rend(); ++out) {
      if (out->message.has_relayed() && out->message.relayed().message().has_reply())
        return out->message.relayed().message().reply();
    }
    return {};
  }
  protocol::StartHost alive(int max_restarts = 5) {
    join(kNode1, 1, 2);
    hello();
    spawn(1, 1, max_restarts);
    ready(kNode1, last_start());
    return last_start();
  }
};

TEST_F(CheckpointsTest, TheNextIncarnationStartsFromTheNewest) {
  const auto first = alive();
  EXPECT_FALSE(first.has_checkpoint());
  keep(first, checkpoint(1, 1, "one"));
  keep(first, checkpoint(1, 2, "two"));
  ASSERT_TRUE(answer());
  EXPECT_EQ(answer()->error().code(), 0);
  EXPECT_THAT(core->explainer().text(now, to_string(test_id<ActorId>(1))).value(),
              HasSubstr("checkpoint 2 of epoch 1"));
  ended(kNode1, first);
  EXPECT_EQ(last_start().epoch(), 2u);
  EXPECT_EQ(last_start().checkpoint().archive(), "two");
}

TEST_F(CheckpointsTest, AnIncarnationThatHasEndedKeepsNothing) {
  const auto first = alive();
  ended(kNode1, first);
  ready(kNode1, last_start());
  clear();
  keep(first, checkpoint(1, 7, "stale"));
  EXPECT_FALSE(answer());
  keep(last_start().epoch() == 0 ? first : last_start(), checkpoint(1, 8, "of another epoch"));
  EXPECT_EQ(rows.count({std::string(kCheckpointsTable), raw(test_id<ActorId>(1))}), 0u);
}

TEST_F(CheckpointsTest, AWrongEpochIsRefused) {
  const auto first = alive();
  keep(first, checkpoint(4, 1, "forged"));
  ASSERT_TRUE(answer());
  EXPECT_NE(answer()->error().code(), 0);
}

TEST_F(CheckpointsTest, SurvivesTheHead) {
  const auto first = alive();
  keep(first, checkpoint(1, 1, "one"));
  restart_head();
  join(kNode1, 1, 2);  // Its host has ended meanwhile.
  ended(kNode1, first);
  pass(std::chrono::seconds(15), {kNode1});
  EXPECT_EQ(last_start().epoch(), 2u);
  EXPECT_EQ(last_start().checkpoint().archive(), "one");
}

TEST_F(CheckpointsTest, GoesWithItsActor) {
  const auto first = alive();
  keep(first, checkpoint(1, 1, "one"));
  EXPECT_EQ(rows.count({std::string(kCheckpointsTable), raw(test_id<ActorId>(1))}), 1u);
  send(kill_message(1));
  EXPECT_EQ(rows.count({std::string(kCheckpointsTable), raw(test_id<ActorId>(1))}), 0u);
}

TEST_F(CheckpointsTest, ADriverHasNone) {
  alive();
  protocol::ClientMessage message;
  *message.mutable_checkpoint()->mutable_checkpoint() = checkpoint(1, 1, "one");
  send(message);
  EXPECT_NE(last_reply().error().code(), 0);
}

}  // namespace
}  // namespace volador::head
