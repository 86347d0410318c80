#include "head/placement.h"

#include <gmock/gmock.h>

#include <deque>

#include "runtime/random.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

ActorId actor(uint32_t number) {
  std::array<uint8_t, 16> bytes{};
  for (size_t at = 0; at < 4; ++at) bytes[at] = static_cast<uint8_t>(number >> (24 - 8 * at));
  bytes[15] = 1;
  return ActorId(bytes);
}
NodeId node(uint32_t number) { return NodeId(actor(number).bytes()); }

class PlacementTest : public testing::Test {
 protected:
  ~PlacementTest() override { placement.check_invariants(); }

  void add_node(uint32_t number, Resources total, const Labels& labels = {}) {
    std::vector<int32_t> gpus;
    for (int index = 0; index < static_cast<int>(total.gpus); ++index) gpus.push_back(index);
    placement.set_node(node(number), "n" + std::to_string(number), labels, *ResourceSet::from(total), gpus);
    placement.set_placeable(node(number), "");
  }
  PlacementRequest request(uint32_t number, Resources asked, int32_t priority = 0) {
    return {.actor = actor(number), .resources = *ResourceSet::from(asked), .wishes = {}, .program = "p", .priority = priority, .sequence = ++sequence};
  }
  void submit(uint32_t number, Resources asked, int32_t priority = 0) { placement.submit(now, request(number, asked, priority)); }
  // The actors placed, in order; where they are is kept.
  std::vector<ActorId> schedule() {
    std::vector<ActorId> actors;
    for (const Placed& placed : placement.schedule(now)) {
      actors.push_back(placed.actor);
      where[placed.actor] = placed.node;
    }
    placement.check_invariants();
    return actors;
  }

  Placement placement{Times{}, Limits{}};
  BootTime now{1000s};
  uint64_t sequence = 0;
  std::map<ActorId, NodeId> where;
};

TEST_F(PlacementTest, ServesPriorityThenArrival) {
  submit(1, {.cpus = 1});
  submit(2, {.cpus = 1}, 5);
  submit(3, {.cpus = 2}, 5);
  submit(4, {.cpus = 1});
  add_node(1, {.cpus = 5});
  EXPECT_EQ(schedule(), (std::vector{actor(2), actor(3), actor(1), actor(4)}));
}

TEST_F(PlacementTest, PacksOntoTheFullestNode) {
  add_node(1, {.cpus = 4});
  add_node(2, {.cpus = 4});
  for (uint32_t number = 1; number <= 5; ++number) submit(number, {.cpus = 1});
  schedule();
  for (uint32_t number = 1; number <= 4; ++number) EXPECT_EQ(where[actor(number)], node(1));
  EXPECT_EQ(where[actor(5)], node(2));
}

TEST_F(PlacementTest, ARequestWithoutGpusKeepsAwayFromThem) {
  add_node(1, {.cpus = 4, .gpus = 2});
  add_node(2, {.cpus = 8});
  submit(1, {.cpus = 1});
  schedule();
  EXPECT_EQ(where[actor(1)], node(2));
}

TEST_F(PlacementTest, RepeatedRequestsAndReleasesChangeNothing) {
  add_node(1, {.cpus = 1});
  const PlacementRequest first = request(1, {.cpus = 1});
  placement.submit(now, first);
  placement.submit(now, first);
  EXPECT_EQ(placement.waiting(), 1u);
  EXPECT_EQ(schedule().size(), 1u);
  EXPECT_FALSE(placement.withdraw(actor(1)));
  placement.release(actor(1));
  placement.release(actor(1));
  EXPECT_TRUE(placement.ledger().used().empty());
}

TEST_F(PlacementTest, ASmallerRequestMayPassALargerOne) {
  add_node(1, {.cpus = 4});
  submit(1, {.cpus = 3});
  schedule();
  submit(2, {.cpus = 4});
  submit(3, {.cpus = 1});
  EXPECT_EQ(schedule(), std::vector{actor(3)});
}

TEST_F(PlacementTest, ALargerRequestThatWasPassedByForLongGetsItsNode) {
  add_node(1, {.cpus = 4});
  submit(1, {.cpus = 2});
  submit(2, {.cpus = 2});
  schedule();
  submit(100, {.cpus = 4});
  // Small ones come and go for ever: one ends, the next takes its place.
  uint32_t next = 3;
  std::deque<uint32_t> running{1, 2};
  for (int round = 0; round < 60 && !where.contains(actor(100)); ++round) {
    now += 1s;
    placement.on_tick(now);
    submit(next++, {.cpus = 2});
    if (!running.empty()) {
      placement.release(actor(running.front()));
      running.pop_front();
    }
    for (const ActorId placed : schedule()) {
      for (uint32_t number = 3; number < next; ++number) {
        if (placed == actor(number)) running.push_back(number);
      }
    }
  }
  EXPECT_TRUE(where.contains(actor(100)));
  EXPECT_EQ(placement.reserved_for(actor(100)), std::nullopt);
  EXPECT_LE(now - BootTime(1000s), 35s);
}

TEST_F(PlacementTest, AHigherPriorityMayTakeANodeThatIsSetAside) {
  add_node(1, {.cpus = 4});
  submit(1, {.cpus = 2});
  schedule();
  submit(2, {.cpus = 4});
  submit(3, {.cpus = 1});
  schedule();
  now += 31s;
  placement.on_tick(now);
  EXPECT_EQ(placement.reserved_for(actor(2)), node(1));
  EXPECT_THAT(placement.explain(actor(2)), HasSubstr("node n1 is set aside for it"));
  submit(4, {.cpus = 1});
  EXPECT_TRUE(schedule().empty());
  EXPECT_THAT(placement.explain(actor(4)), HasSubstr("node n1 is set aside for a request that waited long"));
  submit(5, {.cpus = 1}, 1);
  EXPECT_EQ(schedule(), std::vector{actor(5)});
  EXPECT_TRUE(placement.withdraw(actor(2)));
  EXPECT_TRUE(schedule().empty());  // Full now.
  placement.release(actor(5));
  EXPECT_EQ(schedule(), std::vector{actor(4)});
}

TEST_F(PlacementTest, ANodeIsNotSetAsideForEver) {
  add_node(1, {.cpus = 4});
  submit(1, {.cpus = 2});
  schedule();
  submit(2, {.cpus = 4});
  submit(3, {.cpus = 1});
  schedule();
  now += 31s;
  placement.on_tick(now);
  submit(4, {.cpus = 1});
  EXPECT_TRUE(schedule().empty());
  now += Placement::kReservedMax;
  placement.on_tick(now);
  EXPECT_EQ(schedule(), std::vector{actor(4)});
}

TEST_F(PlacementTest, LabelsAreRequired) {
  add_node(1, {.cpus = 4}, {{"zone", "b"}});
  PlacementRequest wants = request(1, {.cpus = 1});
  wants.wishes.labels = {{"zone", "a"}};
  EXPECT_THAT(placement.check_feasible(wants, "trial 3f2a").error().message,
              HasSubstr("trial 3f2a asks for a node with labels zone=a; no node has it. It could never start."));
  placement.submit(now, wants);
  EXPECT_TRUE(schedule().empty());
  EXPECT_EQ(placement.explain(actor(1)), "node labels zone=a: no node has it");
  add_node(2, {.cpus = 4}, {{"zone", "a"}, {"disk", "ssd"}});
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  EXPECT_EQ(where[actor(1)], node(2));
}

TEST_F(PlacementTest, LabelsMayBeListedOrMissing) {
  add_node(1, {.cpus = 4}, {{"zone", "a"}, {"spot", "yes"}});
  add_node(2, {.cpus = 4}, {{"zone", "b"}});
  PlacementRequest one = request(1, {.cpus = 1});
  one.wishes.labels = {{"zone", label_in({"a", "b"})}, {"spot", label_absent()}};
  placement.submit(now, one);
  PlacementRequest none = request(2, {.cpus = 1});
  none.wishes.labels = {{"zone", label_not_in({"a", "b"})}};
  placement.submit(now, none);
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  EXPECT_EQ(where[actor(1)], node(2));
  EXPECT_EQ(placement.explain(actor(2)), "node labels zone not in (a, b): no node has it");
}

TEST_F(PlacementTest, ANodeMayBeAskedForByName) {
  add_node(1, {.cpus = 2});
  add_node(2, {.cpus = 4});
  PlacementRequest there = request(1, {.cpus = 1});
  there.wishes.node = "n2";
  PlacementRequest too_much = request(2, {.cpus = 4});
  too_much.wishes.node = "n2";
  PlacementRequest nowhere = request(3, {.cpus = 1});
  nowhere.wishes.node = "n9";
  PlacementRequest never = request(4, {.cpus = 3});
  never.wishes.node = "n1";
  EXPECT_TRUE(placement.check_feasible(there, "it"));
  EXPECT_THAT(placement.check_feasible(nowhere, "it").error().message, HasSubstr("it asks for node n9; no node of this name has joined"));
  EXPECT_THAT(placement.check_feasible(never, "it").error().message, HasSubstr("asks for cpus 3; the largest node named n1 (n1) has 2"));
  for (const PlacementRequest& one : {there, too_much, nowhere}) placement.submit(now, one);
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  EXPECT_EQ(where[actor(1)], node(2)) << "not the fullest one";
  EXPECT_THAT(placement.explain(actor(2)), HasSubstr("waits for cpus 4: 1 of 4 in use on n2"));
  EXPECT_THAT(placement.explain(actor(3)), HasSubstr("no node of this name has joined: waits for it"));
  placement.release(actor(1));
  add_node(9, {.cpus = 1});
  EXPECT_EQ(schedule(), (std::vector{actor(2), actor(3)}));
  EXPECT_EQ(where[actor(3)], node(9));
}

TEST_F(PlacementTest, APreferredNodeIsTakenWhileItHasRoom) {
  add_node(1, {.cpus = 8});
  add_node(2, {.cpus = 2});
  for (uint32_t number = 1; number <= 4; ++number) {
    PlacementRequest one = request(number, {.cpus = 1});
    one.wishes = {.labels = {}, .node = "n1", .node_preferred = true, .apart = {}};
    if (number > 2) one.wishes.node = number == 3 ? "n2" : "gone";
    EXPECT_TRUE(placement.check_feasible(one, "it"));
    placement.submit(now, one);
  }
  schedule();
  EXPECT_EQ(where[actor(1)], node(1)) << "although the other one is fuller";
  EXPECT_EQ(where[actor(3)], node(2));
  PlacementRequest large = request(5, {.cpus = 2});
  large.wishes = {.labels = {}, .node = "n2", .node_preferred = true, .apart = {}};
  placement.submit(now, large);
  schedule();
  EXPECT_EQ(where[actor(5)], node(1)) << "the preferred one is full";
}

TEST_F(PlacementTest, ThoseApartShareNoNode) {
  add_node(1, {.cpus = 4});
  add_node(2, {.cpus = 4});
  for (uint32_t number = 1; number <= 3; ++number) {
    PlacementRequest one = request(number, {.cpus = 1});
    one.wishes.apart = "replicas";
    placement.submit(now, one);
  }
  EXPECT_EQ(schedule(), (std::vector{actor(1), actor(2)}));
  EXPECT_NE(where[actor(1)], where[actor(2)]);
  EXPECT_EQ(placement.explain(actor(3)), "apart replicas: each of the 2 nodes that could hold it runs one of these already");
  submit(4, {.cpus = 1});
  EXPECT_EQ(schedule(), std::vector{actor(4)}) << "others do not care";
  placement.release(actor(2));
  EXPECT_EQ(schedule(), std::vector{actor(3)});
  EXPECT_EQ(where[actor(3)], where[actor(2)]);
  // As an earlier head left them; the node's own table is made anew.
  add_node(1, {.cpus = 4});
  EXPECT_TRUE(placement.adopt(node(1), actor(1), *ResourceSet::from({.cpus = 1}), {}, "replicas"));
  PlacementRequest late = request(5, {.cpus = 1});
  late.wishes.apart = "replicas";
  placement.submit(now, late);
  EXPECT_TRUE(schedule().empty());
}

TEST_F(PlacementTest, CpusOfWhoWaitsAreOthersUntilItGoesOn) {
  add_node(1, {.cpus = 2, .gpus = 1});
  submit(1, {.cpus = 2, .gpus = 1});
  submit(2, {.cpus = 2});
  submit(3, {.cpus = 1, .gpus = 1});
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  EXPECT_TRUE(placement.lend_cpus(actor(1)));
  EXPECT_FALSE(placement.lend_cpus(actor(1)));
  EXPECT_FALSE(placement.lend_cpus(actor(99)));
  EXPECT_EQ(schedule(), std::vector{actor(2)}) << "its GPU stays its own";
  EXPECT_TRUE(placement.take_back_cpus(actor(1)));
  EXPECT_FALSE(placement.take_back_cpus(actor(1)));
  EXPECT_EQ(placement.ledger().used().get("cpus"), 4 * kUnit);
  submit(4, {});
  submit(5, {.cpus = 1});
  EXPECT_EQ(schedule(), std::vector{actor(4)}) << "nothing is left but for who asks nothing";
  EXPECT_THAT(placement.explain(actor(5)), HasSubstr("waits for cpus 1: 4 of 2 in use"));
  // One that ends while its CPUs are lent gives back the rest only.
  EXPECT_TRUE(placement.lend_cpus(actor(1)));
  placement.release(actor(1));
  EXPECT_EQ(schedule(), std::vector<ActorId>{});
  placement.release(actor(2));
  EXPECT_EQ(schedule(), (std::vector{actor(3), actor(5)}));
  // What an earlier head lent is adopted in full.
  placement.set_node(node(1), "n1", {}, *ResourceSet::from({.cpus = 2}), {});
  for (uint32_t number = 6; number <= 7; ++number) EXPECT_TRUE(placement.adopt(node(1), actor(number), *ResourceSet::from({.cpus = 2}), {}));
  EXPECT_FALSE(placement.adopt(node(1), actor(8), *ResourceSet::from({.gpus = 1}), {0}));
}

TEST_F(PlacementTest, WhatCanNeverRunIsNamedWithTheLargestNode) {
  EXPECT_TRUE(placement.check_feasible(request(1, {.gpus = 2}), "trial 3f2a"));  // No node yet: nobody knows.
  add_node(1, {.cpus = 16, .gpus = 1, .memory = int64_t{8} << 30});
  const auto message = [&](Resources asked) { return placement.check_feasible(request(9, asked), "trial 3f2a").error().message; };
  EXPECT_EQ(message({.gpus = 2}),
            "trial 3f2a asks for gpus 2; the largest node (n1) has 1. It could never start.\n"
            "  resources.gpus: ask at most 1, or join a larger node and pass --infeasible=wait.");
  EXPECT_THAT(message({.memory = int64_t{9} << 30}), HasSubstr("asks for memory 9 GiB; the largest node (n1) has 8 GiB"));
  EXPECT_THAT(message({.custom = {{"licence", 1}}}), HasSubstr("asks for licence 1; no node has any"));
  add_node(2, {.cpus = 64});
  EXPECT_THAT(message({.cpus = 32, .gpus = 1}), HasSubstr("no node has all of it together"));
  placement.exclude(node(2), "p");
  EXPECT_THAT(message({.cpus = 32}), HasSubstr("runs a program that cannot start on any node large enough"));
}

TEST_F(PlacementTest, EveryWaitingRequestSaysWhy) {
  submit(1, {.cpus = 1});
  schedule();
  EXPECT_EQ(placement.explain(actor(1)), "no node has joined yet");
  add_node(1, {.cpus = 2});
  schedule();
  submit(2, {.cpus = 2});
  submit(3, {.cpus = 2}, 1);
  schedule();
  EXPECT_EQ(placement.explain(actor(3)), "waits for cpus 2: 1 of 2 in use on the only node");
  EXPECT_EQ(placement.explain(actor(2)), "waits for cpus 2: 1 of 2 in use on the only node; behind 1 request of higher priority");
  add_node(2, {.cpus = 1});
  schedule();
  EXPECT_EQ(placement.explain(actor(3)), "waits for cpus 2: 1 of 2 in use on n1, the only node that could hold it");
  placement.set_placeable(node(1), "draining");
  EXPECT_EQ(placement.explain(actor(3)), "node n1 is draining; no other could hold it");
  add_node(3, {.cpus = 4});
  submit(4, {.cpus = 3}, 9);
  schedule();
  EXPECT_THAT(placement.explain(actor(3)), HasSubstr("waits for cpus 2: 3 of 4 in use on n3"));
  EXPECT_EQ(placement.explain(actor(1)), "");
  EXPECT_EQ(placement.explain(actor(99)), "");
}

TEST_F(PlacementTest, ANodeThatIsNotPlaceableGetsNothing) {
  add_node(1, {.cpus = 2});
  placement.set_placeable(node(1), "suspect");
  submit(1, {.cpus = 1});
  EXPECT_TRUE(schedule().empty());
  placement.set_placeable(node(1), "");
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  placement.remove_node(node(1));
  placement.remove_node(node(1));
  EXPECT_EQ(placement.ledger().node_of(actor(1)), std::nullopt);
}

TEST_F(PlacementTest, RandomRequestsNeverBreakItAndNothingThatFitsIsLeftWaiting) {
  SeededRandom random(5);
  for (uint32_t number = 1; number <= 20; ++number) {
    add_node(number, {.cpus = static_cast<double>(1 + random.below(8)), .gpus = static_cast<double>(random.below(3))},
             random.below(2) == 0 ? Labels{} : Labels{{"zone", "a"}});
  }
  std::vector<uint32_t> known;
  std::map<ActorId, PlacementRequest> requests;
  for (uint32_t number = 1; number <= 1000; ++number) {
    now += 300ms;
    placement.on_tick(now);
    const double gpus[] = {0, 0, 0, 0.25, 0.5, 1, 2};
    PlacementRequest one = request(number, {.cpus = static_cast<double>(random.below(9)) / 2, .gpus = gpus[random.below(7)]}, static_cast<int32_t>(random.below(3)));
    if (random.below(4) == 0) one.wishes.labels = {{"zone", "a"}};
    if (random.below(8) == 0) one.wishes.node = "n" + std::to_string(1 + random.below(22));
    if (random.below(2) == 0) one.wishes.node_preferred = !one.wishes.node.empty();
    if (random.below(8) == 0) one.wishes.apart = random.below(2) == 0 ? "x" : "y";
    placement.submit(now, one);
    requests[one.actor] = one;
    known.push_back(number);
    while (known.size() > 100) {
      const size_t chosen = random.below(known.size());
      placement.release(actor(known[chosen]));
      placement.withdraw(actor(known[chosen]));
      requests.erase(actor(known[chosen]));
      known.erase(known.begin() + static_cast<ptrdiff_t>(chosen));
    }
    if (!known.empty()) {
      const ActorId some = actor(known[random.below(known.size())]);
      if (random.below(2) == 0) {
        placement.lend_cpus(some);
      } else {
        placement.take_back_cpus(some);
      }
    }
    if (random.below(10) == 0) placement.set_placeable(node(1 + static_cast<uint32_t>(random.below(20))), random.below(2) == 0 ? "" : "suspect");
    schedule();
    for (const auto& [id, waiting] : requests) {
      if (!placement.waits(id)) continue;
      ASSERT_FALSE(placement.explain(id).empty());
      ASSERT_EQ(placement.explain(id).find("about to be placed"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace volador::head
