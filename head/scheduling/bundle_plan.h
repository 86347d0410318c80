// Assigns all bundles of a placement group to nodes, or none.
// Pure: no clock, thread, I/O or randomness.
//
// Bundles with constraints beyond resources are placed first, then the others, each largest first, and each on the
// fullest node that fits. Strict spread is exact (an assignment by augmenting paths, Kuhn 1955); the other strategies
// are best-fit decreasing, as is the packing of fractional GPUs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "head/scheduling/resource_pool.h"
#include "runtime/resources.h"
#include "runtime/strategy.h"

namespace volador::head {

// The candidate nodes of a plan.
class PlanNodes {
 public:
  using Slot = uint32_t;

  virtual ~PlanNodes() = default;
  // The fullest node that has `least` and satisfies `accepts`. In `least`, "gpus" is whole devices or one fraction.
  virtual std::optional<Slot> find(const ResourceSet& least, const std::function<bool(Slot)>& accepts) const = 0;
  virtual bool may_use(Slot slot) const = 0;
  virtual const ResourcePool& pool(Slot slot) const = 0;
};

// Bundles to assign and the strategy.
struct PlanRequest {
  struct Bundle {
    ResourceSet resources;
    std::function<bool(PlanNodes::Slot)> suits = {};  // Further constraints on its node; empty: none.
  };
  Strategy strategy = Strategy::kPack;
  std::vector<Bundle> bundles;          // To be placed; at least one.
  std::vector<PlanNodes::Slot> beside;  // Nodes of the group's other bundles, one entry per bundle.
};

// The order in which a plan assigns bundles to nodes.
std::vector<size_t> plan_order(const PlanRequest& request);

// Result of a plan: a node for every bundle, or a bundle that does not fit.
struct Plan {
  bool complete = false;
  std::vector<PlanNodes::Slot> slots;  // Node of each bundle, if complete.
  size_t stuck = 0;                    // Otherwise a bundle that could not be placed.
};

Plan plan_bundles(const PlanRequest& request, const PlanNodes& nodes);

}  // namespace volador::head
