#include "head/groups/group_module.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/actors/actor_life.h"
#include "head/clients/client_module.h"
#include "head/kernel/ownership.h"
#include "head/kernel/wire.h"
#include "head/nodes/node_module.h"
#include "head/read_model/wait_reasons.h"
#include "runtime/protocol/node_affinity.h"

namespace volador::head {

// ---- requests ----

void GroupModule::on_create(const ClientRef& client, DriverId driver, const Actor* owner,
                            const protocol::CreateGroup& message) {
  const auto id = id_from_raw<GroupId>(message.spec().group_id());
  if (id.is_nil() || message.request_id() != message.spec().group_id()) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kInvalidArgument, "CreateGroup: request_id and spec.group_id must be the same 16 bytes"});
    return;
  }
  if (const Group* known = groups_.find(id); known != nullptr && known->driver != driver) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kPermissionDenied,
         fmt::format("placement group {} belongs to another driver; make a new id for a new group", short_id(id))});
    return;
  } else if (known == nullptr && groups_.end_of(id).empty()) {
    if (const auto created = create(driver, owner, message.spec()); !created) {
      context_.reply_error(client, message.request_id(), created.error());
      return;
    }
  }
  replies_.push_back({client, message.request_id(), id});
}

Result<std::vector<ResourceSet>> GroupModule::check_spec(const protocol::GroupSpec& spec) const {
  const Limits& limits = context_.options.limits;
  const auto invalid = [](std::string text) { return make_error(ErrorCode::kInvalidArgument, std::move(text)); };
  const auto count = static_cast<size_t>(spec.bundles_size());
  if (count == 0 || count > limits.bundles)
    return invalid(fmt::format("placement group: expected 1 to {} bundles, got {}", limits.bundles, count));
  if (spec.name().size() > limits.name_bytes) {
    return invalid(
        fmt::format("placement group name: expected at most {} bytes, got {}", limits.name_bytes, spec.name().size()));
  }
  if (!protocol::GroupStrategy_IsValid(spec.strategy()))
    return invalid(fmt::format("placement group: there is no strategy {}", static_cast<int>(spec.strategy())));
  VOLADOR_TRY(check(NodeAffinity{.labels = labels_of(spec.labels()), .node = {}, .apart = {}}));
  if (static_cast<size_t>(spec.labels_size()) > limits.labels || spec.ByteSizeLong() > limits.group_bytes) {
    return invalid(fmt::format("placement group: expected at most {} labels and {} bytes in all, got {} and {}",
                               limits.labels, limits.group_bytes, spec.labels_size(), spec.ByteSizeLong()));
  }
  if (spec.bundle_labels_size() != 0 && spec.bundle_labels_size() != spec.bundles_size()) {
    return invalid(
        fmt::format("placement group: bundle_labels has {} entries for {} bundles; expected one for each, or none",
                    spec.bundle_labels_size(), count));
  }
  for (int at = 0; at < spec.bundle_labels_size(); ++at) {
    const auto& rules = spec.bundle_labels(at).rules();
    if (static_cast<size_t>(rules.size()) > limits.labels) {
      return invalid(fmt::format("placement group: bundle {}: expected at most {} labels, got {}", at, limits.labels,
                                 rules.size()));
    }
    if (const auto sound = check(NodeAffinity{.labels = labels_of(rules), .node = {}, .apart = {}}); !sound) {
      return invalid(fmt::format("placement group: bundle {}: {}", at, sound.error().message));
    }
  }
  std::vector<ResourceSet> bundles;
  for (const protocol::ResourceMap& bundle : spec.bundles()) {
    auto resources = resources_from(bundle, limits);
    if (!resources) return make_error(resources.error());
    if (resources->empty())
      return invalid(fmt::format("placement group: bundle {} asks for nothing; each bundle asks for some resource",
                                 bundles.size()));
    bundles.push_back(std::move(*resources));
  }
  return bundles;
}

Result<void> GroupModule::create(DriverId driver, const Actor* owner, protocol::GroupSpec spec) {
  auto bundles = check_spec(spec);
  if (!bundles) return make_error(bundles.error());
  VOLADOR_TRY(groups_.check_room(spec));
  spec.set_driver_id(raw(driver));
  assign_owner(spec, requester(clients_, driver, owner));
  const auto program = programs_.find(driver);
  spec.set_program_sha256(program == programs_.end() ? "" : program->second.sha256());
  std::vector<HolderId> holders;
  while (holders.size() <= bundles->size()) holders.emplace_back(random_id_bytes(context_.random));
  const bool may_wait = spec.wait_if_infeasible();
  Group& group = groups_.create(std::move(spec), std::move(*bundles), holders, owner == nullptr ? ActorId{} : owner->id,
                                context_.next_sequence());
  // Feasibility is unknown while nodes may still reconnect.
  if (const auto feasible = placement_.check_feasible(*groups_.request_of(group), group.display()); !feasible) {
    const bool certain = feasible.error().code != ErrorCode::kInfeasible || (!may_wait && nodes_.awaited() == 0);
    if (certain) {
      groups_.withdraw(group.id);
      return make_error(feasible.error());
    }
  }
  group.waits_since = context_.now;
  submit_group(group);
  return {};
}

void GroupModule::on_find(const ClientRef& client, const protocol::FindGroup& message) {
  auto id = id_from_raw<GroupId>(message.group_id());
  if (id.is_nil()) {
    const Group* named = groups_.named(message.name());
    if (named == nullptr) {
      context_.reply_error(
          client, message.request_id(),
          {ErrorCode::kNotFound,
           fmt::format("no placement group is named \"{}\"; see volador list groups", message.name())});
      return;
    }
    id = named->id;
  }
  const Group* group = groups_.find(id);
  const bool waits = message.when_ready() && group != nullptr && group->waits_for_places();
  if (!waits) {
    replies_.push_back({client, message.request_id(), id});
  } else if (group_waits_.size() >= context_.options.limits.group_waits) {
    context_.reply_error(client, message.request_id(),
                         {ErrorCode::kUnavailable,
                          fmt::format("{} requests wait for placement groups, the limit of a cluster; try again later",
                                      group_waits_.size())});
  } else {
    group_waits_.add(id, {client, message.request_id()});
  }
}

void GroupModule::on_remove(const ClientRef& client, DriverId driver, const Actor* owner,
                            const protocol::RemoveGroup& message) {
  const auto id = id_from_raw<GroupId>(message.group_id());
  if (const Group* group = groups_.find(id); group != nullptr && !group->is_removed()) {
    const std::string thing = fmt::format("placement group {} ({})", group->spec.name(), short_id(id));
    if (const auto may = check_owner(requester(clients_, driver, owner), group->spec.owner(), "remove", thing); !may) {
      context_.reply_error(client, message.request_id(), may.error());
      return;
    }
    const Driver* by = clients_.find(driver);
    remove(id, make_cause(Cause::KILLED, by == nullptr ? reason("cause.on_request") : reason("cause.by", by->name)));
  } else if (group == nullptr && groups_.end_of(id).empty()) {
    context_.reply_error(
        client, message.request_id(),
        {ErrorCode::kNotFound, fmt::format("there is no placement group {}; see volador list groups", short_id(id))});
    return;
  }
  // Sent after the notifications to the watchers of its actors.
  actor_life_.reply_when_settled(client, message.request_id(), {});
}

// ---- placement ----

void GroupModule::submit_group(const Group& group) {
  placement_.withdraw(group.holder);
  if (group.is_removed()) return;
  if (auto request = groups_.request_of(group)) placement_.submit(context_.now, std::move(*request));
}

void GroupModule::place() {
  for (const PlacedGroup& placed : placement_.take_placed_groups()) {
    const Group& group = *groups_.find(placed.holder);
    const bool again = group.state == protocol::GROUP_RESCHEDULING;
    context_.event(again ? log::Level::kInfo : log::Level::kDebug,
                   again ? "placement group is whole again" : "placement group has its place",
                   {{"group", to_string(group.id)}, {"name", group.spec.name()}});
    groups_.placed(placed);
    for (const PlacedGroup::Bundle& bundle : placed.bundles) context_.changes.node(bundle.node);
  }
  const auto may_start = [this](NodeId node, const std::string& program) {
    return placement_.why_not(node).empty() && !placement_.is_excluded(node, program);
  };
  for (const GroupTable::PlacedIn& one : groups_.schedule(may_start)) actor_life_.place(one.placed, one.bundle);
}

void GroupModule::lose_bundles(NodeId node) {
  for (const auto& [id, bundle] : groups_.on_node(node)) lose_bundle(*groups_.find(id), bundle);
}

void GroupModule::lose_bundle(Group& group, size_t index) {
  if (!group.is_removed()) {
    context_.event(log::Level::kInfo, "a bundle lost its place and is held elsewhere when there is room",
                   {{"group", to_string(group.id)},
                    {"name", group.spec.name()},
                    {"bundle", std::to_string(index)},
                    {"node", nodes_.name_of(group.bundles[index].node)}});
  }
  placement_.release(group.bundles[index].holder);
  if (!group.waits_for_places()) group.waits_since = context_.now;
  groups_.lose(group, index);
  submit_group(group);
}

void GroupModule::set_closed_gpus(NodeId id, const std::map<int32_t, Reason>& gpus) {
  std::set<int32_t> closed;
  for (const auto& [gpu, why] : gpus) closed.insert(gpu);
  groups_.set_closed(id, closed);
}

void GroupModule::move_from_closed(NodeId id) {
  const Node* node = nodes_.find(id);
  if (node == nullptr) return;
  const bool all = node->draining || node->own_problem() != nullptr;
  for (const auto& [group_id, bundle] : groups_.on_node(id)) {
    Group& group = *groups_.find(group_id);
    const auto& devices = group.bundles[bundle].pool.devices;
    if (!all && std::none_of(devices.begin(), devices.end(), [](const auto& device) { return device.closed; }))
      continue;
    if (group.is_removed() || !group.bundles[bundle].drawing.empty()) continue;
    const auto runs = [](const Bundle& each) { return !each.drawing.empty(); };
    if (group.spec.strategy() == protocol::STRICT_PACK && std::any_of(group.bundles.begin(), group.bundles.end(), runs))
      continue;
    lose_bundle(group, bundle);
  }
}

void GroupModule::release_place(ActorId actor) {
  placement_.release(actor);
  note_group_of(actor);
  const auto emptied = groups_.release(actor);
  if (!emptied) return;
  Group& group = *groups_.find(emptied->first);
  const Bundle& bundle = group.bundles[emptied->second];
  if (group.is_removed()) {
    lose_bundle(group, emptied->second);
  } else {
    move_from_closed(NodeId(bundle.node));
  }
}

bool GroupModule::has_another_bundle(const Actor& actor) const {
  const Group* group = groups_.find(actor.group());
  if (group == nullptr) return false;
  for (size_t at = 0; at < group->bundles.size(); ++at) {
    const Bundle& bundle = group->bundles[at];
    const bool asked = actor.spec.bundle() == kAnyBundle || actor.spec.bundle() == static_cast<int>(at);
    if (asked && actor.resources.fits_in(bundle.resources) && bundle.is_placed() &&
        !placement_.is_excluded(bundle.node, actor.spec.program_sha256()))
      return true;
  }
  return false;
}

void GroupModule::note_group_of(ActorId id) {
  const Actor* actor = actors_.find(id);
  if (actor == nullptr) return;
  if (const GroupId group = actor->group(); !group.is_nil()) context_.changes.group(group);
}

// ---- the end ----

std::vector<std::pair<ActorId, protocol::DeathCause>> GroupModule::close(GroupId id, const Cause& cause) {
  Group& group = *groups_.find(id);
  std::vector<std::pair<ActorId, Cause>> ends;
  for (const ActorId actor : group.actors) {
    ends.emplace_back(actor,
                      make_cause(cause.kind(), reason("cause.its_group_removed", group.in_words(), message_of(cause))));
  }
  context_.event(ends.empty() ? log::Level::kDebug : log::Level::kInfo, "placement group is removed",
                 {{"group", to_string(group.id)},
                  {"name", group.spec.name()},
                  {"why", cause.message()},
                  {"actors", std::to_string(ends.size())}},
                 message_of(cause));
  placement_.withdraw(group.holder);
  for (const Bundle& bundle : group.bundles) {
    if (bundle.is_placed()) context_.changes.node(bundle.node);
  }
  for (const HolderId holder : groups_.remove(group, cause)) placement_.release(holder);
  return ends;
}

void GroupModule::remove(GroupId id, const Cause& cause) {
  Group* group = groups_.find(id);
  if (group == nullptr || group->is_removed()) return;
  for (const auto& [actor, why] : close(id, cause)) actor_life_.die(actor, why, {});
}

// ---- journal and replies ----

void GroupModule::flush() {
  for (const GroupId id : groups_.take_touched()) {
    context_.changes.group(id);
    const Group* group = groups_.find(id);
    if (group == nullptr) continue;
    const bool over = groups_.forget_if_over(id);
    if (over) {
      context_.journal(kGroupsTable, raw(id), std::nullopt);
    } else {
      context_.journal(kGroupsTable, raw(id), record_of(*group).SerializeAsString());
    }
    if (!over && group->waits_for_places()) continue;
    for (const auto& [client, request] : group_waits_.take(id)) tell(client, request, id);
  }
  for (const Reply& reply : replies_) tell(reply.client, reply.request_id, reply.group);
  replies_.clear();
}

void GroupModule::tell(const ClientRef& client, const std::string& request_id, GroupId id) {
  const Group* group = groups_.find(id);
  if (group == nullptr || group->is_removed()) {
    const std::string end = group == nullptr
                                ? groups_.end_of(id).text()
                                : fmt::format("{} was removed: {}", group->display(), group->cause.message());
    context_.reply_error(
        client, request_id,
        {ErrorCode::kNotFound,
         end.empty() ? fmt::format("there is no placement group {}; see volador list groups", short_id(id)) : end});
    return;
  }
  protocol::HeadMessage message;
  message.mutable_reply()->set_request_id(request_id);
  protocol::GroupInfo& info = *message.mutable_reply()->mutable_group();
  info.set_group_id(raw(id));
  info.set_name(group->spec.name());
  info.set_strategy(group->spec.strategy());
  info.set_state(group->state);
  info.set_reason(reasons_.of_request(group->holder).text());
  for (const Bundle& bundle : group->bundles) {
    protocol::BundleInfo& row = *info.add_bundles();
    *row.mutable_resources() = to_message(bundle.resources);
    if (!bundle.is_placed()) continue;
    row.set_node_name(nodes_.name_of(bundle.node));
    for (const int32_t gpu : bundle.gpus) row.add_gpus(gpu);
  }
  context_.send(client, std::move(message));
}

// ---- the journal ----

protocol::GroupRecord GroupModule::record_of(const Group& group) {
  protocol::GroupRecord record;
  *record.mutable_spec() = group.spec;
  record.set_state(group.state);
  record.set_sequence(group.sequence);
  if (!group.owner.is_nil()) record.set_owner_actor(raw(group.owner));
  for (const Bundle& bundle : group.bundles) {
    protocol::GroupRecord::Bundle& row = *record.add_bundles();
    if (!bundle.is_placed()) continue;
    row.set_node_id(raw(bundle.node));
    for (const int32_t gpu : bundle.gpus) row.add_gpus(gpu);
  }
  if (group.is_removed()) *record.mutable_cause() = group.cause;
  return record;
}

void GroupModule::restore_group(const protocol::GroupRecord& record) {
  Group group;
  group.id = id_from_raw<GroupId>(record.spec().group_id());
  group.spec = record.spec();
  group.driver = id_from_raw<DriverId>(record.spec().driver_id());
  group.owner = id_from_raw<ActorId>(record.owner_actor());
  group.sequence = record.sequence();
  group.state = record.state();
  group.cause = record.cause();
  group.waits_since = context_.now;
  group.holder = HolderId(random_id_bytes(context_.random));
  context_.restore_sequence(group.sequence);
  auto bundles = check_spec(record.spec());
  const bool sound = bundles && !group.id.is_nil() && record.bundles_size() == static_cast<int>(bundles->size());
  size_t placed = 0;
  for (int at = 0; sound && at < record.bundles_size(); ++at) {
    Bundle& bundle = group.bundles.emplace_back();
    bundle.resources = (*bundles)[static_cast<size_t>(at)];
    bundle.holder = HolderId(random_id_bytes(context_.random));
    bundle.node = id_from_raw<NodeId>(record.bundles(at).node_id());
    if (!bundle.is_placed()) continue;
    ++placed;
    bundle.gpus.assign(record.bundles(at).gpus().begin(), record.bundles(at).gpus().end());
    node_module_.expect(bundle.node);
  }
  const auto restored_state = [&] {
    if (placed == group.bundles.size()) return protocol::GROUP_READY;
    return group.state == protocol::GROUP_RESCHEDULING ? protocol::GROUP_RESCHEDULING : protocol::GROUP_PENDING;
  };
  if (!group.is_removed()) group.state = restored_state();
  const bool consistent = group.state != protocol::GROUP_PENDING || placed == 0;
  if (!sound || !consistent || !groups_.restore(std::move(group)))
    context_.bad_rows.push_back(fmt::format("groups: {}", short_id(id_from_raw<GroupId>(record.spec().group_id()))));
}

void GroupModule::settle_restored() {
  std::vector<GroupId> orphans;
  for (const auto& [id, constant] : groups_.all()) {
    Group& group = *groups_.find(id);
    if (group.is_removed()) {
      groups_.drop_unused(group);
      continue;
    }
    if (group.spec.detached()) continue;
    const Actor* owner = group.owner.is_nil() ? nullptr : actors_.find(group.owner);
    if (!group.owner.is_nil() && (owner == nullptr || owner->is_dead())) orphans.push_back(id);
    if (group.owner.is_nil()) client_module_.expect(group.driver);
  }
  for (const GroupId id : orphans) remove(id, make_cause(Cause::DRIVER_GONE, reason("cause.maker_ended")));
  for (const auto& [id, group] : groups_.all()) submit_group(group);
}

void GroupModule::restore() {
  for (const protocol::GroupRecord& record : loaded_) restore_group(record);
  loaded_.clear();
}

// ---- actors in groups ----

void GroupModule::readmit(NodeId node) {
  for (const auto& [id, index] : groups_.on_node(node)) {
    Group& group = *groups_.find(id);
    const Bundle& bundle = group.bundles[index];
    if (!placement_.adopt(node, bundle.holder, bundle.resources, bundle.gpus)) lose_bundle(group, index);
  }
}

void GroupModule::submit(const Actor& actor) {
  groups_.submit(actor.group(), {actor.spec.priority(), actor.sequence, actor.id},
                 {.actor = actor.id,
                  .bundle = actor.spec.bundle(),
                  .resources = actor.resources,
                  .program = actor.spec.program_sha256()});
}

void GroupModule::adopt(const Actor& actor) {
  groups_.adopt(actor.group(), actor.id, actor.incarnation->bundle, actor.resources, actor.incarnation->gpus);
}

void GroupModule::lend_cpus(ActorId actor, bool lend) {
  if (lend ? groups_.lend_cpus(actor) : groups_.take_back_cpus(actor)) note_group_of(actor);
}

}  // namespace volador::head
