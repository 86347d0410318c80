// Long lists, which the core gives in parts.
#include "head/read_model/lists.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

class ListsTest : public CoreFixture {
 protected:
  static constexpr int kActors = 4200;

  void spawn_numbered(int number) {
    std::array<uint8_t, 16> bytes{};
    bytes[0] = static_cast<uint8_t>(number >> 8);
    bytes[1] = static_cast<uint8_t>(number);
    bytes[15] = 1;
    auto message = spawn_message(0);
    message.mutable_spawn()->mutable_spec()->set_actor_id(raw(ActorId(bytes)));
    message.mutable_spawn()->set_request_id(raw(ActorId(bytes)));
    core->on_client_message(now, kDriver1, message);
  }
  void add_trials(int from, int to) {
    protocol::ClientMessage message;
    protocol::ExperimentUpdate& update = *message.mutable_experiment();
    update.set_experiment("digits");
    update.set_state("running");
    update.set_trials_total(to);
    for (int trial = from; trial < to; ++trial) {
      protocol::TrialRow& row = *update.add_trials();
      row.set_trial_id(fmt::format("t{:04}", trial));
      row.set_status("running");
      if (trial % 2 == 0) row.add_tags("even");
    }
    core->on_client_message(now, kDriver1, message);
  }
  static v1::ListRequest request_of(int limit, const std::string& filter = "") {
    v1::ListRequest request;
    request.set_limit(limit);
    request.set_filter(filter);
    return request;
  }
};

TEST_F(ListsTest, PartsOfActorsAddUpToTheWholeList) {
  hello();
  for (int number = 1; number <= kActors; ++number) spawn_numbered(number);
  const v1::ListRequest request = request_of(10'000);
  v1::ListActorsReply reply;
  Lists::ActorsCursor cursor;
  int parts = 1;
  while (core->lists().add_actors(now, request, cursor, reply).value()) {
    EXPECT_LE(reply.actors_size(), parts * static_cast<int>(Lists::kPartRows));
    ++parts;
  }
  EXPECT_EQ(parts, 3);
  EXPECT_EQ(reply.total(), kActors);
  std::set<std::string> ids;
  for (const v1::Actor& actor : reply.actors()) ids.insert(actor.id());
  EXPECT_EQ(ids.size(), static_cast<size_t>(kActors));
}

TEST_F(ListsTest, PartsOfTheQueueKeepTheServiceOrderAndLeaveOutWhatWasPlaced) {
  hello();
  for (int number = 1; number <= kActors; ++number) spawn_numbered(number);
  const v1::ListRequest request = request_of(10'000);
  v1::ListQueueReply reply;
  Lists::QueueCursor cursor;
  ASSERT_TRUE(core->lists().add_queue(now, request, cursor, reply).value());
  EXPECT_EQ(reply.queue_size(), static_cast<int>(Lists::kPartRows));
  std::array<uint8_t, 16> last{};
  last[0] = static_cast<uint8_t>(kActors >> 8);
  last[1] = static_cast<uint8_t>(kActors);
  last[15] = 1;
  auto message = kill_message(0);
  message.mutable_kill()->set_actor_id(raw(ActorId(last)));
  send(message);
  while (core->lists().add_queue(now, request, cursor, reply).value()) {
  }
  EXPECT_EQ(reply.total(), kActors - 1);
  for (int at = 0; at < reply.queue_size(); ++at) EXPECT_EQ(reply.queue(at).position(), at + 1);
}

TEST_F(ListsTest, ActorsBeyondTheLimitAreCounted) {
  hello();
  for (int number = 1; number <= kActors; ++number) spawn_numbered(number);
  EXPECT_EQ(core->lists().actors(now, request_of(10)).total(), kActors);
  EXPECT_EQ(core->lists().actors(now, request_of(10, "pending")).total(), kActors);
  EXPECT_EQ(core->lists().actors(now, request_of(10, "pending")).actors_size(), 10);
}

TEST_F(ListsTest, PartsOfTrialsAddUpAndShowWhatWasCreatedMeanwhile) {
  hello();
  add_trials(0, 3000);
  const v1::ListRequest request = request_of(10'000, "dig");
  v1::ListTrialsReply reply;
  Lists::TrialsCursor cursor;
  ASSERT_TRUE(core->lists().add_trials(now, request, cursor, reply).value());
  add_trials(3000, 3100);
  while (core->lists().add_trials(now, request, cursor, reply).value()) {
  }
  EXPECT_EQ(reply.trials_size(), 3100);
  EXPECT_EQ(reply.total(), 3000);  // As the list began.
}

TEST_F(ListsTest, TrialsWithATagAreCountedOverAllParts) {
  hello();
  add_trials(0, 3000);
  v1::ListRequest request = request_of(5);
  request.add_tags("even");
  const auto reply = core->lists().trials(now, request);
  EXPECT_EQ(reply->trials_size(), 5);
  EXPECT_EQ(reply->total(), 1500);
}

}  // namespace
}  // namespace volador::head
