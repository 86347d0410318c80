// The life of actors: placed, started, ended, placed again; and what the journal and watchers learn of it.
#include <fmt/format.h>

#include <algorithm>

#include "head/core_impl.h"
#include "head/wire.h"
#include "runtime/light_id.h"
#include "runtime/protocol/node_wishes.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

constexpr std::chrono::milliseconds kUnheldGrace{5000};  // For the destructor of an actor that ends with its last handle.

}  // namespace

std::string HeadCore::Impl::node_name(NodeId id) const {
  const Node* node = nodes_.find(id);
  return node == nullptr || node->name.empty() ? short_id(id) : node->name;
}

PlacementRequest HeadCore::Impl::request_of(const Actor& actor) const {
  return {.actor = actor.id,
          .resources = actor.resources,
          .wishes = wishes_of(actor.spec.wishes()),
          .program = actor.spec.program_sha256(),
          .priority = actor.spec.priority(),
          .sequence = actor.sequence};
}

// Into the queue, if nothing holds it back: a former incarnation, the delay of a restart, a dying actor of its name.
void HeadCore::Impl::maybe_submit(Actor& actor) {
  if (!actor.waits_for_place() || actor.incarnation || actor.not_before > now_) return;
  if (actors_.lingering(actor) != nullptr) return;
  const GroupId group = group_of(actor);
  if (group.is_nil()) return placement_.submit(now_, request_of(actor));
  groups_.submit(group, {actor.spec.priority(), actor.sequence, actor.id},
                 {.actor = actor.id, .bundle = actor.spec.bundle(), .resources = actor.resources, .program = actor.spec.program_sha256()});
}

// Its state of now, and why it came to it.
void HeadCore::Impl::remember(Actor& actor, Reason why) {
  actor.history.add({.at = now_, .state = actor.state, .epoch = actor.epoch, .node = actor.incarnation ? actor.incarnation->node : NodeId{}, .why = std::move(why)});
}

void HeadCore::Impl::place(const Placed& placed, int bundle) {
  Actor& actor = *actors_.find(placed.actor);
  actors_.place(actor, {.node = placed.node,
                        .worker = nodes_.find(placed.node)->incarnation,
                        .host = new_id<HostId>(random_),
                        .gpus = placed.gpus,
                        .bundle = bundle,
                        .since = now_});
  remember(actor);
  changes_.node(placed.node);
  send_start(actor);
}

void HeadCore::Impl::send_start(const Actor& actor) {
  const Node* node = nodes_.find(actor.incarnation->node);
  if (node == nullptr || !node->session) return;
  protocol::HeadToWorker message;
  protocol::StartHost& start = *message.mutable_start_host();
  start.set_host_id(raw(actor.incarnation->host));
  start.set_epoch(actor.epoch);
  *start.mutable_spec() = actor.spec;
  for (const int32_t gpu : actor.incarnation->gpus) start.add_gpus(gpu);
  start.set_restarts(actor.restarts);
  if (const auto program = programs_.find(actor.driver); program != programs_.end()) *start.mutable_program() = program->second;
  if (const protocol::Checkpoint* checkpoint = checkpoints_.find(actor.id)) *start.mutable_checkpoint() = *checkpoint;
  send(*node->session, std::move(message));
}

// From now on EndHost is repeated until the end is certain. A later call keeps the first cause but may shorten the grace.
void HeadCore::Impl::end_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace) {
  if (!actor.incarnation) return;
  Incarnation& incarnation = *actor.incarnation;
  if (!incarnation.ending) {
    incarnation.ending = true;
    incarnation.end_cause = cause;
    incarnation.end_grace = grace;
  } else if (grace >= incarnation.end_grace) {
    return;
  }
  incarnation.end_grace = grace;
  actors_.touch(actor);
  send_end(actor);
}

void HeadCore::Impl::send_end(Actor& actor) {
  Incarnation& incarnation = *actor.incarnation;
  incarnation.end_sent = now_;
  const Node* node = nodes_.find(incarnation.node);
  if (node == nullptr || !node->session || node->incarnation != incarnation.worker) return;
  protocol::HeadToWorker message;
  message.mutable_end_host()->set_host_id(raw(incarnation.host));
  message.mutable_end_host()->set_grace_ms(incarnation.end_grace.count());
  *message.mutable_end_host()->mutable_cause() = incarnation.end_cause;
  send(*node->session, std::move(message));
}

// Nothing of it runs any more, for sure.
void HeadCore::Impl::incarnation_over(Actor& actor, Cause cause) {
  const NodeId node = actor.incarnation->node;
  changes_.node(node);
  if (cause.node_name().empty()) cause.set_node_name(node_name(node));
  release_place(actor.id);
  const ClientRef client{.session = {}, .host = actor.incarnation->host};
  clients_.unwatch_all(client);
  group_waits_.client_gone(client);
  handles_.gone(now_, {.host = client.host});
  actors_.over(actor);
  if (actor.is_dead()) {
    for (const ActorId id : actors_.successors(actor)) {
      Actor& successor = *actors_.find(id);
      maybe_submit(successor);
      actors_.touch(successor);
    }
  } else if (actor.waits_for_place()) {
    maybe_submit(actor);
  } else {
    next_life(actor, cause, node);
  }
}

void HeadCore::Impl::next_life(Actor& actor, const Cause& cause, NodeId node) {
  const bool was_alive = actor.state == protocol::ALIVE;
  if (cause.kind() == Cause::CONSTRUCTOR_THREW) {  // It would throw again.
    die(actor.id, cause, {});
    return;
  }
  const bool lost_start = !was_alive && cause.kind() == Cause::NODE_LOST && ++actor.starts_lost <= options_.limits.starts_lost;
  const bool try_elsewhere = !was_alive && cause.kind() == Cause::START_FAILED &&
                             placement_.is_excluded(node, actor.spec.program_sha256()) &&
                             (group_of(actor).is_nil() ? placement_.check_feasible(request_of(actor), actor.display()).has_value() : has_another_bundle(actor));
  if (lost_start || try_elsewhere) {
    actors_.back_to_pending(actor);
    remember(actor, describe(cause));
    maybe_submit(actor);
    return;
  }
  if (!actor.may_restart()) {
    die(actor.id, cause, {});
    return;
  }
  restart(actor, cause);
}

void HeadCore::Impl::restart(Actor& actor, const Cause& cause) {
  const bool early = actor.state != protocol::ALIVE || now_ - actor.alive_since < options_.times.early_death;
  const bool its_own_doing = cause.kind() != Cause::NODE_LOST && cause.kind() != Cause::KILLED;
  actor.early_deaths = early && its_own_doing ? actor.early_deaths + 1 : 0;
  std::chrono::milliseconds delay{0};
  if (actor.early_deaths > 1) {
    delay = options_.times.restart_delay_max;
    if (actor.early_deaths < 16) delay = std::min(delay, options_.times.restart_delay_first * (1 << (actor.early_deaths - 2)));
  }
  actor.not_before = now_ + delay;
  actors_.restart(actor, cause, true);
  const Reason why = describe(cause);
  remember(actor, why);
  event(log::Level::kInfo, "actor restarts", {{"actor", to_string(actor.id)}, {"restart", std::to_string(actor.restarts)}, {"cause", why.text()}}, why);
  maybe_submit(actor);
}

// Where nothing of it runs, nothing is to be ended.
void HeadCore::Impl::kill_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace) {
  if (!actor.incarnation || actor.incarnation->ending || actor.waits_for_place()) return;
  restart(actor, cause);
  end_incarnation(actor, cause, grace);
}

// For good, and with it what it made.
void HeadCore::Impl::die(ActorId first, const Cause& cause, std::chrono::milliseconds grace) {
  std::vector<std::pair<ActorId, Cause>> ends{{first, cause}};
  while (!ends.empty()) {
    auto [id, why] = std::move(ends.back());
    ends.pop_back();
    Actor& actor = *actors_.find(id);
    if (actor.is_dead()) continue;
    // Where its log lies: the cause is what is kept of an actor that has ended.
    if (why.node_name().empty())
      why.set_node_name(actor.incarnation ? node_name(actor.incarnation->node) : actor.cause.node_name());
    placement_.withdraw(id);
    groups_.leave(group_of(actor), id);
    actors_.die(actor, why);
    const Reason said = describe(why);
    remember(actor, said);
    end_incarnation(actor, why, grace);
    const bool wanted = why.kind() == Cause::KILLED || why.kind() == Cause::DRIVER_GONE;
    event(wanted ? log::Level::kInfo : log::Level::kWarn, "actor is dead",
          {{"actor", to_string(id)}, {"class", actor.spec.class_name()}, {"cause", said.text()}}, said);
    for (const ActorId child : actors_.children(id)) {
      ends.emplace_back(child, make_cause(Cause::DRIVER_GONE, reason("cause.its_maker_ended", actor.display(), short_id(id))));
    }
    for (const GroupId group : groups_.of_owner(id)) {
      const auto in_it = close_group(*groups_.find(group), make_cause(Cause::DRIVER_GONE, reason("cause.its_maker_ended", actor.display(), short_id(id))));
      ends.insert(ends.end(), in_it.begin(), in_it.end());
    }
    handles_.forget(id);
    drop_checkpoint(id);
    drop_program_if_unused(actor.driver);
  }
}

// Ends actors that nobody can reach any more. A handle may be on its way to a process whose node says so a moment later: its word comes
// before its next heartbeats, since both take the same stream.
void HeadCore::Impl::end_unheld() {
  if (now_ < window_end_) return;
  std::vector<ActorId> unheld = handles_.unheld(now_);
  if (unheld.empty()) return;
  BootTime heard = now_;  // Whatever any node knew then has arrived.
  for (const auto& [id, node] : nodes_.all()) {
    if (node.is_member()) heard = std::min(heard, node.session ? node.heard_before : BootTime{});
  }
  for (const auto& [id, driver] : clients_.all()) {
    if (!driver.session) heard = BootTime{};
  }
  for (const ActorId id : unheld) {
    if (*handles_.unheld_since(id) > heard) continue;
    if (is_light(id)) {
      end_light(id);
      continue;
    }
    die(id, make_cause(Cause::KILLED, reason("cause.no_handle")), kUnheldGrace);
  }
}

// Its home does, after the calls that came before. Its node is connected: end_unheld() has looked.
void HeadCore::Impl::end_light(ActorId light) {
  const Actor* home = actors_.find(home_of(light));
  if (home != nullptr && !home->is_dead()) {
    if (!home->incarnation) return;  // Not started yet: later.
    protocol::HeadMessage message;
    message.mutable_end_lights()->add_actors(raw(light));
    send({.session = {}, .host = home->incarnation->host}, std::move(message));
  }
  handles_.forget(light);
}

void HeadCore::Impl::drop_checkpoint(ActorId actor) {
  if (checkpoints_.drop(actor)) journal(kCheckpointsTable, raw(actor), std::nullopt);
}

void HeadCore::Impl::drop_program_if_unused(DriverId driver) {
  if (clients_.find(driver) != nullptr || actors_.any_of_program(driver)) return;
  if (programs_.erase(driver) > 0) journal(kProgramsTable, raw(driver), std::nullopt);
}

// A time for which the actor waited has come.
void HeadCore::Impl::wake(Actor& actor) {
  maybe_submit(actor);
  if (!actor.incarnation) return;
  Incarnation& incarnation = *actor.incarnation;
  if (incarnation.gone_at && *incarnation.gone_at <= now_) {
    incarnation_over(actor, Cause(incarnation.gone_cause));
    return;
  }
  if (incarnation.ending) {
    if (incarnation.end_sent + options_.times.end_retry <= now_) send_end(actor);
    return;
  }
  if (actor.state != protocol::STARTING) return;
  if (start_deadline(actor) > now_) return;
  end_incarnation(actor,
                  make_cause(Cause::START_FAILED, reason("cause.no_start_report", node_name(incarnation.node), in_seconds(now_ - incarnation.since))),
                  {});
}

// The worker keeps the start timeout; this is for one that does not.
BootTime HeadCore::Impl::start_deadline(const Actor& actor) const {
  const std::chrono::milliseconds timeout =
      actor.spec.start_timeout_ms() > 0 ? std::chrono::milliseconds(actor.spec.start_timeout_ms()) : options_.times.start_timeout;
  return actor.incarnation->since + timeout + options_.times.start_slack;
}

void HeadCore::Impl::rearm(Actor& actor) {
  std::optional<BootTime> next;
  const auto at = [&](BootTime time) { next = next ? std::min(*next, time) : time; };
  if (actor.incarnation) {
    const Incarnation& incarnation = *actor.incarnation;
    if (incarnation.gone_at) at(*incarnation.gone_at);
    if (incarnation.ending) {
      at(std::max(incarnation.end_sent, started_at_) + options_.times.end_retry);
    } else if (actor.state == protocol::STARTING) {
      at(start_deadline(actor));
    }
  } else if (actor.waits_for_place() && actor.not_before > now_) {
    at(actor.not_before);
  }
  if (next == actor.wake) return;
  if (actor.wake) timers_.erase({*actor.wake, actor.id});
  actor.wake = next;
  if (next) timers_.emplace(*next, actor.id);
}

// ---- what others learn ----

void HeadCore::Impl::flush_actor(Actor& actor) {
  actor.version = ++version_;
  const Actor::Saved wanted = actor.is_dead() ? Actor::Saved::kTrimmedSpec : Actor::Saved::kSpec;
  if (actor.saved != wanted) {
    protocol::ActorRecord record;
    *record.mutable_spec() = actor.spec;
    journal(kActorsTable, raw(actor.id), record.SerializeAsString());
    actor.saved = wanted;
  }
  protocol::ActorRecord record;
  record.set_state(actor.state);
  record.set_epoch(actor.epoch);
  record.set_restarts(actor.restarts);
  record.set_sequence(actor.sequence);
  if (!actor.owner.is_nil()) record.set_owner_actor(raw(actor.owner));
  if (actor.cause.kind() != Cause::KIND_UNSPECIFIED || !actor.cause.message().empty()) *record.mutable_cause() = actor.cause;
  if (actor.incarnation) {
    record.set_node_id(raw(actor.incarnation->node));
    record.set_host_id(raw(actor.incarnation->host));
    record.set_worker_incarnation(actor.incarnation->worker);
    record.set_bundle(actor.incarnation->bundle);
    for (const int32_t gpu : actor.incarnation->gpus) record.add_gpus(gpu);
  }
  if (actor.state == protocol::ALIVE) {
    *record.mutable_address() = actor.address;
    record.set_pid(actor.pid);
  }
  journal(kActorStatesTable, raw(actor.id), record.SerializeAsString());

  const std::set<ClientRef>& watchers = clients_.watchers(actor.id);
  if (!watchers.empty()) {
    protocol::HeadMessage message;
    *message.mutable_actor() = info_of(actor);
    for (const ClientRef& watcher : watchers) {
      const bool answered = std::any_of(replies_.begin(), replies_.end(), [&](const SpawnReply& reply) {
        return reply.actor == actor.id && reply.client == watcher;
      });
      if (!answered) send(watcher, message);
    }
  }
  rearm(actor);
}

protocol::ActorInfo HeadCore::Impl::info_of(const Actor& actor) const {
  protocol::ActorInfo info;
  info.set_actor_id(raw(actor.id));
  info.set_state(actor.state);
  info.set_epoch(actor.epoch);
  if (actor.incarnation) {
    info.set_node_id(raw(actor.incarnation->node));
    info.set_node_name(node_name(actor.incarnation->node));
    for (const int32_t gpu : actor.incarnation->gpus) info.add_gpus(gpu);
  }
  if (actor.state == protocol::ALIVE) *info.mutable_address() = actor.address;
  *info.mutable_cause() = actor.cause;
  if (actor.waits_for_place()) set_reason(info, waiting_reason(actor));
  info.set_restarts(actor.restarts);
  info.set_class_name(actor.spec.class_name());
  info.set_name(actor.spec.name());
  info.set_namespace_(namespace_of(actor.spec));
  *info.mutable_resources() = to_message(actor.resources);
  info.set_version(actor.version);
  info.set_pid(actor.pid);
  info.set_driver_id(raw(actor.driver));
  info.set_detached(actor.spec.detached());
  info.set_display(actor.display());
  info.set_max_task_retries(actor.spec.max_task_retries());
  info.set_isolation(actor.spec.isolation());
  info.set_ends_with_handles(actor.spec.ends_with_handles());
  return info;
}

Reason HeadCore::Impl::waiting_reason(const Actor& actor) const {
  if (actor.incarnation) {
    const Incarnation& incarnation = *actor.incarnation;
    const Node* node = nodes_.find(incarnation.node);
    const std::string name = node_name(incarnation.node);
    if (incarnation.gone_at) return reason("waits.former_host_until", name, in_seconds(*incarnation.gone_at - query_now_));
    if (node == nullptr || node->session) return reason("waits.former_host", name);
    return reason("waits.former_host_node", name, cluster_word(to_string(node->state)), in_seconds(leases_.ends(node->id) - query_now_));
  }
  if (actor.not_before > query_now_) return reason("waits.restart_delay", in_seconds(actor.not_before - query_now_), actor.early_deaths);
  if (const Actor* former = actors_.lingering(actor)) {
    return reason("waits.former_actor", full_name(actor.spec), short_id(former->id), node_name(former->incarnation->node));
  }
  Reason why = group_of(actor).is_nil() ? why_it_waits(actor.id) : waiting_in_group_reason(actor);
  if (query_now_ >= window_end_) return why;
  const size_t missing = awaited();
  return missing == 0 ? why : and_also(std::move(why), reason("waits.nodes_back", missing, in_seconds(window_end_ - query_now_)));
}

}  // namespace volador::head
