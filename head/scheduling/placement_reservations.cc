// Reservations on nodes for requests that were overtaken.
#include <fmt/format.h>

#include <algorithm>

#include "head/scheduling/placement.h"

namespace volador::head {
namespace {

constexpr size_t kPassingMax = 4096;    // Priorities for which overtaking is recorded.
constexpr size_t kReserveScanMax = 64;  // Queues checked per tick.

}  // namespace

void Placement::note_passing(BootTime now, const Order& order) {
  Passing& passing = passing_[order.priority];
  passing.sequence_max = std::max(passing.sequence_max, order.sequence);
  passing.last = now;
  while (passing_.size() > kPassingMax) passing_.erase(passing_.begin());
}

bool Placement::was_passed(const Order& order, BootTime since) const {
  for (const auto& [priority, passing] : passing_) {
    if (priority > order.priority) break;
    if (priority == order.priority ? passing.sequence_max > order.sequence : passing.last >= since) return true;
  }
  return false;
}

void Placement::drop_reservation(const Order& order) {
  const auto reserver = reservers_.find(order);
  if (reserver == reservers_.end()) return;
  const std::set<uint32_t> slots = std::move(reserver->second.slots);
  reservers_.erase(reserver);
  for (const uint32_t slot : slots) {
    Node& node = *slots_.at(slot);
    std::erase_if(node.reservations, [&](const auto& one) { return one.order.holder == order.holder; });
    if (node.reservations.empty()) reserved_.erase(slot);
    reindex(node, true);
  }
}

// The node changed: requests with reservations there get new ones, on all their nodes, at the next tick. The caller
// updates the index entry of this node.
void Placement::drop_reservations_on(Node& node) {
  const auto reservations = std::exchange(node.reservations, {});
  reserved_.erase(node.slot);
  for (const Node::Reservation& one : reservations) {
    const auto reserver = reservers_.find(one.order);
    if (reserver == reservers_.end()) continue;  // It had several reservations there.
    reserver->second.slots.erase(node.slot);
    drop_reservation(one.order);
  }
}

void Placement::on_tick(BootTime now) {
  std::vector<Order> over;
  std::vector<Order> misplaced;
  for (auto& [order, reserver] : reservers_) {
    const auto takes_nothing = [&](uint32_t slot) { return !slots_.at(slot)->why_not.empty(); };
    if (std::any_of(reserver.slots.begin(), reserver.slots.end(), takes_nothing)) {
      misplaced.push_back(order);
      continue;
    }
    const double missing = missing_for(order, reserver);
    if (missing < reserver.missing) {
      reserver.missing = missing;
      reserver.until = now + reserver.patience;
    }
    if (now >= reserver.until) over.push_back(order);
  }
  for (const Order& order : misplaced) drop_reservation(order);
  for (const Order& order : over) give_up_reservation(now, order);
  size_t looked_at = 0;
  for (const auto& [order, shape] : fronts_) {
    if (++looked_at > kReserveScanMax) return;
    if (reservers_.size() >= limits_.reservations && !(order < reservers_.rbegin()->first)) return;
    const BootTime since = shape->queue.at(order);
    if (now - since < pause_before_reservation(*shape) || reservers_.contains(order) || !was_passed(order, since))
      continue;
    reserve(now, *shape, order);
  }
}

void Placement::give_up_reservation(BootTime now, const Order& order) {
  Shape& shape = *waiting_.at(order.holder).first;
  const Reserver& reserver = reservers_.at(order);
  InVain& in_vain = in_vain_[&shape];
  in_vain.slots.insert(reserver.slots.begin(), reserver.slots.end());
  ++in_vain.times;
  in_vain.pause = times_.reserve_after;
  const std::vector<const Node*> nodes = nodes_for(shape);
  const auto is_tried = [&](const Node* node) { return !node->why_not.empty() || in_vain.slots.contains(node->slot); };
  if (std::all_of(nodes.begin(), nodes.end(), is_tried)) {  // Start over.
    in_vain.pause = reserver.patience;
    in_vain.slots = reserver.slots;
  }
  drop_reservation(order);
  shape.queue.at(order) = now;
}

std::chrono::nanoseconds Placement::pause_before_reservation(const Shape& shape) const {
  const auto in_vain = in_vain_.find(&shape);
  return in_vain == in_vain_.end() ? times_.reserve_after : in_vain->second.pause;
}

double Placement::missing_for(const Order& order, const Reserver& reserver) const {
  double missing = 0;
  for (const uint32_t slot : reserver.slots) {
    const Node& node = *slots_.at(slot);
    for (const Node::Reservation& one : node.reservations) {
      if (one.order.holder == order.holder) missing += missing_on(one.resources, order, node, {});
    }
  }
  return missing;
}

// The missing part of the request on the node; each resource counts at most 1.
double Placement::missing_on(const ResourceSet& resources, const Order& order, const Node& node,
                             const Chosen& chosen) const {
  const Capacity& capacity = capacity_for(node, order);
  const ResourcePool& pool = pool_for(node, order);
  const auto also = chosen.find(node.slot);
  double missing = 0;
  for (const auto& [name, amount] : resources.entries()) {
    Amount free = pool.free.get(name);
    if (name == "gpus")
      free = amount >= kUnit             ? capacity.devices_free * kUnit
             : capacity.devices_free > 0 ? kUnit
                                         : capacity.largest_part;
    if (also != chosen.end()) free -= also->second.get(name);
    missing += std::min(1.0, static_cast<double>(std::max<Amount>(0, amount - free)) / static_cast<double>(amount));
  }
  return missing;
}

// The node that lacks the least. Nodes with a failed reservation, with reservations for earlier requests, or with an
// anti-affinity conflict come last.
Placement::Node* Placement::choose_for_reservation(const Shape& shape, const Order& order, const Chosen& chosen,
                                                   Share share) const {
  const auto waits = waiting_.find(order.holder);
  const auto in_vain = in_vain_.find(waits == waiting_.end() ? nullptr : waits->second.first);
  Node* best = nullptr;
  std::pair<size_t, double> best_rank;
  for (const Node* candidate : nodes_for(shape)) {
    if (!candidate->why_not.empty()) continue;
    if (!reserved_.contains(candidate->slot) && reserved_.size() >= kReservedNodesMax) continue;
    size_t drawbacks = is_apart(shape, *candidate) ? 0 : 1;
    if (const auto also = chosen.find(candidate->slot); also != chosen.end()) {
      if (share == Share::kNever) continue;
      ResourceSet together = also->second;
      together += shape.resources;
      if (!together.fits_in(ledger_.find(candidate->id)->total)) continue;
      drawbacks += share == Share::kUnwillingly ? 1 : 0;
    }
    if (in_vain != in_vain_.end() && in_vain->second.slots.contains(candidate->slot)) ++drawbacks;
    for (const Node::Reservation& one : candidate->reservations) drawbacks += one.order < order ? 1 : 0;
    const std::pair rank{drawbacks, missing_on(shape.resources, order, *candidate, chosen)};
    if (best != nullptr && !(rank < best_rank)) continue;
    best = slots_.at(candidate->slot);
    best_rank = rank;
  }
  return best;
}

// If the limit is reached, an earlier request replaces the last one with reservations.
void Placement::reserve(BootTime now, const Shape& shape, const Order& order) {
  std::vector<std::pair<Node*, ResourceSet>> places;
  if (shape.group != nullptr) {
    places = nodes_for_bundles(shape, order);
  } else if (Node* node = choose_for_reservation(shape, order, {}, Share::kFreely); node != nullptr) {
    places.emplace_back(node, shape.resources);
  }
  if (places.empty()) return;
  if (reservers_.size() >= limits_.reservations) drop_reservation(Order(reservers_.rbegin()->first));
  const auto in_vain = in_vain_.find(&shape);
  const int doubled = in_vain == in_vain_.end() ? 0 : std::min(in_vain->second.times, kReservationsDoubledMax);
  Reserver& reserver = reservers_[order];
  reserver.patience = kReservedMax * (1 << doubled);
  reserver.until = now + reserver.patience;
  for (const auto& [node, resources] : places) reserver.slots.insert(node->slot);
  for (const auto& [node, resources] : places) add_reservation(*node, order, resources);
  reserver.missing = missing_for(order, reserver);
}

void Placement::add_reservation(Node& node, const Order& order, const ResourceSet& resources) {
  const auto later =
      std::upper_bound(node.reservations.begin(), node.reservations.end(), order,
                       [](const Order& one, const Node::Reservation& other) { return one < other.order; });
  node.reservations.insert(later, {.order = order, .resources = resources, .backfill = {}, .left = {}});
  reserved_.insert(node.slot);
  reindex(node, false);
}

std::vector<Placement::Reserved> Placement::reserved_for(HolderId holder) const {
  std::vector<Reserved> reserved;
  const auto waits = waiting_.find(holder);
  const auto reserver = waits == waiting_.end() ? reservers_.end() : reservers_.find(waits->second.second);
  if (reserver == reservers_.end()) return reserved;
  for (const uint32_t slot : reserver->second.slots) {
    const Node& node = *slots_.at(slot);
    for (const Node::Reservation& one : node.reservations) {
      if (one.order.holder == holder) reserved.push_back({node.id, one.resources, one.backfill.kept});
    }
  }
  return reserved;
}

}  // namespace volador::head
