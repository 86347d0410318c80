// Which bundle of a placement group goes to which node: all of them at once, or none.
// Pure: no clock, thread, I/O or randomness.
//
// Bundles that ask more of a node than resources are taken first, then the others, each by size, the largest first, and each goes to the fullest node that holds it. The strict spread is
// exact (an assignment by augmenting paths, Kuhn 1955); the others are best-fit decreasing, as is the packing of
// fractions of GPUs.
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

// The nodes among which a plan chooses.
class PlanNodes {
 public:
  using Slot = uint32_t;

  virtual ~PlanNodes() = default;
  // The fullest node that has `least` and that `accepts`. Of "gpus", `least` has whole devices or one fraction.
  virtual std::optional<Slot> find(const ResourceSet& least, const std::function<bool(Slot)>& accepts) const = 0;
  virtual bool may_use(Slot slot) const = 0;
  virtual const ResourcePool& pool(Slot slot) const = 0;
};

struct PlanRequest {
  struct Bundle {
    ResourceSet resources;
    std::function<bool(PlanNodes::Slot)> suits = {};  // What else it asks of its node; empty: nothing.
  };
  Strategy strategy = Strategy::kPack;
  std::vector<Bundle> bundles;          // To be placed; at least one.
  std::vector<PlanNodes::Slot> beside;  // Where the group's other bundles lie, one entry each.
};

// The order in which a plan puts bundles onto nodes.
std::vector<size_t> plan_order(const PlanRequest& request);

struct Plan {
  bool complete = false;
  std::vector<PlanNodes::Slot> slots;  // Of each bundle, where complete.
  size_t stuck = 0;                    // Else a bundle that found no place beside those that did.
};

Plan plan_bundles(const PlanRequest& request, const PlanNodes& nodes);

}  // namespace volador::head
