// Placement groups in the queue: all bundles of a group are granted at once, or none.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "head/scheduling/placement.h"
#include "runtime/node_name_rule.h"

namespace volador::head {
namespace {

// The minimum of each amount over the bundles: a node with less of any amount holds none of them.
ResourceSet least_of(const std::vector<GroupRequest::Bundle>& bundles) {
  ResourceSet least = bundles.front().resources;
  for (const GroupRequest::Bundle& bundle : bundles) {
    const ResourceSet before = least;
    for (const auto& [name, amount] : before.entries()) least.set(name, std::min(amount, bundle.resources.get(name)));
  }
  return least;
}

ResourceSet sum_of(const std::vector<GroupRequest::Bundle>& bundles) {
  ResourceSet sum;
  for (const GroupRequest::Bundle& bundle : bundles) sum += bundle.resources;
  return sum;
}

}  // namespace

// ---- candidate nodes of a plan ----

class Placement::FreeNodes : public PlanNodes {
 public:
  FreeNodes(const Placement& placement, const Shape& shape, const Order& order,
            Reservations reservations = Reservations::kKept)
      : placement_(placement), shape_(shape), order_(order), reservations_(reservations) {}

  // Prefers nodes with a reservation for the group; nodes that keep resources for a later request come last.
  std::optional<Slot> find(const ResourceSet& least, const std::function<bool(Slot)>& accepts) const override {
    const Demand demand{.gpus = least.get("gpus"),
                        .cpus = least.get("cpus"),
                        .memory = least.get("memory"),
                        .custom = placement_.names_.custom(least)};
    std::optional<Slot> of_another;
    for (const uint32_t slot : placement_.reserved_) {
      const Node& node = *placement_.slots_.at(slot);
      const bool ignores = reservations_ == Reservations::kIgnored;
      if (!ignores && node.reservations.back().order < order_) continue;  // The index contains it.
      const Capacity& capacity = ignores ? node.free : capacity_for(node, order_);
      if (!may_use(slot) || !demand.fits(capacity) || !accepts(slot)) continue;
      if (has_reservation(node, order_)) return slot;
      if (!of_another) of_another = slot;
    }
    const auto slot = placement_.free_.find(
        demand, [&](uint32_t labels) { return placement_.labels_match(shape_, labels); },
        [&](uint32_t candidate) {
          return placement_.may_run(shape_, *placement_.slots_.at(candidate)) && accepts(candidate);
        });
    return slot ? slot : of_another;
  }
  bool may_use(Slot slot) const override {
    const Node& node = *placement_.slots_.at(slot);
    return node.why_not.empty() && placement_.may_run(shape_, node) &&
           placement_.labels_match(shape_, node.labels_number);
  }
  const ResourcePool& pool(Slot slot) const override {
    const Node& node = *placement_.slots_.at(slot);
    if (reservations_ == Reservations::kKept) return placement_.pool_for(node, order_);
    return *placement_.ledger_.find(node.id);
  }

 private:
  const Placement& placement_;
  const Shape& shape_;
  const Order& order_;
  const Reservations reservations_;
};

class Placement::EmptyNodes : public PlanNodes {
 public:
  EmptyNodes(const Placement& placement, const Shape& shape) : placement_(placement), shape_(shape) {}

  std::optional<Slot> find(const ResourceSet& least, const std::function<bool(Slot)>& accepts) const override {
    const Demand demand{.gpus = least.get("gpus"),
                        .cpus = least.get("cpus"),
                        .memory = least.get("memory"),
                        .custom = placement_.names_.custom(least)};
    return placement_.totals_.find(
        demand, [&](uint32_t labels) { return placement_.labels_match(shape_, labels); },
        [&](uint32_t candidate) {
          return placement_.may_run(shape_, *placement_.slots_.at(candidate)) && accepts(candidate);
        });
  }
  bool may_use(Slot) const override { return true; }
  const ResourcePool& pool(Slot slot) const override {
    const auto [entry, added] = pools_.try_emplace(slot);
    if (added) {
      const ResourceLedger::Node& node = *placement_.ledger_.find(placement_.slots_.at(slot)->id);
      std::vector<int32_t> gpus;
      for (const ResourcePool::Device& device : node.devices) gpus.push_back(device.index);
      entry->second = ResourcePool::of_node(node.total, std::move(gpus));
    }
    return entry->second;
  }

 private:
  const Placement& placement_;
  const Shape& shape_;
  mutable std::map<Slot, ResourcePool> pools_;
};

// The result refers to `group` and this.
PlanRequest Placement::plan_request(const GroupRequest& group) const {
  PlanRequest plan{.strategy = group.strategy, .bundles = {}, .beside = {}};
  for (const GroupRequest::Bundle& bundle : group.bundles) {
    PlanRequest::Bundle& asked = plan.bundles.emplace_back(bundle.resources);
    if (!bundle.labels.empty()) {
      asked.suits = [this, &bundle](PlanNodes::Slot slot) {
        const Node& node = *slots_.at(slot);
        return std::all_of(bundle.labels.begin(), bundle.labels.end(), [&node](const LabelRule& rule) {
          return rule.matches(rule.key == kNodeNameKey ? Labels{{rule.key, node.name}} : node.labels);
        });
      };
    }
  }
  return plan;
}

// ---- requests and grants ----

Result<void> Placement::check_feasible(const GroupRequest& request, const std::string& who) {
  for (const GroupRequest::Bundle& bundle : request.bundles) VOLADOR_TRY(check_names(bundle.resources));
  if (nodes_.empty()) return {};
  auto shape = make_shape({{}, {.labels = request.labels, .node = {}, .apart = {}}, request.program, {}},
                          least_of(request.bundles));
  acquire_names(*shape, sum_of(request.bundles));
  shape->group = std::make_unique<GroupRequest>(request);
  const Plan plan = plan_bundles(plan_request(request), EmptyNodes(*this, *shape));
  Result<void> feasible;
  if (!plan.complete) feasible = make_error(group_lacks(*shape, plan, who));
  release_names(*shape);
  return feasible;
}

void Placement::submit(BootTime now, GroupRequest request) {
  if (waiting_.contains(request.holder)) return;
  const Order order{request.priority, request.sequence, request.holder};
  ResourceSet least = least_of(request.bundles);
  ShapeKey key{least.entries(), {.labels = request.labels, .node = {}, .apart = {}}, request.program, request.holder};
  auto shape = make_shape(key, std::move(least));
  acquire_names(*shape, sum_of(request.bundles));
  shape->group = std::make_unique<GroupRequest>(std::move(request));
  enqueue(now, *shapes_.emplace(std::move(key), std::move(shape)).first->second, order);
}

namespace {

// Slots of the known nodes; nodes that left are skipped.
template <class Nodes>
std::vector<PlanNodes::Slot> slots_of(const std::vector<NodeId>& ids, const Nodes& nodes) {
  std::vector<PlanNodes::Slot> slots;
  for (const NodeId id : ids) {
    if (const auto found = nodes.find(id); found != nodes.end()) slots.push_back(found->second->slot);
  }
  return slots;
}

}  // namespace

bool Placement::could_place_group(const Shape& shape, const Order& order) const {
  PlanRequest request = plan_request(*shape.group);
  request.beside = slots_of(shape.group->beside, nodes_);
  return plan_bundles(request, FreeNodes(*this, shape, order)).complete;
}

bool Placement::place_group(const Shape& shape, const Order& order) {
  const GroupRequest& group = *shape.group;
  ResourceSet in_use_then = ledger_.used();
  in_use_then += sum_of(group.bundles);
  in_use_then.set("cpus", in_use_then.get("cpus") - ledger_.overdrawn_cpus());
  if (!in_use_then.fits_in(ledger_.total())) return false;  // A cheap check first, since full clusters get here often.
  PlanRequest request = plan_request(group);
  request.beside = slots_of(group.beside, nodes_);
  const Plan plan = plan_bundles(request, FreeNodes(*this, shape, order));
  if (!plan.complete) return false;
  PlacedGroup placed{.holder = group.holder, .bundles = {}};
  placed.bundles.resize(group.bundles.size());
  // Take fractional GPUs in the order in which the plan assigned them.
  for (const size_t at : plan_order(request)) {
    const GroupRequest::Bundle& bundle = group.bundles[at];
    Node& node = *slots_.at(plan.slots[at]);
    placed.bundles[at] = {bundle.holder, node.id, grant(node, order, bundle.holder, bundle.resources)};
    reindex(node, false);
  }
  placed_groups_.push_back(std::move(placed));
  return true;
}

// Returns a node for each bundle, the largest bundle first; fewer if no more can be found.
std::vector<std::pair<Placement::Node*, ResourceSet>> Placement::nodes_for_bundles(const Shape& shape,
                                                                                   const Order& order) const {
  const GroupRequest& group = *shape.group;
  std::vector<std::pair<Node*, ResourceSet>> places;
  if (group.strategy == Strategy::kStrictPack) {
    Shape joint = joint_shape(shape);
    if (!group.beside.empty()) {  // Only this node is possible.
      const auto only = nodes_.find(group.beside.front());
      if (only == nodes_.end()) return places;
      joint.key.wishes.node = only->second->name;
    }
    if (Node* node = choose_for_reservation(joint, order, {}, Share::kFreely); node != nullptr)
      places.emplace_back(node, joint.resources);
    return places;
  }
  const Share share = group.strategy == Strategy::kPack     ? Share::kFreely
                      : group.strategy == Strategy::kSpread ? Share::kUnwillingly
                                                            : Share::kNever;
  Chosen chosen;
  if (share != Share::kFreely) {
    for (const uint32_t slot : slots_of(group.beside, nodes_)) chosen[slot];
  }
  for (const size_t at : plan_order(plan_request(group))) {
    const Shape single = single_shape(shape, group.bundles[at]);
    Node* node = choose_for_reservation(single, order, chosen, share);
    if (node == nullptr) continue;
    places.emplace_back(node, single.resources);
    chosen[node->slot] += single.resources;
  }
  return places;
}

// The shape of a single actor with the bundle's request.
Placement::Shape Placement::single_shape(const Shape& group, const GroupRequest::Bundle& bundle) const {
  const ResourceSet& resources = bundle.resources;
  Shape single;
  single.key = {resources.entries(), group.key.wishes, group.key.program, {}};
  std::vector<LabelRule>& labels = single.key.wishes.labels;
  for (const LabelRule& rule : bundle.labels) {
    if (std::find(labels.begin(), labels.end(), rule) == labels.end()) labels.push_back(rule);
  }
  single.resources = resources;
  single.demand = Demand{.gpus = resources.get("gpus"),
                         .cpus = resources.get("cpus"),
                         .memory = resources.get("memory"),
                         .custom = names_.custom(resources)};
  return single;
}

// Same for all its bundles together.
Placement::Shape Placement::joint_shape(const Shape& group) const {
  GroupRequest::Bundle all{.holder = {}, .resources = sum_of(group.group->bundles)};
  for (const GroupRequest::Bundle& bundle : group.group->bundles)
    all.labels.insert(all.labels.end(), bundle.labels.begin(), bundle.labels.end());
  return single_shape(group, all);
}

// ---- reasons ----

// For a group that would fit without reservations: the first request with a reservation on a suitable node.
std::optional<Blocker> Placement::reservation_before_group(const Shape& shape, const Order& order) const {
  PlanRequest request = plan_request(*shape.group);
  request.beside = slots_of(shape.group->beside, nodes_);
  if (!plan_bundles(request, FreeNodes(*this, shape, order, Reservations::kIgnored)).complete) return std::nullopt;
  for (const auto& [other, reserver] : reservers_) {
    if (!(other < order)) break;
    for (const uint32_t slot : reserver.slots) {
      const Node& node = *slots_.at(slot);
      if (!node.why_not.empty() || !may_run(shape, node) || !labels_match(shape, node.labels_number)) continue;
      for (const Node::Reservation& one : node.reservations) {
        if (one.order.holder != other.holder || one.backfill.kept.empty()) continue;
        return Blocker{
            .why = Blocker::Why::kReservation, .holder = other.holder, .node = node.id, .resources = one.backfill.kept};
      }
    }
  }
  return std::nullopt;
}

Reason Placement::group_reason(const Shape& shape, const Order& order) const {
  if (nodes_.empty()) return reason("waits.no_node");
  const GroupRequest& group = *shape.group;
  if (group.strategy == Strategy::kStrictPack) {
    Reason why = capacity_reason(joint_shape(shape));
    return group.bundles.size() == 1 ? why : reason("waits.bundles_together", group.bundles.size(), std::move(why));
  }
  PlanRequest request = plan_request(group);
  request.beside = slots_of(group.beside, nodes_);
  const Plan plan = plan_bundles(request, FreeNodes(*this, shape, order));
  if (plan.complete) return reason("waits.soon");
  const GroupRequest::Bundle& stuck = group.bundles[plan.stuck];
  const Shape single = single_shape(shape, stuck);
  if (find_node(single, order) == nullptr)
    return reason("waits.bundle", stuck.index, stuck.resources, capacity_reason(single));
  return reason(group.strategy == Strategy::kStrictSpread ? "waits.bundle_own_node" : "waits.bundle_no_room",
                stuck.index, stuck.resources);
}

Error Placement::group_lacks(const Shape& shape, const Plan& plan, const std::string& who) const {
  const GroupRequest& group = *shape.group;
  const auto error = [](std::string of, Reason what) {
    return error_of(ErrorCode::kInfeasible, reason("infeasible.place", std::move(of), std::move(what),
                                                   reason("next.bundles", reason("option.and_wait"))));
  };
  const auto lacks = [&](const Shape& asked, std::string which) {
    Reason next_step;
    Reason lacking = lacking_everywhere(asked, &next_step);
    const auto has_labels = [&](const auto& node) { return is_asked_for(asked, *node.second); };
    if (std::any_of(nodes_.begin(), nodes_.end(), has_labels)) return error(std::move(which), std::move(lacking));
    return error_of(ErrorCode::kInfeasible,
                    reason("infeasible.place", std::move(which), std::move(lacking), std::move(next_step)));
  };
  const size_t count = group.bundles.size();
  if (group.strategy == Strategy::kStrictPack && count > 1) {
    return lacks(joint_shape(shape), fmt::format("{} (strict_pack, {} bundles on one node)", who, count));
  }
  const GroupRequest::Bundle& stuck = group.bundles[plan.stuck];
  const Shape single = single_shape(shape, stuck);
  const std::vector<const Node*> nodes = nodes_for(single);
  if (nodes.empty()) return lacks(single, fmt::format("bundle {} of {}", stuck.index, who));
  if (group.strategy == Strategy::kStrictSpread) {
    return error(fmt::format("{} (strict_spread)", who),
                 reason("lacks.nodes", count, nodes_.size(), nodes.size(), stuck.index, stuck.resources));
  }
  return error(who, reason("lacks.bundles", sum_of(group.bundles), count, ledger_.total(), nodes_.size(), stuck.index,
                           stuck.resources));
}

}  // namespace volador::head
