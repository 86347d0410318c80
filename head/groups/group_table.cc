#include "head/groups/group_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "head/kernel/wire.h"
#include "runtime/protocol/node_affinity.h"
#include "runtime/quantities.h"

namespace volador::head {

Reason Group::in_words() const {
  return spec.name().empty() ? reason("name.group", short_id(id))
                             : reason("name.named_group", spec.name(), short_id(id));
}

Result<void> GroupTable::check_room(const protocol::GroupSpec& spec) const {
  if (groups_.size() >= limits_.groups) {
    return make_error(ErrorCode::kUnavailable, fmt::format("the cluster has {}, its limit; remove some and try again",
                                                           counted(groups_.size(), "placement group")));
  }
  if (bundles_ + static_cast<size_t>(spec.bundles_size()) > limits_.all_bundles) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("all placement groups have {}, the limit of a cluster is {}; remove some and try again",
                    counted(bundles_, "bundle"), limits_.all_bundles));
  }
  if (const Group* holder = spec.name().empty() ? nullptr : named(spec.name())) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the name \"{}\" is held by placement group {} ({}); get that one by its name, or choose another name",
            spec.name(), short_id(holder->id), group_state_name(holder->state)));
  }
  return {};
}

Group& GroupTable::create(protocol::GroupSpec spec, std::vector<ResourceSet> bundles,
                          const std::vector<HolderId>& holders, ActorId owner, uint64_t sequence) {
  const auto id = id_from_raw<GroupId>(spec.group_id());
  const auto [entry, added] = groups_.try_emplace(id);
  VOLADOR_CHECK(added && holders.size() == bundles.size() + 1, to_string(id));
  Group& group = entry->second;
  group.id = id;
  group.spec = std::move(spec);
  group.driver = id_from_raw<DriverId>(group.spec.driver_id());
  group.owner = owner;
  group.sequence = sequence;
  group.holder = holders.front();
  for (size_t at = 0; at < bundles.size(); ++at) {
    Bundle& bundle = group.bundles.emplace_back();
    bundle.resources = std::move(bundles[at]);
    bundle.holder = holders[at + 1];
  }
  index(group);
  touch(group);
  return group;
}

bool GroupTable::restore(Group restored) {
  const GroupId id = restored.id;
  if (groups_.contains(id)) return false;
  if (!restored.is_removed() && !restored.spec.name().empty() && names_.contains(restored.spec.name())) return false;
  for (Bundle& bundle : restored.bundles) {
    if (bundle.is_placed()) bundle.pool = ResourcePool::of_grant(bundle.resources, bundle.gpus);
  }
  index(groups_.emplace(id, std::move(restored)).first->second);
  return true;
}

void GroupTable::index(Group& group) {
  holders_[group.holder] = group.id;
  bundles_ += group.bundles.size();
  for (size_t at = 0; at < group.bundles.size(); ++at) {
    if (group.bundles[at].is_placed()) nodes_[group.bundles[at].node].emplace(group.id, at);
  }
  if (group.is_removed()) return;
  if (!group.spec.name().empty()) names_[group.spec.name()] = group.id;
  if (group.spec.detached()) return;
  if (group.owner.is_nil()) {
    drivers_[group.driver].insert(group.id);
  } else {
    owners_[group.owner].insert(group.id);
  }
}

// Frees its name and detaches it from its owner.
void GroupTable::unindex(Group& group) {
  if (!group.spec.name().empty()) names_.erase(group.spec.name());
  if (group.spec.detached()) return;
  const auto drop = [&](auto& owners, const auto& owner) {
    const auto entry = owners.find(owner);
    entry->second.erase(group.id);
    if (entry->second.empty()) owners.erase(entry);
  };
  if (group.owner.is_nil()) {
    drop(drivers_, group.driver);
  } else {
    drop(owners_, group.owner);
  }
}

// ---- placement ----

std::optional<GroupRequest> GroupTable::request_of(const Group& group) const {
  GroupRequest request{.holder = group.holder,
                       .strategy = static_cast<Strategy>(group.spec.strategy()),
                       .bundles = {},
                       .beside = {},
                       .labels = labels_of(group.spec.labels()),
                       .program = group.spec.program_sha256(),
                       .priority = group.spec.priority(),
                       .sequence = group.sequence};
  for (size_t at = 0; at < group.bundles.size(); ++at) {
    const Bundle& bundle = group.bundles[at];
    if (bundle.is_placed()) {
      request.beside.push_back(bundle.node);
    } else {
      const auto& labels = group.spec.bundle_labels();
      const int index = static_cast<int>(at);
      request.bundles.push_back({bundle.holder, bundle.resources, at,
                                 index < labels.size() ? labels_of(labels[index].rules()) : std::vector<LabelRule>()});
    }
  }
  if (request.bundles.empty()) return std::nullopt;
  return request;
}

void GroupTable::placed(const PlacedGroup& places) {
  Group& group = groups_.at(holders_.at(places.holder));
  for (const PlacedGroup::Bundle& place : places.bundles) {
    const auto found = std::find_if(group.bundles.begin(), group.bundles.end(),
                                    [&](const Bundle& bundle) { return bundle.holder == place.holder; });
    VOLADOR_CHECK(found != group.bundles.end() && !found->is_placed(), to_string(group.id));
    found->node = place.node;
    found->gpus = place.gpus;
    found->pool = ResourcePool::of_grant(found->resources, place.gpus);
    nodes_[place.node].emplace(group.id, static_cast<size_t>(found - group.bundles.begin()));
  }
  group.state = protocol::GROUP_READY;
  changed_.insert(group.id);
  touch(group);
}

void GroupTable::vacate(Group& group, size_t index) {
  Bundle& bundle = group.bundles[index];
  const auto node = nodes_.find(bundle.node);
  node->second.erase({group.id, index});
  if (node->second.empty()) nodes_.erase(node);
  for (const ActorId actor : bundle.drawing) draws_.erase(actor);
  bundle.drawing.clear();
  bundle.node = {};
  bundle.gpus.clear();
  bundle.pool = {};
  touch(group);
}

void GroupTable::lose(Group& group, size_t bundle) {
  if (!group.bundles[bundle].is_placed()) return;
  vacate(group, bundle);
  if (!group.is_removed()) group.state = protocol::GROUP_RESCHEDULING;
}

std::vector<HolderId> GroupTable::remove(Group& group, const protocol::DeathCause& cause) {
  if (group.is_removed()) return {};
  group.state = protocol::GROUP_REMOVED;
  group.cause = cause;
  touch(group);
  waiting_ -= group.waiting.size();
  group.waiting.clear();
  group.actors.clear();
  unindex(group);
  return drop_unused(group);
}

std::vector<HolderId> GroupTable::drop_unused(Group& group) {
  std::vector<HolderId> free;
  for (size_t at = 0; at < group.bundles.size(); ++at) {
    if (!group.bundles[at].is_placed() || !group.bundles[at].drawing.empty()) continue;
    free.push_back(group.bundles[at].holder);
    vacate(group, at);
  }
  return free;
}

void GroupTable::withdraw(GroupId id) {
  Group& group = groups_.at(id);
  unindex(group);
  bundles_ -= group.bundles.size();
  holders_.erase(group.holder);
  groups_.erase(id);
}

bool GroupTable::forget_if_over(GroupId id) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) return false;
  const Group& group = found->second;
  if (!group.is_removed() ||
      std::any_of(group.bundles.begin(), group.bundles.end(), [](const Bundle& bundle) { return bundle.is_placed(); }))
    return false;
  ended_[id] = reason("ended.removed", group.in_words(), message_of(group.cause));
  ended_order_.push_back(id);
  if (ended_order_.size() > limits_.removed_groups) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  bundles_ -= group.bundles.size();
  holders_.erase(group.holder);
  changed_.erase(id);
  groups_.erase(found);
  return true;
}

// ---- actors ----

Result<void> GroupTable::check_actor(GroupId id, int bundle, const ResourceSet& resources,
                                     const std::string& who) const {
  const Group* group = find(id);
  if (group == nullptr || group->is_removed()) {
    const std::string end = group == nullptr
                                ? end_of(id).text()
                                : fmt::format("{} was removed: {}", group->display(), group->cause.message());
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{} asks for a place in placement group {}, {}", who, short_id(id),
                    end.empty() ? "which the head does not know; see volador list groups" : "but " + end));
  }
  const int count = static_cast<int>(group->bundles.size());
  if (bundle != kAnyBundle && (bundle < 0 || bundle >= count)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{} asks for bundle {} of {}, which has bundles 0 to {}; or pass -1 for any of them",
                                  who, bundle, group->display(), count - 1));
  }
  for (int at = 0; at < count; ++at) {
    const Bundle& candidate = group->bundles[static_cast<size_t>(at)];
    if ((bundle == kAnyBundle || bundle == at) && resources.fits_in(candidate.resources)) return {};
  }
  const std::string has = bundle == kAnyBundle
                              ? fmt::format("no bundle of {} has so much", group->display())
                              : fmt::format("bundle {} of {} has {}", bundle, group->display(),
                                            to_string(group->bundles[static_cast<size_t>(bundle)].resources));
  return make_error(ErrorCode::kInfeasible,
                    fmt::format("{} asks for {}; {}. It could never start there.\n  Ask for no more than the bundle "
                                "has, or make the group with larger bundles.",
                                who, to_string(resources), has));
}

void GroupTable::join(GroupId group, ActorId actor) { groups_.at(group).actors.insert(actor); }

void GroupTable::leave(GroupId id, ActorId actor) {
  Group* group = find(id);
  if (group == nullptr) return;
  group->actors.erase(actor);
  waiting_ -= std::erase_if(group->waiting, [&](const auto& entry) { return entry.second.actor == actor; });
}

void GroupTable::submit(GroupId id, const RequestOrder& order, Group::Waiting request) {
  Group& group = groups_.at(id);
  if (!group.waiting.emplace(order, std::move(request)).second) return;
  ++waiting_;
  changed_.insert(id);
}

bool GroupTable::waits(GroupId id, ActorId actor) const {
  const Group* group = find(id);
  return group != nullptr && std::any_of(group->waiting.begin(), group->waiting.end(),
                                         [&](const auto& entry) { return entry.second.actor == actor; });
}

std::vector<GroupTable::PlacedIn> GroupTable::schedule(
    const std::function<bool(NodeId, const std::string&)>& may_start) {
  std::vector<PlacedIn> out;
  for (const GroupId id : std::exchange(changed_, {})) {
    if (Group* group = find(id)) schedule(*group, may_start, out);
  }
  return out;
}

void GroupTable::schedule(Group& group, const std::function<bool(NodeId, const std::string&)>& may_start,
                          std::vector<PlacedIn>& out) {
  using Asked = std::tuple<int, std::map<std::string, Amount, std::less<>>, std::string>;
  std::set<Asked> failed;  // Requests that failed; identical ones are not tried again.
  for (auto at = group.waiting.begin(); at != group.waiting.end();) {
    const Group::Waiting& wanted = at->second;
    Asked asked{wanted.bundle, wanted.resources.entries(), wanted.program};
    const auto fits = [&](const Bundle& bundle) {
      return bundle.is_placed() && bundle.pool.fits(wanted.resources) && may_start(bundle.node, wanted.program);
    };
    std::optional<size_t> chosen;
    for (size_t index = 0; index < group.bundles.size() && !chosen && !failed.contains(asked); ++index) {
      if ((wanted.bundle == kAnyBundle || wanted.bundle == static_cast<int>(index)) && fits(group.bundles[index]))
        chosen = index;
    }
    if (!chosen) {
      failed.insert(std::move(asked));
      ++at;
      continue;
    }
    Bundle& bundle = group.bundles[*chosen];
    auto gpus = bundle.pool.take(wanted.resources);
    bundle.drawing.insert(wanted.actor);
    draws_.emplace(wanted.actor, Draw{group.id, *chosen, wanted.resources, *gpus});
    out.push_back({{wanted.actor, bundle.node, std::move(*gpus)}, static_cast<int>(*chosen)});
    at = group.waiting.erase(at);
    --waiting_;
  }
}

bool GroupTable::adopt(GroupId id, ActorId actor, int index, const ResourceSet& held,
                       const std::vector<int32_t>& gpus) {
  Group* group = find(id);
  if (group == nullptr || index < 0 || static_cast<size_t>(index) >= group->bundles.size() || draws_.contains(actor))
    return false;
  Bundle& bundle = group->bundles[static_cast<size_t>(index)];
  if (!bundle.is_placed() || !bundle.pool.take_these(held, gpus)) return false;
  bundle.drawing.insert(actor);
  draws_.emplace(actor, Draw{id, static_cast<size_t>(index), held, gpus});
  return true;
}

std::optional<std::pair<GroupId, size_t>> GroupTable::release(ActorId actor) {
  const auto found = draws_.find(actor);
  if (found == draws_.end()) return std::nullopt;
  const Draw draw = std::move(found->second);
  draws_.erase(found);
  Bundle& bundle = groups_.at(draw.group).bundles[draw.bundle];
  bundle.pool.put_back(draw.held, draw.gpus);
  bundle.drawing.erase(actor);
  changed_.insert(draw.group);
  if (!bundle.drawing.empty()) return std::nullopt;
  return std::make_pair(draw.group, draw.bundle);
}

std::optional<NodeId> GroupTable::move_cpus(ActorId actor, bool lend) {
  const auto found = draws_.find(actor);
  if (found == draws_.end()) return std::nullopt;
  Draw& draw = found->second;
  const ResourceSet cpus = lend ? pass_cpus(draw.held, draw.lent) : pass_cpus(draw.lent, draw.held);
  if (cpus.empty()) return std::nullopt;
  Bundle& bundle = groups_.at(draw.group).bundles[draw.bundle];
  if (lend) {
    bundle.pool.put_back(cpus, {});
    changed_.insert(draw.group);
  } else {
    bundle.pool.overdraw(cpus);
  }
  return bundle.node;
}

std::optional<NodeId> GroupTable::node_of(ActorId actor) const {
  const auto found = draws_.find(actor);
  if (found == draws_.end()) return std::nullopt;
  return groups_.at(found->second.group).bundles[found->second.bundle].node;
}

void GroupTable::node_changed(NodeId node) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  for (const auto& [group, bundle] : found->second) changed_.insert(group);
}

void GroupTable::set_closed(NodeId node, const std::set<int32_t>& gpus) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return;
  for (const auto& [group, bundle] : found->second) groups_.at(group).bundles[bundle].pool.set_closed(gpus);
}

// ---- queries ----

Group* GroupTable::find(GroupId id) {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

const Group* GroupTable::find(GroupId id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

const Group* GroupTable::find(HolderId holder) const {
  const auto found = holders_.find(holder);
  return found == holders_.end() ? nullptr : find(found->second);
}

const Group* GroupTable::named(std::string_view name) const {
  const auto found = names_.find(name);
  return found == names_.end() ? nullptr : find(found->second);
}

std::vector<GroupId> GroupTable::of_driver(DriverId driver) const {
  const auto found = drivers_.find(driver);
  if (found == drivers_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<GroupId> GroupTable::of_owner(ActorId owner) const {
  const auto found = owners_.find(owner);
  if (found == owners_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<std::pair<GroupId, size_t>> GroupTable::on_node(NodeId node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<GroupId> GroupTable::starting_with(std::string_view text) const {
  std::vector<GroupId> matches;
  for (const auto& [id, group] : groups_) {
    if (to_string(id).starts_with(text)) matches.push_back(id);
  }
  for (const auto& [id, end] : ended_) {
    if (to_string(id).starts_with(text)) matches.push_back(id);
  }
  return matches;
}

Reason GroupTable::end_of(GroupId id) const {
  const auto found = ended_.find(id);
  return found == ended_.end() ? Reason() : found->second;
}

void GroupTable::touch(Group& group) {
  if (group.touched) return;
  group.touched = true;
  touched_.push_back(group.id);
}

std::vector<GroupId> GroupTable::take_touched() {
  std::vector<GroupId> touched;
  touched.swap(touched_);
  for (const GroupId id : touched) {
    if (Group* group = find(id)) group->touched = false;
  }
  return touched;
}

void GroupTable::check_invariants() const {
  size_t bundles = 0;
  size_t waiting = 0;
  size_t drawing = 0;
  size_t placed_bundles = 0;
  size_t names = 0;
  for (const auto& [id, group] : groups_) {
    VOLADOR_CHECK(holders_.at(group.holder) == id, to_string(id));
    bundles += group.bundles.size();
    waiting += group.waiting.size();
    names += group.is_removed() || group.spec.name().empty() ? 0 : 1;
    std::set<NodeId> nodes;
    size_t placed = 0;
    for (size_t at = 0; at < group.bundles.size(); ++at) {
      const Bundle& bundle = group.bundles[at];
      VOLADOR_CHECK(bundle.is_placed() || bundle.drawing.empty(), to_string(id));
      if (!bundle.is_placed()) continue;
      ++placed;
      nodes.insert(bundle.node);
      VOLADOR_CHECK(nodes_.at(bundle.node).contains({id, at}), to_string(id));
      ResourceSet held;
      for (const ActorId actor : bundle.drawing) held += draws_.at(actor).held;
      VOLADOR_CHECK(held == bundle.pool.used, to_string(held));
      held.set("cpus", 0);  // CPUs that were lent and taken back may be overdrawn.
      VOLADOR_CHECK(held.fits_in(bundle.resources), to_string(held));
      for (const ResourcePool::Device& device : bundle.pool.devices)
        VOLADOR_CHECK(device.used >= 0 && device.used <= device.size, to_string(id));
      drawing += bundle.drawing.size();
    }
    placed_bundles += placed;
    VOLADOR_CHECK(group.state != protocol::GROUP_PENDING || placed == 0, to_string(id));
    VOLADOR_CHECK(group.state != protocol::GROUP_READY || placed == group.bundles.size(), to_string(id));
    VOLADOR_CHECK(group.state != protocol::GROUP_RESCHEDULING || placed < group.bundles.size(), to_string(id));
    VOLADOR_CHECK(!group.is_removed() || placed > 0 || group.touched, to_string(id));
    VOLADOR_CHECK(!group.is_removed() || (group.waiting.empty() && group.actors.empty()), to_string(id));
    if (group.spec.strategy() == protocol::STRICT_SPREAD) VOLADOR_CHECK(nodes.size() == placed, to_string(id));
    if (group.spec.strategy() == protocol::STRICT_PACK) VOLADOR_CHECK(nodes.size() <= 1, to_string(id));
  }
  size_t on_nodes = 0;
  for (const auto& [node, held] : nodes_) on_nodes += held.size();
  VOLADOR_CHECK(bundles == bundles_ && waiting == waiting_ && drawing == draws_.size(),
                fmt::format("{} {} {}", bundles, waiting, drawing));
  VOLADOR_CHECK(on_nodes == placed_bundles && names == names_.size() && holders_.size() == groups_.size(),
                fmt::format("{} {}", on_nodes, placed_bundles));
}

}  // namespace volador::head
