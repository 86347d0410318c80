#include "head/scheduling/bundle_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace volador::head {
namespace {

using Slot = PlanNodes::Slot;

class Planner {
 public:
  Planner(const PlanRequest& request, const PlanNodes& nodes)
      : request_(request), nodes_(nodes), order_(plan_order(request)) {
    plan_.slots.resize(request.bundles.size());
    for (const Slot slot : request.beside) {
      ++bundles_on_[slot];
      if (nodes.may_use(slot)) pools_.emplace(slot, nodes.pool(slot));
    }
  }

  Plan run() {
    switch (request_.strategy) {
      case Strategy::kPack:
        pack();
        break;
      case Strategy::kStrictPack:
        pack_strictly();
        break;
      case Strategy::kSpread:
        spread();
        break;
      case Strategy::kStrictSpread:
        spread_strictly();
        break;
    }
    return std::move(plan_);
  }

 private:
  const ResourceSet& asked(size_t bundle) const { return request_.bundles[bundle].resources; }
  bool suits(size_t bundle, Slot slot) const {
    const auto& test = request_.bundles[bundle].suits;
    return !test || test(slot);
  }
  bool fits(size_t bundle, Slot slot, const ResourcePool& pool) const {
    return pool.fits(asked(bundle)) && suits(bundle, slot);
  }

  void put(size_t bundle, Slot slot) {
    pools_.try_emplace(slot, nodes_.pool(slot)).first->second.take(asked(bundle));
    ++bundles_on_[slot];
    plan_.slots[bundle] = slot;
  }
  void stuck_at(size_t bundle) {
    plan_.complete = false;
    plan_.stuck = bundle;
  }

  // ---- pack ----

  bool holds_all(Slot slot, const std::vector<size_t>& bundles, size_t count) const {
    ResourcePool pool = nodes_.pool(slot);
    for (size_t at = 0; at < count; ++at) {
      if (!suits(bundles[at], slot) || !pool.take(asked(bundles[at]))) return false;
    }
    return true;
  }
  // A node without bundles of the group that holds the first `count` of these together.
  std::optional<Slot> find_for(const std::vector<size_t>& bundles, size_t count) const {
    ResourceSet least;
    Amount whole = 0;
    Amount part = 0;
    for (size_t at = 0; at < count; ++at) {
      const Amount gpus = asked(bundles[at]).get("gpus");
      whole += gpus >= kUnit ? gpus : 0;
      part = std::max(part, gpus % kUnit);
      least += asked(bundles[at]);
    }
    least.set("gpus", whole > 0 ? whole : part);
    return nodes_.find(least,
                       [&](Slot slot) { return !bundles_on_.contains(slot) && holds_all(slot, bundles, count); });
  }
  // The maximum number of leading bundles that fit on one node, and that node.
  std::pair<size_t, Slot> longest(const std::vector<size_t>& bundles) const {
    if (const auto slot = find_for(bundles, bundles.size())) return {bundles.size(), *slot};
    std::pair<size_t, Slot> best{0, 0};
    size_t least = 1;
    for (size_t most = bundles.size() - 1; least <= most;) {
      const size_t middle = (least + most) / 2;
      if (const auto slot = find_for(bundles, middle)) {
        best = {middle, *slot};
        least = middle + 1;
      } else {
        most = middle - 1;
      }
    }
    return best;
  }
  void pack() {
    std::vector<size_t> left = order_;
    while (!left.empty()) {
      std::erase_if(left, [&](size_t bundle) {
        for (const auto& [slot, pool] : pools_) {
          if (!fits(bundle, slot, pool)) continue;
          put(bundle, slot);
          return true;
        }
        return false;
      });
      if (left.empty()) break;
      const auto [count, slot] = longest(left);
      if (count == 0) return stuck_at(left.front());
      for (size_t at = 0; at < count; ++at) put(left[at], slot);
      left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
    }
    plan_.complete = true;
  }
  void pack_strictly() {
    std::optional<Slot> slot;
    if (request_.beside.empty()) {
      slot = find_for(order_, order_.size());
    } else if (const Slot only = request_.beside.front();
               nodes_.may_use(only) && holds_all(only, order_, order_.size())) {
      slot = only;
    }
    if (!slot) return stuck_at(order_.front());
    for (const size_t bundle : order_) put(bundle, *slot);
    plan_.complete = true;
  }

  // ---- spread ----

  std::optional<Slot> find_unused(size_t bundle) const {
    return nodes_.find(asked(bundle),
                       [&](Slot slot) { return !bundles_on_.contains(slot) && fits(bundle, slot, nodes_.pool(slot)); });
  }
  std::optional<Slot> find_least_used(size_t bundle) const {
    std::optional<Slot> least;
    for (const auto& [slot, pool] : pools_) {
      if (fits(bundle, slot, pool) && (!least || bundles_on_.at(slot) < bundles_on_.at(*least))) least = slot;
    }
    return least;
  }
  void spread() {
    for (const size_t bundle : order_) {
      std::optional<Slot> slot = find_unused(bundle);
      if (!slot) slot = find_least_used(bundle);
      if (!slot) return stuck_at(bundle);
      put(bundle, *slot);
    }
    plan_.complete = true;
  }

  // Assigns a free node to the bundle, or the node of another bundle that can move elsewhere.
  bool assign(size_t bundle, std::set<Slot>& tried) {
    if (const auto slot = find_unused(bundle)) {
      bundles_on_[*slot] = 1;
      owners_[*slot] = bundle;
      return true;
    }
    for (const auto& [slot, owner] : std::map<Slot, size_t>(owners_)) {
      if (tried.contains(slot) || !fits(bundle, slot, nodes_.pool(slot))) continue;
      tried.insert(slot);
      if (!assign(owner, tried)) continue;
      owners_[slot] = bundle;
      return true;
    }
    return false;
  }
  void spread_strictly() {
    for (const size_t bundle : order_) {
      std::set<Slot> tried;
      if (!assign(bundle, tried)) return stuck_at(bundle);
    }
    for (const auto& [slot, bundle] : owners_) plan_.slots[bundle] = slot;
    plan_.complete = true;
  }

  const PlanRequest& request_;
  const PlanNodes& nodes_;
  std::vector<size_t> order_;           // plan_order().
  std::map<Slot, ResourcePool> pools_;  // Remaining resources of usable nodes with bundles of the group.
  std::map<Slot, size_t> bundles_on_;   // Number of the group's bundles per node.
  std::map<Slot, size_t> owners_;       // For strict spread: the bundle of the request assigned to the node.
  Plan plan_;
};

}  // namespace

std::vector<size_t> plan_order(const PlanRequest& request) {
  const auto rank = [&](size_t bundle) {
    const auto& [set, suits] = request.bundles[bundle];
    return std::make_tuple(suits != nullptr, set.get("gpus"), set.get("cpus"), set.get("memory"), set.entries().size());
  };
  std::vector<size_t> order(request.bundles.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rank(a) > rank(b); });
  return order;
}

Plan plan_bundles(const PlanRequest& request, const PlanNodes& nodes) { return Planner(request, nodes).run(); }

}  // namespace volador::head
