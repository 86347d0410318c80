#include "head/actors/actor_life.h"

#include <algorithm>

#include "head/clients/client_module.h"
#include "head/groups/group_module.h"
#include "head/kernel/wire.h"
#include "head/read_model/wait_reasons.h"
#include "runtime/protocol/node_affinity.h"

namespace volador::head {

PlacementRequest ActorLife::request_of(const Actor& actor) const {
  return {.actor = actor.id,
          .resources = actor.resources,
          .wishes = wishes_of(actor.spec.wishes()),
          .program = actor.spec.program_sha256(),
          .priority = actor.spec.priority(),
          .sequence = actor.sequence};
}

void ActorLife::maybe_submit(Actor& actor) {
  if (!actor.waits_for_place() || actor.incarnation || actor.not_before > context_.now) return;
  if (actors_.lingering(actor) != nullptr) return;
  if (actor.group().is_nil()) return placement_.submit(context_.now, request_of(actor));
  group_module_.submit(actor);
}

void ActorLife::remember(Actor& actor, Reason why) {
  actor.history.add({.at = context_.now,
                     .state = actor.state,
                     .epoch = actor.epoch,
                     .node = actor.incarnation ? actor.incarnation->node : NodeId{},
                     .why = std::move(why)});
}

void ActorLife::place(const Placed& placed, int bundle) {
  Actor& actor = *actors_.find(placed.actor);
  actors_.place(actor, {.node = placed.node,
                        .worker = nodes_.find(placed.node)->incarnation,
                        .host = new_id<HostId>(context_.random),
                        .gpus = placed.gpus,
                        .bundle = bundle,
                        .since = context_.now});
  remember(actor);
  context_.changes.node(placed.node);
  send_start(actor);
}

void ActorLife::send_start(const Actor& actor) {
  const Node* node = nodes_.find(actor.incarnation->node);
  if (node == nullptr || !node->session) return;
  protocol::HeadToWorker message;
  protocol::StartHost& start = *message.mutable_start_host();
  start.set_host_id(raw(actor.incarnation->host));
  start.set_epoch(actor.epoch);
  *start.mutable_spec() = actor.spec;
  for (const int32_t gpu : actor.incarnation->gpus) start.add_gpus(gpu);
  start.set_restarts(actor.restarts);
  if (const auto program = programs_.find(actor.driver); program != programs_.end())
    *start.mutable_program() = program->second;
  if (const protocol::Checkpoint* checkpoint = checkpoints_.find(actor.id)) *start.mutable_checkpoint() = *checkpoint;
  context_.send(*node->session, std::move(message));
}

void ActorLife::end_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace) {
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

void ActorLife::send_end(Actor& actor) {
  Incarnation& incarnation = *actor.incarnation;
  incarnation.end_sent = context_.now;
  const Node* node = nodes_.find(incarnation.node);
  if (node == nullptr || !node->session || node->incarnation != incarnation.worker) return;
  protocol::HeadToWorker message;
  message.mutable_end_host()->set_host_id(raw(incarnation.host));
  message.mutable_end_host()->set_grace_ms(incarnation.end_grace.count());
  *message.mutable_end_host()->mutable_cause() = incarnation.end_cause;
  context_.send(*node->session, std::move(message));
}

void ActorLife::incarnation_over(Actor& actor, Cause cause) {
  const NodeId node = actor.incarnation->node;
  context_.changes.node(node);
  if (cause.node_name().empty()) cause.set_node_name(nodes_.name_of(node));
  group_module_.release_place(actor.id);
  const ClientRef client{.session = {}, .host = actor.incarnation->host};
  client_module_.unwatch_all(client);
  group_module_.client_gone(client);
  handles_.gone(context_.now, {.host = client.host});
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

void ActorLife::next_life(Actor& actor, const Cause& cause, NodeId node) {
  const bool was_alive = actor.state == protocol::ALIVE;
  if (cause.kind() == Cause::CONSTRUCTOR_THREW) {  // A retry would throw again.
    die(actor.id, cause, {});
    return;
  }
  const bool lost_start =
      !was_alive && cause.kind() == Cause::NODE_LOST && ++actor.starts_lost <= context_.options.limits.starts_lost;
  const bool try_elsewhere =
      !was_alive && cause.kind() == Cause::START_FAILED && placement_.is_excluded(node, actor.spec.program_sha256()) &&
      (actor.group().is_nil() ? placement_.check_feasible(request_of(actor), actor.display()).has_value()
                              : group_module_.has_another_bundle(actor));
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

void ActorLife::restart(Actor& actor, const Cause& cause) {
  const bool early =
      actor.state != protocol::ALIVE || context_.now - actor.alive_since < context_.options.times.early_death;
  const bool its_own_doing = cause.kind() != Cause::NODE_LOST && cause.kind() != Cause::KILLED;
  actor.early_deaths = early && its_own_doing ? actor.early_deaths + 1 : 0;
  std::chrono::milliseconds delay{0};
  if (actor.early_deaths > 1) {
    delay = context_.options.times.restart_delay_max;
    if (actor.early_deaths < 16)
      delay = std::min(delay, context_.options.times.restart_delay_first * (1 << (actor.early_deaths - 2)));
  }
  actor.not_before = context_.now + delay;
  actors_.restart(actor, cause, true);
  const Reason why = describe(cause);
  remember(actor, why);
  context_.event(log::Level::kInfo, "actor restarts",
                 {{"actor", to_string(actor.id)}, {"restart", std::to_string(actor.restarts)}, {"cause", why.text()}},
                 why);
  maybe_submit(actor);
}

void ActorLife::kill_incarnation(Actor& actor, const Cause& cause, std::chrono::milliseconds grace) {
  if (!actor.incarnation || actor.incarnation->ending || actor.waits_for_place()) return;
  restart(actor, cause);
  end_incarnation(actor, cause, grace);
}

void ActorLife::die(ActorId first, const Cause& cause, std::chrono::milliseconds grace) {
  std::vector<std::pair<ActorId, Cause>> ends{{first, cause}};
  while (!ends.empty()) {
    auto [id, why] = std::move(ends.back());
    ends.pop_back();
    Actor& actor = *actors_.find(id);
    if (actor.is_dead()) continue;
    // Keep the node of the log in the cause, since only the cause remains of an ended actor.
    if (why.node_name().empty())
      why.set_node_name(actor.incarnation ? nodes_.name_of(actor.incarnation->node) : actor.cause.node_name());
    placement_.withdraw(id);
    group_module_.leave(actor.group(), id);
    actors_.die(actor, why);
    const Reason said = describe(why);
    remember(actor, said);
    end_incarnation(actor, why, grace);
    const bool wanted = why.kind() == Cause::KILLED || why.kind() == Cause::DRIVER_GONE;
    context_.event(wanted ? log::Level::kInfo : log::Level::kWarn, "actor is dead",
                   {{"actor", to_string(id)}, {"class", actor.spec.class_name()}, {"cause", said.text()}}, said);
    for (const ActorId child : actors_.children(id)) {
      ends.emplace_back(child,
                        make_cause(Cause::DRIVER_GONE, reason("cause.its_maker_ended", actor.display(), short_id(id))));
    }
    for (const GroupId group : groups_.of_owner(id)) {
      const auto in_it = group_module_.close(
          group, make_cause(Cause::DRIVER_GONE, reason("cause.its_maker_ended", actor.display(), short_id(id))));
      ends.insert(ends.end(), in_it.begin(), in_it.end());
    }
    handles_.forget(id);
    drop_checkpoint(id);
    client_module_.drop_program_if_unused(actor.driver);
  }
}

void ActorLife::drop_checkpoint(ActorId actor) {
  if (checkpoints_.drop(actor)) context_.journal(kCheckpointsTable, raw(actor), std::nullopt);
}

void ActorLife::wake(Actor& actor) {
  maybe_submit(actor);
  if (!actor.incarnation) return;
  Incarnation& incarnation = *actor.incarnation;
  if (incarnation.gone_at && *incarnation.gone_at <= context_.now) {
    incarnation_over(actor, Cause(incarnation.gone_cause));
    return;
  }
  if (incarnation.ending) {
    if (incarnation.end_sent + context_.options.times.end_retry <= context_.now) send_end(actor);
    return;
  }
  if (actor.state != protocol::STARTING) return;
  if (start_deadline(actor) > context_.now) return;
  end_incarnation(actor,
                  make_cause(Cause::START_FAILED, reason("cause.no_start_report", nodes_.name_of(incarnation.node),
                                                         in_seconds(context_.now - incarnation.since))),
                  {});
}

BootTime ActorLife::start_deadline(const Actor& actor) const {
  const std::chrono::milliseconds timeout = actor.spec.start_timeout_ms() > 0
                                                ? std::chrono::milliseconds(actor.spec.start_timeout_ms())
                                                : context_.options.times.start_timeout;
  return actor.incarnation->since + timeout + context_.options.times.start_slack;
}

void ActorLife::rearm(Actor& actor) {
  std::optional<BootTime> next;
  const auto at = [&](BootTime time) { next = next ? std::min(*next, time) : time; };
  if (actor.incarnation) {
    const Incarnation& incarnation = *actor.incarnation;
    if (incarnation.gone_at) at(*incarnation.gone_at);
    if (incarnation.ending) {
      at(std::max(incarnation.end_sent, context_.started_at) + context_.options.times.end_retry);
    } else if (actor.state == protocol::STARTING) {
      at(start_deadline(actor));
    }
  } else if (actor.waits_for_place() && actor.not_before > context_.now) {
    at(actor.not_before);
  }
  if (next == actor.wake) return;
  if (actor.wake) timers_.erase({*actor.wake, actor.id});
  actor.wake = next;
  if (next) timers_.emplace(*next, actor.id);
}

// ---- journal and watchers ----

void ActorLife::flush_actor(Actor& actor) {
  actor.version = ++context_.version;
  const Actor::Saved wanted = actor.is_dead() ? Actor::Saved::kTrimmedSpec : Actor::Saved::kSpec;
  if (actor.saved != wanted) {
    protocol::ActorRecord record;
    *record.mutable_spec() = actor.spec;
    context_.journal(kActorsTable, raw(actor.id), record.SerializeAsString());
    actor.saved = wanted;
  }
  protocol::ActorRecord record;
  record.set_state(actor.state);
  record.set_epoch(actor.epoch);
  record.set_restarts(actor.restarts);
  record.set_sequence(actor.sequence);
  if (!actor.owner.is_nil()) record.set_owner_actor(raw(actor.owner));
  if (actor.cause.kind() != Cause::KIND_UNSPECIFIED || !actor.cause.message().empty())
    *record.mutable_cause() = actor.cause;
  if (actor.incarnation) {
    record.set_node_id(raw(actor.incarnation->node));
    record.set_host_id(raw(actor.incarnation->host));
    record.set_worker_incarnation(actor.incarnation->worker);
    record.set_bundle(actor.incarnation->bundle);
    for (const int32_t gpu : actor.incarnation->gpus) record.add_gpus(gpu);
    if (actor.incarnation->ending) {
      record.set_ending(true);
      *record.mutable_end_cause() = actor.incarnation->end_cause;
      record.set_end_grace_ms(actor.incarnation->end_grace.count());
    }
  }
  if (actor.state == protocol::ALIVE) {
    *record.mutable_address() = actor.address;
    record.set_pid(actor.pid);
  }
  context_.journal(kActorStatesTable, raw(actor.id), record.SerializeAsString());

  const std::set<ClientRef>& watchers = clients_.watchers(actor.id);
  if (!watchers.empty()) {
    protocol::HeadMessage message;
    *message.mutable_actor() = info_of(actor);
    for (const ClientRef& watcher : watchers) {
      const bool answered = std::any_of(replies_.begin(), replies_.end(), [&](const Reply& reply) {
        return reply.actor == actor.id && reply.client == watcher;
      });
      if (!answered) context_.send(watcher, message);
    }
  }
  rearm(actor);
}

protocol::ActorInfo ActorLife::info_of(const Actor& actor) const {
  protocol::ActorInfo info;
  info.set_actor_id(raw(actor.id));
  info.set_state(actor.state);
  info.set_epoch(actor.epoch);
  if (actor.incarnation) {
    info.set_node_id(raw(actor.incarnation->node));
    info.set_node_name(nodes_.name_of(actor.incarnation->node));
    for (const int32_t gpu : actor.incarnation->gpus) info.add_gpus(gpu);
    const Node* node = nodes_.find(actor.incarnation->node);
    info.set_node_leaves(node != nullptr && (node->draining || node->stopping));
    if (node != nullptr) {
      for (const NodeProblem& problem : node->problems) {
        const auto& gpus = actor.incarnation->gpus;
        const bool concerns =
            !problem.found.has_gpu() || std::find(gpus.begin(), gpus.end(), problem.found.gpu()) != gpus.end();
        if (concerns) *info.add_problems() = problem.found;
      }
    }
  }
  if (actor.state == protocol::ALIVE) *info.mutable_address() = actor.address;
  *info.mutable_cause() = actor.cause;
  if (actor.waits_for_place()) set_reason(info, reasons_.of_actor(actor, context_.now));
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

// ---- after each event ----

void ActorLife::on_tick() {
  while (!timers_.empty() && timers_.begin()->first <= context_.now) {
    Actor* actor = actors_.find(timers_.begin()->second);
    timers_.erase(timers_.begin());
    if (actor == nullptr) continue;
    actor->wake.reset();
    wake(*actor);
    rearm(*actor);
  }
}

void ActorLife::flush() {
  for (const ActorId id : actors_.take_touched()) {
    if (Actor* actor = actors_.find(id)) flush_actor(*actor);
    context_.changes.actor(id);
    group_module_.note_group_of(id);
  }
}

void ActorLife::send_replies() {
  for (const Reply& reply : replies_) {
    protocol::HeadMessage message;
    message.mutable_reply()->set_request_id(reply.request_id);
    if (const Actor* actor = actors_.find(reply.actor)) *message.mutable_reply()->mutable_actor() = info_of(*actor);
    context_.send(reply.client, std::move(message));
  }
  replies_.clear();
}

void ActorLife::forget_oldest() {
  for (const ActorId id : actors_.forget_oldest()) {
    client_module_.forget(id);
    context_.changes.actor(id);
    context_.journal(kActorsTable, raw(id), std::nullopt);
    context_.journal(kActorStatesTable, raw(id), std::nullopt);
  }
}

void ActorLife::check_invariants() const {
  for (const auto& [time, id] : timers_) {
    const Actor* actor = actors_.find(id);
    VOLADOR_CHECK(actor == nullptr || actor->wake == time, to_string(id));
  }
}

}  // namespace volador::head
