// Explanations of why requests wait or can never run.
#include <fmt/format.h>

#include <algorithm>

#include "head/scheduling/placement.h"

namespace volador::head {
namespace {

constexpr size_t kCountedMax = 1000;  // Limit for counting the requests ahead.
constexpr size_t kNamedMax = 3;       // Nodes named in one reason.

std::string format(std::string_view resource, Amount amount) {
  return resource == "memory" ? format_bytes(amount) : format_amount(amount);
}

ResourceSet amount_of(std::string_view resource, Amount amount) {
  ResourceSet set;
  set.set(resource, amount);
  return set;
}

// An example of labels that a node needs: "zone=a,gpu=yes".
std::string example_of(const std::vector<LabelRule>& rules) {
  std::string text;
  for (const LabelRule& rule : rules) {
    if (rule.value.op == LabelValue::Op::kNotIn || rule.value.op == LabelValue::Op::kAbsent) continue;
    const std::string value = rule.value.values.empty() ? "yes" : rule.value.values.front();
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", rule.key, value);
  }
  return text;
}

// The maximum of a resource that one request could get from this node now.
Amount available(const ResourceLedger::Node& node, std::string_view resource, Amount asked) {
  if (resource != "gpus") return std::max<Amount>(0, node.free.get(resource));
  const int64_t devices = node.devices_free();
  if (asked >= kUnit) return devices * kUnit;
  return devices > 0 ? kUnit : node.largest_part();
}

}  // namespace

// Checks labels and name.
bool Placement::is_asked_for(const Shape& shape, const Node& node) const {
  return labels_match(shape, node.labels_number) && (!names_its_node(shape) || shape.key.wishes.node == node.name);
}

// Nodes that could hold the shape if nothing else ran there, in joining order.
std::vector<const Placement::Node*> Placement::nodes_for(const Shape& shape) const {
  std::vector<const Node*> nodes;
  for (const auto& [id, node] : nodes_) {
    if (!may_run(shape, *node) || !labels_match(shape, node->labels_number)) continue;
    if (shape.resources.fits_in(ledger_.find(id)->total)) nodes.push_back(node.get());
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->slot < b->slot; });
  return nodes;
}

// "asks for gpus 2; the largest node (gpu-1) has 1", if no node could hold the shape.
Reason Placement::lacking_everywhere(const Shape& shape, Reason* next_step) const {
  std::vector<const Node*> nodes;
  for (const auto& [id, node] : nodes_) {
    if (is_asked_for(shape, *node)) nodes.push_back(node.get());
  }
  std::sort(nodes.begin(), nodes.end(), [](const Node* a, const Node* b) { return a->slot < b->slot; });
  const NodeAffinity& wishes = shape.key.wishes;
  const std::string labels = to_string(wishes.labels);
  if (nodes.empty()) {
    if (names_its_node(shape)) {
      *next_step = reason("next.node", reason("option.or_wait"));
      if (names_of_nodes_.contains(wishes.node)) return reason("lacks.labels_of_node", wishes.node, labels);
      return reason("lacks.node", wishes.node);
    }
    const std::string example = example_of(wishes.labels);
    *next_step = example.empty() ? reason("next.labels", reason("option.and_wait"))
                                 : reason("next.labels_like", example, reason("option.and_wait"));
    return reason("lacks.labels", labels, wishes.labels.size());
  }
  const Reason among = names_its_node(shape) ? reason("among.named", wishes.node)
                       : labels.empty()      ? Reason()
                                             : reason("among.labelled", labels);
  for (const auto& [name, amount] : shape.resources.entries()) {
    const Node* largest = nullptr;
    Amount most = 0;
    for (const Node* node : nodes) {
      const Amount has = ledger_.find(node->id)->total.get(name);
      if (has > most) {
        most = has;
        largest = node;
      }
    }
    if (amount <= most) continue;
    if (largest == nullptr) {
      *next_step = reason("next.none", reason("option.resources"), name, reason("option.and_wait"));
      return reason("lacks.any", amount_of(name, amount), among);
    }
    *next_step = reason("next.most", reason("option.resources"), name, format(name, most), reason("option.and_wait"));
    return reason("lacks.most", amount_of(name, amount), among, largest->name, format(name, most));
  }
  const bool large_enough = std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
    return shape.resources.fits_in(ledger_.find(node->id)->total);
  });
  if (large_enough) {
    *next_step = reason("next.machines", reason("option.and_wait"));
    return reason("lacks.program", among, shape.resources);
  }
  *next_step = reason("next.together", reason("option.resources"), reason("option.and_wait"));
  return reason("lacks.together", shape.resources, among);
}

Reason Placement::capacity_reason(const Shape& shape) const {
  if (nodes_.empty()) return reason("waits.no_node");
  const std::vector<const Node*> nodes = nodes_for(shape);
  if (nodes.empty()) {
    Reason next_step;
    const auto matches = [&](const auto& entry) { return is_asked_for(shape, *entry.second); };
    if (std::none_of(nodes_.begin(), nodes_.end(), matches)) {
      const NodeAffinity& wishes = shape.key.wishes;
      if (!names_its_node(shape)) return reason("waits.labels", to_string(wishes.labels), wishes.labels.size());
      return reason("waits.for_it", lacking_everywhere(shape, &next_step));
    }
    return reason("waits.for_larger", lacking_everywhere(shape, &next_step));
  }
  std::vector<const Node*> usable;
  Reason unusable;
  size_t named = 0;
  size_t taken = 0;
  for (const Node* node : nodes) {
    if (node->why_not.empty() && !is_apart(shape, *node)) {
      ++taken;
    } else if (node->why_not.empty()) {
      usable.push_back(node);
    } else if (++named <= kNamedMax) {
      const Reason why = problem(node->id);
      Reason one = why.empty() ? reason("waits.node_is", node->name, cluster_word(node->why_not))
                               : reason("waits.node_problem", node->name, why);
      unusable = unusable.empty() ? std::move(one) : reason("joined.list", std::move(unusable), std::move(one));
    }
  }
  if (usable.empty()) {
    if (named > kNamedMax) unusable = reason("joined.more", std::move(unusable), named - kNamedMax);
    if (taken > 0) {
      const std::string& apart = shape.key.wishes.apart;
      return and_also(taken == 1 ? reason("waits.apart_one", apart) : reason("waits.apart", apart, taken),
                      std::move(unusable));
    }
    return reason("waits.no_other", std::move(unusable));
  }
  Reason why = capacity_lacking(shape, usable);
  if (shape.resources.get("gpus") == 0) return why;
  named = 0;
  for (const Node* node : usable) {
    for (const auto& [gpu, problem] : node->closed_gpus) {
      if (++named > kNamedMax) return why;
      why = and_also(std::move(why), reason("waits.gpu_problem", node->name, problem));
    }
  }
  return why;
}

// What is not free on nodes that could hold the shape.
Reason Placement::capacity_lacking(const Shape& shape, const std::vector<const Node*>& usable) const {
  for (const auto& [name, amount] : shape.resources.entries()) {
    Amount most = 0;
    Amount used = 0;
    Amount total = 0;
    const Node* best = usable.front();
    for (const Node* node : usable) {
      const ResourceLedger::Node& entry = *ledger_.find(node->id);
      used += entry.used.get(name);
      total += entry.total.get(name);
      if (const Amount has = available(entry, name, amount); has > most) {
        most = has;
        best = node;
      }
    }
    if (most >= amount) continue;
    const ResourceSet asked = amount_of(name, amount);
    const std::string in_use = format(name, used), of = format(name, total);
    if (nodes_.size() == 1) return reason("waits.in_use_only", asked, in_use, of);
    if (usable.size() == 1) return reason("waits.in_use_one", asked, in_use, of, usable.front()->name);
    if (most == 0) return reason("waits.in_use", asked, in_use, of, usable.size());
    return reason("waits.most_free", asked, format(name, most), best->name, in_use, of, usable.size());
  }
  for (const Node* node : usable) {
    if (!shape.demand.fits(node->free)) continue;
    return reason("waits.soon");
  }
  return reason("waits.together", shape.resources);
}

Reason Placement::queue_reason(const Order& order, const NameOf& name_of) const {
  size_t higher = 0;
  size_t earlier = 0;
  for (const auto& [front, shape] : fronts_) {
    if (!(front < order) || higher + earlier > kCountedMax) break;
    for (const auto& [ahead, since] : shape->queue) {
      if (!(ahead < order) || higher + earlier > kCountedMax) break;
      ++(ahead.priority > order.priority ? higher : earlier);
    }
  }
  if (higher + earlier == 0) return {};
  const size_t shown = higher > 0 ? higher : earlier;
  Reason::Argument count = shown;
  if (shown > kCountedMax) count = reason("count.over", kCountedMax);
  Reason first = name_of(fronts_.begin()->first.holder);
  if (shown > 1) first = reason("waits.first_is", std::move(first));
  return reason(higher > 0 ? "waits.behind_higher" : "waits.behind_earlier", std::move(count), std::move(first));
}

// The first reservation of an earlier request without which a node would fit.
std::optional<Blocker> Placement::reservation_before(const Shape& shape, const Order& order) const {
  if (shape.group != nullptr) return reservation_before_group(shape, order);
  for (const uint32_t slot : reserved_) {
    const Node& node = *slots_.at(slot);
    if (!may_use(shape, node) || !shape.demand.fits(node.free)) continue;
    for (const Node::Reservation& one : node.reservations) {
      if (!(one.order < order)) break;
      if (shape.demand.fits(one.left)) continue;
      Blocker blocker{.why = Blocker::Why::kReservation, .holder = one.order.holder, .node = node.id, .resources = {}};
      for (const auto& [name, amount] : one.backfill.kept.entries()) {
        if (shape.resources.get(name) > 0) blocker.resources.set(name, amount);
      }
      return blocker;
    }
  }
  return std::nullopt;
}

std::optional<Blocker> Placement::first_before(const Order& order) const {
  if (fronts_.empty() || !(fronts_.begin()->first < order)) return std::nullopt;
  return Blocker{.why = Blocker::Why::kOrder, .holder = fronts_.begin()->first.holder, .node = {}, .resources = {}};
}

std::optional<Blocker> Placement::blocker(HolderId holder) const {
  const auto found = waiting_.find(holder);
  if (found == waiting_.end()) return std::nullopt;
  const auto& [shape, order] = found->second;
  if (auto reservation = reservation_before(*shape, order)) return reservation;
  return first_before(order);
}

Reason Placement::explain(HolderId holder, const NameOf& name_of) const {
  const auto found = waiting_.find(holder);
  if (found == waiting_.end()) return {};
  const auto& [shape, order] = found->second;
  Reason why;
  if (const auto other = reservation_before(*shape, order)) {
    why = reason("waits.reserved_before", nodes_.at(other->node)->name, other->resources, name_of(other->holder));
  } else {
    if (shape->reason_version != version_) {
      shape->reason = shape->group != nullptr ? group_reason(*shape, order) : capacity_reason(*shape);
      shape->reason_version = version_;
    }
    why = shape->reason;
  }
  size_t named = 0;
  const std::vector<Reserved> reserved = reserved_for(holder);
  for (const Reserved& one : reserved) {
    if (++named > kNamedMax) break;
    why = and_also(std::move(why), reason("waits.reserved", nodes_.at(one.node)->name, one.resources));
  }
  if (reserved.size() > kNamedMax) why = reason("joined.clauses_more", std::move(why), reserved.size() - kNamedMax);
  return and_also(std::move(why), queue_reason(order, name_of));
}

}  // namespace volador::head
