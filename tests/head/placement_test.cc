#include "head/scheduling/placement.h"

#include <gmock/gmock.h>

#include <deque>
#include <new>

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
    return {.actor = actor(number),
            .resources = *ResourceSet::from(asked),
            .wishes = {},
            .program = "p",
            .priority = priority,
            .sequence = ++sequence};
  }
  void submit(uint32_t number, Resources asked, int32_t priority = 0) {
    placement.submit(now, request(number, asked, priority));
  }
  // Returns the placed actors in order; records their locations.
  std::vector<ActorId> schedule() {
    std::vector<ActorId> actors;
    for (const Placed& placed : placement.schedule(now)) {
      actors.push_back(placed.actor);
      where[placed.actor] = placed.node;
    }
    placement.check_invariants();
    return actors;
  }

  std::string explain(HolderId holder) const {
    return placement
        .explain(holder, [](HolderId other) { return Reason::said("actor " + to_string(other).substr(4, 4)); })
        .text();
  }
  std::optional<NodeId> reserved_for(HolderId holder) const {
    const auto reserved = placement.reserved_for(holder);
    return reserved.empty() ? std::nullopt : std::optional(reserved.front().node);
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
  // Small requests come and go forever: whenever one ends, the next takes its place.
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
  EXPECT_EQ(reserved_for(actor(100)), std::nullopt);
  EXPECT_LE(now - BootTime(1000s), 35s);
}

TEST_F(PlacementTest, AHigherPriorityMayTakeWhatIsReserved) {
  add_node(1, {.cpus = 4});
  submit(1, {.cpus = 2});
  schedule();
  submit(2, {.cpus = 4});
  submit(3, {.cpus = 1});
  schedule();
  now += 31s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(2)), node(1));
  EXPECT_THAT(explain(actor(2)), HasSubstr("node n1 reserves cpus 4 for it"));
  submit(4, {.cpus = 1});
  EXPECT_TRUE(schedule().empty());
  EXPECT_THAT(explain(actor(4)), HasSubstr("node n1 reserves cpus 1 for actor 0002, which comes first"));
  submit(5, {.cpus = 1}, 1);
  EXPECT_EQ(schedule(), std::vector{actor(5)});
  EXPECT_TRUE(placement.withdraw(actor(2)));
  EXPECT_TRUE(schedule().empty());  // Full now.
  placement.release(actor(5));
  EXPECT_EQ(schedule(), std::vector{actor(4)});
}

TEST_F(PlacementTest, NothingIsReservedForEver) {
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
  EXPECT_EQ(explain(actor(1)), "node labels zone=a: no node has it");
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
  EXPECT_EQ(explain(actor(2)), "node labels zone not in (a, b): no node has it");
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
  EXPECT_THAT(placement.check_feasible(nowhere, "it").error().message,
              HasSubstr("it asks for node n9; the cluster has no node of this name"));
  EXPECT_THAT(placement.check_feasible(never, "it").error().message,
              HasSubstr("asks for cpus 3; the largest node named n1 (n1) has 2"));
  for (const PlacementRequest& one : {there, too_much, nowhere}) placement.submit(now, one);
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  EXPECT_EQ(where[actor(1)], node(2)) << "not the fullest one";
  EXPECT_THAT(explain(actor(2)), HasSubstr("waits for cpus 4: 1 of 4 in use on n2"));
  EXPECT_THAT(explain(actor(3)), HasSubstr("the cluster has no node of this name: waits for it"));
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
  EXPECT_EQ(explain(actor(3)), "apart replicas: each of the 2 nodes that could hold it runs one of these already");
  submit(4, {.cpus = 1});
  EXPECT_EQ(schedule(), std::vector{actor(4)}) << "others do not care";
  placement.release(actor(2));
  EXPECT_EQ(schedule(), std::vector{actor(3)});
  EXPECT_EQ(where[actor(3)], where[actor(2)]);
  // As left by an earlier head; the node's own table is rebuilt.
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
  EXPECT_THAT(explain(actor(5)), HasSubstr("waits for cpus 1: 4 of 2 in use"));
  // An actor that ends while its CPUs are lent returns only the rest.
  EXPECT_TRUE(placement.lend_cpus(actor(1)));
  placement.release(actor(1));
  EXPECT_EQ(schedule(), std::vector<ActorId>{});
  placement.release(actor(2));
  EXPECT_EQ(schedule(), (std::vector{actor(3), actor(5)}));
  // CPUs lent by an earlier head are adopted in full.
  placement.set_node(node(1), "n1", {}, *ResourceSet::from({.cpus = 2}), {});
  for (uint32_t number = 6; number <= 7; ++number)
    EXPECT_TRUE(placement.adopt(node(1), actor(number), *ResourceSet::from({.cpus = 2}), {}));
  EXPECT_FALSE(placement.adopt(node(1), actor(8), *ResourceSet::from({.gpus = 1}), {0}));
}

TEST_F(PlacementTest, WhatCanNeverRunIsNamedWithTheLargestNode) {
  EXPECT_TRUE(placement.check_feasible(request(1, {.gpus = 2}), "trial 3f2a"));  // No node yet: unknown.
  add_node(1, {.cpus = 16, .gpus = 1, .memory = int64_t{8} << 30});
  const auto message = [&](Resources asked) {
    return placement.check_feasible(request(9, asked), "trial 3f2a").error().message;
  };
  EXPECT_EQ(message({.gpus = 2}),
            "trial 3f2a asks for gpus 2; the largest node (n1) has 1. It could never start.\n"
            "  resources.gpus: ask at most 1, or join a larger node and set wait_if_infeasible.");
  EXPECT_THAT(message({.memory = int64_t{9} << 30}),
              HasSubstr("asks for memory 9 GiB; the largest node (n1) has 8 GiB"));
  EXPECT_THAT(message({.custom = {{"licence", 1}}}), HasSubstr("asks for licence 1; no node has any"));
  add_node(2, {.cpus = 64});
  EXPECT_THAT(message({.cpus = 32, .gpus = 1}), HasSubstr("no node has all of it together"));
  placement.exclude(node(2), "p");
  EXPECT_THAT(message({.cpus = 32}), HasSubstr("runs a program that cannot start on any node large enough"));
}

TEST_F(PlacementTest, EveryWaitingRequestSaysWhy) {
  submit(1, {.cpus = 1});
  schedule();
  EXPECT_EQ(explain(actor(1)), "no node has joined yet");
  add_node(1, {.cpus = 2});
  schedule();
  submit(2, {.cpus = 2});
  submit(3, {.cpus = 2}, 1);
  schedule();
  EXPECT_EQ(explain(actor(3)), "waits for cpus 2: 1 of 2 in use on the only node");
  EXPECT_EQ(explain(actor(2)),
            "waits for cpus 2: 1 of 2 in use on the only node; behind 1 request of higher priority, actor 0003");
  add_node(2, {.cpus = 1});
  schedule();
  EXPECT_EQ(explain(actor(3)), "waits for cpus 2: 1 of 2 in use on n1, the only node that could hold it");
  placement.set_placeable(node(1), "draining");
  EXPECT_EQ(explain(actor(3)), "node n1 is draining; no other could hold it");
  add_node(3, {.cpus = 4});
  submit(4, {.cpus = 3}, 9);
  schedule();
  EXPECT_THAT(explain(actor(3)), HasSubstr("waits for cpus 2: 3 of 4 in use on n3"));
  EXPECT_EQ(explain(actor(1)), "");
  EXPECT_EQ(explain(actor(99)), "");
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
    PlacementRequest one =
        request(number, {.cpus = static_cast<double>(random.below(9)) / 2, .gpus = gpus[random.below(7)]},
                static_cast<int32_t>(random.below(3)));
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
    if (random.below(10) == 0)
      placement.set_placeable(node(1 + static_cast<uint32_t>(random.below(20))), random.below(2) == 0 ? "" : "suspect");
    schedule();
    for (const auto& [id, waiting] : requests) {
      if (!placement.waits(id)) continue;
      ASSERT_FALSE(explain(id).empty());
      ASSERT_EQ(explain(id).find("about to be placed"), std::string::npos);
    }
  }
}

// ---- reservations ----

// A node with 8 CPUs and 2 GPUs; actor 1 holds both GPUs and a CPU, and actor 2 has waited long for a CPU and a GPU.
class ReservationTest : public PlacementTest {
 protected:
  void wait_for_gpu(Resources holder = {.cpus = 1, .gpus = 2}, Resources waiting = {.cpus = 1, .gpus = 1}) {
    add_node(1, {.cpus = 8, .gpus = 2});
    submit(1, holder);
    EXPECT_EQ(schedule(), std::vector{actor(1)});
    submit(2, waiting);
    submit(3, {.cpus = 1});
    EXPECT_EQ(schedule(), std::vector{actor(3)});
    placement.release(actor(3));
    now += 31s;
    placement.on_tick(now);
    ASSERT_EQ(reserved_for(actor(2)), node(1));
  }
};

TEST_F(ReservationTest, ARequestForAGpuLeavesTheCpusToOthers) {
  wait_for_gpu();
  for (uint32_t number = 10; number < 18; ++number) submit(number, {.cpus = 1});
  EXPECT_EQ(schedule().size(), 7u) << "actor 1 gives back the CPU that actor 2 needs beside its GPU";
  submit(20, {.gpus = 1});
  EXPECT_TRUE(schedule().empty());
  EXPECT_THAT(explain(actor(17)), HasSubstr("waits for cpus 1: 8 of 8 in use on the only node"));
  EXPECT_THAT(explain(actor(2)), HasSubstr("node n1 reserves cpus 1, gpus 1 for it"));
  placement.release(actor(1));
  EXPECT_EQ(schedule(), (std::vector{actor(2), actor(20)})) << "with the CPU and one of the GPUs of actor 1";
  placement.release(actor(10));
  EXPECT_EQ(schedule(), std::vector{actor(17)});
}

TEST_F(ReservationTest, AWaitingRequestKeepsTheCpusThatItsGpuDoesNotBring) {
  wait_for_gpu({.gpus = 2}, {.cpus = 3, .gpus = 1});
  for (uint32_t number = 10; number < 18; ++number) submit(number, {.cpus = 1});
  EXPECT_EQ(schedule().size(), 5u);
  const std::string reason = explain(actor(15));
  EXPECT_THAT(reason, HasSubstr("node n1 reserves cpus 3 for actor 0002, which comes first"));
  const auto blocker = placement.blocker(actor(15));
  ASSERT_TRUE(blocker);
  EXPECT_EQ(blocker->why, Blocker::Why::kReservation);
  EXPECT_EQ(blocker->holder, HolderId(actor(2)));
  EXPECT_EQ(blocker->node, node(1));
  EXPECT_EQ(blocker->resources, *ResourceSet::from({.cpus = 3}));
  placement.release(actor(1));
  EXPECT_EQ(schedule(), std::vector{actor(2)});
}

TEST_F(ReservationTest, SmallerRequestsForTheSameResourceDoNotPass) {
  wait_for_gpu({.cpus = 1, .gpus = 1}, {.gpus = 2});
  submit(10, {.gpus = 0.5});
  EXPECT_TRUE(schedule().empty());
  EXPECT_THAT(explain(actor(10)), HasSubstr("node n1 reserves gpus 1 for actor 0002"));
  placement.release(actor(1));
  EXPECT_EQ(schedule(), std::vector{actor(2)});
}

TEST_F(ReservationTest, APartOfAGpuIsTakenFromADeviceThatIsNotKept) {
  add_node(1, {.gpus = 2});
  submit(1, {.gpus = 0.75});
  schedule();
  submit(2, {.gpus = 0.75});
  schedule();
  submit(3, {.gpus = 1});
  submit(4, {.gpus = 0.25});
  EXPECT_EQ(schedule(), std::vector{actor(4)});
  placement.release(actor(4));
  now += 31s;
  placement.on_tick(now);
  ASSERT_EQ(reserved_for(actor(3)), node(1));
  for (uint32_t number = 5; number < 9; ++number) submit(number, {.gpus = 0.25});
  EXPECT_EQ(schedule(), std::vector{actor(5)});
  placement.release(actor(1));
  EXPECT_EQ(schedule(), std::vector{actor(3)}) << "the device of actor 1 was kept: nobody else is on it";
}

TEST_F(ReservationTest, CpusThatAWaitingTaskLendsGoToItsOwnTasks) {
  add_node(1, {.cpus = 2, .gpus = 1});
  submit(1, {.gpus = 1});
  submit(2, {.cpus = 2});
  schedule();
  submit(3, {.cpus = 2, .gpus = 1});
  EXPECT_TRUE(placement.lend_cpus(actor(2)));
  submit(4, {.cpus = 1});
  EXPECT_EQ(schedule(), std::vector{actor(4)});
  placement.release(actor(4));
  now += 31s;
  placement.on_tick(now);
  ASSERT_EQ(reserved_for(actor(3)), node(1));
  submit(5, {.cpus = 2});
  EXPECT_EQ(schedule(), std::vector{actor(5)}) << "actor 2 would wait for ever";
}

TEST_F(ReservationTest, SeveralRequestsReserveOnOneNode) {
  wait_for_gpu();
  submit(4, {.cpus = 8});
  submit(5, {.cpus = 2});
  EXPECT_EQ(schedule(), std::vector{actor(5)});
  now += 31s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(2)), node(1));
  EXPECT_EQ(reserved_for(actor(4)), node(1));
  submit(6, {.cpus = 1});
  EXPECT_TRUE(schedule().empty()) << "all CPUs that become free are for actor 4";
  EXPECT_THAT(explain(actor(6)), HasSubstr("reserves cpus 5 for actor 0004"));
  placement.release(actor(1));
  EXPECT_EQ(schedule(), std::vector{actor(2)}) << "before actor 4";
  placement.release(actor(5));
  EXPECT_TRUE(schedule().empty());
  placement.release(actor(2));
  EXPECT_EQ(schedule(), std::vector{actor(4)});
  EXPECT_EQ(schedule(), std::vector<ActorId>{});
}

TEST_F(ReservationTest, TheFirstRequestsOfTheOrderHaveTheReservations) {
  placement.~Placement();
  new (&placement) Placement(Times{}, Limits{.reservations = 1});
  wait_for_gpu();
  submit(4, {.cpus = 8}, 1);
  submit(5, {.cpus = 1}, 1);
  EXPECT_EQ(schedule(), std::vector{actor(5)});
  now += 31s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(4)), node(1)) << "its priority is higher";
  EXPECT_EQ(reserved_for(actor(2)), std::nullopt);
}

TEST_F(ReservationTest, AReservationInVainIsFollowedByOneOnAnotherNode) {
  add_node(1, {.cpus = 4});
  add_node(2, {.cpus = 4});
  for (uint32_t number = 1; number <= 2; ++number) submit(number, {.cpus = 3});
  schedule();
  submit(3, {.cpus = 4});
  submit(4, {.cpus = 1});
  schedule();
  now += 31s;
  placement.on_tick(now);
  const auto first = reserved_for(actor(3));
  ASSERT_TRUE(first);
  now += Placement::kReservedMax;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(3)), std::nullopt);
  now += 31s;
  submit(5, {.cpus = 1});
  EXPECT_EQ(schedule().size(), 1u);
  placement.on_tick(now);
  const auto second = reserved_for(actor(3));
  ASSERT_TRUE(second);
  EXPECT_NE(first, second);
  now += 2 * Placement::kReservedMax - 1s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(3)), second) << "it waits twice as long";
  now += 2s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(3)), std::nullopt);
  now += 2 * Placement::kReservedMax - 1s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(3)), std::nullopt) << "both nodes were tried: others have as much time";
  now += 2s;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(3)), first);
}

TEST_F(ReservationTest, AReservationLastsWhileWhatItLacksBecomesFree) {
  add_node(1, {.cpus = 4});
  for (uint32_t number = 1; number <= 4; ++number) submit(number, {.cpus = 1});
  schedule();
  submit(5, {.cpus = 4});
  submit(6, {});
  schedule();
  now += 31s;
  placement.on_tick(now);
  for (uint32_t number = 1; number <= 3; ++number) {
    now += Placement::kReservedMax - 1s;
    placement.release(actor(number));
    placement.on_tick(now);
    ASSERT_EQ(reserved_for(actor(5)), node(1)) << number;
  }
  now += Placement::kReservedMax;
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(5)), std::nullopt);
}

TEST_F(ReservationTest, AReservationLeavesANodeThatTakesNothing) {
  add_node(1, {.cpus = 4});
  add_node(2, {.cpus = 4});
  for (uint32_t number = 1; number <= 2; ++number) submit(number, {.cpus = 3});
  schedule();
  submit(3, {.cpus = 4});
  submit(4, {.cpus = 1});
  schedule();
  now += 31s;
  placement.on_tick(now);
  const auto first = reserved_for(actor(3));
  ASSERT_TRUE(first);
  placement.set_placeable(*first, "draining");
  placement.on_tick(now);
  const auto second = reserved_for(actor(3));
  ASSERT_TRUE(second);
  EXPECT_NE(first, second);
  placement.remove_node(*second);
  placement.check_invariants();
  EXPECT_EQ(reserved_for(actor(3)), std::nullopt);
  placement.set_placeable(*first, "");
  placement.on_tick(now);
  EXPECT_EQ(reserved_for(actor(3)), first);
}

// Many requests and nodes that come and go.
class RandomQueueTest : public PlacementTest {
 protected:
  struct Waiting {
    PlacementRequest request;
    std::chrono::seconds runs{};
    BootTime since{};
  };
  void add_random_node(SeededRandom& random) {
    const double gpus = static_cast<double>(random.below(3));
    add_node(next_node++, {.cpus = static_cast<double>(4 + random.below(5)),
                           .gpus = gpus,
                           .custom = {{"licence", static_cast<double>(random.below(3))}}});
  }
  void arrive(const PlacementRequest& one, std::chrono::seconds runs) {
    placement.submit(now, one);
    waiting[one.actor] = {one, runs, now};
  }
  // Starts what can start, ends what is due, and returns the longest wait of a large request.
  void turn() {
    now += 1s;
    for (auto one = ends.begin(); one != ends.end() && one->first <= now;) {
      placement.release(one->second);
      one = ends.erase(one);
    }
    placement.on_tick(now);
    for (const ActorId started : schedule()) {
      const Waiting& one = waiting.at(started);
      longest = std::max(longest, now - one.since);
      ends.emplace(now + one.runs, started);
      waiting.erase(started);
    }
    while (placement.take_placed_groups().size() > 0) {
    }
  }
  // No request may wait if a node has its resources in addition to everything reserved there for earlier requests.
  void expect_no_idle_resources() {
    std::map<NodeId, std::vector<std::pair<RequestOrder, ResourceSet>>> reserved;
    for (const auto& [id, one] : waiting) {
      for (const auto& reservation : placement.reserved_for(id)) {
        reserved[reservation.node].emplace_back(RequestOrder{one.request.priority, one.request.sequence, id},
                                                reservation.resources);
      }
    }
    for (const auto& [id, one] : waiting) {
      const RequestOrder order{one.request.priority, one.request.sequence, id};
      for (const auto& [node_id, entry] : placement.ledger().nodes()) {
        if (!placement.why_not(node_id).empty() || !entry.fits(one.request.resources)) continue;
        ResourceSet before;
        for (const auto& [other, resources] : reserved[node_id]) {
          if (other < order) before += resources;
        }
        const auto leaves_enough = [&](const auto& asked) {
          if (asked.first == "gpus") return before.get("gpus") == 0;
          return entry.free.get(asked.first) - (asked.first == "cpus" ? entry.lent_cpus : 0) - asked.second >=
                 before.get(asked.first);
        };
        const auto& asked = one.request.resources.entries();
        EXPECT_FALSE(std::all_of(asked.begin(), asked.end(), leaves_enough))
            << to_string(one.request.resources) << " waits beside " << to_string(entry.free) << ", "
            << to_string(before) << " reserved: " << explain(id);
      }
    }
  }

  std::map<ActorId, Waiting> waiting;
  std::multimap<BootTime, ActorId> ends;
  std::chrono::nanoseconds longest{};
  uint32_t next_node = 1;
  uint32_t next_actor = 1000;
};

TEST_F(RandomQueueTest, NobodyWaitsForWhatNoEarlierRequestCanUse) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    for (int number = 0; number < 6; ++number) add_random_node(random);
    for (int step = 0; step < 500 && !HasFailure(); ++step) {
      const double gpus[] = {0, 0, 0, 0.25, 0.5, 1, 2};
      for (uint64_t count = random.below(4); count > 0; --count) {
        PlacementRequest one = request(next_actor++,
                                       {.cpus = static_cast<double>(random.below(13)) / 2,
                                        .gpus = gpus[random.below(7)],
                                        .custom = {{"licence", random.below(5) == 0 ? 1.0 : 0.0}}},
                                       static_cast<int32_t>(random.below(3)));
        arrive(one, std::chrono::seconds(1 + random.below(random.below(10) == 0 ? 2000 : 60)));
      }
      if (random.below(40) == 0) add_random_node(random);
      if (random.below(20) == 0)
        placement.set_placeable(node(1 + static_cast<uint32_t>(random.below(next_node - 1))),
                                random.below(3) == 0 ? "suspect" : "");
      if (!ends.empty() && random.below(3) == 0) {
        const ActorId some = std::next(ends.begin(), static_cast<std::ptrdiff_t>(random.below(ends.size())))->second;
        random.below(2) == 0 ? placement.lend_cpus(some) : placement.take_back_cpus(some);
      }
      now += std::chrono::seconds(random.below(10));
      turn();
      expect_no_idle_resources();
    }
  }
}

// Small requests keep arriving faster than they end; every larger one must start nevertheless.
TEST_F(RandomQueueTest, NoRequestStarvesWhileWhatRunsEnds) {
  for (uint64_t seed = 11; seed <= 14; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SeededRandom random(seed);
    for (int number = 0; number < 4; ++number) add_node(next_node++, {.cpus = 8, .gpus = 2});
    std::vector<ActorId> large;
    longest = {};
    for (int step = 0; step < 6000; ++step) {
      while (waiting.size() < 60) {
        const Resources asked = random.below(2) == 0 ? Resources{.cpus = 1} : Resources{.cpus = 0.5, .gpus = 0.5};
        arrive(request(next_actor++, asked), std::chrono::seconds(5 + random.below(55)));
      }
      if (step < 2400 && step % 120 == 0) {
        const Resources asks[] = {{.cpus = 8}, {.gpus = 2}, {.cpus = 4, .gpus = 1}, {.cpus = 8, .gpus = 2}};
        large.push_back(actor(next_actor++));
        arrive(request(next_actor - 1, asks[random.below(4)]), 60s);
      }
      turn();
    }
    for (const ActorId one : large) EXPECT_FALSE(placement.waits(one)) << explain(one);
    EXPECT_LE(longest, 30min);
  }
}

TEST_F(ReservationTest, AGroupReservesForEachOfItsBundles) {
  GroupRequest group;
  group.holder = actor(500);
  group.strategy = Strategy::kStrictSpread;
  group.sequence = 2;
  for (uint32_t number = 0; number < 3; ++number)
    group.bundles.push_back(
        {.holder = actor(501 + number), .resources = *ResourceSet::from({.cpus = 4}), .index = number});
  for (uint32_t number = 1; number <= 3; ++number) add_node(number, {.cpus = 4, .gpus = 1});
  uint32_t next = 1;
  sequence = 10;
  std::deque<uint32_t> running;
  const auto fill = [&] {
    for (int count = 0; count < 4; ++count) submit(next++, {.cpus = 1});
    for (const ActorId started : schedule()) {
      for (uint32_t number = 1; number < next; ++number) {
        if (started == actor(number)) running.push_back(number);
      }
    }
  };
  for (int count = 0; count < 3; ++count) fill();
  ASSERT_EQ(running.size(), 12u);
  placement.submit(now, group);
  bool placed = false;
  for (int step = 0; step < 120 && !placed; ++step) {
    now += 1s;
    placement.on_tick(now);
    if (!running.empty()) {
      placement.release(actor(running.front()));
      running.pop_front();
    }
    fill();
    placed = !placement.take_placed_groups().empty();
    if (step == 35) {
      EXPECT_EQ(placement.reserved_for(group.holder).size(), 3u);
      submit(400, {.gpus = 1});
      EXPECT_EQ(schedule(), std::vector{actor(400)}) << "the group asks for no GPU";
    }
  }
  EXPECT_TRUE(placed);
  EXPECT_LE(now - BootTime(1000s), 60s);
  EXPECT_TRUE(placement.reserved_for(group.holder).empty());
}

// ---- eviction ----

TEST_F(PlacementTest, LabelsOfNodesThatLeftAreForgotten) {
  PlacementRequest patient = request(1, {.cpus = 1});
  patient.wishes.labels = {{"host", "h900"}};
  placement.submit(now, patient);
  for (uint32_t number = 1; number <= 1000; ++number) {
    add_node(number, {.cpus = 1}, {{"host", "h" + std::to_string(number)}});
    EXPECT_EQ(schedule().size(), number == 900 ? 1u : 0u)
        << "its own answer for each set of labels, also where numbers are used again";
    if (number > 3) placement.remove_node(node(number - 3));
  }
  EXPECT_EQ(placement.label_sets(), 3u);
  placement.check_invariants();
}

TEST_F(PlacementTest, NamesOfResourcesAreForgottenWithNodesAndRequests) {
  for (uint32_t number = 1; number <= 10'000; ++number) {
    const std::string name = "disk-" + std::to_string(number);
    add_node(number, {.cpus = 1, .custom = {{name, 1}}});
    const PlacementRequest asks = request(number, {.custom = {{name, 1}}});
    ASSERT_TRUE(placement.check_feasible(asks, "it")) << number;
    placement.submit(now, asks);
    ASSERT_EQ(placement.schedule(now).size(), 1u) << number;
    if (number % 500 == 0) placement.check_invariants();
    placement.remove_node(node(number));
  }
  EXPECT_LE(placement.resource_names(), 4096u);
}

}  // namespace
}  // namespace volador::head
