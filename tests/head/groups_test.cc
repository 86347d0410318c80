// Placement groups in the head's core.
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>

#include "tests/head/core_fixture.h"

namespace volador::head {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr NodeSession kNode3{3};
constexpr ClientSession kDriver2{2};

// Distinct from actor ids.
GroupId group_id(uint8_t number) { return test_id<GroupId>(static_cast<uint8_t>(0xa0 + number)); }

class GroupsTest : public CoreFixture {
 protected:
  struct Asked {
    double cpus = 0;
    int gpus = 0;
  };
  static protocol::ClientMessage group_message(uint8_t group, protocol::GroupStrategy strategy,
                                               const std::vector<Asked>& bundles) {
    protocol::ClientMessage message;
    protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
    spec.set_group_id(raw(group_id(group)));
    message.mutable_create_group()->set_request_id(spec.group_id());
    spec.set_strategy(strategy);
    for (const Asked& bundle : bundles) {
      auto& amounts = *spec.add_bundles()->mutable_amounts();
      if (bundle.cpus > 0) amounts["cpus"] = static_cast<int64_t>(bundle.cpus * kUnit);
      if (bundle.gpus > 0) amounts["gpus"] = bundle.gpus * kUnit;
    }
    return message;
  }
  void create(uint8_t group, protocol::GroupStrategy strategy, const std::vector<Asked>& bundles,
              ClientSession session = kDriver1) {
    send(group_message(group, strategy, bundles), session);
  }
  void remove(uint8_t group) {
    protocol::ClientMessage message;
    message.mutable_remove_group()->set_request_id(raw(test_id<RequestId>(++requests)));
    message.mutable_remove_group()->set_group_id(raw(group_id(group)));
    send(message);
  }
  void find(uint8_t group, bool when_ready = false) {
    protocol::ClientMessage message;
    message.mutable_find_group()->set_request_id(raw(test_id<RequestId>(++requests)));
    message.mutable_find_group()->set_group_id(raw(group_id(group)));
    message.mutable_find_group()->set_when_ready(when_ready);
    send(message);
  }
  void spawn_in(uint8_t actor, uint8_t group, int bundle, double cpus = 1, int gpus = 0, int max_restarts = 0) {
    auto message = spawn_message(actor, cpus);
    protocol::ActorSpec& spec = *message.mutable_spawn()->mutable_spec();
    spec.set_group_id(raw(group_id(group)));
    spec.set_bundle(bundle);
    spec.set_max_restarts(max_restarts);
    if (gpus > 0) (*spec.mutable_resources()->mutable_amounts())["gpus"] = gpus * kUnit;
    send(message);
  }
  v1::Group row(uint8_t group) {
    const v1::ListGroupsReply all = core->lists().groups({});
    for (const v1::Group& each : all.groups()) {
      if (each.id() == to_string(group_id(group))) return each;
    }
    return {};
  }
  std::vector<std::string> nodes_of(uint8_t group) {
    std::vector<std::string> nodes;
    const v1::Group shown = row(group);
    for (const v1::Bundle& bundle : shown.bundles()) nodes.push_back(bundle.node());
    return nodes;
  }
  std::string explain(uint8_t group) { return *core->explainer().text(now, to_string(group_id(group))); }
  // 0: nothing is left.
  size_t group_rows() const {
    return static_cast<size_t>(
        std::count_if(rows.begin(), rows.end(), [](const auto& entry) { return entry.first.first == kGroupsTable; }));
  }
};

TEST_F(GroupsTest, AllBundlesAreHeldOrNone) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  spawn(1, 1);
  create(1, protocol::STRICT_SPREAD, {{.cpus = 2}, {.cpus = 2}});
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_PENDING);
  EXPECT_EQ(cpus_used(), kUnit) << "nothing is held for a group that has not all";
  ready(kNode1, last_start());
  send(kill_message(1));
  ended(kNode1, last_start(), protocol::DeathCause::KILLED);
  EXPECT_EQ(row(1).state(), "ready");
  EXPECT_EQ(cpus_used(), 4 * kUnit);
  EXPECT_THAT(nodes_of(1), testing::UnorderedElementsAre("n1", "n2"));
}

TEST_F(GroupsTest, EachBundleLiesOnANodeWithItsLabels) {
  join(kNode1, 1, 4, 0, {{"zone", "a"}});
  join(kNode2, 2, 4, 0, {{"zone", "b"}});
  hello();
  auto message = group_message(1, protocol::PACK, {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}});
  protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
  const auto want = [](protocol::LabelRules& rules, const std::string& zone) {
    protocol::LabelRule& rule = *rules.add_rules();
    rule.set_key("zone");
    rule.add_values(zone);
  };
  want(*spec.add_bundle_labels(), "b");
  want(*spec.add_bundle_labels(), "a");
  spec.add_bundle_labels();
  send(message);
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_READY);
  const auto nodes = nodes_of(1);
  EXPECT_EQ(nodes[0], "n2");
  EXPECT_EQ(nodes[1], "n1");
  const v1::Group shown = row(1);
  EXPECT_EQ(shown.bundles(0).labels(), "zone=b");
  EXPECT_EQ(shown.bundles(2).labels(), "");
  EXPECT_THAT(explain(1), HasSubstr("bundle 0: cpus 1 with zone=b on node n2"));
  // Its node leaves: it waits for another one of that zone, with this reason.
  restart_head();
  join(kNode1, 1, 4, 0, {{"zone", "a"}});
  hello();
  pass(12s, {kNode1});
  EXPECT_EQ(row(1).state(), "rescheduling");
  EXPECT_THAT(explain(1), HasSubstr("bundle 0 (cpus 1): node labels zone=b: no node has it"));
  EXPECT_THAT(explain(1), HasSubstr("bundle 0: cpus 1 with zone=b, has no place"));
  join(kNode3, 3, 4, 0, {{"zone", "b"}});
  EXPECT_EQ(nodes_of(1)[0], "n3");
}

TEST_F(GroupsTest, LabelsThatNoNodeHasAreRefusedAndNamed) {
  join(kNode1, 1, 4, 0, {{"zone", "a"}});
  hello();
  auto message = group_message(1, protocol::PACK, {{.cpus = 1}, {.cpus = 1}});
  protocol::GroupSpec& spec = *message.mutable_create_group()->mutable_spec();
  spec.add_bundle_labels();
  send(message);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("bundle_labels has 1 entries for 2 bundles"));
  protocol::LabelRule& rule = *spec.add_bundle_labels()->add_rules();
  send(message);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("bundle 1: "));
  rule.set_key("zone");
  rule.add_values("c");
  send(message);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kInfeasible));
  EXPECT_THAT(
      last_reply().error().message(),
      AllOf(HasSubstr("bundle 1 of"), HasSubstr("labels zone=c; no node has it"), HasSubstr("--labels=zone=c")));
  // Each bundle fits on a node, but strict packing needs a single node for both.
  join(kNode2, 2, 4, 0, {{"zone", "c"}});
  protocol::LabelRule& other = *spec.mutable_bundle_labels(0)->add_rules();
  other.set_key("zone");
  other.add_values("a");
  spec.set_strategy(protocol::STRICT_PACK);
  send(message);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("zone=a, zone=c; no node has them"));
  spec.set_strategy(protocol::PACK);
  send(message);
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_READY);
}

TEST_F(GroupsTest, CreatingTwiceIsCreatingOnce) {
  join(kNode1, 1, 4);
  hello();
  create(1, protocol::PACK, {{.cpus = 1}});
  create(1, protocol::PACK, {{.cpus = 1}});
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_READY);
  EXPECT_EQ(cpus_used(), kUnit);
  remove(1);
  EXPECT_EQ(cpus_used(), 0);
  create(1, protocol::PACK, {{.cpus = 1}});  // Late.
  EXPECT_THAT(last_reply().error().message(), HasSubstr("was removed: by program"));
  EXPECT_EQ(cpus_used(), 0);
  EXPECT_EQ(group_rows(), 0u);
}

TEST_F(GroupsTest, AnActorDrawsFromItsBundleAndGetsItsDevices) {
  join(kNode1, 1, 8, 4);
  hello();
  create(1, protocol::STRICT_PACK, {{.cpus = 1, .gpus = 1}, {.cpus = 2, .gpus = 2}});
  spawn_in(1, 1, 1, 1, 2);
  ASSERT_EQ(starts().size(), 1u);
  const v1::Bundle bundle = row(1).bundles(1);
  EXPECT_THAT(starts()[0].gpus(), testing::ElementsAreArray(bundle.gpus()));
  EXPECT_EQ(cpus_used(), 3 * kUnit) << "the group's booking is all there is";
  EXPECT_EQ(bundle.actors(), 1);
  spawn_in(2, 1, 1, 2);
  EXPECT_EQ(state(2), protocol::PENDING);
  EXPECT_THAT(info(2).reason(), AllOf(HasSubstr("waits for cpus 2 in bundle 1 of placement group"),
                                      HasSubstr("cpus 1, gpus 2 of cpus 2, gpus 2 in use by 1 actor")));
  spawn_in(3, 1, -1, 1, 1);
  EXPECT_EQ(state(3), protocol::STARTING) << "any bundle: the first one has room";
  ready(kNode1, starts()[0]);
  ended(kNode1, starts()[0]);
  EXPECT_EQ(state(2), protocol::STARTING);
  EXPECT_EQ(core->lists().actors(now, {}).actors(1).bundle(), 1);
}

TEST_F(GroupsTest, WhatCouldNeverBeIsRefusedAndSaysWhatThereIs) {
  join(kNode1, 1, 4, 1);
  join(kNode2, 2, 4);
  hello();
  create(1, protocol::STRICT_SPREAD, {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}});
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kInfeasible));
  EXPECT_THAT(last_reply().error().message(), HasSubstr("(strict_spread) asks for 3 nodes, one for each bundle; the "
                                                        "cluster has 2, and 2 of them could hold bundle 2"));
  EXPECT_EQ(Reason::from_json(last_reply().error().why())->text(), last_reply().error().message()) << "as data, too";
  create(2, protocol::STRICT_PACK, {{.cpus = 3}, {.cpus = 3}});
  EXPECT_THAT(last_reply().error().message(), HasSubstr("(strict_pack, 2 bundles on one node) asks for cpus 6; the "
                                                        "largest node (n1) has 4. It could never be placed."));
  create(3, protocol::PACK, {{.cpus = 1}, {.cpus = 1, .gpus = 2}});
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("bundle 1 of placement group a3000000 asks for gpus 2; the largest node (n1) has 1"));
  create(4, protocol::SPREAD, {{.cpus = 3}, {.cpus = 3}, {.cpus = 3}});
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("asks for cpus 9 in 3 bundles; the cluster has cpus 8, gpus 1 on 2 nodes"));
  EXPECT_EQ(core->lists().groups({}).total(), 0);

  auto patient = group_message(5, protocol::STRICT_SPREAD, {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}});
  patient.mutable_create_group()->mutable_spec()->set_wait_if_infeasible(true);
  send(patient);
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_PENDING);
  EXPECT_THAT(last_reply().group().reason(), HasSubstr("bundle 2 (cpus 1) waits for a node of its own"));
  join(kNode3, 3, 1);
  EXPECT_EQ(row(5).state(), "ready");
}

TEST_F(GroupsTest, AnActorThatItsBundleCannotHoldIsRefused) {
  join(kNode1, 1, 8);
  hello();
  create(1, protocol::PACK, {{.cpus = 1}, {.cpus = 2}});
  spawn_in(1, 1, 0, 2);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kInfeasible));
  EXPECT_THAT(last_reply().error().message(),
              AllOf(HasSubstr("actor Counter asks for cpus 2; bundle 0 of placement group a1000000 has cpus 1"),
                    HasSubstr("larger bundles")));
  spawn_in(2, 1, 2, 1);
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("asks for bundle 2 of placement group a1000000, which has bundles 0 to 1"));
  spawn_in(3, 1, -1, 3);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("no bundle of placement group a1000000 has so much"));
  spawn_in(4, 9, 0);
  EXPECT_THAT(last_reply().error().message(), HasSubstr("which the head does not know"));
  EXPECT_TRUE(starts().empty());
}

TEST_F(GroupsTest, RemovalEndsTheActorsInItAndGivesBackWhatTheyHeldWhenTheyHaveEnded) {
  join(kNode1, 1, 4);
  hello();
  auto named = group_message(1, protocol::PACK, {{.cpus = 1}, {.cpus = 2}});
  named.mutable_create_group()->mutable_spec()->set_name("trainers");
  send(named);
  spawn_in(1, 1, 0, 1, 0, -1);
  const protocol::StartHost first = last_start();
  ready(kNode1, first);
  spawn_in(2, 1, 0);  // Waits.
  clear();
  remove(1);
  ASSERT_FALSE(to_clients.empty());
  EXPECT_TRUE(to_clients.back().message.has_reply())
      << "who hears that it is removed has heard that its actors are dead";
  EXPECT_FALSE(to_clients.back().message.reply().has_actor());
  EXPECT_EQ(state(1), protocol::DEAD);
  EXPECT_EQ(state(2), protocol::DEAD);
  EXPECT_THAT(info(1).cause().message(), HasSubstr("its placement group trainers (a1000000) was removed: by program"));
  EXPECT_EQ(cpus_used(), kUnit) << "the second bundle is free, the first one while its host runs not";
  EXPECT_EQ(row(1).state(), "removed");
  EXPECT_THAT(explain(1), HasSubstr("what its actors hold is given back when they have ended"));
  spawn_in(3, 1, 0);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kNotFound));
  send(named);  // The name is free, the id is not.
  EXPECT_THAT(last_reply().error().message(), HasSubstr("was removed"));
  ended(kNode1, first, protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
  EXPECT_EQ(group_rows(), 0u);
  EXPECT_THAT(explain(1), HasSubstr("placement group trainers (a1000000) was removed: by program"));
}

TEST_F(GroupsTest, AGroupEndsWithItsDriverUnlessItIsDetached) {
  join(kNode1, 1, 4);
  hello();
  create(1, protocol::PACK, {{.cpus = 1}});
  auto detached = group_message(2, protocol::PACK, {{.cpus = 1}});
  detached.mutable_create_group()->mutable_spec()->set_detached(true);
  send(detached);
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  send(goodbye);
  EXPECT_EQ(row(1).id(), "");
  EXPECT_EQ(row(2).state(), "ready");
  EXPECT_EQ(cpus_used(), kUnit);
}

TEST_F(GroupsTest, AGroupEndsWithTheActorThatMadeIt) {
  join(kNode1, 1, 4);
  hello();
  spawn(1);
  ready(kNode1, last_start());
  protocol::WorkerMessage relay;
  relay.mutable_relay()->set_host_id(last_start().host_id());
  *relay.mutable_relay()->mutable_message() = group_message(1, protocol::PACK, {{.cpus = 2}});
  take(core->on_node_message(now, kNode1, relay));
  spawn_in(2, 1, 0);
  EXPECT_EQ(cpus_used(), 3 * kUnit);
  ended(kNode1, starts()[0]);
  EXPECT_EQ(state(2), protocol::DEAD);
  EXPECT_EQ(info(2).cause().kind(), protocol::DeathCause::DRIVER_GONE);
  EXPECT_EQ(row(1).state(), "removed");
  ended(kNode1, starts()[1], protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
}

TEST_F(GroupsTest, BundlesOfALostNodeAreHeldElsewhereAndTheirActorsFollowByTheirPolicy) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  create(1, protocol::STRICT_SPREAD, {{.cpus = 2}, {.cpus = 2}});
  spawn_in(1, 1, 0, 1, 0, 1);
  spawn_in(2, 1, 0);
  spawn_in(3, 1, 1);
  const std::string lost = row(1).bundles(0).node();
  const NodeSession kept = lost == "n1" ? kNode2 : kNode1;
  pass(5s, {kept});
  EXPECT_EQ(row(1).state(), "rescheduling");
  EXPECT_EQ(nodes_of(1)[0], "");
  EXPECT_NE(nodes_of(1)[1], "");
  EXPECT_THAT(row(1).reason(), HasSubstr("bundle 0 (cpus 2)"));
  EXPECT_EQ(state(1), protocol::PENDING) << "it never ran for sure";
  EXPECT_THAT(info(1).reason(), HasSubstr("bundle 0 of placement group a1000000 lost its node"));
  EXPECT_EQ(state(3), protocol::STARTING);
  EXPECT_EQ(cpus_used(), 2 * kUnit);
  join(kNode3, 3, 2);
  EXPECT_EQ(row(1).state(), "ready");
  EXPECT_EQ(nodes_of(1)[0], "n3");
  EXPECT_EQ(state(1), protocol::STARTING);
  EXPECT_EQ(state(2), protocol::STARTING);
}

TEST_F(GroupsTest, AHeadThatCameBackAdoptsGroupsAndWhoDrawsFromThem) {
  join(kNode1, 1, 4, 2);
  hello();
  create(1, protocol::PACK, {{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}});
  spawn_in(1, 1, 1, 1, 1);
  ready(kNode1, last_start());
  const auto start = last_start();
  const v1::Group before = row(1);
  restart_head();
  EXPECT_EQ(row(1).state(), "ready");
  hello();
  auto again = registration(1, 4, 2);
  fill_report(*again.mutable_register_()->add_hosts(), start);
  take(core->on_node_message(now, kNode1, again));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(row(1), before)) << row(1).ShortDebugString();
  EXPECT_EQ(cpus_used(), 2 * kUnit);
  spawn_in(2, 1, 1, 1, 1);
  EXPECT_EQ(state(2), protocol::PENDING);
  remove(1);
  restart_head();
  hello();
  take(core->on_node_message(now, kNode1, again));
  EXPECT_EQ(cpus_used(), kUnit) << "while the host of the dead actor is not gone";
  ended(kNode1, start, protocol::DeathCause::KILLED);
  EXPECT_EQ(cpus_used(), 0);
  EXPECT_EQ(group_rows(), 0u);
}

TEST_F(GroupsTest, AGroupOfANodeThatDoesNotComeBackIsPlacedAgain) {
  join(kNode1, 1, 2);
  hello();
  create(1, protocol::PACK, {{.cpus = 1}});
  restart_head();
  hello();
  join(kNode2, 2, 2);
  EXPECT_EQ(row(1).state(), "ready");
  pass(12s, {kNode2});
  EXPECT_EQ(nodes_of(1)[0], "n2");
  EXPECT_EQ(cpus_used(), kUnit);
}

TEST_F(GroupsTest, DrainedNodesGetNoBundlesAndLoseThoseInWhichNothingRuns) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  create(1, protocol::SPREAD, {{.cpus = 1}, {.cpus = 1}});
  spawn_in(1, 1, 0);
  const std::string busy = row(1).bundles(0).node();
  const NodeSession busy_session = busy == "n1" ? kNode1 : kNode2;
  ready(busy_session, last_start());
  const std::string other = busy == "n1" ? "n2" : "n1";
  take(*drain(busy, false));
  EXPECT_EQ(nodes_of(1), (std::vector<std::string>{busy, other})) << "what runs goes on";
  spawn_in(2, 1, 0);
  EXPECT_THAT(info(2).reason(),
              HasSubstr("bundle 0 of placement group a1000000 is on node " + busy + ", which is draining"));
  ended(busy_session, starts()[0]);
  EXPECT_EQ(nodes_of(1), (std::vector<std::string>{other, other}));
  EXPECT_EQ(state(2), protocol::STARTING);
  create(2, protocol::SPREAD, {{.cpus = 1}});
  EXPECT_EQ(row(2).state(), "pending");
}

TEST_F(GroupsTest, WhoWaitsForAGroupIsToldWhenItIsReadyOrGone) {
  join(kNode1, 1, 1);
  hello();
  spawn(1);
  create(1, protocol::PACK, {{.cpus = 1}});
  create(2, protocol::PACK, {{.cpus = 1}});
  clear();
  find(1, true);
  find(2, true);
  EXPECT_TRUE(to_clients.empty());
  remove(2);
  ASSERT_EQ(to_clients.size(), 2u);
  EXPECT_THAT(to_clients[1].message.reply().error().message() + to_clients[0].message.reply().error().message(),
              HasSubstr("was removed: by program"));
  clear();
  find(1);
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_PENDING);
  EXPECT_EQ(last_reply().group().reason(), "bundle 0 (cpus 1): waits for cpus 1: 1 of 1 in use on the only node");
  EXPECT_THAT(explain(1),
              AllOf(HasSubstr("placement group a1000000: pending, pack"), HasSubstr("bundle 0: cpus 1, has no place")));
  clear();
  send(kill_message(1));
  pass(5s);  // The node is lost and with it the actor.
  join(kNode2, 2, 1);
  EXPECT_EQ(last_reply().group().state(), protocol::GROUP_READY);
  EXPECT_EQ(last_reply().group().bundles(0).node_name(), "n2");
}

TEST_F(GroupsTest, PriorityAndArrivalDecideBetweenGroupsAndActors) {
  hello();
  spawn(1, 2);
  create(1, protocol::PACK, {{.cpus = 1}, {.cpus = 1}});
  auto urgent = group_message(2, protocol::PACK, {{.cpus = 1}, {.cpus = 1}});
  urgent.mutable_create_group()->mutable_spec()->set_priority(5);
  send(urgent);
  join(kNode1, 1, 4);
  EXPECT_EQ(row(2).state(), "ready");
  EXPECT_EQ(state(1), protocol::STARTING);
  EXPECT_EQ(row(1).state(), "pending");
}

TEST_F(GroupsTest, AGroupThatIsPassedByGetsNodesSetAside) {
  join(kNode1, 1, 2);
  join(kNode2, 2, 2);
  hello();
  for (uint8_t actor = 1; actor <= 4; ++actor) spawn(actor);
  for (const auto& out : std::vector(to_nodes)) {
    if (out.message.has_start_host()) ready(out.session, out.message.start_host());
  }
  create(1, protocol::STRICT_SPREAD, {{.cpus = 2}, {.cpus = 2}});
  for (uint8_t actor = 11; actor <= 60; ++actor) spawn(actor);  // Small ones, which could overtake forever.
  size_t ended_so_far = 0;
  for (int round = 0; round < 60 && row(1).state() != "ready"; ++round) {
    pass(1s, {kNode1, kNode2});
    std::vector<std::pair<NodeSession, protocol::StartHost>> all;
    for (const auto& out : to_nodes) {
      if (out.message.has_start_host()) all.emplace_back(out.session, out.message.start_host());
    }
    if (ended_so_far < all.size()) {
      ready(all[ended_so_far].first, all[ended_so_far].second);
      ended(all[ended_so_far].first, all[ended_so_far].second);
      ++ended_so_far;
    }
  }
  EXPECT_EQ(row(1).state(), "ready");
  EXPECT_LT(ended_so_far, 50u) << "before the small ones were all served";
}

TEST_F(GroupsTest, NamesAreUniqueAndFind) {
  join(kNode1, 1, 4);
  hello();
  auto first = group_message(1, protocol::PACK, {{.cpus = 1}});
  first.mutable_create_group()->mutable_spec()->set_name("ring");
  send(first);
  auto second = group_message(2, protocol::PACK, {{.cpus = 1}});
  second.mutable_create_group()->mutable_spec()->set_name("ring");
  send(second);
  EXPECT_THAT(last_reply().error().message(),
              HasSubstr("the name \"ring\" is held by placement group a1000000 (ready)"));
  protocol::ClientMessage by_name;
  by_name.mutable_find_group()->set_request_id(raw(test_id<RequestId>(77)));
  by_name.mutable_find_group()->set_name("ring");
  send(by_name);
  EXPECT_EQ(last_reply().group().group_id(), raw(group_id(1)));
  EXPECT_THAT(*core->explainer().text(now, "ring"), HasSubstr("placement group ring (a1000000): ready, pack"));
  hello(kDriver2, 2);
  create(1, protocol::PACK, {{.cpus = 1}}, kDriver2);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kPermissionDenied));
}

TEST_F(GroupsTest, WhatIsNoGroupIsRefused) {
  join(kNode1, 1, 4);
  hello();
  create(1, protocol::PACK, {});
  EXPECT_THAT(last_reply().error().message(), HasSubstr("expected 1 to 1000 bundles, got 0"));
  create(2, protocol::PACK, {{.cpus = 1}, {}});
  EXPECT_THAT(last_reply().error().message(), HasSubstr("bundle 1 asks for nothing"));
  create(3, static_cast<protocol::GroupStrategy>(9), {{.cpus = 1}});
  EXPECT_THAT(last_reply().error().message(), HasSubstr("there is no strategy 9"));
  remove(4);
  EXPECT_EQ(last_reply().error().code(), static_cast<int>(ErrorCode::kNotFound));
}

TEST_F(GroupsTest, AnActorThatWaitsLendsItsCpusToOthersOfItsBundleOnly) {
  join(kNode1, 1, 4);
  hello();
  create(1, protocol::PACK, {{2}});
  spawn_in(1, 1, 0, 2);
  const auto first = last_start();
  ready(kNode1, first);
  spawn_in(2, 1, 0, 2);
  spawn(3, 4);
  EXPECT_EQ(state(2), protocol::PENDING);
  const auto waits = [&](bool now_waits) {
    protocol::WorkerMessage message;
    message.mutable_relay()->set_host_id(first.host_id());
    message.mutable_relay()->mutable_message()->mutable_waits()->set_waits(now_waits);
    take(core->on_node_message(now, kNode1, message));
    core->check_invariants();
  };
  waits(true);
  waits(true);
  EXPECT_EQ(state(2), protocol::STARTING) << "the bundle has room";
  EXPECT_EQ(state(3), protocol::PENDING) << "the node has not";
  const auto second = last_start();
  waits(false);  // Temporarily overdrawn.
  spawn_in(4, 1, 0, 1);
  EXPECT_EQ(state(4), protocol::PENDING);
  ready(kNode1, second);
  ended(kNode1, second);
  core->check_invariants();
  EXPECT_EQ(state(4), protocol::PENDING) << "the first one has all of it again";
  ended(kNode1, first);
  core->check_invariants();
  EXPECT_EQ(state(4), protocol::STARTING);
}

}  // namespace
}  // namespace volador::head
