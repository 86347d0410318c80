// What a read copy of the cluster is told of placement groups.
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
    for (int at = 0; at < bundles; ++at) (*spec.add_bundles()->mutable_amounts())["cpus"] = static_cast<int64_t>(cpus * kUnit);
    send(message);
  }
  void spawn_in_group(uint8_t actor) {
    auto message = spawn_message(actor);
    message.mutable_spawn()->mutable_spec()->set_group_id(raw(changed_group()));
    message.mutable_spawn()->mutable_spec()->set_bundle(0);
    send(message);
  }
  v1::Changes taken() { return core->take_changes(now, 1000); }
};

TEST_F(ChangesTest, AGroupIsToldWhenItIsMadeUsedAndRemoved) {
  core->watch_changes();
  join(kNode1, 1, 4);
  hello();
  make_group(2, 2);
  v1::Changes changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).name(), "trainers");
  EXPECT_EQ(changes.groups(0).state(), "ready");
  EXPECT_EQ(changes.groups(0).bundles(1).node(), "n1");
  EXPECT_FALSE(core->has_changes(now));

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

TEST_F(ChangesTest, WhoComesLateIsToldOfGroupsThatAreThere) {
  join(kNode1, 1, 4);
  hello();
  make_group(1, 1);
  core->watch_changes();
  EXPECT_EQ(taken().groups_size(), 1);
}

TEST_F(ChangesTest, TheReasonOfAGroupThatWaitsIsToldAnewEverySecond) {
  core->watch_changes();
  join(kNode1, 1, 2);
  hello();
  make_group(1, 8);
  v1::Changes changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).state(), "pending");
  EXPECT_THAT(changes.groups(0).reason(), HasSubstr("8"));
  pass(1100ms, {kNode1});
  EXPECT_TRUE(core->has_changes(now));
  EXPECT_EQ(taken().groups_size(), 1);

  join(kNode2, 2, 8);
  changes = taken();
  ASSERT_EQ(changes.groups_size(), 1);
  EXPECT_EQ(changes.groups(0).state(), "ready");
  EXPECT_EQ(changes.groups(0).reason(), "");
  pass(1100ms, {kNode1, kNode2});
  EXPECT_EQ(taken().groups_size(), 0);
}

}  // namespace
}  // namespace volador::head
