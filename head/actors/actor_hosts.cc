#include "head/actors/actor_hosts.h"

#include <algorithm>
#include <set>

#include "head/actors/actor_life.h"
#include "head/kernel/wire.h"
#include "runtime/debugging.h"
#include "runtime/metric_rules.h"
#include "runtime/utf8.h"

namespace volador::head {

void ActorHosts::reconcile(Node& node, const protocol::Register& message, BootTime old_lease_end,
                           protocol::Registered& reply) {
  for (const protocol::HostEnded& ended : message.ended()) on_ended(node, ended);
  std::set<ActorId> reported;
  for (const protocol::HostReport& report : message.hosts()) {
    const auto host = id_from_raw<HostId>(report.host_id());
    Actor* actor = actors_.find_host(host);
    if (actor == nullptr || actor->incarnation->node != node.id || actor->epoch != report.epoch()) {
      reply.add_stale_hosts(report.host_id());
      continue;
    }
    reported.insert(actor->id);
    Incarnation& incarnation = *actor->incarnation;
    if (incarnation.ending) {
      // Within a grace period it may go on, as if the connection had held; the worker keeps the earlier time of its end.
      if (incarnation.end_grace > std::chrono::milliseconds(0)) {
        life_.send_end(*actor);
      } else {
        reply.add_stale_hosts(report.host_id());
      }
      continue;
    }
    if (incarnation.gone_at || incarnation.worker != node.incarnation) {  // The host still exists.
      incarnation.gone_at.reset();
      incarnation.worker = node.incarnation;
      actors_.touch(*actor);
    }
    if (report.ready() && actors_.ready(*actor, address_of(*actor, report), report.pid(), context_.now))
      life_.remember(*actor);
  }
  for (const ActorId id : actors_.on_node(node.id)) {
    if (reported.contains(id)) continue;
    Actor& actor = *actors_.find(id);
    Incarnation& incarnation = *actor.incarnation;
    if (incarnation.worker !=
        node.incarnation) {  // Its hosts end within a second, but may commit until their lease ends.
      if (incarnation.gone_at) continue;
      incarnation.gone_at = old_lease_end;
      incarnation.gone_cause = make_cause(Cause::NODE_LOST, reason("cause.worker_anew", node.name));
      life_.rearm(actor);
    } else if (incarnation.ending) {
      life_.incarnation_over(actor, Cause(incarnation.end_cause));
    } else if (actor.state == protocol::STARTING) {
      // The start order was lost with the connection; a worker that has the host repeats its reply.
      life_.send_start(actor);
    } else {
      incarnation.gone_at = context_.now + context_.options.times.ended_report;
      incarnation.gone_cause = make_cause(Cause::KIND_UNSPECIFIED, reason("cause.host_gone", node.name));
      life_.rearm(actor);
    }
  }
}

void ActorHosts::on_ready(Node& node, const protocol::HostReport& report) {
  const auto host = id_from_raw<HostId>(report.host_id());
  Actor* actor = actors_.find_host(host);
  const bool current = actor != nullptr && actor->incarnation->node == node.id && actor->epoch == report.epoch();
  if (current && !actor->incarnation->ending) {
    if (actors_.ready(*actor, address_of(*actor, report), report.pid(), context_.now)) {
      life_.remember(*actor);
      context_.event(log::Level::kDebug, "actor is alive",
                     {{"actor", to_string(actor->id)}, {"epoch", std::to_string(actor->epoch)}, {"node", node.name}});
    }
    return;
  }
  if (current) return life_.send_end(*actor);
  protocol::HeadToWorker answer;
  answer.mutable_end_host()->set_host_id(report.host_id());
  *answer.mutable_end_host()->mutable_cause() = make_cause(Cause::LEASE_LOST, reason("cause.epoch_refused"));
  context_.send(*node.session, std::move(answer));
}

protocol::HostAddress ActorHosts::address_of(const Actor& actor, const protocol::HostReport& report) const {
  protocol::HostAddress address = report.address();
  const auto process = id_from_raw<HostId>(address.host_id());
  if (process == actor.incarnation->host) return address;
  const auto lives_there = [&](const Actor& other) {
    return other.incarnation && other.incarnation->node == actor.incarnation->node && other.driver == actor.driver &&
           other.spec.isolation() == protocol::ISOLATION_SHARED &&
           (other.incarnation->host == process || other.address.host_id() == address.host_id());
  };
  const Actor* first = actors_.find_host(process);
  bool known = first != nullptr && lives_there(*first);
  if (!known && first == nullptr && actor.spec.isolation() == protocol::ISOLATION_SHARED) {
    for (const ActorId id : actors_.on_node(actor.incarnation->node))
      known = known || (id != actor.id && lives_there(*actors_.find(id)));
  }
  if (!known || actor.spec.isolation() != protocol::ISOLATION_SHARED) address.set_host_id(raw(actor.incarnation->host));
  return address;
}

void ActorHosts::on_ended(Node& node, const protocol::HostEnded& ended) {
  Actor* actor = actors_.find_host(id_from_raw<HostId>(ended.host_id()));
  if (actor == nullptr || actor->incarnation->node != node.id || actor->incarnation->worker != node.incarnation) return;
  // 0: the worker received nothing but EndHost for it.
  if (ended.epoch() != 0 && actor->epoch != ended.epoch()) return;
  Cause cause = ended.cause();
  if (cause.node_name().empty()) cause.set_node_name(node.name);
  life_.incarnation_over(*actor, std::move(cause));
}

void ActorHosts::on_program_failed(Node& node, const protocol::ProgramFailed& failed) {
  if (failed.sha256().empty() || placement_.is_excluded(node.id, failed.sha256())) return;
  placement_.exclude(node.id, failed.sha256());
  context_.event(log::Level::kWarn, "a program cannot run on this node",
                 {{"node", node.name}, {"why", failed.error().message()}});
  for (const ActorId id : actors_.on_node(node.id)) {
    Actor& actor = *actors_.find(id);
    if (actor.state != protocol::STARTING || actor.spec.program_sha256() != failed.sha256()) continue;
    life_.end_incarnation(actor, make_cause(Cause::START_FAILED, Reason::said(failed.error().message())), {});
  }
}

void ActorHosts::on_log(const protocol::LogLines& lines) {
  const Actor* actor = actors_.find(id_from_raw<ActorId>(lines.actor_id()));
  const Driver* driver = actor == nullptr ? nullptr : clients_.find(actor->driver);
  if (driver == nullptr || !driver->session || !driver->wants_logs) return;
  protocol::HeadMessage message;
  *message.mutable_log() = lines;
  context_.send({.session = *driver->session}, std::move(message));
}

namespace {

std::string breakpoint_of(const protocol::ActorMetrics& metrics) {
  for (const protocol::MetricSeries& series : metrics.series()) {
    if (series.name() != kBreakpointMetric || !(series.value() > 0)) continue;
    const auto place = series.labels().find(std::string(kBreakpointLabel));
    if (place != series.labels().end()) return plain_text(place->second, MetricLimits::kNameBytes);
  }
  return {};
}

}  // namespace

// Only for display; no decision depends on metrics.
void ActorHosts::on_metrics(const Node& node, const protocol::ActorMetrics& metrics) {
  const auto id = id_from_raw<ActorId>(metrics.actor_id());
  Actor* actor = actors_.find(id);
  if (actor == nullptr || actor->is_dead() || !actor->incarnation || actor->incarnation->node != node.id) return;
  context_.changes.metrics(id, metrics);
  if (std::string breakpoint = breakpoint_of(metrics); breakpoint != actor->incarnation->breakpoint) {
    actor->incarnation->breakpoint = std::move(breakpoint);
    context_.changes.actor(id);
  }
}

void ActorHosts::readmit(const Node& node, bool worker_restarted) {
  for (const ActorId id : actors_.on_node(node.id)) {
    Actor& actor = *actors_.find(id);
    const bool in_group = !actor.group().is_nil();
    if (in_group && groups_.node_of(id)) continue;  // Part of its bundle, which is reserved again.
    if (!in_group &&
        placement_.adopt(node.id, id, actor.resources, actor.incarnation->gpus, actor.spec.wishes().apart()))
      continue;
    if (worker_restarted || actor.is_dead() || actor.waits_for_place()) continue;  // The report of its end will follow.
    actors_.restart(actor, make_cause(Cause::NODE_LOST, reason("cause.node_with_less", node.name)), false);
    life_.remember(actor, describe(actor.cause));
    life_.end_incarnation(actor, actor.cause, {});
  }
}

void ActorHosts::lose_node(NodeId id, const Reason& why) {
  for (const ActorId actor_id : actors_.on_node(id)) {
    Actor& actor = *actors_.find(actor_id);
    const bool told = actor.incarnation->gone_at && actor.incarnation->gone_cause.kind() != Cause::NODE_LOST;
    life_.incarnation_over(actor, told ? Cause(actor.incarnation->gone_cause)
                                       : make_cause(Cause::NODE_LOST, reason("cause.node", nodes_.name_of(id), why)));
  }
}

void ActorHosts::on_usage(const Node& node, const protocol::NodeUsage& usages) {
  for (const protocol::HostUsage& usage : usages.hosts()) {
    Actor* actor = actors_.find(id_from_raw<ActorId>(usage.actor_id()));
    if (actor == nullptr || !actor->incarnation || actor->incarnation->node != node.id) continue;
    actor->incarnation->cpu_cores = usage.cpu_cores();
    actor->incarnation->memory_bytes = usage.memory_bytes();
    context_.changes.usage(usage);
  }
}

const Actor* ActorHosts::sender(const Node& node, HostId host) const {
  const Actor* actor = actors_.find_host(host);
  const bool is_current = actor != nullptr && actor->incarnation->node == node.id && !actor->incarnation->ending;
  return is_current ? actor : nullptr;
}

}  // namespace volador::head
