// Messages of workers: membership, leases, what became of hosts.
#include <fmt/format.h>

#include <algorithm>

#include "head/core_impl.h"
#include "head/wire.h"
#include "runtime/protocol/error_info.h"

namespace volador::head {

void HeadCore::Impl::on_node_message(NodeSession session, const protocol::WorkerMessage& message) {
  if (message.kind_case() == protocol::WorkerMessage::kRegister) {
    on_register(session, message.register_());
    return;
  }
  Node* node = nodes_.find(session);
  if (node == nullptr) return;  // Not registered, or another stream took its place.
  node->last_heard = now_;
  if (node->state == NodeState::kSuspect) {
    node->state = NodeState::kAlive;
    changes_.node(node->id);
    set_placeable(*node);
    event(log::Level::kInfo, "node is heard again", {{"node", node->name}});
  }
  switch (message.kind_case()) {
    case protocol::WorkerMessage::kHeartbeat: on_heartbeat(*node, message.heartbeat()); break;
    case protocol::WorkerMessage::kHostReady: on_host_ready(*node, message.host_ready()); break;
    case protocol::WorkerMessage::kHostEnded: on_host_ended(*node, message.host_ended()); break;
    case protocol::WorkerMessage::kLog: on_log(message.log()); break;
    case protocol::WorkerMessage::kRelay: on_relay(*node, message.relay()); break;
    case protocol::WorkerMessage::kProgramFailed: on_program_failed(*node, message.program_failed()); break;
    case protocol::WorkerMessage::kMetrics: on_metrics(*node, message.metrics()); break;
    case protocol::WorkerMessage::kHolds: on_holds({.driver = {}, .host = {}, .node = node->id}, message.holds()); break;
    case protocol::WorkerMessage::kStopping: on_stopping(*node); break;
    case protocol::WorkerMessage::kLeaving: give_up(node->id, reason("cause.stopped"), log::Level::kInfo); break;
    case protocol::WorkerMessage::kRegister:
    case protocol::WorkerMessage::kLogTails:  // For who asked: the shell has passed it on.
    case protocol::WorkerMessage::kLogPart:
    case protocol::WorkerMessage::kObjects:
    case protocol::WorkerMessage::kRunFiles:
    case protocol::WorkerMessage::kStacks:
    case protocol::WorkerMessage::kTimeline:
    case protocol::WorkerMessage::kProcesses:
    case protocol::WorkerMessage::KIND_NOT_SET: break;
  }
}

void HeadCore::Impl::on_node_lost(NodeSession session) {
  Node* node = nodes_.lost(session);
  if (node == nullptr || !node->is_member()) return;
  changes_.node(node->id);
  set_placeable(*node);
  event(log::Level::kWarn, "connection to node lost, nothing new is placed there", {{"node", node->name}});
}

void HeadCore::Impl::check_silence() {
  for (auto& [id, node] : nodes_.all()) {
    if (node.state != NodeState::kAlive || now_ - node.last_heard < options_.times.suspect_after) continue;
    node.state = NodeState::kSuspect;
    changes_.node(id);
    set_placeable(node);
    event(log::Level::kWarn, "node is silent, nothing new is placed there", {{"node", node.name}});
  }
}

// A request that came here would only be sent back, and would count as lost with the node.
void HeadCore::Impl::on_stopping(Node& node) {
  if (node.stopping) return;
  node.stopping = true;
  changes_.node(node.id);
  set_placeable(node);
  event(log::Level::kInfo, "node stops, nothing new is placed there", {{"node", node.name}});
}

// Its lease is over, or it said that its hosts are: what it had is placed again.
void HeadCore::Impl::give_up(NodeId id, const Reason& why, log::Level level) {
  Node& node = *nodes_.find(id);
  const std::string name = node_name(id);
  placement_.set_placeable(id, "gone");
  changes_.node(id);
  lose_bundles(id);
  for (const ActorId actor_id : actors_.on_node(id)) {
    Actor& actor = *actors_.find(actor_id);
    const bool told = actor.incarnation->gone_at && actor.incarnation->gone_cause.kind() != Cause::NODE_LOST;
    incarnation_over(actor, told ? Cause(actor.incarnation->gone_cause) : make_cause(Cause::NODE_LOST, reason("cause.node", name, why)));
  }
  handles_.gone(now_, {.driver = {}, .host = {}, .node = id});
  placement_.remove_node(id);
  leases_.forget(id);
  if (node.session) out_.close_nodes.push_back(*node.session);
  event(level, "node is gone", {{"node", name}, {"why", why.text()}}, why);
  nodes_.mark_dead(node, why, level != log::Level::kInfo);
  journal(kNodesTable, raw(id), std::nullopt);
}

void HeadCore::Impl::save_node(const Node& node) {
  protocol::NodeRecord record;
  record.set_node_id(raw(node.id));
  record.set_name(node.name);
  record.set_incarnation(node.incarnation);
  record.set_draining(node.draining);
  journal(kNodesTable, raw(node.id), record.SerializeAsString());
}

// ---- registration ----

void HeadCore::Impl::on_register(NodeSession session, const protocol::Register& message) {
  const auto refuse_node = [&](const Error& error) {
    protocol::HeadToWorker refused;
    fill(*refused.mutable_refused(), error);
    send(session, std::move(refused));
    out_.close_nodes.push_back(session);
    event(log::Level::kWarn, "node refused", {{"node", message.name()}, {"why", error.message}});
  };
  if (message.protocol_version() != options_.protocol_version) {
    refuse_node({ErrorCode::kInvalidArgument,
                 fmt::format("node {} runs volador {} (protocol {}), the head {} (protocol {}); install the same version on both", message.name(),
                             message.version(), message.protocol_version(), options_.version, options_.protocol_version)});
    return;
  }
  const auto verdict = nodes_.check(session, message);
  const auto total = resources_from(message.total(), options_.limits);
  if (!verdict || !total) {
    refuse_node(verdict ? total.error() : verdict.error());
    return;
  }
  if (*verdict == NodeTable::Verdict::kRepeated) return;
  if (*verdict == NodeTable::Verdict::kOlder) {
    out_.close_nodes.push_back(session);
    return;
  }
  const auto id = id_from_raw<NodeId>(message.node_id());
  const Node* before = nodes_.find(id);
  const bool was_awaited = before != nullptr && before->state == NodeState::kAwaited;
  const bool worker_restarted = *verdict == NodeTable::Verdict::kRestarted;
  // What an earlier head acknowledged was acknowledged before this one started.
  const BootTime old_lease_end = was_awaited ? std::min(leases_.ends(id), started_at_ + options_.times.lease + options_.times.lease_margin)
                                             : leases_.ends(id);
  const bool changed = before == nullptr || !before->is_member() || before->name != message.name() || worker_restarted;
  if (const auto replaced = nodes_.admit(now_, session, message, *total)) out_.close_nodes.push_back(*replaced);
  Node& node = *nodes_.find(id);
  if (changed) save_node(node);
  if (worker_restarted) handles_.gone(now_, {.driver = {}, .host = {}, .node = id});  // Its store is a new one.
  changes_.node(id);
  if (worker_restarted || placement_.ledger().find(id) == nullptr) readmit_resources(node, *total, worker_restarted);

  protocol::HeadToWorker answer;
  protocol::Registered& registered = *answer.mutable_registered();
  registered.set_cluster_id(raw(options_.cluster_id));
  registered.set_cluster_name(options_.cluster_name);
  registered.set_lease_ms(options_.times.lease.count());
  registered.set_heartbeat_ms(options_.times.heartbeat.count());
  registered.set_park_max_ms(options_.times.park_max.count());
  registered.set_sent_boot_ns(message.sent_boot_ns());
  const size_t at = out_.to_nodes.size();
  reconcile(node, message, old_lease_end, registered);
  leases_.acknowledged(id, now_);
  // Before anything that reconcile() had to say to the node.
  out_.to_nodes.insert(out_.to_nodes.begin() + static_cast<ptrdiff_t>(at), ToNode{session, std::move(answer)});
  set_placeable(node);
  event(log::Level::kInfo, *verdict == NodeTable::Verdict::kNew ? "node joined" : worker_restarted ? "node joined again, its worker is new" : "node is back",
        {{"node", node.name}, {"id", to_string(id)}, {"resources", to_string(*total)}, {"hosts", std::to_string(message.hosts_size())}});
}

// Resources as the worker reports them now, with what its hosts hold of them.
void HeadCore::Impl::readmit_resources(Node& node, const ResourceSet& total, bool worker_restarted) {
  std::vector<int32_t> gpus;
  for (const protocol::Gpu& gpu : node.gpus) gpus.push_back(gpu.index());
  if (gpus.empty()) {  // Simulated ones, or a worker that counts them only.
    const Amount count = std::min<Amount>(total.get("gpus") / kUnit, 1024);
    for (int32_t index = 0; index < count; ++index) gpus.push_back(index);
  }
  placement_.set_node(node.id, node.name, node.labels, total, gpus);
  for (const auto& [id, index] : groups_.on_node(node.id)) {
    Group& group = *groups_.find(id);
    const Bundle& bundle = group.bundles[index];
    if (!placement_.adopt(node.id, bundle.holder, bundle.resources, bundle.gpus)) lose_bundle(group, index);
  }
  for (const ActorId id : actors_.on_node(node.id)) {
    Actor& actor = *actors_.find(id);
    const bool in_group = !group_of(actor).is_nil();
    if (in_group && groups_.node_of(id)) continue;  // Of its bundle, which is held again.
    if (!in_group && placement_.adopt(node.id, id, actor.resources, actor.incarnation->gpus, actor.spec.wishes().apart())) continue;
    if (worker_restarted || actor.is_dead() || actor.waits_for_place()) continue;  // Its end is on its way.
    actors_.restart(actor, make_cause(Cause::NODE_LOST, reason("cause.node_with_less", node.name)), false);
    remember(actor, describe(actor.cause));
    end_incarnation(actor, actor.cause, {});
  }
}

// What the worker says of its hosts against what is believed of them.
void HeadCore::Impl::reconcile(Node& node, const protocol::Register& message, BootTime old_lease_end,
                               protocol::Registered& reply) {
  for (const protocol::HostEnded& ended : message.ended()) on_host_ended(node, ended);
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
      reply.add_stale_hosts(report.host_id());
      continue;
    }
    if (incarnation.gone_at || incarnation.worker != node.incarnation) {  // It is there after all.
      incarnation.gone_at.reset();
      incarnation.worker = node.incarnation;
      actors_.touch(*actor);
    }
    if (report.ready() && actors_.ready(*actor, address_of(*actor, report), report.pid(), now_)) remember(*actor);
  }
  for (const ActorId id : actors_.on_node(node.id)) {
    if (reported.contains(id)) continue;
    Actor& actor = *actors_.find(id);
    Incarnation& incarnation = *actor.incarnation;
    if (incarnation.worker != node.incarnation) {  // Its hosts end with it within a second, but may commit until their lease ends.
      if (incarnation.gone_at) continue;
      incarnation.gone_at = old_lease_end;
      incarnation.gone_cause = make_cause(Cause::NODE_LOST, reason("cause.worker_anew", node.name));
      rearm(actor);
    } else if (incarnation.ending) {
      incarnation_over(actor, Cause(incarnation.end_cause));
    } else if (actor.state == protocol::STARTING) {
      send_start(actor);  // The order was lost with the connection; a worker that knows the host answers again.
    } else {
      incarnation.gone_at = now_ + options_.times.ended_report;
      incarnation.gone_cause = make_cause(Cause::KIND_UNSPECIFIED, reason("cause.host_gone", node.name));
      rearm(actor);
    }
  }
}

void HeadCore::Impl::on_heartbeat(Node& node, const protocol::Heartbeat& heartbeat) {
  node.usage = heartbeat.usage();
  for (const protocol::HostUsage& usage : node.usage.hosts()) {
    const Actor* actor = actors_.find(id_from_raw<ActorId>(usage.actor_id()));
    if (actor == nullptr || !actor->incarnation || actor->incarnation->node != node.id) continue;
    actor->incarnation->cpu_cores = usage.cpu_cores();
    actor->incarnation->memory_bytes = usage.memory_bytes();
    changes_.usage(usage);
  }
  node.usage.clear_hosts();
  node.heard_before = std::exchange(node.heartbeat_at, now_);
  changes_.heard(node.id);
  leases_.acknowledged(node.id, now_);
  protocol::HeadToWorker answer;
  answer.mutable_heartbeat_ack()->set_sequence(heartbeat.sequence());
  answer.mutable_heartbeat_ack()->set_sent_boot_ns(heartbeat.sent_boot_ns());
  send(*node.session, std::move(answer));
}

// ---- hosts ----

// Where the worker says that it is reached. Its process bears its own id, or that of another actor of its driver on the node, in whose
// shared host it lives: a node gets certificates for no others (may_certify()).
protocol::HostAddress HeadCore::Impl::address_of(const Actor& actor, const protocol::HostReport& report) const {
  protocol::HostAddress address = report.address();
  const auto process = id_from_raw<HostId>(address.host_id());
  if (process == actor.incarnation->host) return address;
  const auto lives_there = [&](const Actor& other) {
    return other.incarnation && other.incarnation->node == actor.incarnation->node && other.driver == actor.driver &&
           other.spec.isolation() == protocol::ISOLATION_SHARED && (other.incarnation->host == process || other.address.host_id() == address.host_id());
  };
  const Actor* first = actors_.find_host(process);
  bool known = first != nullptr && lives_there(*first);
  if (!known && first == nullptr && actor.spec.isolation() == protocol::ISOLATION_SHARED) {
    for (const ActorId id : actors_.on_node(actor.incarnation->node)) known = known || (id != actor.id && lives_there(*actors_.find(id)));
  }
  if (!known || actor.spec.isolation() != protocol::ISOLATION_SHARED) address.set_host_id(raw(actor.incarnation->host));
  return address;
}

void HeadCore::Impl::on_host_ready(Node& node, const protocol::HostReport& report) {
  const auto host = id_from_raw<HostId>(report.host_id());
  Actor* actor = actors_.find_host(host);
  const bool current = actor != nullptr && actor->incarnation->node == node.id && actor->epoch == report.epoch();
  if (current && !actor->incarnation->ending) {
    if (actors_.ready(*actor, address_of(*actor, report), report.pid(), now_)) {
      remember(*actor);
      event(log::Level::kDebug, "actor is alive", {{"actor", to_string(actor->id)}, {"epoch", std::to_string(actor->epoch)}, {"node", node.name}});
    }
    return;
  }
  protocol::HeadToWorker answer;
  answer.mutable_end_host()->set_host_id(report.host_id());
  *answer.mutable_end_host()->mutable_cause() =
      current ? actor->incarnation->end_cause : make_cause(Cause::LEASE_LOST, reason("cause.epoch_refused"));
  send(*node.session, std::move(answer));
}

void HeadCore::Impl::on_host_ended(Node& node, const protocol::HostEnded& ended) {
  Actor* actor = actors_.find_host(id_from_raw<HostId>(ended.host_id()));
  if (actor == nullptr || actor->incarnation->node != node.id || actor->incarnation->worker != node.incarnation) return;
  if (ended.epoch() != 0 && actor->epoch != ended.epoch()) return;  // 0: the worker never saw more of it than EndHost.
  Cause cause = ended.cause();
  if (cause.node_name().empty()) cause.set_node_name(node.name);
  incarnation_over(*actor, std::move(cause));
}

void HeadCore::Impl::on_program_failed(Node& node, const protocol::ProgramFailed& failed) {
  if (failed.sha256().empty() || placement_.is_excluded(node.id, failed.sha256())) return;
  placement_.exclude(node.id, failed.sha256());
  event(log::Level::kWarn, "a program cannot run on this node", {{"node", node.name}, {"why", failed.error().message()}});
  for (const ActorId id : actors_.on_node(node.id)) {
    Actor& actor = *actors_.find(id);
    if (actor.state != protocol::STARTING || actor.spec.program_sha256() != failed.sha256()) continue;
    end_incarnation(actor, make_cause(Cause::START_FAILED, Reason::said(failed.error().message())), {});
  }
}

void HeadCore::Impl::on_log(const protocol::LogLines& lines) {
  const Actor* actor = actors_.find(id_from_raw<ActorId>(lines.actor_id()));
  const Driver* driver = actor == nullptr ? nullptr : clients_.find(actor->driver);
  if (driver == nullptr || !driver->session || !driver->wants_logs) return;
  protocol::HeadMessage message;
  *message.mutable_log() = lines;
  send({.session = *driver->session}, std::move(message));
}

// For who shows them: nothing here depends on them.
void HeadCore::Impl::on_metrics(const Node& node, const protocol::ActorMetrics& metrics) {
  const auto id = id_from_raw<ActorId>(metrics.actor_id());
  const Actor* actor = actors_.find(id);
  if (actor == nullptr || actor->is_dead() || !actor->incarnation || actor->incarnation->node != node.id) return;
  changes_.metrics(id, metrics);
}

void HeadCore::Impl::on_relay(Node& node, const protocol::Relay& relay) {
  const auto host = id_from_raw<HostId>(relay.host_id());
  Actor* actor = actors_.find_host(host);
  // A stale incarnation asks for nothing any more.
  if (actor == nullptr || actor->incarnation->node != node.id || actor->incarnation->ending) return;
  on_request({.session = {}, .host = host}, actor->driver, actor, relay.message());
}

}  // namespace volador::head
