#include "head/actors/actor_restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "head/actors/actor_life.h"
#include "head/clients/client_module.h"
#include "head/groups/group_module.h"
#include "head/kernel/wire.h"
#include "head/nodes/node_module.h"

namespace volador::head {

void ActorRestore::restore() {
  for (const auto& [key, rows] : loaded_) {
    if (!rows.spec || !rows.state) {
      context_.bad_rows.push_back(fmt::format("actors: {}", to_string(id_from_raw<ActorId>(key))));
      continue;
    }
    restore_actor(key, *rows.spec, *rows.state);
  }
  std::vector<ActorId> orphans;
  std::vector<ActorId> out_of_group;
  for (const auto& [id, actor] : actors_.all()) {
    context_.restore_sequence(actor.sequence);
    if (actor.incarnation) node_module_.expect(actor.incarnation->node);
    const GroupId group_id = actor.group();
    if (!group_id.is_nil() && actor.incarnation) group_module_.adopt(actor);
    if (actor.is_dead()) continue;
    if (const Group* group = groups_.find(group_id); group != nullptr && !group->is_removed()) {
      group_module_.join(group_id, id);
    } else if (!group_id.is_nil()) {
      out_of_group.push_back(id);
    }
    if (actor.spec.detached()) continue;
    if (actor.spec.ends_with_handles()) handles_.add(context_.window_end, id);  // Holders report their handles again.
    const Actor* owner = actor.owner.is_nil() ? nullptr : actors_.find(actor.owner);
    if (!actor.owner.is_nil() && (owner == nullptr || owner->is_dead())) orphans.push_back(id);
    if (actor.owner.is_nil()) client_module_.expect(actor.driver);
  }
  std::vector<ActorId> stray;  // Non-empty only if something else wrote to the journal.
  for (const auto& [id, checkpoint] : checkpoints_.all()) {
    const Actor* actor = actors_.find(id);
    if (actor == nullptr || actor->is_dead() || checkpoint.epoch() > actor->epoch) stray.push_back(id);
  }
  for (const ActorId id : stray) life_.drop_checkpoint(id);
  for (const ActorId id : out_of_group)
    life_.die(id, make_cause(protocol::DeathCause::KILLED, reason("cause.group_removed")), {});
  for (const ActorId id : orphans)
    life_.die(id, make_cause(protocol::DeathCause::DRIVER_GONE, reason("cause.maker_ended")), {});
  for (const auto& [id, constant] : actors_.all()) {
    Actor& actor = *actors_.find(id);
    actor.version = context_.version;
    life_.maybe_submit(actor);
    life_.rearm(actor);
  }
  loaded_.clear();
}

void ActorRestore::restore_actor(const std::string& key, const protocol::ActorRecord& spec,
                                 const protocol::ActorRecord& state) {
  Actor actor;
  actor.id = id_from_raw<ActorId>(key);
  actor.spec = spec.spec();
  auto resources = resources_from(actor.spec.resources(), context_.options.limits);
  const bool known_state = state.state() >= protocol::PENDING && state.state() <= protocol::DEAD;
  if (actor.id.is_nil() || !resources || !known_state) {
    context_.bad_rows.push_back(fmt::format("actors: {}", to_string(actor.id)));
    return;
  }
  actor.resources = *resources;
  actor.driver = id_from_raw<DriverId>(actor.spec.driver_id());
  actor.owner = id_from_raw<ActorId>(state.owner_actor());
  actor.state = state.state();
  actor.epoch = state.epoch();
  actor.sequence = state.sequence();
  actor.restarts = state.restarts();
  actor.cause = state.cause();
  actor.address = state.address();
  if (actor.spec.isolation() == protocol::ISOLATION_SHARED)
    actor.shared_process = id_from_raw<HostId>(state.address().host_id());
  actor.pid = state.pid();
  actor.saved = actor.is_dead() ? Actor::Saved::kTrimmedSpec : Actor::Saved::kSpec;
  if (const auto host = id_from_raw<HostId>(state.host_id()); !host.is_nil()) {
    actor.incarnation = std::make_unique<Incarnation>(Incarnation{.node = id_from_raw<NodeId>(state.node_id()),
                                                                  .worker = state.worker_incarnation(),
                                                                  .host = host,
                                                                  .since = context_.now});
    actor.incarnation->gpus.assign(state.gpus().begin(), state.gpus().end());
    actor.incarnation->bundle = state.bundle();
    if (state.ending()) {
      actor.incarnation->ending = true;
      actor.incarnation->end_cause = state.end_cause();
      actor.incarnation->end_grace = std::chrono::milliseconds(std::max<int64_t>(0, state.end_grace_ms()));
    } else if (actor.state != protocol::STARTING && actor.state != protocol::ALIVE) {
      actor.incarnation->ending = true;
      actor.incarnation->end_cause = make_cause(protocol::DeathCause::LEASE_LOST, reason("cause.starts_anew"));
    }
  } else if (actor.state == protocol::STARTING || actor.state == protocol::ALIVE) {
    actor.state = protocol::RESTARTING;
    actor.address.Clear();
    actor.pid = 0;
  }
  life_.remember(actor, reason("cause.earlier_head"));
  if (!actors_.restore(std::move(actor)))
    context_.bad_rows.push_back(fmt::format("actors: {}", to_string(id_from_raw<ActorId>(key))));
}

bool ActorRestore::load_checkpoint(std::string_view key, protocol::Checkpoint checkpoint) {
  return checkpoints_.keep(id_from_raw<ActorId>(key), std::move(checkpoint)).has_value();
}

}  // namespace volador::head
