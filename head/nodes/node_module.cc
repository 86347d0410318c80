#include "head/nodes/node_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "head/actors/actor_hosts.h"
#include "head/actors/handle_module.h"
#include "head/groups/group_module.h"
#include "head/kernel/wire.h"
#include "runtime/language/health_reason.h"
#include "runtime/protocol/error_info.h"
#include "runtime/utf8.h"

namespace volador::head {
namespace {

constexpr int kProblemsMax = 64;               // For one node; the rest is ignored.
constexpr size_t kProblemTextBytesMax = 1000;  // A field of a problem.

// A copy with bounded, plain texts.
protocol::HealthProblem bounded(protocol::HealthProblem problem) {
  for (std::string* text : {problem.mutable_code(), problem.mutable_subject(), problem.mutable_detail()}) {
    *text = plain_text(*text, kProblemTextBytesMax);
  }
  return problem;
}

}  // namespace

Result<void> NodeModule::drain(std::string_view text, bool undo, std::string_view by) {
  const auto id = nodes_.resolve(text);
  if (!id) return make_error(id.error());
  Node& node = *nodes_.find(*id);
  if (!node.is_member()) {
    return make_error(ErrorCode::kNotFound, fmt::format("node \"{}\" is dead ({}); there is nothing to drain",
                                                        node.name, node.why_dead.text()));
  }
  if (node.draining == !undo) return {};
  node.draining = !undo;
  context_.changes.node(node.id);
  save(node);
  set_placeable(node);
  notify_watchers(node);
  group_module_.move_from_closed(node.id);
  context_.event(log::Level::kInfo, undo ? "node takes actors again" : "node drains: nothing new is placed there",
                 {{"node", node.name}, {"by", std::string(by)}});
  return {};
}

// An actor's watchers see whether its node leaves, and its problems.
void NodeModule::notify_watchers(const Node& node) {
  for (const ActorId id : actors_.on_node(node.id)) actors_.touch(*actors_.find(id));
}

// Nothing new is placed on a node or GPU with a problem; what runs there is told and continues.
void NodeModule::set_problems(Node& node, const google::protobuf::RepeatedPtrField<protocol::HealthProblem>& problems,
                              bool registers) {
  std::vector<NodeProblem> now_known;
  std::map<int32_t, Reason> closed;
  bool begun = false;
  bool changed = false;
  for (int at = 0; at < std::min(problems.size(), kProblemsMax); ++at) {
    NodeProblem problem{.found = bounded(problems[at]), .since = context_.now};
    const auto before = std::find_if(node.problems.begin(), node.problems.end(),
                                     [&](const NodeProblem& one) { return one.is_same(problem.found); });
    const Reason why = health_reason(problem.found);
    if (problem.found.has_gpu()) closed.try_emplace(problem.found.gpu(), why);
    if (before != node.problems.end()) {
      problem.since = before->since;
      changed |= before->found.detail() != problem.found.detail();
    } else {
      begun = true;
      context_.event(log::Level::kWarn,
                     problem.found.has_gpu() ? "a GPU has a health problem and is not granted"
                                             : "node has a health problem, nothing new is placed there",
                     {{"node", node.name}, {"why", why.text()}}, why);
    }
    now_known.push_back(std::move(problem));
  }
  const auto ends = [&](const NodeProblem& one) {
    return std::none_of(now_known.begin(), now_known.end(),
                        [&](const NodeProblem& other) { return one.is_same(other.found); });
  };
  bool ended = false;
  for (const NodeProblem& one : node.problems) {
    if (!ends(one)) continue;
    ended = true;
    const Reason why = health_reason(one.found);
    context_.event(log::Level::kInfo, "a health problem is over", {{"node", node.name}, {"why", why.text()}}, why);
  }
  node.problems = std::move(now_known);
  if (begun || ended || changed) context_.changes.node(node.id);
  if (!begun && !ended && !(registers && !node.problems.empty())) return;
  placement_.set_closed_gpus(node.id, closed);
  group_module_.set_closed_gpus(node.id, closed);
  set_placeable(node);
  notify_watchers(node);
  group_module_.move_from_closed(node.id);
}

void NodeModule::on_lost(NodeSession session) {
  Node* node = nodes_.lost(session);
  if (node == nullptr || !node->is_member()) return;
  context_.changes.node(node->id);
  set_placeable(*node);
  context_.event(log::Level::kWarn, "connection to node lost, nothing new is placed there", {{"node", node->name}});
}

void NodeModule::check_silence() {
  for (auto& [id, node] : nodes_.all()) {
    if (node.state != NodeState::kAlive || context_.now - node.last_heard < context_.options.times.suspect_after)
      continue;
    node.state = NodeState::kSuspect;
    context_.changes.node(id);
    set_placeable(node);
    context_.event(log::Level::kWarn, "node is silent, nothing new is placed there", {{"node", node.name}});
  }
}

// New requests on a stopping node would be sent back and count as lost with it.
void NodeModule::on_stopping(Node& node) {
  if (node.stopping) return;
  node.stopping = true;
  context_.changes.node(node.id);
  set_placeable(node);
  notify_watchers(node);
  context_.event(log::Level::kInfo, "node stops, nothing new is placed there", {{"node", node.name}});
}

void NodeModule::give_up(NodeId id, const Reason& why, log::Level level) {
  Node& node = *nodes_.find(id);
  const std::string name = nodes_.name_of(id);
  placement_.set_placeable(id, "gone");
  context_.changes.node(id);
  group_module_.lose_bundles(id);
  actor_hosts_.lose_node(id, why);
  handle_module_.gone({.driver = {}, .host = {}, .node = id});
  placement_.remove_node(id);
  leases_.forget(id);
  if (node.session) context_.actions.close_nodes.push_back(*node.session);
  const bool lost = level != log::Level::kInfo;  // A stopped node leaves without a warning.
  context_.event(level, "node is gone", {{"node", name}, {"why", why.text()}}, why, lost ? "node.lost" : "");
  nodes_.mark_dead(node, why, lost);
  context_.journal(kNodesTable, raw(id), std::nullopt);
}

void NodeModule::save(const Node& node) {
  protocol::NodeRecord record;
  record.set_node_id(raw(node.id));
  record.set_name(node.name);
  record.set_incarnation(node.incarnation);
  record.set_draining(node.draining);
  context_.journal(kNodesTable, raw(node.id), record.SerializeAsString());
}

// ---- registration ----

void NodeModule::on_register(NodeSession session, const protocol::Register& message) {
  const auto refuse_node = [&](const Error& error) {
    protocol::HeadToWorker refused;
    fill(*refused.mutable_refused(), error);
    context_.send(session, std::move(refused));
    context_.actions.close_nodes.push_back(session);
    context_.event(log::Level::kWarn, "node refused", {{"node", message.name()}, {"why", error.message}});
  };
  if (message.protocol_version() != context_.options.protocol_version) {
    refuse_node(
        {ErrorCode::kInvalidArgument,
         fmt::format(
             "node {} runs volador {} (protocol {}), the head {} (protocol {}); install the same version on both",
             message.name(), message.version(), message.protocol_version(), context_.options.version,
             context_.options.protocol_version)});
    return;
  }
  const auto verdict = nodes_.check(session, message);
  const auto total = resources_from(message.total(), context_.options.limits);
  if (!verdict || !total) {
    refuse_node(verdict ? total.error() : verdict.error());
    return;
  }
  if (*verdict == NodeTable::Verdict::kRepeated) return;
  if (*verdict == NodeTable::Verdict::kOlder) {
    context_.actions.close_nodes.push_back(session);
    return;
  }
  const auto id = id_from_raw<NodeId>(message.node_id());
  const Node* before = nodes_.find(id);
  const bool was_awaited = before != nullptr && before->state == NodeState::kAwaited;
  const bool worker_restarted = *verdict == NodeTable::Verdict::kRestarted;
  // An earlier head sent its last acknowledgement before this one started.
  const BootTime old_lease_end = was_awaited
                                     ? std::min(leases_.ends(id), context_.started_at + context_.options.times.lease +
                                                                      context_.options.times.lease_margin)
                                     : leases_.ends(id);
  const bool changed = before == nullptr || !before->is_member() || before->name != message.name() || worker_restarted;
  if (const auto replaced = nodes_.admit(context_.now, session, message, *total))
    context_.actions.close_nodes.push_back(*replaced);
  Node& node = *nodes_.find(id);
  if (changed) save(node);
  // The store of the new worker process is empty.
  if (worker_restarted) handle_module_.gone({.driver = {}, .host = {}, .node = id});
  context_.changes.node(id);
  if (worker_restarted || placement_.ledger().find(id) == nullptr) readmit_resources(node, *total, worker_restarted);

  protocol::HeadToWorker answer;
  protocol::Registered& registered = *answer.mutable_registered();
  registered.set_cluster_id(raw(context_.options.cluster_id));
  registered.set_cluster_name(context_.options.cluster_name);
  registered.set_lease_ms(context_.options.times.lease.count());
  registered.set_heartbeat_ms(context_.options.times.heartbeat.count());
  registered.set_park_max_ms(context_.options.times.park_max.count());
  registered.set_sent_boot_ns(message.sent_boot_ns());
  const size_t at = context_.actions.to_nodes.size();
  actor_hosts_.reconcile(node, message, old_lease_end, registered);
  leases_.acknowledged(id, context_.now);
  // Insert before the messages that reconcile() queued for the node.
  context_.actions.to_nodes.insert(context_.actions.to_nodes.begin() + static_cast<ptrdiff_t>(at),
                                   ToNode{session, std::move(answer)});
  set_placeable(node);
  set_problems(node, message.problems(), true);
  context_.event(log::Level::kInfo,
                 *verdict == NodeTable::Verdict::kNew ? "node joined"
                 : worker_restarted                   ? "node joined again, its worker is new"
                                                      : "node is back",
                 {{"node", node.name},
                  {"id", to_string(id)},
                  {"resources", to_string(*total)},
                  {"hosts", std::to_string(message.hosts_size())}});
}

// Sets the node's resources as reported by the worker, and reserves what its hosts hold.
void NodeModule::readmit_resources(Node& node, const ResourceSet& total, bool worker_restarted) {
  std::vector<int32_t> gpus;
  for (const protocol::Gpu& gpu : node.gpus) gpus.push_back(gpu.index());
  if (gpus.empty()) {  // Simulated GPUs, or a worker that reports only their number.
    const Amount count = std::min<Amount>(total.get("gpus") / kUnit, 1024);
    for (int32_t index = 0; index < count; ++index) gpus.push_back(index);
  }
  placement_.set_node(node.id, node.name, node.labels, total, gpus);
  group_module_.readmit(node.id);
  actor_hosts_.readmit(node, worker_restarted);
}

void NodeModule::on_heartbeat(Node& node, const protocol::Heartbeat& heartbeat) {
  node.usage = heartbeat.usage();
  set_problems(node, node.usage.problems(), false);
  node.usage.clear_problems();
  actor_hosts_.on_usage(node, node.usage);
  node.usage.clear_hosts();
  node.heard_before = std::exchange(node.heartbeat_at, context_.now);
  context_.changes.heard(node.id);
  leases_.acknowledged(node.id, context_.now);
  protocol::HeadToWorker answer;
  answer.mutable_heartbeat_ack()->set_sequence(heartbeat.sequence());
  answer.mutable_heartbeat_ack()->set_sent_boot_ns(heartbeat.sent_boot_ns());
  context_.send(*node.session, std::move(answer));
}

void NodeModule::set_placeable(const Node& node) {
  const std::string why_not = node.why_not_placeable();
  placement_.set_placeable(node.id, why_not,
                           why_not == kUnhealthy ? health_reason(node.own_problem()->found) : Reason());
  group_module_.node_changed(node.id);
}

// ---- time ----

Node* NodeModule::heard(NodeSession session) {
  Node* node = nodes_.find(session);
  if (node == nullptr) return nullptr;
  node->last_heard = context_.now;
  if (node->state != NodeState::kSuspect) return node;
  node->state = NodeState::kAlive;
  context_.changes.node(node->id);
  set_placeable(*node);
  context_.event(log::Level::kInfo, "node is heard again", {{"node", node->name}});
  return node;
}

void NodeModule::own_pause() {
  leases_.own_pause(context_.now);
  for (auto& [id, node] : nodes_.all()) node.last_heard = std::max(node.last_heard, context_.now);
}

void NodeModule::on_tick() {
  for (const NodeId id : leases_.ended(context_.now)) {
    const Node* node = nodes_.find(id);
    if (node == nullptr) continue;
    const bool is_awaited = node->state == NodeState::kAwaited;
    const double silent_s = std::chrono::duration<double>(context_.now - node->last_heard).count();
    give_up(id, is_awaited ? reason("cause.not_back") : reason("cause.silent", fmt::format("{:.1f}", silent_s)),
            log::Level::kWarn);
  }
  check_silence();
}

// ---- restoring ----

void NodeModule::restore(BootTime until) {
  std::sort(loaded_.begin(), loaded_.end(), [](const auto& a, const auto& b) { return a.node_id() < b.node_id(); });
  for (const protocol::NodeRecord& record : loaded_) {
    const auto id = id_from_raw<NodeId>(record.node_id());
    if (id.is_nil() || nodes_.holder(record.name()) != nullptr) {
      context_.bad_rows.push_back(fmt::format("nodes: {}", record.name()));
      continue;
    }
    nodes_.restore(id, record.name(), record.incarnation(), record.draining());
    leases_.await(id, until);
  }
  loaded_.clear();
}

void NodeModule::expect(NodeId id) {
  if (nodes_.find(id) != nullptr) return;
  nodes_.restore(id, "", "", false);
  leases_.await(id, context_.window_end);
}

}  // namespace volador::head
