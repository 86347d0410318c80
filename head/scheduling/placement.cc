#include "head/scheduling/placement.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::head {
namespace {

constexpr size_t kIdleShapesMax = 4096;  // Kept for their cached reasons.
constexpr size_t kResourceNamesMax = 4096;
constexpr size_t kGrownScanMax = 16;  // Up to this number, grown nodes are checked one by one.

Capacity capacity_of(const ResourceNames& names, const ResourcePool& node, const ResourceSet& amounts, bool whole_node,
                     uint32_t labels) {
  return Capacity{.gpus = amounts.get("gpus"),
                  // An overdrawn node still has room for requests without CPUs.
                  .cpus = std::max<Amount>(0, amounts.get("cpus")),
                  .memory = amounts.get("memory"),
                  .custom = names.custom(amounts),
                  .devices_free = whole_node ? static_cast<int64_t>(node.devices.size()) : node.devices_free(),
                  .largest_part = whole_node ? 0 : node.largest_part(),
                  .labels = labels};
}

}  // namespace

Placement::Placement(const Times& times, const Limits& limits) : times_(times), limits_(limits) {}
Placement::~Placement() = default;

bool Placement::match_all(const std::vector<LabelRule>& rules, const Labels& labels) {
  return std::all_of(rules.begin(), rules.end(), [&](const LabelRule& rule) { return rule.matches(labels); });
}

// Counts one more node with these labels.
uint32_t Placement::acquire_labels(const Labels& labels) {
  const auto known = label_numbers_.find(labels);
  if (known != label_numbers_.end()) {
    ++label_sets_[known->second].nodes;
    return known->second;
  }
  uint32_t number = static_cast<uint32_t>(label_sets_.size());
  if (unused_labels_.empty()) {
    label_sets_.emplace_back();
  } else {
    number = unused_labels_.back();
    unused_labels_.pop_back();
    for (const auto& [key, shape] : shapes_) {
      if (number < shape->matches.size()) shape->matches[number] = 0;
    }
  }
  label_sets_[number] = {labels, 1};
  label_numbers_.emplace(labels, number);
  return number;
}

void Placement::release_labels(uint32_t number) {
  LabelSet& set = label_sets_[number];
  if (--set.nodes > 0) return;
  label_numbers_.erase(set.labels);
  set.labels.clear();
  unused_labels_.push_back(number);
}

void Placement::set_node(NodeId id, const std::string& name, const Labels& labels, const ResourceSet& total,
                         const std::vector<int32_t>& gpus) {
  auto& place = nodes_[id];
  const bool is_new = place == nullptr;
  if (is_new) {
    place = std::make_unique<Node>();
    place->id = id;
    place->slot = next_slot_++;
    slots_[place->slot] = place.get();
  }
  Node& node = *place;
  drop_reservations_on(node);
  forget_name(node);
  node.name = name;
  names_of_nodes_[name] = &node;
  node.labels = labels;
  const uint32_t labels_before = node.labels_number;
  node.labels_number = acquire_labels(labels);
  if (!is_new) release_labels(labels_before);
  node.why_not = "not ready";
  node.problem = {};
  node.closed_gpus.clear();
  node.excluded.clear();
  if (const auto* before = ledger_.find(id)) {
    for (const HolderId holder : before->holders) apart_.erase(holder);
  }
  node.apart.clear();
  names_.acquire(total);
  if (!is_new) names_.release(ledger_.find(id)->total);
  ledger_.set_node(id, total, gpus);
  const ResourceLedger::Node& entry = *ledger_.find(id);
  totals_.set(node.slot, capacity_of(names_, entry, entry.total, true, node.labels_number));
  reindex(node, false);
}

void Placement::forget_name(const Node& node) {
  const auto known = names_of_nodes_.find(node.name);
  if (known != names_of_nodes_.end() && known->second == &node) names_of_nodes_.erase(known);
}

void Placement::remove_node(NodeId id) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  const uint32_t slot = found->second->slot;
  drop_reservations_on(*found->second);
  release_labels(found->second->labels_number);
  names_.release(ledger_.find(id)->total);
  free_.remove(slot);
  totals_.remove(slot);
  grown_.erase(slot);
  slots_.erase(slot);
  for (auto& [shape, in_vain] : in_vain_) in_vain.slots.erase(slot);
  forget_name(*found->second);
  for (const HolderId holder : ledger_.find(id)->holders) apart_.erase(holder);
  ledger_.remove_node(id);
  nodes_.erase(found);
  ++version_;
}

void Placement::set_placeable(NodeId id, const std::string& why_not, const Reason& problem) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  Node& node = *found->second;
  if (node.why_not == why_not && node.problem == problem) return;
  node.problem = problem;
  node.why_not = why_not;
  reindex(node, why_not.empty());
}

void Placement::set_closed_gpus(NodeId id, const std::map<int32_t, Reason>& gpus) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  Node& node = *found->second;
  std::set<int32_t> closed;
  for (const auto& [gpu, why] : gpus) closed.insert(gpu);
  node.closed_gpus = gpus;
  ledger_.set_closed(id, closed);
  reindex(node, true);
}

void Placement::exclude(NodeId id, const std::string& program) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  found->second->excluded.insert(program);
  ++version_;
}

std::string Placement::why_not(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? "gone" : found->second->why_not;
}

Reason Placement::problem(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? Reason() : found->second->problem;
}

bool Placement::is_excluded(NodeId id, const std::string& program) const {
  const auto found = nodes_.find(id);
  return found != nodes_.end() && found->second->excluded.contains(program);
}

void Placement::reindex(Node& node, bool grew) {
  ++version_;
  const ResourceLedger::Node& entry = *ledger_.find(node.id);
  node.free = capacity_of(names_, entry, entry.free, false, node.labels_number);
  const bool placeable = node.why_not.empty();
  refresh_reservations(node);
  if (placeable) {
    free_.set(node.slot, capacity_for_last(node));
  } else {
    free_.remove(node.slot);
  }
  if (placeable && (grew || !node.reservations.empty()))
    grown_.insert(node.slot);  // Reservations may keep less than before.
}

// ---- reservations on a node ----

// Recomputes what each reservation leaves. Resources returned by occupants of the node count only for the first one.
void Placement::refresh_reservations(Node& node) {
  if (node.reservations.empty()) return;
  const ResourceLedger::Node& entry = *ledger_.find(node.id);
  const ResourcePool* pool = &entry;
  std::vector<Occupant> occupants = ledger_.occupants(node.id);
  for (Node::Reservation& reservation : node.reservations) {
    reservation.backfill = backfill(reservation.resources, *pool, occupants, entry.lent_cpus);
    pool = &reservation.backfill.left;
    reservation.left = capacity_of(names_, *pool, pool->free, false, node.labels_number);
    occupants.clear();
  }
}

// The last reservation that this request must respect; null: none.
const Placement::Node::Reservation* Placement::last_before(const Node& node, const Order& order) {
  const Node::Reservation* last = nullptr;
  for (const Node::Reservation& reservation : node.reservations) {
    if (!(reservation.order < order)) break;
    last = &reservation;
  }
  return last;
}

const ResourcePool& Placement::pool_for(const Node& node, const Order& order) const {
  const Node::Reservation* last = last_before(node, order);
  if (last != nullptr) return last->backfill.left;
  return *ledger_.find(node.id);
}

const Capacity& Placement::capacity_for(const Node& node, const Order& order) {
  const Node::Reservation* last = last_before(node, order);
  return last != nullptr ? last->left : node.free;
}

// Capacity for a request behind all reservations.
const Capacity& Placement::capacity_for_last(const Node& node) {
  return node.reservations.empty() ? node.free : node.reservations.back().left;
}

bool Placement::has_reservation(const Node& node, const Order& order) {
  return std::any_of(node.reservations.begin(), node.reservations.end(),
                     [&](const auto& one) { return one.order.holder == order.holder; });
}

// Takes resources that no reservation needs, if possible; otherwise those kept for requests behind this one.
std::vector<int32_t> Placement::grant(Node& node, const Order& order, HolderId holder, const ResourceSet& resources) {
  for (auto reservation = node.reservations.rbegin(); reservation != node.reservations.rend(); ++reservation) {
    ResourcePool left = reservation->backfill.left;
    if (const auto gpus = left.take(resources)) {
      VOLADOR_CHECK(ledger_.adopt(node.id, holder, resources, *gpus),
                    fmt::format("{} on {}", to_string(resources), node.name));
      return *gpus;
    }
    VOLADOR_CHECK(!(reservation->order < order), fmt::format("{} on {}", to_string(resources), node.name));
  }
  auto gpus = ledger_.grant(node.id, holder, resources);
  VOLADOR_CHECK(gpus.has_value(), fmt::format("{} on {}", to_string(resources), node.name));
  return std::move(*gpus);
}

Placement::Shape& Placement::shape_of(const PlacementRequest& request) {
  ShapeKey key{request.resources.entries(), request.wishes, request.program, {}};
  const auto found = shapes_.find(key);
  if (found != shapes_.end()) return *found->second;
  if (shapes_.size() >= kIdleShapesMax + fronts_.size()) drop_idle_shapes();
  auto shape = make_shape(key, request.resources);
  return *shapes_.emplace(std::move(key), std::move(shape)).first->second;
}

std::unique_ptr<Placement::Shape> Placement::make_shape(ShapeKey key, ResourceSet resources) {
  auto shape = std::make_unique<Shape>();
  shape->key = std::move(key);
  acquire_names(*shape, resources);
  shape->demand = Demand{.gpus = resources.get("gpus"),
                         .cpus = resources.get("cpus"),
                         .memory = resources.get("memory"),
                         .custom = names_.custom(resources)};
  shape->resources = std::move(resources);
  return shape;
}

void Placement::acquire_names(Shape& shape, const ResourceSet& names) {
  names_.acquire(names);
  names_.release(shape.named);
  shape.named = names;
}

void Placement::release_names(Shape& shape) { names_.release(std::exchange(shape.named, {})); }

void Placement::drop_idle_shapes() {
  std::erase_if(shapes_, [&](const auto& entry) {
    if (!entry.second->queue.empty()) return false;
    in_vain_.erase(entry.second.get());
    release_names(*entry.second);
    return true;
  });
}

bool Placement::labels_match(const Shape& shape, uint32_t labels) const {
  if (shape.key.wishes.labels.empty()) return true;
  if (shape.matches.size() <= labels) shape.matches.resize(labels + 1, 0);
  int8_t& known = shape.matches[labels];
  if (known == 0) known = match_all(shape.key.wishes.labels, label_sets_[labels].labels) ? 1 : -1;
  return known > 0;
}

// Whether the shape requires the named node.
bool Placement::names_its_node(const Shape& shape) {
  return !shape.key.wishes.node.empty() && !shape.key.wishes.node_preferred;
}

// Whether the node qualifies, regardless of what else runs there.
bool Placement::may_run(const Shape& shape, const Node& node) const {
  if (names_its_node(shape) && shape.key.wishes.node != node.name) return false;
  return node.excluded.empty() || !node.excluded.contains(shape.key.program);
}

bool Placement::is_apart(const Shape& shape, const Node& node) {
  return shape.key.wishes.apart.empty() || !node.apart.contains(shape.key.wishes.apart);
}

// The node that it requests by name, if present.
Placement::Node* Placement::wished_node(const Shape& shape) const {
  if (shape.key.wishes.node.empty()) return nullptr;
  const auto found = names_of_nodes_.find(shape.key.wishes.node);
  return found == names_of_nodes_.end() ? nullptr : found->second;
}

// Whether the node qualifies, regardless of its free capacity.
bool Placement::may_use(const Shape& shape, const Node& node) const {
  return node.why_not.empty() && may_run(shape, node) && is_apart(shape, node) &&
         labels_match(shape, node.labels_number);
}

// Whether the request fits there now.
bool Placement::may_take(const Shape& shape, const Order& order, const Node& node) const {
  return shape.demand.fits(capacity_for(node, order)) && may_use(shape, node);
}

Placement::Node* Placement::find_node(const Shape& shape, const Order& order) const {
  if (Node* wished = wished_node(shape); wished != nullptr && may_take(shape, order, *wished)) return wished;
  if (names_its_node(shape)) return nullptr;
  Node* of_another = nullptr;  // Fits only by using what is kept for a later request.
  for (const uint32_t slot : reserved_) {
    Node& node = *slots_.at(slot);
    if (node.reservations.back().order < order || !may_take(shape, order, node)) continue;
    if (has_reservation(node, order)) return &node;
    if (of_another == nullptr) of_another = &node;
  }
  const auto slot = free_.find(
      shape.demand, [&](uint32_t labels) { return labels_match(shape, labels); },
      [&](uint32_t candidate) {
        return may_run(shape, *slots_.at(candidate)) && is_apart(shape, *slots_.at(candidate));
      });
  return slot ? slots_.at(*slot) : of_another;
}

// Same result as find_node if no other node fits; the nodes are ordered by slot.
Placement::Node* Placement::find_among(const std::vector<Node*>& grown, const Shape& shape, const Order& order) const {
  Node* fullest = nullptr;
  Node* of_another = nullptr;
  for (Node* node : grown) {
    if (!may_take(shape, order, *node)) continue;
    if (node->name == shape.key.wishes.node) return node;
    if (has_reservation(*node, order)) return node;
    const Capacity& left = capacity_for_last(*node);
    if (shape.demand.fits(left)) {
      if (fullest == nullptr || left < capacity_for_last(*fullest)) fullest = node;
    } else if (of_another == nullptr) {
      of_another = node;
    }
  }
  return fullest != nullptr ? fullest : of_another;
}

// A blocked shape can only fit on nodes that grew since.
Placement::Node* Placement::place_of(const Shape& shape, const Order& order, const std::vector<Node*>& grown) const {
  if (!shape.blocked || grown.size() > kGrownScanMax)
    return find_node(shape, order);  // Using the index is cheaper then.
  return find_among(grown, shape, order);
}

// The next request after `after` that may fit: its shape is not blocked, or it asks for no more than `most`, the
// maximum of each amount over the grown nodes.
bool Placement::next_to_try(const Order* after, const std::vector<Node*>& grown, const Amounts& most, Order& order,
                            Shape*& shape) const {
  const auto ready = after == nullptr ? ready_.begin() : ready_.upper_bound(*after);
  const bool is_ready = ready != ready_.end();
  if (!grown.empty()) {
    if (const auto* entry = asks_.next(after, is_ready ? &ready->first : nullptr, most)) {
      order = entry->order;
      shape = entry->shape;
      return true;
    }
  }
  if (!is_ready) return false;
  order = ready->first;
  shape = ready->second;
  return true;
}

Result<void> Placement::check_names(const ResourceSet& resources) {
  for (const auto& [name, amount] : resources.entries()) {
    if (name == "cpus" || name == "gpus" || name == "memory" || names_.knows(name)) continue;
    if (names_.size() >= kResourceNamesMax) drop_idle_shapes();
    if (names_.size() < kResourceNamesMax) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resources.{}: nodes and waiting requests use {} names of custom resources, the "
                                  "limit of a cluster; use one of those",
                                  name, names_.size()));
  }
  return {};
}

Result<void> Placement::check_feasible(const PlacementRequest& request, const std::string& who) {
  VOLADOR_TRY(check_names(request.resources));
  if (nodes_.empty()) return {};
  const Shape& shape = shape_of(request);
  const auto slot = totals_.find(
      shape.demand, [&](uint32_t labels) { return labels_match(shape, labels); },
      [&](uint32_t candidate) { return may_run(shape, *slots_.at(candidate)); });
  if (slot) return {};
  Reason next_step;
  Reason lacking = lacking_everywhere(shape, &next_step);
  return make_error(
      error_of(ErrorCode::kInfeasible, reason("infeasible.start", who, std::move(lacking), std::move(next_step))));
}

void Placement::queue_changed(Shape& shape, const Order* first_before) {
  const Order* first = shape.queue.empty() ? nullptr : &shape.queue.begin()->first;
  if (first_before != nullptr) {
    fronts_.erase(*first_before);
    asks_.erase(*first_before);
    ready_.erase(*first_before);
  }
  if (first == nullptr) {
    shape.blocked = false;
    return;
  }
  // An earlier request may use what is kept for later ones.
  if (first_before != nullptr && *first < *first_before && !reserved_.empty()) shape.blocked = false;
  fronts_.emplace(*first, &shape);
  asks_.insert(*first, shape.demand, &shape);
  if (!shape.blocked) ready_.emplace(*first, &shape);
}

void Placement::submit(BootTime now, const PlacementRequest& request) {
  if (waiting_.contains(request.actor)) return;
  enqueue(now, shape_of(request), {request.priority, request.sequence, request.actor});
}

void Placement::enqueue(BootTime now, Shape& shape, const Order& order) {
  std::optional<Order> first_before;
  if (!shape.queue.empty()) first_before = shape.queue.begin()->first;
  shape.queue.emplace(order, now);
  waiting_.emplace(order.holder, std::make_pair(&shape, order));
  if (!first_before || order < *first_before) queue_changed(shape, first_before ? &*first_before : nullptr);
}

void Placement::take_out(Shape& shape, const Order& order) {
  const Order first_before = shape.queue.begin()->first;
  shape.queue.erase(order);
  waiting_.erase(order.holder);
  drop_reservation(order);
  if (!(first_before < order)) queue_changed(shape, &first_before);
  if (shape.group == nullptr) return;
  in_vain_.erase(&shape);
  release_names(shape);
  shapes_.erase(ShapeKey(shape.key));  // It was the only request of its shape.
}

bool Placement::withdraw(HolderId holder) {
  const auto found = waiting_.find(holder);
  if (found == waiting_.end()) return false;
  const auto [shape, order] = found->second;
  take_out(*shape, order);
  return true;
}

bool Placement::waits(HolderId holder) const { return waiting_.contains(holder); }
size_t Placement::waiting() const { return waiting_.size(); }

std::vector<Placed> Placement::schedule(BootTime now) {
  std::vector<Placed> placed;
  while (placed.size() < kDecisionsMax && !(grown_.empty() && ready_.empty())) {
    std::set<uint32_t> slots;
    slots.swap(grown_);
    std::vector<Node*> grown;
    std::vector<Node*> reserved;  // Grown nodes with reservations.
    Amounts most;                 // Maximum over the others; never too low, since placing only takes resources.
    for (const uint32_t slot : slots) {
      grown.push_back(slots_.at(slot));
      if (grown.back()->reservations.empty()) {
        most.raise_to(grown.back()->free);
      } else {
        reserved.push_back(grown.back());
      }
    }
    // An upper bound for a request behind `after`.
    const auto most_behind = [&](const Order* after) {
      Amounts amounts = most;
      for (const Node* node : reserved) amounts.raise_to(after == nullptr ? node->free : capacity_for(*node, *after));
      return amounts;
    };
    Order order;
    Shape* next = nullptr;
    for (bool more = next_to_try(nullptr, grown, most_behind(nullptr), order, next);
         more && placed.size() < kDecisionsMax; more = next_to_try(&order, grown, most_behind(&order), order, next)) {
      Shape& shape = *next;
      if (shape.group != nullptr ? !place_group(shape, order) : !place_actor(shape, order, grown, placed)) {
        shape.blocked = true;
        ready_.erase(order);
        continue;
      }
      note_passing(now, order);
      if (const auto in_vain = in_vain_.find(&shape); in_vain != in_vain_.end()) in_vain->second.times = 0;
      shape.blocked = false;
      take_out(shape, order);
      if (grown.size() <= kGrownScanMax) {
        most = {};
        for (const Node* each : grown) {
          if (each->reservations.empty()) most.raise_to(each->free);
        }
      }
    }
    if (placed.size() >= kDecisionsMax) grown_.merge(slots);
  }
  return placed;
}

bool Placement::place_actor(const Shape& shape, const Order& order, const std::vector<Node*>& grown,
                            std::vector<Placed>& placed) {
  Node* node = place_of(shape, order, grown);
  if (node == nullptr) return false;
  placed.push_back({order.holder.actor(), node->id, grant(*node, order, order.holder, shape.resources)});
  keep_apart(*node, order.holder, shape.key.wishes.apart);
  reindex(*node, false);
  return true;
}

void Placement::keep_apart(Node& node, HolderId holder, const std::string& word) {
  // Holders with the same key share a node only if an earlier head placed them there.
  if (word.empty() || !node.apart.insert(word).second) return;
  apart_.emplace(holder, word);
}

bool Placement::adopt(NodeId node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus,
                      const std::string& apart) {
  if (!ledger_.adopt(node, holder, held, gpus)) return false;
  keep_apart(*nodes_.at(node), holder, apart);
  reindex(*nodes_.at(node), false);
  return true;
}

bool Placement::lend_cpus(HolderId holder) {
  const auto node = ledger_.lend_cpus(holder);
  if (node) reindex(*nodes_.at(*node), true);
  return node.has_value();
}

bool Placement::take_back_cpus(HolderId holder) {
  const auto node = ledger_.take_back_cpus(holder);
  if (node) reindex(*nodes_.at(*node), false);
  return node.has_value();
}

void Placement::release(HolderId holder) {
  const auto id = ledger_.release(holder);
  if (!id) return;
  Node& node = *nodes_.at(*id);
  if (const auto word = apart_.extract(holder); !word.empty()) node.apart.erase(word.mapped());
  reindex(node, true);
}

// Rounds GPUs up to whole devices: the joint request of a group's bundles may be for 1.5.
static ResourceSet whole_devices(ResourceSet resources) {
  const Amount gpus = resources.get("gpus");
  if (gpus > kUnit) resources.set("gpus", (gpus + kUnit - 1) / kUnit * kUnit);
  return resources;
}

void Placement::check_invariants() const {
  ledger_.check_invariants();
  VOLADOR_CHECK(
      ledger_.nodes().size() == nodes_.size() && slots_.size() == nodes_.size() && totals_.size() == nodes_.size(),
      fmt::format("{} nodes", nodes_.size()));
  size_t reserved = 0;
  std::vector<size_t> label_users(label_sets_.size());
  ResourceNames names;
  for (const auto& [id, node] : nodes_) {
    VOLADOR_CHECK(slots_.at(node->slot) == node.get(), node->name);
    VOLADOR_CHECK(free_.contains(node->slot) == node->why_not.empty(), node->name);
    VOLADOR_CHECK(reserved_.contains(node->slot) == !node->reservations.empty(), node->name);
    VOLADOR_CHECK(label_sets_[node->labels_number].labels == node->labels, node->name);
    ++label_users[node->labels_number];
    names.acquire(ledger_.find(id)->total);
    reserved += node->reservations.empty() ? 0 : 1;
    const ResourcePool* before = ledger_.find(id);
    for (size_t at = 0; at < node->reservations.size(); ++at) {
      const Node::Reservation& one = node->reservations[at];
      VOLADOR_CHECK(at == 0 || !(one.order < node->reservations[at - 1].order), node->name);
      VOLADOR_CHECK(waiting_.contains(one.order.holder), node->name);
      VOLADOR_CHECK(reservers_.contains(one.order) && reservers_.at(one.order).slots.contains(node->slot), node->name);
      VOLADOR_CHECK(
          one.backfill.kept.fits_in(whole_devices(one.resources)),
          fmt::format("{}: {} kept of {}", node->name, to_string(one.backfill.kept), to_string(one.resources)));
      ResourceSet sum = one.backfill.left.free;
      sum += one.backfill.kept;
      VOLADOR_CHECK(sum == before->free,
                    fmt::format("{}: {} of {}", node->name, to_string(sum), to_string(before->free)));
      before = &one.backfill.left;
    }
  }
  VOLADOR_CHECK(reserved == reserved_.size() && reserved <= kReservedNodesMax,
                fmt::format("{} with reservations", reserved));
  VOLADOR_CHECK(reservers_.size() <= limits_.reservations, fmt::format("{} with reservations", reservers_.size()));
  for (const auto& [order, reserver] : reservers_) VOLADOR_CHECK(!reserver.slots.empty(), to_string(order.holder));
  for (const auto& [shape, in_vain] : in_vain_) {
    VOLADOR_CHECK(shapes_.contains(shape->key), to_string(shape->resources));
    for (const uint32_t slot : in_vain.slots) VOLADOR_CHECK(slots_.contains(slot), to_string(shape->resources));
  }
  for (size_t number = 0; number < label_sets_.size(); ++number) {
    VOLADOR_CHECK(label_users[number] == label_sets_[number].nodes, fmt::format("labels {}", number));
  }
  VOLADOR_CHECK(label_numbers_.size() + unused_labels_.size() == label_sets_.size(),
                fmt::format("{} sets of labels", label_sets_.size()));
  size_t queued = 0;
  size_t queues = 0;
  for (const auto& [key, shape] : shapes_) {
    queued += shape->queue.size();
    names.acquire(shape->named);
    if (shape->queue.empty()) continue;
    ++queues;
    const Order& first = shape->queue.begin()->first;
    VOLADOR_CHECK(fronts_.contains(first) && fronts_.at(first) == shape.get(), to_string(shape->resources));
    VOLADOR_CHECK(ready_.contains(first) == !shape->blocked, to_string(shape->resources));
    const auto could_go = [&] {
      return shape->group != nullptr ? could_place_group(*shape, first) : find_node(*shape, first) != nullptr;
    };
    VOLADOR_CHECK(!shape->blocked || !grown_.empty() || !could_go(), to_string(shape->resources));
    for (const auto& [order, since] : shape->queue) {
      VOLADOR_CHECK(!ledger_.node_of(order.holder), to_string(order.holder));
      VOLADOR_CHECK(waiting_.contains(order.holder), to_string(order.holder));
    }
  }
  VOLADOR_CHECK(queued == waiting_.size() && queues == fronts_.size() && queues == asks_.size(),
                fmt::format("{} {}", queued, waiting_.size()));
  VOLADOR_CHECK(names.size() == names_.size(),
                fmt::format("{} names of resources, {} in use", names_.size(), names.size()));
}

}  // namespace volador::head
