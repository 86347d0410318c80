#include "head/read_model/rows.h"

#include <algorithm>

#include "head/experiments/experiment_rows.h"
#include "head/kernel/wire.h"
#include "runtime/protocol/node_affinity.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

void fill_amounts(google::protobuf::Map<std::string, int64_t>& map, const ResourceSet& resources) {
  for (const auto& [name, amount] : resources.entries()) map[name] = amount;
}

int64_t milliseconds(std::chrono::nanoseconds span) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

void fill_gpus(const Node& node, const ResourceLedger::Node* entry, v1::Node& out) {
  if (entry == nullptr) return;
  for (const ResourcePool::Device& device : entry->devices) {
    v1::Gpu& gpu = *out.add_gpus();
    gpu.set_index(device.index);
    gpu.set_granted(device.used);
    for (const protocol::Gpu& known : node.gpus) {
      if (known.index() == device.index) gpu.set_model(known.model());
    }
    for (const protocol::GpuUsage& usage : node.usage.gpus()) {
      if (usage.index() != device.index) continue;
      gpu.set_measured(true);
      gpu.set_utilization(usage.utilization());
      gpu.set_memory_bytes(usage.memory_bytes());
      gpu.set_memory_total_bytes(usage.memory_total_bytes());
      if (usage.has_temperature_celsius()) gpu.set_temperature_celsius(usage.temperature_celsius());
      if (usage.has_power_watts()) gpu.set_power_watts(usage.power_watts());
      if (usage.has_power_limit_watts()) gpu.set_power_limit_watts(usage.power_limit_watts());
    }
  }
}

void fill_machine(const protocol::MachineUsage& usage, v1::Node& out) {
  for (const protocol::FileSystemUsage& one : usage.file_systems()) {
    v1::FileSystem& row = *out.add_file_systems();
    row.set_path(one.path());
    row.set_type(one.type());
    row.mutable_uses()->CopyFrom(one.uses());
    row.set_total_bytes(one.total_bytes());
    row.set_free_bytes(one.free_bytes());
  }
  if (usage.has_disk_read_bytes_per_s()) out.set_disk_read_bytes_per_s(usage.disk_read_bytes_per_s());
  if (usage.has_disk_write_bytes_per_s()) out.set_disk_write_bytes_per_s(usage.disk_write_bytes_per_s());
  if (usage.has_network_receive_bytes_per_s()) out.set_network_receive_bytes_per_s(usage.network_receive_bytes_per_s());
  if (usage.has_network_send_bytes_per_s()) out.set_network_send_bytes_per_s(usage.network_send_bytes_per_s());
  if (usage.has_cpu_temperature_celsius()) out.set_cpu_temperature_celsius(usage.cpu_temperature_celsius());
  if (usage.has_cpu_power_watts()) out.set_cpu_power_watts(usage.cpu_power_watts());
}

// Queue entries and blockers have the same members.
template <class Row>
void fill_group_request(const Group& group, Row& row) {
  row.set_kind("group");
  row.set_id(to_string(group.id));
  row.set_name(group.spec.name());
  row.set_display(group.display());
}

// The trial for which the group was created: its actor is in the group.
template <class Row>
void fill_trial_of(const Group& group, const ExperimentTable& experiments, Row& row) {
  for (const ActorId member : group.actors) {
    const Experiment* experiment = nullptr;
    const protocol::TrialRow* trial = experiments.trial_of(member, &experiment);
    if (trial == nullptr) continue;
    row.set_experiment(experiment->name);
    row.set_trial(trial->trial_id());
    return;
  }
}

template <class Row>
void fill_actor_request(const Actor& actor, const protocol::TrialRow* trial, const Experiment* experiment, Row& row) {
  row.set_kind(trial != nullptr ? "trial" : actor.runs_tasks() ? "task" : "actor");
  row.set_id(to_string(actor.id));
  row.set_display(actor.display());
  row.set_class_name(actor.spec.class_name());
  if (!actor.spec.name().empty()) row.set_name(full_name(actor.spec));
  if (trial == nullptr) return;
  row.set_name(trial->name());
  row.set_experiment(experiment->name);
  row.set_trial(trial->trial_id());
}

}  // namespace

// Labels of one bundle, such as "zone=a, gpu"; empty: none.
std::string bundle_labels(const Group& group, size_t bundle) {
  const auto& labels = group.spec.bundle_labels();
  return bundle < static_cast<size_t>(labels.size()) ? to_string(labels_of(labels[static_cast<int>(bundle)].rules()))
                                                     : "";
}

Queued::Queued(const Actor& waiting) : order{waiting.spec.priority(), waiting.sequence, waiting.id}, actor(&waiting) {
  const auto& changes = waiting.history.changes();
  if (!changes.empty()) since = changes.back().at;
}

Queued::Queued(const Group& waiting)
    : order{waiting.spec.priority(), waiting.sequence, waiting.holder}, since(waiting.waits_since), group(&waiting) {}

void Rows::fill_node(const Node& node, BootTime now, v1::Node& out) const {
  const ResourceLedger::Node* entry = tables_.placement.ledger().find(node.id);
  out.set_id(to_string(node.id));
  out.set_name(node.name);
  const bool is_alive = node.state == NodeState::kAlive;
  out.set_state(is_alive && node.stopping   ? "stopping"
                : is_alive && node.draining ? "draining"
                                            : std::string(to_string(node.state)));
  out.set_address(node.data_address);
  fill_amounts(*out.mutable_total(), entry == nullptr ? node.total : entry->total);
  if (entry != nullptr) fill_amounts(*out.mutable_used(), entry->used);
  for (const auto& [key, value] : node.labels) (*out.mutable_labels())[key] = value;
  out.set_actors(static_cast<int32_t>(tables_.actors.on_node(node.id).size()));
  out.set_cpu_cores_used(node.usage.cpu_cores());
  out.set_memory_bytes_used(node.usage.memory_bytes());
  if (!node.gpus.empty()) out.set_gpu_model(node.gpus.front().model());
  fill_gpus(node, entry, out);
  if (node.state != NodeState::kDead) fill_machine(node.usage.machine(), out);
  for (const NodeProblem& problem : node.problems) {
    v1::HealthProblem& row = *out.add_problems();
    row.set_code(problem.found.code());
    if (problem.found.has_gpu()) row.set_gpu(problem.found.gpu());
    row.set_subject(problem.found.subject());
    row.set_detail(problem.found.detail());
    row.set_since_ms(context_.options.boot_unix_ms + milliseconds(problem.since.time_since_epoch()));
  }
  out.set_version(node.version);
  set_reason(out, node.why_dead);
  out.set_lost(node.is_lost);
  if (node.last_heard != BootTime{}) out.set_last_heard_ms_ago(milliseconds(now - node.last_heard));
}

void Rows::fill_actor(const Actor& actor, BootTime now, v1::Actor& row) const {
  row.set_id(to_string(actor.id));
  row.set_class_name(actor.spec.class_name());
  row.set_name(actor.spec.name());
  row.set_namespace_(namespace_of(actor.spec));
  row.set_state(std::string(state_name(actor.state)));
  if (actor.incarnation) {
    row.set_node(tables_.nodes.name_of(actor.incarnation->node));
    for (const int32_t gpu : actor.incarnation->gpus) row.add_gpus(gpu);
    row.set_cpu_cores(actor.incarnation->cpu_cores);
    row.set_memory_bytes(actor.incarnation->memory_bytes);
  } else if (actor.is_dead()) {
    row.set_node(actor.cause.node_name());
  }
  row.set_pid(actor.pid);
  row.set_epoch(actor.epoch);
  row.set_restarts(actor.restarts);
  fill_amounts(*row.mutable_resources(), actor.resources);
  set_reason(row, actor.waits_for_place() ? reasons_.of_actor(actor, now)
                  : actor.is_dead()       ? describe(actor.cause)
                                          : reasons_.in_debugger(actor));
  const Driver* driver = tables_.clients.find(actor.driver);
  row.set_driver(driver == nullptr ? short_id(actor.driver) : driver->name);
  row.set_driver_id(to_string(actor.driver));
  row.set_owner(actor.spec.owner().token_id());
  row.set_detached(actor.spec.detached());
  row.set_display(actor.display());
  row.set_isolation(actor.spec.isolation() == protocol::ISOLATION_SHARED ? "shared" : "process");
  if (const GroupId group = actor.group(); !group.is_nil()) {
    row.set_group(to_string(group));
    row.set_bundle(actor.incarnation ? actor.incarnation->bundle : actor.spec.bundle());
  }
}

void Rows::fill_group(const Group& group, v1::Group& row) const {
  row.set_id(to_string(group.id));
  row.set_name(group.spec.name());
  row.set_strategy(std::string(to_string(static_cast<Strategy>(group.spec.strategy()))));
  row.set_state(std::string(group_state_name(group.state)));
  set_reason(row, group.is_removed() ? message_of(group.cause) : reasons_.of_request(group.holder));
  const Driver* driver = tables_.clients.find(group.driver);
  row.set_driver(driver == nullptr ? short_id(group.driver) : driver->name);
  row.set_detached(group.spec.detached());
  row.set_priority(group.spec.priority());
  row.set_owner(group.spec.owner().token_id());
  for (size_t at = 0; at < group.bundles.size(); ++at) {
    const Bundle& bundle = group.bundles[at];
    v1::Bundle& out = *row.add_bundles();
    out.set_index(static_cast<int32_t>(at));
    fill_amounts(*out.mutable_total(), bundle.resources);
    out.set_labels(bundle_labels(group, at));
    if (!bundle.is_placed()) continue;
    out.set_node(tables_.nodes.name_of(bundle.node));
    fill_amounts(*out.mutable_used(), bundle.pool.used);
    for (const int32_t gpu : bundle.gpus) out.add_gpus(gpu);
    out.set_actors(static_cast<int32_t>(bundle.drawing.size()));
  }
}

void Rows::fill_trial(const std::string& experiment, const protocol::TrialRow& trial, BootTime now,
                      v1::Trial& row) const {
  fill_trial_row(experiment, trial, row);
  const Actor* actor = tables_.actors.find(id_from_raw<ActorId>(trial.actor_id()));
  if (actor != nullptr && actor->incarnation) row.set_node(tables_.nodes.name_of(actor->incarnation->node));
  // The driver has an older reason as text.
  if (actor != nullptr && actor->waits_for_place()) set_reason(row, reasons_.of_actor(*actor, now));
}

void Rows::fill_blocker(HolderId holder, v1::QueueBlocker& row) const {
  if (const Group* group = tables_.groups.find(holder)) {
    fill_group_request(*group, row);
    return fill_trial_of(*group, tables_.experiments, row);
  }
  const Actor* actor = tables_.actors.find(holder.actor());
  if (actor == nullptr) return;
  const Experiment* experiment = nullptr;
  const protocol::TrialRow* trial = tables_.experiments.trial_of(actor->id, &experiment);
  fill_actor_request(*actor, trial, experiment, row);
}

void Rows::fill_queue_entry(const Queued& queued, size_t position, BootTime now, v1::QueueEntry& row) const {
  DriverId driver;
  GroupId in_group;
  if (queued.group != nullptr) {
    const Group& group = *queued.group;
    fill_group_request(group, row);
    fill_trial_of(group, tables_.experiments, row);
    driver = group.driver;
    ResourceSet sum;
    for (const Bundle& bundle : group.bundles) {
      if (bundle.is_placed()) continue;
      sum += bundle.resources;
      row.set_bundles(row.bundles() + 1);
    }
    fill_amounts(*row.mutable_resources(), sum);
    set_reason(row, reasons_.of_request(group.holder));
  } else {
    const Actor& actor = *queued.actor;
    const Experiment* experiment = nullptr;
    const protocol::TrialRow* trial = tables_.experiments.trial_of(actor.id, &experiment);
    fill_actor_request(actor, trial, experiment, row);
    driver = actor.driver;
    in_group = actor.group();
    fill_amounts(*row.mutable_resources(), actor.resources);
    set_reason(row, reasons_.of_actor(actor, now));
  }
  const Driver* from = tables_.clients.find(driver);
  row.set_driver(from == nullptr ? short_id(driver) : from->name);
  row.set_priority(queued.order.priority);
  row.set_position(static_cast<int64_t>(position));
  row.set_waiting_ms(milliseconds(now - queued.since));
  for (const Placement::Reserved& one : tables_.placement.reserved_for(queued.order.holder)) {
    v1::Reservation& out = *row.add_reserved();
    out.set_node(tables_.nodes.name_of(one.node));
    fill_amounts(*out.mutable_resources(), one.resources);
  }
  if (const Group* group = tables_.groups.find(in_group)) {
    row.set_group(to_string(group->id));
    row.mutable_blocker()->set_why("group");
    fill_blocker(group->holder, *row.mutable_blocker());
  } else if (const auto blocker = tables_.placement.blocker(queued.order.holder)) {
    v1::QueueBlocker& out = *row.mutable_blocker();
    fill_blocker(blocker->holder, out);
    out.set_why(blocker->why == Blocker::Why::kReservation ? "reserved" : "ahead");
    if (!blocker->node.is_nil()) out.set_node(tables_.nodes.name_of(blocker->node));
    fill_amounts(*out.mutable_resources(), blocker->resources);
  }
}

void Rows::fill_totals(v1::StatusReply& reply) const {
  reply.set_cluster_name(context_.options.cluster_name);
  reply.set_cluster_id(to_string(context_.options.cluster_id));
  reply.set_version(context_.options.version);
  fill_amounts(*reply.mutable_total(), tables_.placement.ledger().total());
  fill_amounts(*reply.mutable_used(), tables_.placement.ledger().used());
  for (const auto state :
       {protocol::PENDING, protocol::STARTING, protocol::ALIVE, protocol::RESTARTING, protocol::DEAD}) {
    if (const size_t count = tables_.actors.in_state(state); count > 0) {
      (*reply.mutable_actors_by_state())[std::string(state_name(state))] = static_cast<int64_t>(count);
    }
  }
  reply.set_drivers(static_cast<int32_t>(tables_.clients.all().size()));
  reply.set_nodes_lost(static_cast<int32_t>(tables_.nodes.lost_nodes()));
}

}  // namespace volador::head
