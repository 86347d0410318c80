#include "head/placement.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::head {
namespace {

constexpr size_t kIdleShapesMax = 4096;   // Kept for their cached answers.
constexpr size_t kResourceNamesMax = 4096;
constexpr size_t kGrownScanMax = 16;      // Grown nodes that are looked at one by one.
constexpr size_t kReserveScanMax = 64;    // Queues that one tick looks at.

Capacity capacity_of(ResourceNames& names, const ResourceLedger::Node& node, const ResourceSet& amounts, bool whole_node,
                     uint32_t labels) {
  return Capacity{.gpus = amounts.get("gpus"),
                  .cpus = std::max<Amount>(0, amounts.get("cpus")),  // Overdrawn, it still has room for who asks none.
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

uint32_t Placement::number_of(const Labels& labels) {
  const auto [entry, added] = label_numbers_.try_emplace(labels, static_cast<uint32_t>(label_sets_.size()));
  if (added) label_sets_.push_back(labels);
  return entry->second;
}

void Placement::set_node(NodeId id, const std::string& name, const Labels& labels, const ResourceSet& total,
                         const std::vector<int32_t>& gpus) {
  auto& place = nodes_[id];
  if (place == nullptr) {
    place = std::make_unique<Node>();
    place->id = id;
    place->slot = next_slot_++;
    slots_[place->slot] = place.get();
  }
  Node& node = *place;
  forget_name(node);
  node.name = name;
  names_of_nodes_[name] = &node;
  node.labels = labels;
  node.labels_number = number_of(labels);
  node.why_not = "not ready";
  node.excluded.clear();
  if (const auto* before = ledger_.find(id)) {
    for (const HolderId holder : before->holders) apart_.erase(holder);
  }
  node.apart.clear();
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
  free_.remove(slot);
  totals_.remove(slot);
  grown_.erase(slot);
  reserved_.erase(slot);
  slots_.erase(slot);
  forget_name(*found->second);
  for (const HolderId holder : ledger_.find(id)->holders) apart_.erase(holder);
  ledger_.remove_node(id);
  nodes_.erase(found);
  ++version_;
}

void Placement::set_placeable(NodeId id, const std::string& why_not) {
  const auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second->why_not == why_not) return;
  found->second->why_not = why_not;
  reindex(*found->second, why_not.empty());
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

bool Placement::is_excluded(NodeId id, const std::string& program) const {
  const auto found = nodes_.find(id);
  return found != nodes_.end() && found->second->excluded.contains(program);
}

void Placement::reindex(Node& node, bool grew) {
  ++version_;
  const ResourceLedger::Node& entry = *ledger_.find(node.id);
  node.free = capacity_of(names_, entry, entry.free, false, node.labels_number);
  const bool placeable = node.why_not.empty();
  if (placeable && !node.reserved) {
    free_.set(node.slot, node.free);
  } else {
    free_.remove(node.slot);
  }
  if (grew && placeable) grown_.insert(node.slot);
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
  shape->demand = Demand{.gpus = resources.get("gpus"),
                         .cpus = resources.get("cpus"),
                         .memory = resources.get("memory"),
                         .custom = names_.custom(resources)};
  shape->resources = std::move(resources);
  return shape;
}

void Placement::drop_idle_shapes() {
  std::erase_if(shapes_, [](const auto& entry) { return entry.second->queue.empty(); });
}

bool Placement::labels_match(const Shape& shape, uint32_t labels) const {
  if (shape.key.wishes.labels.empty()) return true;
  if (shape.matches.size() <= labels) shape.matches.resize(labels + 1, 0);
  int8_t& known = shape.matches[labels];
  if (known == 0) known = match_all(shape.key.wishes.labels, label_sets_[labels]) ? 1 : -1;
  return known > 0;
}

// There or nowhere.
bool Placement::names_its_node(const Shape& shape) { return !shape.key.wishes.node.empty() && !shape.key.wishes.node_preferred; }

// Whatever else runs there.
bool Placement::may_run(const Shape& shape, const Node& node) const {
  if (names_its_node(shape) && shape.key.wishes.node != node.name) return false;
  return node.excluded.empty() || !node.excluded.contains(shape.key.program);
}

bool Placement::is_apart(const Shape& shape, const Node& node) { return shape.key.wishes.apart.empty() || !node.apart.contains(shape.key.wishes.apart); }

// The one that it asks for by name, if it is there.
Placement::Node* Placement::wished_node(const Shape& shape) const {
  if (shape.key.wishes.node.empty()) return nullptr;
  const auto found = names_of_nodes_.find(shape.key.wishes.node);
  return found == names_of_nodes_.end() ? nullptr : found->second;
}

// Whether the request may use this node now, set aside or not.
bool Placement::may_take(const Shape& shape, const Order& order, const Node& node) const {
  if (!node.why_not.empty() || !may_run(shape, node) || !is_apart(shape, node) || !labels_match(shape, node.labels_number)) return false;
  if (node.reserved && *node.reserved < order) return false;
  return shape.demand.fits(node.free);
}

Placement::Node* Placement::find_node(const Shape& shape, const Order& order) const {
  if (Node* wished = wished_node(shape); wished != nullptr && may_take(shape, order, *wished)) return wished;
  if (names_its_node(shape)) return nullptr;
  Node* of_another = nullptr;
  for (const uint32_t slot : reserved_) {
    Node& node = *slots_.at(slot);
    if (!may_take(shape, order, node)) continue;
    if (!(order < *node.reserved)) return &node;  // Its own.
    if (of_another == nullptr) of_another = &node;
  }
  const auto slot = free_.find(
      shape.demand, [&](uint32_t labels) { return labels_match(shape, labels); },
      [&](uint32_t candidate) { return may_run(shape, *slots_.at(candidate)) && is_apart(shape, *slots_.at(candidate)); });
  return slot ? slots_.at(*slot) : of_another;
}

// What find_node finds where nothing outside of these nodes fits; they come by slot.
Placement::Node* Placement::find_among(const std::vector<Node*>& grown, const Shape& shape, const Order& order) const {
  Node* fullest = nullptr;
  Node* of_another = nullptr;
  for (Node* node : grown) {
    if (!may_take(shape, order, *node)) continue;
    if (node->name == shape.key.wishes.node) return node;
    if (!node->reserved) {
      if (fullest == nullptr || node->free < fullest->free) fullest = node;
    } else if (!(order < *node->reserved)) {
      return node;  // Its own.
    } else if (of_another == nullptr) {
      of_another = node;
    }
  }
  return fullest != nullptr ? fullest : of_another;
}

// A blocked shape fits nowhere but on what has grown since.
Placement::Node* Placement::place_of(const Shape& shape, const Order& order, const std::vector<Node*>& grown) const {
  if (!shape.blocked || grown.size() > kGrownScanMax) return find_node(shape, order);  // Then it is cheaper to ask the index.
  return find_among(grown, shape, order);
}

// The next request that may find a place, of those after `after`: of a shape that is not blocked, or no larger than `most`, which is
// what the grown nodes have, of each amount the most.
bool Placement::next_to_try(const Order* after, const std::vector<Node*>& grown, const Amounts& most, Order& order, Shape*& shape) const {
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

Result<void> Placement::check_names(const ResourceSet& resources) const {
  for (const auto& [name, amount] : resources.entries()) {
    if (name != "cpus" && name != "gpus" && name != "memory" && !names_.knows(name) && names_.size() >= kResourceNamesMax) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("resources.{}: the cluster has seen {} names of resources, its limit; use one of those", name,
                                    kResourceNamesMax));
    }
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
  std::string next_step;
  const std::string lacking = lacking_everywhere(shape, &next_step);
  return make_error(ErrorCode::kInfeasible, fmt::format("{} {}. It could never start.\n  {}", who, lacking, next_step));
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
  // One that comes earlier may use nodes that are set aside for later ones.
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
  if (shape.group != nullptr) shapes_.erase(ShapeKey(shape.key));  // It was the only one of its shape.
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
    Amounts most;  // Never less than the nodes have: placing takes only.
    for (const uint32_t slot : slots) {
      grown.push_back(slots_.at(slot));
      most.raise_to(grown.back()->free);
    }
    Order order;
    Shape* next = nullptr;
    for (bool more = next_to_try(nullptr, grown, most, order, next); more && placed.size() < kDecisionsMax;
         more = next_to_try(&order, grown, most, order, next)) {
      Shape& shape = *next;
      if (shape.group != nullptr ? !place_group(shape, order) : !place_actor(shape, order, grown, placed)) {
        shape.blocked = true;
        ready_.erase(order);
        continue;
      }
      note_passing(now, order);
      shape.blocked = false;
      take_out(shape, order);
      if (grown.size() <= kGrownScanMax) {
        most = {};
        for (const Node* each : grown) most.raise_to(each->free);
      }
    }
    if (placed.size() >= kDecisionsMax) grown_.merge(slots);
  }
  return placed;
}

bool Placement::place_actor(const Shape& shape, const Order& order, const std::vector<Node*>& grown, std::vector<Placed>& placed) {
  Node* node = place_of(shape, order, grown);
  if (node == nullptr) return false;
  auto gpus = ledger_.grant(node->id, order.holder, shape.resources);
  VOLADOR_CHECK(gpus.has_value(), fmt::format("{} on {}", to_string(shape.resources), node->name));
  placed.push_back({order.holder.actor(), node->id, std::move(*gpus)});
  keep_apart(*node, order.holder, shape.key.wishes.apart);
  reindex(*node, false);
  return true;
}

void Placement::keep_apart(Node& node, HolderId holder, const std::string& word) {
  if (word.empty() || !node.apart.insert(word).second) return;  // Two of a word share a node only where an earlier head put them there.
  apart_.emplace(holder, word);
}

bool Placement::adopt(NodeId node, HolderId holder, const ResourceSet& held, const std::vector<int32_t>& gpus, const std::string& apart) {
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

void Placement::check_invariants() const {
  ledger_.check_invariants();
  VOLADOR_CHECK(ledger_.nodes().size() == nodes_.size() && slots_.size() == nodes_.size() && totals_.size() == nodes_.size(),
                fmt::format("{} nodes", nodes_.size()));
  size_t set_aside = 0;
  for (const auto& [id, node] : nodes_) {
    VOLADOR_CHECK(slots_.at(node->slot) == node.get(), node->name);
    VOLADOR_CHECK(free_.contains(node->slot) == (node->why_not.empty() && !node->reserved), node->name);
    VOLADOR_CHECK(reserved_.contains(node->slot) == node->reserved.has_value(), node->name);
    if (node->reserved) {
      ++set_aside;
      VOLADOR_CHECK(waiting_.contains(node->reserved->holder), node->name);
    }
  }
  VOLADOR_CHECK(set_aside <= limits_.reservations && set_aside == reserved_.size(), fmt::format("{} set aside", set_aside));
  size_t queued = 0;
  size_t queues = 0;
  for (const auto& [key, shape] : shapes_) {
    queued += shape->queue.size();
    if (shape->queue.empty()) continue;
    ++queues;
    const Order& first = shape->queue.begin()->first;
    VOLADOR_CHECK(fronts_.contains(first) && fronts_.at(first) == shape.get(), to_string(shape->resources));
    VOLADOR_CHECK(ready_.contains(first) == !shape->blocked, to_string(shape->resources));
    const auto could_go = [&] { return shape->group != nullptr ? could_place_group(*shape, first) : find_node(*shape, first) != nullptr; };
    VOLADOR_CHECK(!shape->blocked || !grown_.empty() || !could_go(), to_string(shape->resources));
    for (const auto& [order, since] : shape->queue) {
      VOLADOR_CHECK(!ledger_.node_of(order.holder), to_string(order.holder));
      VOLADOR_CHECK(waiting_.contains(order.holder), to_string(order.holder));
    }
  }
  VOLADOR_CHECK(queued == waiting_.size() && queues == fronts_.size() && queues == asks_.size(), fmt::format("{} {}", queued, waiting_.size()));
}

// ---- requests that were passed by ----

void Placement::note_passing(BootTime now, const Order& order) {
  Passing& passing = passing_[order.priority];
  passing.sequence_max = std::max(passing.sequence_max, order.sequence);
  passing.last = now;
  while (passing_.size() > kIdleShapesMax) passing_.erase(passing_.begin());
}

bool Placement::was_passed(const Order& order, BootTime since) const {
  for (const auto& [priority, passing] : passing_) {
    if (priority > order.priority) break;
    if (priority == order.priority ? passing.sequence_max > order.sequence : passing.last >= since) return true;
  }
  return false;
}

void Placement::drop_reservation(const Order& order) {
  for (auto at = reserved_.begin(); at != reserved_.end();) {
    Node& node = *slots_.at(*at);
    if (*node.reserved < order || order < *node.reserved) {
      ++at;
      continue;
    }
    node.reserved.reset();
    at = reserved_.erase(at);
    reindex(node, true);
  }
}

void Placement::on_tick(BootTime now) {
  std::vector<Order> over;
  for (const uint32_t slot : reserved_) {
    const Node& node = *slots_.at(slot);
    if (now >= node.reserved_until) over.push_back(*node.reserved);
  }
  for (const Order& order : over) {
    drop_reservation(order);
    waiting_.at(order.holder).first->queue.at(order) = now;
  }
  size_t looked_at = 0;
  for (const auto& [order, shape] : fronts_) {
    if (reserved_.size() >= limits_.reservations || ++looked_at > kReserveScanMax) return;
    const BootTime since = shape->queue.at(order);
    if (now - since < times_.reserve_after || reserved_for(order.holder) || !was_passed(order, since)) continue;
    reserve(now, *shape, order);
  }
}

// Sets aside the node that needs the least to be freed.
void Placement::reserve(BootTime now, const Shape& shape, const Order& order) {
  if (shape.group != nullptr) return reserve_for_group(now, shape, order);
  Node* best = nullptr;
  double least = 0;
  for (const Node* candidate : nodes_for(shape)) {
    if (!candidate->why_not.empty() || candidate->reserved) continue;
    const ResourceLedger::Node& entry = *ledger_.find(candidate->id);
    double shortfall = 0;
    for (const auto& [name, amount] : shape.resources.entries()) {
      const Amount missing = std::max<Amount>(0, amount - entry.free.get(name));
      shortfall += static_cast<double>(missing) / static_cast<double>(amount);
    }
    if (best == nullptr || shortfall < least || (shortfall == least && candidate->slot < best->slot)) {
      best = slots_.at(candidate->slot);
      least = shortfall;
    }
  }
  if (best == nullptr) return;
  best->reserved = order;
  best->reserved_until = now + kReservedMax;
  reserved_.insert(best->slot);
  reindex(*best, false);
}

std::optional<NodeId> Placement::reserved_for(HolderId holder) const {
  for (const uint32_t slot : reserved_) {
    if (slots_.at(slot)->reserved->holder == holder) return slots_.at(slot)->id;
  }
  return std::nullopt;
}

}  // namespace volador::head
