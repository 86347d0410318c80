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
    return {.actor = actor(number), .resources = *ResourceSet::from(asked), .labels = {}, .program = "p", .priority = priority, .sequence = ++sequence};
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
  wants.labels = {{"zone", "a"}};
  EXPECT_THAT(placement.check_feasible(wants, "trial 3f2a").error().message,
              HasSubstr("trial 3f2a asks for a node with labels zone=a; no node has it. It could never start."));
  placement.submit(now, wants);
  EXPECT_TRUE(schedule().empty());
  EXPECT_EQ(placement.explain(actor(1)), "node labels zone=a: no node has it");
  add_node(2, {.cpus = 4}, {{"zone", "a"}, {"disk", "ssd"}});
  EXPECT_EQ(schedule(), std::vector{actor(1)});
  EXPECT_EQ(where[actor(1)], node(2));
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
    if (random.below(4) == 0) one.labels = {{"zone", "a"}};
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
