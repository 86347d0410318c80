// Placement group updates for read replicas of the cluster state.
#include <gmock/gmock.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::HasSubstr;

GroupId changed_group() { return test_id<GroupId>(0xb1); }

class ChangesTest : public CoreFixture {
 protected:
  void make_group(int bundles, double cpus) {
    protocol::ClientMessage message;
    protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
    spec.set_group_id(raw(changed_group()));
    spec.set_name("trainers");
    spec.set_wait_if_infeasible(true);
    message.mutable_create_group()->set_request_id(spec.group_id());
    for (int at = 0; at < bundles; ++at)
      (*spec.add_bundles()->mutable_amounts())["cpus"] = static_cast<int64_t>(cpus * kUnit);
    send(message);
  }
  void spawn_in_group(uint8_t actor) {
    auto message = spawn_message(actor);
    message.mutable_spawn()->mutable_spec()->set_group_id(raw(changed_group()));
    message.mutable_spawn()->mutable_spec()->set_bundle(0);
    send(message);
  }
  v1::Changes taken() { return core->change_feed().take(now, 1000); }
};

TEST_F(ChangesTest, AGroupIsToldWhenItIsMadeUsedAndRemoved) {
  core->change_feed().watch();
  join(kNode1, 1, 4);
  hello();
  make_group(2, 2);
  v1::Changes changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).name(), "trainers");
  EXPECT_EQ(changes.groups(0).state(), "ready");
  EXPECT_EQ(changes.groups(0).bundles(1).node(), "n1");
  EXPECT_FALSE(core->change_feed().any(now));

  spawn_in_group(1);
  changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).bundles(0).actors(), 1);
  EXPECT_EQ(changes.actors(0).group(), to_string(changed_group()));

  ended(kNode1, last_start());
  changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).bundles(0).actors(), 0);

  protocol::ClientMessage message;
  message.mutable_remove_group()->set_request_id(raw(test_id<RequestId>(++requests)));
  message.mutable_remove_group()->set_group_id(raw(changed_group()));
  send(message);
  changes = taken();
  EXPECT_EQ(changes.groups_size(), 0);
  ASSERT_EQ(changes.groups_gone_size(), 1);
  EXPECT_EQ(changes.groups_gone(0), to_string(changed_group()));
}

TEST_F(ChangesTest, AProgramIsToldWithTheNodeOfItsMachineAndSinceWhenItIsConnected) {
  core->change_feed().watch();
  auto node = registration(1, 4);
  node.mutable_register_()->set_machine_id("m1");
  take(core->on_node_message(now, kNode1, node));
  protocol::ClientMessage message;
  protocol::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(1);
  hello.set_driver_id(raw(test_id<DriverId>(1)));
  hello.set_name("program");
  hello.mutable_program()->set_sha256(std::string(32, 'p'));
  hello.set_machine_id("m1");
  take(core->on_client_message(now, kDriver1, message));
  now += 5s;
  v1::Changes changes = taken();
  ASSERT_EQ(changes.drivers_size(), 1);
  EXPECT_EQ(changes.drivers(0).node(), "n1");
  EXPECT_EQ(changes.drivers(0).connected_for_ms(), 5000);

  // Another stream of the program is not a new connection.
  take(core->on_client_message(now, ClientSession{77}, message));
  changes = taken();
  ASSERT_EQ(changes.drivers_size(), 1);
  EXPECT_EQ(changes.drivers(0).connected_for_ms(), 5000);
}

TEST_F(ChangesTest, WhoComesLateIsToldOfGroupsThatAreThere) {
  join(kNode1, 1, 4);
  hello();
  make_group(1, 1);
  core->change_feed().watch();
  EXPECT_EQ(taken().groups_size(), 1);
}

TEST_F(ChangesTest, TheReasonOfAGroupThatWaitsIsToldAnewEverySecond) {
  core->change_feed().watch();
  join(kNode1, 1, 2);
  hello();
  make_group(1, 8);
  v1::Changes changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).state(), "pending");
  EXPECT_THAT(changes.groups(0).reason(), HasSubstr("8"));
  pass(1100ms, {kNode1});
  EXPECT_TRUE(core->change_feed().any(now));
  EXPECT_EQ(taken().groups_size(), 1);

  join(kNode2, 2, 8);
  changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).state(), "ready");
  EXPECT_EQ(changes.groups(0).reason(), "");
  pass(1100ms, {kNode1, kNode2});
  EXPECT_EQ(taken().groups_size(), 0);
}

// A full node; in service order a trial with higher priority, a named actor, a placement group with two bundles and
// tasks are waiting.
class QueueTest : public ChangesTest {
 protected:
  void fill_queue() {
    core->change_feed().watch();
    join(kNode1, 1, 4);
    hello();
    spawn(1, 4);
    auto named = spawn_message(2, 2);
    named.mutable_spawn()->mutable_spec()->set_name("replay-buffer");
    send(named);
    make_group(2, 2);
    auto tasks = spawn_message(3);
    tasks.mutable_spawn()->mutable_spec()->set_class_name("volador::TaskRunner");
    tasks.mutable_spawn()->mutable_spec()->set_display("tasks");
    send(tasks);
    auto trial = spawn_message(4);
    trial.mutable_spawn()->mutable_spec()->set_priority(5);
    send(trial);
    protocol::ClientMessage message;
    protocol::ExperimentUpdate& update = *message.mutable_experiment();
    update.set_experiment("digits");
    update.set_state("running");
    protocol::TrialRow& row = *update.add_trials();
    row.set_trial_id("3f2a");
    row.set_name("lr_0.1");
    row.set_status("starting");
    row.set_actor_id(raw(test_id<ActorId>(4)));
    send(message);
  }
};

TEST_F(QueueTest, ItHasTrialsActorsGroupsAndTasksInTheOrderOfService) {
  fill_queue();
  now += 3s;
  const v1::Changes changes = taken();
  ASSERT_EQ(changes.queue_size(), 4);
  std::vector<std::string> kinds;
  for (const v1::QueueEntry& row : changes.queue()) {
    kinds.push_back(row.kind());
    EXPECT_EQ(row.position(), static_cast<int64_t>(kinds.size()));
    EXPECT_EQ(row.driver(), "program");
    EXPECT_EQ(row.waiting_ms(), 3000);
  }
  EXPECT_THAT(kinds, testing::ElementsAre("trial", "actor", "group", "task"));
  const v1::QueueEntry& trial = changes.queue(0);
  EXPECT_EQ(trial.experiment() + " " + trial.trial() + " " + trial.name(), "digits 3f2a lr_0.1");
  EXPECT_EQ(trial.priority(), 5);
  EXPECT_FALSE(trial.has_blocker());
  const v1::QueueEntry& named = changes.queue(1);
  EXPECT_EQ(named.name(), "replay-buffer");
  EXPECT_EQ(named.class_name(), "Counter");
  EXPECT_EQ(named.blocker().why(), "ahead");
  EXPECT_EQ(named.blocker().kind(), "trial");
  EXPECT_EQ(named.blocker().id(), trial.id());
  EXPECT_EQ(named.blocker().trial(), "3f2a");
  EXPECT_THAT(named.reason(), HasSubstr("behind 1 request of higher priority, trial lr_0.1 of digits (" +
                                        trial.id().substr(0, 8) + ")"));
  const v1::QueueEntry& group = changes.queue(2);
  EXPECT_EQ(group.id(), to_string(changed_group()));
  EXPECT_EQ(group.name(), "trainers");
  EXPECT_EQ(group.bundles(), 2);
  EXPECT_EQ(group.resources().at("cpus"), 4 * kUnit);
  EXPECT_EQ(core->lists().queue(now, {}).queue_size(), 4);
  v1::ListRequest request;
  request.set_filter("digits");
  EXPECT_EQ(core->lists().queue(now, request).queue(0).trial(), "3f2a");
  request.set_filter("group");
  EXPECT_EQ(core->lists().queue(now, request).total(), 1);

  ended(kNode1, last_start());
  const v1::Changes later = taken();
  EXPECT_THAT(later.queue_gone(), testing::UnorderedElementsAre(trial.id(), named.id(), changes.queue(3).id()));
  protocol::ClientMessage message;
  message.mutable_remove_group()->set_request_id(raw(test_id<RequestId>(++requests)));
  message.mutable_remove_group()->set_group_id(raw(changed_group()));
  send(message);
  EXPECT_THAT(taken().queue_gone(), testing::ElementsAre(group.id()));
}

TEST_F(QueueTest, AGroupOfATrialHasItsExperimentAndTrial) {
  fill_queue();
  auto in_group = spawn_message(9);
  in_group.mutable_spawn()->mutable_spec()->set_group_id(raw(changed_group()));
  send(in_group);
  protocol::ClientMessage message;
  message.mutable_experiment()->set_experiment("digits");
  message.mutable_experiment()->set_state("running");
  protocol::TrialRow& row = *message.mutable_experiment()->add_trials();
  row.set_trial_id("77aa");
  row.set_status("starting");
  row.set_actor_id(raw(test_id<ActorId>(9)));
  send(message);
  v1::ListRequest request;
  request.set_filter("group");
  v1::ListQueueReply queue = core->lists().queue(now, request);
  ASSERT_EQ(queue.queue_size(), 1);
  EXPECT_EQ(queue.queue(0).experiment() + " " + queue.queue(0).trial(), "digits 77aa");
  request.set_filter(to_string(test_id<ActorId>(9)));
  queue = core->lists().queue(now, request);
  ASSERT_EQ(queue.queue_size(), 1);
  EXPECT_EQ(queue.queue(0).blocker().kind() + " " + queue.queue(0).blocker().trial(), "group 77aa");
}

TEST_F(QueueTest, ItSaysForWhomANodeReservesWhat) {
  join(kNode1, 1, 4, 1);
  hello();
  auto holder = spawn_message(1, 1);
  (*holder.mutable_spawn()->mutable_spec()->mutable_resources()->mutable_amounts())["gpus"] = kUnit;
  send(holder);
  auto waiting = spawn_message(2, 4);
  (*waiting.mutable_spawn()->mutable_spec()->mutable_resources()->mutable_amounts())["gpus"] = kUnit;
  waiting.mutable_spawn()->mutable_spec()->set_name("trainer");
  send(waiting);
  spawn(3, 1);
  ready(kNode1, last_start());
  for (int step = 0; step < 62; ++step) {
    now += 500ms;
    heartbeat(kNode1);
    take(core->on_tick(now));
  }
  spawn(4, 2);
  spawn(5, 1);
  const v1::ListQueueReply queue = core->lists().queue(now, {});
  ASSERT_EQ(queue.queue_size(), 3);
  const v1::QueueEntry& trainer = queue.queue(0);
  ASSERT_EQ(trainer.reserved_size(), 1);
  EXPECT_EQ(trainer.reserved(0).node(), "n1");
  EXPECT_EQ(trainer.reserved(0).resources().at("gpus"), kUnit);
  EXPECT_THAT(trainer.reason(), HasSubstr("node n1 reserves cpus 4, gpus 1 for it"));
  const v1::QueueBlocker& blocker = queue.queue(1).blocker();
  EXPECT_EQ(blocker.why() + " " + blocker.kind() + " " + blocker.name() + " " + blocker.node(),
            "reserved actor trainer n1");
  EXPECT_EQ(blocker.id(), trainer.id());
  EXPECT_EQ(blocker.resources().at("cpus"), 2 * kUnit);
  EXPECT_THAT(queue.queue(1).reason(), HasSubstr("node n1 reserves cpus 2 for actor trainer (" +
                                                 trainer.id().substr(0, 8) + ", Counter), which comes first"));
}

}  // namespace
}  // namespace volador::head
