#include "head/scheduling/bundle_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "runtime/random.h"

namespace volador::head {
namespace {

using Slot = PlanNodes::Slot;

ResourceSet asks(const Resources& resources) { return *ResourceSet::from(resources); }

// Nodes 1, 2, …; the fullest first, as in the index.
class Nodes : public PlanNodes {
 public:
  explicit Nodes(const std::vector<Resources>& nodes) {
    for (const Resources& node : nodes) {
      std::vector<int32_t> gpus(static_cast<size_t>(node.gpus));
      std::iota(gpus.begin(), gpus.end(), 0);
      pools_.push_back(ResourcePool::of_node(asks(node), gpus));
    }
  }
  std::optional<Slot> find(const ResourceSet& least, const std::function<bool(Slot)>& accepts) const override {
    std::vector<Slot> slots(pools_.size());
    std::iota(slots.begin(), slots.end(), Slot{1});
    const auto amounts = [&](Slot slot) {
      return std::make_pair(pool(slot).free.get("gpus"), pool(slot).free.get("cpus"));
    };
    std::stable_sort(slots.begin(), slots.end(), [&](Slot a, Slot b) { return amounts(a) < amounts(b); });
    for (const Slot slot : slots) {
      if (least.fits_in(pool(slot).free) && accepts(slot)) return slot;
    }
    return std::nullopt;
  }
  bool may_use(Slot slot) const override { return !closed.contains(slot); }
  const ResourcePool& pool(Slot slot) const override { return pools_[slot - 1]; }

  std::set<Slot> closed;

 private:
  std::vector<ResourcePool> pools_;
};

// Fails unless no node exceeds its capacity and strict strategies hold.
void check(const PlanRequest& request, const Nodes& nodes, const Plan& plan) {
  std::map<Slot, ResourcePool> pools;
  for (const size_t at : plan_order(request)) {
    const Slot slot = plan.slots[at];
    const PlanRequest::Bundle& bundle = request.bundles[at];
    ASSERT_TRUE(pools.try_emplace(slot, nodes.pool(slot)).first->second.take(bundle.resources)) << "bundle " << at;
    ASSERT_TRUE(!bundle.suits || bundle.suits(slot)) << "bundle " << at;
  }
  std::vector<Slot> all = plan.slots;
  all.insert(all.end(), request.beside.begin(), request.beside.end());
  const std::set<Slot> different(all.begin(), all.end());
  ASSERT_TRUE(request.strategy != Strategy::kStrictPack || different.size() == 1);
  ASSERT_TRUE(request.strategy != Strategy::kStrictSpread || different.size() == all.size());
}

std::vector<Slot> plan(Strategy strategy, const std::vector<Resources>& bundles, const Nodes& nodes,
                       std::vector<Slot> beside = {}) {
  PlanRequest request{.strategy = strategy, .bundles = {}, .beside = std::move(beside)};
  for (const Resources& bundle : bundles) request.bundles.push_back({asks(bundle)});
  const Plan made = plan_bundles(request, nodes);
  if (!made.complete) return {};
  check(request, nodes, made);
  return made.slots;
}

TEST(BundlePlan, PackTakesAsFewNodesAsItCan) {
  const Nodes nodes({{.cpus = 4}, {.cpus = 8}, {.cpus = 4}});
  EXPECT_EQ(plan(Strategy::kPack, {{.cpus = 2}, {.cpus = 4}, {.cpus = 2}}, nodes), (std::vector<Slot>{2, 2, 2}));
  EXPECT_EQ(plan(Strategy::kPack, {{.cpus = 2}, {.cpus = 2}}, nodes), (std::vector<Slot>{1, 1}));
  const auto two = plan(Strategy::kPack, {{.cpus = 4}, {.cpus = 4}, {.cpus = 4}}, nodes);
  EXPECT_EQ(std::set<Slot>(two.begin(), two.end()).size(), 2u);
  EXPECT_TRUE(plan(Strategy::kPack, {{.cpus = 8}, {.cpus = 8}}, nodes).empty());
}

TEST(BundlePlan, StrictPackWantsOneNodeForAll) {
  const Nodes nodes({{.cpus = 4, .gpus = 1}, {.cpus = 8, .gpus = 2}});
  EXPECT_EQ(plan(Strategy::kStrictPack, {{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}}, nodes),
            (std::vector<Slot>{2, 2}));
  EXPECT_TRUE(plan(Strategy::kStrictPack, {{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 2}}, nodes).empty());
}

TEST(BundlePlan, FractionsShareADeviceAndWholeOnesDoNot) {
  const Nodes nodes({{.cpus = 4, .gpus = 2}});
  EXPECT_FALSE(plan(Strategy::kStrictPack, {{.gpus = 0.5}, {.gpus = 1}, {.gpus = 0.5}}, nodes).empty());
  EXPECT_TRUE(plan(Strategy::kStrictPack, {{.gpus = 0.6}, {.gpus = 0.6}, {.gpus = 0.6}}, nodes).empty())
      << "1.8 of 2, but on two devices";
}

TEST(BundlePlan, SpreadUsesANodeTwiceOnlyWhereThereIsNoOther) {
  const Nodes nodes({{.cpus = 4}, {.cpus = 4}});
  const auto slots = plan(Strategy::kSpread, {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}, {.cpus = 1}}, nodes);
  EXPECT_EQ(std::count(slots.begin(), slots.end(), 1u), 2);
  EXPECT_TRUE(plan(Strategy::kStrictSpread, {{.cpus = 1}, {.cpus = 1}, {.cpus = 1}}, nodes).empty());
  EXPECT_EQ(plan(Strategy::kStrictSpread, {{.cpus = 1}, {.cpus = 1}}, nodes).size(), 2u);
}

TEST(BundlePlan, StrictSpreadMovesOneBundleForAnother) {
  // The larger bundle would take node 1, the only one that fits the other.
  const Nodes nodes({{.cpus = 4, .memory = 100}, {.cpus = 5}});
  EXPECT_EQ(plan(Strategy::kStrictSpread, {{.cpus = 4}, {.cpus = 1, .memory = 50}}, nodes), (std::vector<Slot>{2, 1}));
}

TEST(BundlePlan, WhatWasLostGoesBesideWhatIsLeft) {
  Nodes nodes({{.cpus = 4}, {.cpus = 4}, {.cpus = 8}});
  EXPECT_EQ(plan(Strategy::kStrictSpread, {{.cpus = 1}}, nodes, {1, 2}), (std::vector<Slot>{3}));
  EXPECT_EQ(plan(Strategy::kPack, {{.cpus = 1}}, nodes, {3}), (std::vector<Slot>{3}));
  EXPECT_EQ(plan(Strategy::kStrictPack, {{.cpus = 1}}, nodes, {3}), (std::vector<Slot>{3}));
  nodes.closed = {3};
  EXPECT_EQ(plan(Strategy::kPack, {{.cpus = 1}}, nodes, {3}), (std::vector<Slot>{1}))
      << "nothing new goes to a node that drains";
  EXPECT_TRUE(plan(Strategy::kStrictPack, {{.cpus = 1}}, nodes, {3}).empty());
}

// Returns a random filter: two of three nodes, one of three, or none.
std::function<bool(Slot)> some_of(SeededRandom& random) {
  return [rest = static_cast<Slot>(random.below(4)), other = random.below(2) == 0](Slot slot) {
    return (slot % 3 == rest) == other;
  };
}

TEST(BundlePlan, ABundleGoesOnlyWhereItSuitsAndOthersLeaveItTheRoom) {
  const Nodes nodes({{.cpus = 1}, {.cpus = 2}});
  const auto only = [](Slot wanted) { return [wanted](Slot slot) { return slot == wanted; }; };
  for (const Strategy strategy : {Strategy::kPack, Strategy::kSpread, Strategy::kStrictSpread}) {
    // The first would take the fuller node 1, although the larger bundle normally comes first.
    PlanRequest request{
        .strategy = strategy, .bundles = {{asks({.cpus = 1})}, {asks({.cpus = 1}), only(1)}}, .beside = {}};
    const Plan made = plan_bundles(request, nodes);
    ASSERT_TRUE(made.complete) << to_string(strategy);
    EXPECT_EQ(made.slots, (std::vector<Slot>{2, 1})) << to_string(strategy);
    request.bundles.push_back({asks({.cpus = 1}), only(3)});
    const Plan stuck = plan_bundles(request, nodes);
    EXPECT_FALSE(stuck.complete);
    EXPECT_EQ(stuck.stuck, 2U) << to_string(strategy);
  }
  PlanRequest together{
      .strategy = Strategy::kStrictPack, .bundles = {{asks({.cpus = 1}), only(2)}, {asks({.cpus = 1})}}, .beside = {}};
  EXPECT_EQ(plan_bundles(together, nodes).slots, (std::vector<Slot>{2, 2}));
  together.bundles[1].suits = only(1);
  EXPECT_FALSE(plan_bundles(together, nodes).complete) << "no node suits both";
}

// Whether any assignment to different nodes exists, by exhaustive search.
bool can_spread(const std::vector<PlanRequest::Bundle>& bundles, const Nodes& nodes, size_t count, size_t at,
                std::set<Slot>& used) {
  if (at == bundles.size()) return true;
  for (Slot slot = 1; slot <= count; ++slot) {
    if (used.contains(slot) || !nodes.pool(slot).fits(bundles[at].resources)) continue;
    if (bundles[at].suits && !bundles[at].suits(slot)) continue;
    used.insert(slot);
    if (can_spread(bundles, nodes, count, at + 1, used)) return true;
    used.erase(slot);
  }
  return false;
}

TEST(BundlePlan, StrictSpreadFindsAPlanWhereverThereIsOne) {
  SeededRandom random(11);
  int found = 0;
  for (int round = 0; round < 2000; ++round) {
    const size_t count = 1 + random.below(5);
    const auto amount = [&] { return static_cast<double>(random.below(4)); };
    std::vector<Resources> have(count);
    for (Resources& node : have)
      node = {.cpus = amount(), .gpus = amount(), .memory = static_cast<int64_t>(random.below(4))};
    const Nodes nodes(have);
    PlanRequest request{.strategy = Strategy::kStrictSpread, .bundles = {}, .beside = {}};
    for (size_t bundle = 0; bundle <= random.below(4); ++bundle) {
      request.bundles.push_back(
          {asks({.cpus = amount(), .gpus = amount(), .memory = static_cast<int64_t>(random.below(4))})});
      if (random.below(3) == 0) request.bundles.back().suits = some_of(random);
    }
    const Plan made = plan_bundles(request, nodes);
    std::set<Slot> used;
    ASSERT_EQ(made.complete, can_spread(request.bundles, nodes, count, 0, used)) << "round " << round;
    if (!made.complete) continue;
    ++found;
    check(request, nodes, made);
  }
  EXPECT_GT(found, 100);
}

TEST(BundlePlan, NoPlanGivesANodeMoreThanItHas) {
  SeededRandom random(12);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Resources> have(1 + random.below(5));
    for (Resources& node : have)
      node = {.cpus = static_cast<double>(random.below(9)), .gpus = static_cast<double>(random.below(4))};
    const Nodes nodes(have);
    PlanRequest request{.strategy = static_cast<Strategy>(random.below(4)), .bundles = {}, .beside = {}};
    for (size_t bundle = 0; bundle <= random.below(8); ++bundle) {
      const uint64_t kind = random.below(3);
      request.bundles.push_back({asks({.cpus = static_cast<double>(random.below(6)) / 2,
                                       .gpus = kind == 0   ? 0
                                               : kind == 1 ? 0.4
                                                           : 1})});
      if (random.below(3) == 0) request.bundles.back().suits = some_of(random);
    }
    const Plan made = plan_bundles(request, nodes);
    if (made.complete) check(request, nodes, made);
    ASSERT_TRUE(made.complete || made.stuck < request.bundles.size());
  }
}

}  // namespace
}  // namespace volador::head
