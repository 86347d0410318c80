// What people and the API ask: status, lists, and why something is as it is.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "head/core_impl.h"
#include "head/experiment_rows.h"
#include "head/wire.h"
#include "runtime/protocol/node_wishes.h"
#include "runtime/resources.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
std::string in_seconds(std::chrono::nanoseconds span) {
  return fmt::format("{:.1f} s", std::max(0.0, std::chrono::duration<double>(span).count()));
}

namespace {

constexpr int kListDefault = 1000;
constexpr int kListMax = 100'000;

int limit_of(const v1::ListRequest& request) { return request.limit() <= 0 ? kListDefault : std::min(request.limit(), kListMax); }

void fill_amounts(google::protobuf::Map<std::string, int64_t>& map, const ResourceSet& resources) {
  for (const auto& [name, amount] : resources.entries()) map[name] = amount;
}

// "zone=a, gpu", of one bundle; empty: it asks for none of its own.
std::string bundle_labels(const Group& group, size_t bundle) {
  const auto& labels = group.spec.bundle_labels();
  return bundle < static_cast<size_t>(labels.size()) ? to_string(labels_of(labels[static_cast<int>(bundle)].rules())) : "";
}

int64_t milliseconds(std::chrono::nanoseconds span) { return std::chrono::duration_cast<std::chrono::milliseconds>(span).count(); }

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

}  // namespace

void HeadCore::Impl::fill_experiment(const Experiment& experiment, v1::Experiment& out) const {
  fill_experiment_row(experiment, out);
  if (const auto* said = experiment_notes_.find(experiment.name, experiment.directory)) {
    *out.mutable_tags() = said->tags();
    out.set_note(said->note());
    out.set_archived(said->archived());
  }
}

void HeadCore::Impl::fill_node(const Node& node, BootTime now, const ResourceLedger::Node* entry, size_t actors, v1::Node& out) {
  out.set_id(to_string(node.id));
  out.set_name(node.name);
  const bool is_alive = node.state == NodeState::kAlive;
  out.set_state(is_alive && node.stopping ? "stopping" : is_alive && node.draining ? "draining" : std::string(to_string(node.state)));
  out.set_address(node.data_address);
  fill_amounts(*out.mutable_total(), entry == nullptr ? node.total : entry->total);
  if (entry != nullptr) fill_amounts(*out.mutable_used(), entry->used);
  for (const auto& [key, value] : node.labels) (*out.mutable_labels())[key] = value;
  out.set_actors(static_cast<int32_t>(actors));
  out.set_cpu_cores_used(node.usage.cpu_cores());
  out.set_memory_bytes_used(node.usage.memory_bytes());
  if (!node.gpus.empty()) out.set_gpu_model(node.gpus.front().model());
  fill_gpus(node, entry, out);
  if (node.state != NodeState::kDead) fill_machine(node.usage.machine(), out);
  out.set_version(node.version);
  set_reason(out, node.why_dead);
  out.set_lost(node.is_lost);
  if (node.last_heard != BootTime{}) out.set_last_heard_ms_ago(milliseconds(now - node.last_heard));
}

void HeadCore::Impl::fill_actor(const Actor& actor, v1::Actor& row) const {
  row.set_id(to_string(actor.id));
  row.set_class_name(actor.spec.class_name());
  row.set_name(actor.spec.name());
  row.set_namespace_(namespace_of(actor.spec));
  row.set_state(std::string(state_name(actor.state)));
  if (actor.incarnation) {
    row.set_node(node_name(actor.incarnation->node));
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
  set_reason(row, actor.waits_for_place() ? waiting_reason(actor) : actor.is_dead() ? describe(actor.cause) : Reason());
  const Driver* driver = clients_.find(actor.driver);
  row.set_driver(driver == nullptr ? short_id(actor.driver) : driver->name);
  row.set_driver_id(to_string(actor.driver));
  row.set_detached(actor.spec.detached());
  row.set_display(actor.display());
  row.set_isolation(actor.spec.isolation() == protocol::ISOLATION_SHARED ? "shared" : "process");
  if (const GroupId group = group_of(actor); !group.is_nil()) {
    row.set_group(to_string(group));
    row.set_bundle(actor.incarnation ? actor.incarnation->bundle : actor.spec.bundle());
  }
}

void HeadCore::Impl::fill_group(const Group& group, v1::Group& row) const {
  row.set_id(to_string(group.id));
  row.set_name(group.spec.name());
  row.set_strategy(std::string(to_string(static_cast<Strategy>(group.spec.strategy()))));
  row.set_state(std::string(group_state_name(group.state)));
  set_reason(row, group.is_removed() ? message_of(group.cause) : why_it_waits(group.holder));
  const Driver* driver = clients_.find(group.driver);
  row.set_driver(driver == nullptr ? short_id(group.driver) : driver->name);
  row.set_detached(group.spec.detached());
  row.set_priority(group.spec.priority());
  for (size_t at = 0; at < group.bundles.size(); ++at) {
    const Bundle& bundle = group.bundles[at];
    v1::Bundle& out = *row.add_bundles();
    out.set_index(static_cast<int32_t>(at));
    fill_amounts(*out.mutable_total(), bundle.resources);
    out.set_labels(bundle_labels(group, at));
    if (!bundle.is_placed()) continue;
    out.set_node(node_name(bundle.node));
    fill_amounts(*out.mutable_used(), bundle.pool.used);
    for (const int32_t gpu : bundle.gpus) out.add_gpus(gpu);
    out.set_actors(static_cast<int32_t>(bundle.drawing.size()));
  }
}

Reason HeadCore::Impl::why_it_waits(HolderId holder) const {
  return placement_.explain(holder, [this](HolderId other) { return name_of(other); });
}

// "actor trainer (3f2a91c0, Learner)", "trial ab12 of digits (3f2a91c0)", "placement group trainers (52eceb10)".
Reason HeadCore::Impl::name_of(HolderId holder) const {
  if (const Group* group = groups_.find(holder)) return group->in_words();
  const Actor* actor = actors_.find(holder.actor());
  if (actor == nullptr) return reason("name.gone", short_id(holder.actor()));
  const Experiment* experiment = nullptr;
  if (const protocol::TrialRow* trial = experiments_.trial_of(actor->id, &experiment)) {
    const std::string name = trial->name().empty() ? trial->trial_id() : trial->name();
    return reason("name.trial", name, experiment->name, short_id(actor->id));
  }
  if (actor->runs_tasks()) return reason("name.tasks", short_id(actor->id));
  if (actor->spec.name().empty()) return reason("name.actor", actor->display(), short_id(actor->id));
  return reason("name.named_actor", full_name(actor->spec), short_id(actor->id), actor->spec.class_name());
}

namespace {

// Requests of the queue and those that block them have the same members.
template <class Row>
void fill_group_request(const Group& group, Row& row) {
  row.set_kind("group");
  row.set_id(to_string(group.id));
  row.set_name(group.spec.name());
  row.set_display(group.display());
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

void HeadCore::Impl::fill_blocker(HolderId holder, v1::QueueBlocker& row) const {
  if (const Group* group = groups_.find(holder)) return fill_group_request(*group, row);
  const Actor* actor = actors_.find(holder.actor());
  if (actor == nullptr) return;
  const Experiment* experiment = nullptr;
  const protocol::TrialRow* trial = experiments_.trial_of(actor->id, &experiment);
  fill_actor_request(*actor, trial, experiment, row);
}

HeadCore::Impl::Queued HeadCore::Impl::queued(const Actor& actor) {
  const auto& changes = actor.history.changes();
  return {.order = {actor.spec.priority(), actor.sequence, actor.id}, .since = changes.empty() ? BootTime{} : changes.back().at, .actor = &actor};
}

HeadCore::Impl::Queued HeadCore::Impl::queued(const Group& group) {
  return {.order = {group.spec.priority(), group.sequence, group.holder}, .since = group.waits_since, .group = &group};
}

void HeadCore::Impl::fill_queue_entry(const Queued& queued, size_t position, v1::QueueEntry& row) const {
  DriverId driver;
  GroupId in_group;
  if (queued.group != nullptr) {
    const Group& group = *queued.group;
    fill_group_request(group, row);
    driver = group.driver;
    ResourceSet sum;
    for (const Bundle& bundle : group.bundles) {
      if (bundle.is_placed()) continue;
      sum += bundle.resources;
      row.set_bundles(row.bundles() + 1);
    }
    fill_amounts(*row.mutable_resources(), sum);
    set_reason(row, why_it_waits(group.holder));
  } else {
    const Actor& actor = *queued.actor;
    const Experiment* experiment = nullptr;
    const protocol::TrialRow* trial = experiments_.trial_of(actor.id, &experiment);
    fill_actor_request(actor, trial, experiment, row);
    driver = actor.driver;
    in_group = group_of(actor);
    fill_amounts(*row.mutable_resources(), actor.resources);
    set_reason(row, waiting_reason(actor));
  }
  const Driver* from = clients_.find(driver);
  row.set_driver(from == nullptr ? short_id(driver) : from->name);
  row.set_priority(queued.order.priority);
  row.set_position(static_cast<int64_t>(position));
  row.set_waiting_ms(milliseconds(query_now_ - queued.since));
  for (const Placement::Reserved& one : placement_.reserved_for(queued.order.holder)) {
    v1::Reservation& out = *row.add_reserved();
    out.set_node(node_name(one.node));
    fill_amounts(*out.mutable_resources(), one.resources);
  }
  if (const Group* group = groups_.find(in_group)) {
    row.set_group(to_string(group->id));
    row.mutable_blocker()->set_why("group");
    fill_blocker(group->holder, *row.mutable_blocker());
  } else if (const auto blocker = placement_.blocker(queued.order.holder)) {
    v1::QueueBlocker& out = *row.mutable_blocker();
    fill_blocker(blocker->holder, out);
    out.set_why(blocker->why == Blocker::Why::kReservation ? "reserved" : "ahead");
    if (!blocker->node.is_nil()) out.set_node(node_name(blocker->node));
    fill_amounts(*out.mutable_resources(), blocker->resources);
  }
}

void HeadCore::Impl::list_queue(const v1::ListRequest& request, v1::ListQueueReply& reply) const {
  std::vector<Queued> waiting;
  for (const auto& [id, actor] : actors_.all()) {
    if (actor.waits_for_place()) waiting.push_back(queued(actor));
  }
  for (const auto& [id, group] : groups_.all()) {
    if (group.waits_for_places()) waiting.push_back(queued(group));
  }
  std::sort(waiting.begin(), waiting.end(), [](const Queued& a, const Queued& b) { return a.order < b.order; });
  const std::string& filter = request.filter();
  int64_t total = 0;
  for (size_t at = 0; at < waiting.size(); ++at) {
    const bool is_full = reply.queue_size() >= limit_of(request);
    if (filter.empty() && is_full) {
      total = static_cast<int64_t>(waiting.size());
      break;
    }
    v1::QueueEntry row;
    fill_queue_entry(waiting[at], at + 1, row);
    const auto has = [&](const std::string& text) { return text.find(filter) != std::string::npos; };
    if (!filter.empty() && row.kind() != filter && row.experiment() != filter && !has(row.name()) && !has(row.display()) && !row.id().starts_with(filter)) continue;
    ++total;
    if (!is_full) *reply.add_queue() = std::move(row);
  }
  reply.set_total(total);
}

void HeadCore::Impl::fill_trial(const std::string& experiment, const protocol::TrialRow& trial, v1::Trial& row) const {
  fill_trial_row(experiment, trial, row);
  const Actor* actor = actors_.find(id_from_raw<ActorId>(trial.actor_id()));
  if (actor != nullptr && actor->incarnation) row.set_node(node_name(actor->incarnation->node));
  // Its driver knows what the head said earlier, in words.
  if (actor != nullptr && actor->waits_for_place()) set_reason(row, waiting_reason(*actor));
}

void HeadCore::Impl::fill_totals(v1::StatusReply& reply) const {
  reply.set_cluster_name(options_.cluster_name);
  reply.set_cluster_id(to_string(options_.cluster_id));
  reply.set_version(options_.version);
  fill_amounts(*reply.mutable_total(), placement_.ledger().total());
  fill_amounts(*reply.mutable_used(), placement_.ledger().used());
  for (const auto state : {protocol::PENDING, protocol::STARTING, protocol::ALIVE, protocol::RESTARTING, protocol::DEAD}) {
    if (const size_t count = actors_.in_state(state); count > 0) {
      (*reply.mutable_actors_by_state())[std::string(state_name(state))] = static_cast<int64_t>(count);
    }
  }
  reply.set_drivers(static_cast<int32_t>(clients_.all().size()));
  reply.set_nodes_lost(static_cast<int32_t>(nodes_.lost_nodes()));
}

void HeadCore::Impl::fill_status(v1::StatusReply& reply) const {
  fill_totals(reply);
  for (const auto& [id, node] : nodes_.all()) {
    if (!node.is_member() || reply.nodes_size() >= kListDefault) continue;
    fill_node(node, query_now_, placement_.ledger().find(id), actors_.on_node(id).size(), *reply.add_nodes());
  }
  for (const auto& [name, experiment] : experiments_.all()) fill_experiment(experiment, *reply.add_experiments());
}

void HeadCore::Impl::list_nodes(const v1::ListRequest& request, v1::ListNodesReply& reply) const {
  for (const auto& [id, node] : nodes_.all()) {
    if (reply.nodes_size() >= limit_of(request)) return;
    v1::Node row;
    fill_node(node, query_now_, placement_.ledger().find(id), actors_.on_node(id).size(), row);
    const std::string& filter = request.filter();
    if (!filter.empty() && row.state() != filter && row.name().find(filter) == std::string::npos && !row.id().starts_with(filter)) continue;
    *reply.add_nodes() = std::move(row);
  }
}

void HeadCore::Impl::list_actors(const v1::ListRequest& request, v1::ListActorsReply& reply) const {
  int64_t total = 0;
  for (const auto& [id, actor] : actors_.all()) {
    const std::string& filter = request.filter();
    const auto has = [&](const std::string& text) { return text.find(filter) != std::string::npos; };
    if (!filter.empty() && state_name(actor.state) != filter && !has(actor.spec.class_name()) && !has(full_name(actor.spec)) && !has(actor.display()) &&
        !to_string(id).starts_with(filter)) {
      continue;
    }
    ++total;
    if (reply.actors_size() >= limit_of(request)) continue;
    fill_actor(actor, *reply.add_actors());
  }
  reply.set_total(total);
}

void HeadCore::Impl::list_groups(const v1::ListRequest& request, v1::ListGroupsReply& reply) const {
  int64_t total = 0;
  for (const auto& [id, group] : groups_.all()) {
    const std::string& filter = request.filter();
    const bool shown = filter.empty() || group_state_name(group.state) == filter || group.spec.name().find(filter) != std::string::npos ||
                       to_string(id).starts_with(filter);
    if (!shown) continue;
    ++total;
    if (reply.groups_size() < limit_of(request)) fill_group(group, *reply.add_groups());
  }
  reply.set_total(total);
}

Result<void> HeadCore::Impl::list_trials(const v1::ListRequest& request, v1::ListTrialsReply& reply) const {
  const Experiment* only = nullptr;
  if (!request.filter().empty()) {
    const auto found = experiments_.resolve(request.filter());
    if (!found) return make_error(found.error());
    only = *found;
  }
  const auto has = [](const protocol::TrialRow& trial, const std::string& tag) {
    return std::find(trial.tags().begin(), trial.tags().end(), tag) != trial.tags().end();
  };
  const auto is_wanted = [&](const protocol::TrialRow& trial) {
    return std::all_of(request.tags().begin(), request.tags().end(), [&](const std::string& tag) { return has(trial, tag); });
  };
  int64_t total = 0;
  for (const auto& [name, experiment] : experiments_.all()) {
    if (only != nullptr && only != &experiment) continue;
    if (request.tags().empty()) total += std::max(experiment.trials_total, static_cast<int64_t>(experiment.trials.size()));
    for (const auto& [id, trial] : experiment.trials) {
      const bool is_full = reply.trials_size() >= limit_of(request);
      if (request.tags().empty() && is_full) break;
      if (!is_wanted(trial)) continue;
      if (!request.tags().empty()) ++total;
      if (is_full) continue;
      fill_trial(name, trial, *reply.add_trials());
    }
  }
  reply.set_total(total);
  return {};
}

// Lines for people, each with its reason.
class Explanation {
 public:
  void add(size_t indent, const Reason& reason) {
    reply_.mutable_text()->append(indent, ' ').append(reason.text()).append("\n");
    reply_.add_why(reason.to_json());
  }
  // Text of a program, line by line.
  void quote(std::string_view text) {
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      add(0, Reason::said(std::string(text.substr(at, end - at))));
      at = end + 1;
    }
  }
  v1::ExplainReply take() { return std::move(reply_); }

 private:
  v1::ExplainReply reply_;
};

namespace {

void explain_trial(const protocol::TrialRow& trial, const Experiment& experiment, Explanation& out) {
  const std::string name = trial.name().empty() ? std::string() : fmt::format(" ({})", trial.name());
  out.add(0, reason("explain.trial", trial.trial_id(), name, experiment.name, cluster_word(trial.status()), trial.step()));
  if (!trial.tags().empty()) out.add(2, reason("explain.tags", fmt::format("{}", fmt::join(trial.tags(), ", "))));
  if (!trial.reason().empty()) out.add(2, reason_of(trial));
  if (!trial.error().empty()) {
    auto known = Reason::from_json(trial.error_why());
    out.add(2, reason("explain.error", known ? std::move(*known) : Reason(trial.error())));
  }
}

// Why the scheduler chose the node, of those that have room.
Reason why_there(const NodeWishes& wishes, std::string_view node) {
  const bool asked = !wishes.node.empty() && wishes.node == node;
  return reason(!asked ? "place.fullest" : wishes.node_preferred ? "place.preferred" : "place.asked",
                wishes.labels.empty() ? Reason() : reason("place.of_those", to_string(wishes.labels)),
                wishes.apart.empty() ? Reason() : reason("place.apart", wishes.apart));
}

// "made  …", "+0.25 s  …", to the right of a column.
constexpr size_t kTimeIndent = 4, kTimeColumns = 10;
size_t indent_of(std::string_view time) { return kTimeIndent + kTimeColumns - std::min(time.size(), kTimeColumns); }

}  // namespace

// A line a state: when, counted from the first of them, and why.
void HeadCore::Impl::explain_history(const Actor& actor, Explanation& out) const {
  const auto& changes = actor.history.changes();
  if (changes.empty()) return;
  out.add(2, reason("explain.history"));
  for (size_t at = 0; at < changes.size(); ++at) {
    const StateChange& change = changes[at];
    Reason what = reason("explain.state", word_of(change.state));
    if (!change.node.is_nil() && (change.state == protocol::STARTING || change.state == protocol::ALIVE)) {
      what = reason("explain.on", word_of(change.state), node_name(change.node), change.epoch);
    }
    Reason why = change.why;
    if (why.empty() && change.state == protocol::STARTING) {
      const Group* group = groups_.find(group_of(actor));
      why = group != nullptr ? reason("place.in_group", group->in_words()) : why_there(wishes_of(actor.spec.wishes()), node_name(change.node));
    }
    what = because(std::move(what), std::move(why));
    const std::string time = fmt::format("+{:.2f} s", std::chrono::duration<double>(change.at - changes.front().at).count());
    at == 0 ? out.add(indent_of("made"), reason("explain.made", std::move(what))) : out.add(indent_of(time), reason("explain.later", time, std::move(what)));
    if (at == 0 && actor.history.left_out() > 0) out.add(indent_of("."), reason("explain.later", "…", reason("explain.left_out", actor.history.left_out())));
  }
}

void HeadCore::Impl::explain_group(GroupId id, Explanation& out) const {
  const Group* group = groups_.find(id);
  if (group == nullptr) return out.add(0, groups_.end_of(id));
  const Reason::Argument state = cluster_word(group_state_name(group->state)), strategy = cluster_word(to_string(static_cast<Strategy>(group->spec.strategy())));
  out.add(0, group->is_removed() ? reason("explain.group_removed", group->in_words(), state, strategy, message_of(group->cause)) : reason("explain.group", group->in_words(), state, strategy));
  if (const Reason why = why_it_waits(group->holder); !why.empty()) out.add(2, why);
  if (query_now_ < window_end_ && group->waits_for_places() && awaited() > 0) {
    out.add(2, reason("waits.nodes_back", awaited(), in_seconds(window_end_ - query_now_)));
  }
  for (size_t at = 0; at < group->bundles.size(); ++at) {
    const Bundle& bundle = group->bundles[at];
    const std::string labels = bundle_labels(*group, at);
    Reason place = reason(group->is_removed() ? "explain.bundle_returned" : "explain.bundle_unplaced");
    if (bundle.is_placed()) {
      const std::string why_not = placement_.why_not(bundle.node);
      place = reason("explain.bundle_on", node_name(bundle.node),
                     bundle.gpus.empty() ? Reason() : reason("explain.bundle_gpus", fmt::format("{}", fmt::join(bundle.gpus, ","))),
                     why_not.empty() ? Reason() : reason("explain.bundle_node_is", cluster_word(why_not)),
                     bundle.drawing.empty() ? Reason() : reason("explain.bundle_actors", bundle.drawing.size(), bundle.pool.used));
    }
    out.add(2, reason("explain.bundle", at, bundle.resources, labels.empty() ? Reason() : reason("explain.bundle_labels", labels), std::move(place)));
  }
  if (!group->waiting.empty()) out.add(2, reason("explain.group_waiting", group->waiting.size()));
}

void HeadCore::Impl::explain_node(NodeId id, Explanation& out) const {
  const Node& node = *nodes_.find(id);
  Reason how;
  if (!node.is_member()) how = reason("explain.node_dead", node.why_dead);
  if (node.state == NodeState::kAwaited) how = reason("explain.node_awaited", in_seconds(leases_.ends(node.id) - query_now_));
  if (node.state == NodeState::kSuspect) {
    how = reason("explain.node_suspect", in_seconds(query_now_ - node.last_heard), in_seconds(leases_.ends(node.id) - query_now_));
  }
  out.add(0, reason("explain.node", node.name, short_id(node.id), cluster_word(to_string(node.state)), std::move(how), node.stopping ? reason("explain.node_stops") : node.draining ? reason("explain.node_drains") : Reason()));
  if (const auto* entry = placement_.ledger().find(node.id)) {
    out.add(2, reason("explain.in_use", entry->used, entry->total, actors_.on_node(node.id).size()));
  }
}

void HeadCore::Impl::explain_actor(const Actor& actor, Explanation& out) const {
  const std::string what = fmt::format("{}{}{}", actor.spec.class_name(), actor.spec.name().empty() ? "" : ", ", full_name(actor.spec));
  const bool is_placed = actor.incarnation && !actor.waits_for_place();
  Reason state = reason("explain.state", word_of(actor.state));
  if (is_placed) state = reason("explain.on", word_of(actor.state), node_name(actor.incarnation->node), actor.epoch);
  out.add(0, reason("explain.actor", short_id(actor.id), what, std::move(state)));
  if (is_placed) {
    const Node* node = nodes_.find(actor.incarnation->node);
    if (!actor.is_dead() && node != nullptr && node->state != NodeState::kAlive) {
      out.add(2, reason(node->state == NodeState::kAwaited ? "explain.awaited" : "explain.suspect", node_name(node->id), in_seconds(leases_.ends(node->id) - query_now_)));
    }
    if (actor.is_dead()) out.add(2, reason("explain.host_there"));
  }
  if (actor.waits_for_place()) out.add(2, waiting_reason(actor));
  if (actor.is_dead()) out.add(2, describe(actor.cause));
  if (actor.restarts > 0) {
    const int most = actor.spec.max_restarts();
    out.add(2, reason("explain.restarts", actor.restarts, most < 0 ? Reason::Argument(reason("count.any")) : Reason::Argument(most), describe(actor.cause)));
  }
  if (const protocol::Checkpoint* checkpoint = checkpoints_.find(actor.id)) {
    out.add(2, reason("explain.checkpoint", checkpoint->sequence(), checkpoint->epoch(), format_bytes(static_cast<int64_t>(checkpoint->archive().size()))));
  }
  if (const Group* group = groups_.find(group_of(actor))) {
    const int bundle = actor.incarnation ? actor.incarnation->bundle : actor.spec.bundle();
    out.add(2, bundle == kAnyBundle ? reason("explain.asks_in_any", actor.resources, group->in_words()) : reason("explain.asks_in", actor.resources, bundle, group->in_words()));
  } else {
    out.add(2, reason("explain.asks", actor.resources));
  }
  explain_history(actor, out);
  if (actor.cause.stderr_tail().empty()) return;
  out.add(2, reason("explain.stderr"));
  out.quote(actor.cause.stderr_tail());
}

Result<v1::ExplainReply> HeadCore::Impl::explain(std::string_view id) const {
  const auto named = resolve(id);
  if (!named) return make_error(named.error());
  Explanation out;
  ActorId actor_id = named->actor;
  if (!named->group.is_nil()) {
    explain_group(named->group, out);
  } else if (!named->node.is_nil()) {
    explain_node(named->node, out);
  } else if (named->trial != nullptr) {
    explain_trial(*named->trial, *named->experiment, out);
    if (!named->trial->actor_id().empty()) actor_id = id_from_raw<ActorId>(named->trial->actor_id());
  }
  if (const Actor* actor = actors_.find(actor_id)) explain_actor(*actor, out);
  return out.take();
}

Result<HeadCore::LogSource> HeadCore::Impl::find_log_source(std::string_view id) const {
  const auto named = resolve(id);
  if (!named) return make_error(named.error());
  if (!named->group.is_nil()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} prints nothing itself; ask for an actor or trial in it", in_words(*named)));
  }
  if (!named->node.is_nil())
    return LogSource{
        .node_name = nodes_.find(named->node)->name, .actor = {}, .display = in_words(*named), .writers = {}};
  ActorId actor_id = named->actor;
  std::string node;
  if (named->trial != nullptr) {
    node = named->trial->node_name();
    if (!named->trial->actor_id().empty()) actor_id = id_from_raw<ActorId>(named->trial->actor_id());
  }
  const Actor* actor = actors_.find(actor_id);
  if (actor != nullptr) {
    if (actor->incarnation) {
      node = node_name(actor->incarnation->node);
    } else if (!actor->cause.node_name().empty()) {
      node = actor->cause.node_name();
    }
  }
  if (node.empty() && actor != nullptr && actor->is_dead()) {
    return make_error(ErrorCode::kNotFound, fmt::format("{} ended before it ran on any node ({}): it has no logs",
                                                        in_words(*named), describe(actor->cause).text()));
  }
  if (node.empty())
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{} has not run on any node yet: it has no logs", in_words(*named)));
  LogSource source{.node_name = node,
                   .actor = actor_id,
                   .display = actor == nullptr ? std::string(id) : actor->display(),
                   .writers = {actor_id}};
  if (actor == nullptr || actor->shared_process.is_nil()) return source;
  // Nobody can tell which actor of a process wrote a line: they bear the name of any of them.
  for (const auto& [other, row] : actors_.all()) {
    if (other != actor_id && row.shared_process == actor->shared_process) source.writers.push_back(other);
  }
  return source;
}

Result<HeadCore::RunningActor> HeadCore::Impl::find_running(std::string_view id) const {
  const auto named = resolve(id);
  if (!named) return make_error(named.error());
  const bool of_trial = named->trial != nullptr && !named->trial->actor_id().empty();
  const Actor* actor = actors_.find(of_trial ? id_from_raw<ActorId>(named->trial->actor_id()) : named->actor);
  if (actor == nullptr && named->trial != nullptr) {
    return make_error(ErrorCode::kUnavailable, fmt::format("{} has no process now", in_words(*named)));
  }
  if (actor == nullptr)
    return make_error(ErrorCode::kNotFound, fmt::format("{} is neither an actor nor a trial", in_words(*named)));
  if (!actor->incarnation || actor->is_dead()) {
    const std::string why = (actor->is_dead() ? describe(actor->cause) : waiting_reason(*actor)).text();
    return make_error(ErrorCode::kUnavailable, fmt::format("actor {} ({}) is {}{}: it has no process to look into", actor->display(), short_id(actor->id), state_name(actor->state),
                                                           why.empty() ? "" : " (" + why + ")"));
  }
  const Node* node = nodes_.find(actor->incarnation->node);
  if (node == nullptr || !node->session) {
    return make_error(ErrorCode::kUnavailable, fmt::format("actor {} ({}) runs on node {}, which is not connected now; ask again when it is back", actor->display(), short_id(actor->id),
                                                           node_name(actor->incarnation->node)));
  }
  return RunningActor{.actor = actor->id, .display = actor->display(), .node_name = node->name, .session = *node->session};
}

Result<void> HeadCore::Impl::may_certify(std::string_view asking, HostId host) const {
  const Actor* actor = actors_.find_host(host);
  const Node* node = actor == nullptr ? nullptr : nodes_.find(actor->incarnation->node);
  if (node != nullptr && node->is_member() && node->name == asking) return {};
  if (const auto asks = nodes_.resolve(asking); actor == nullptr && asks) {  // A shared host that outlived the actor whose id it bears.
    for (const ActorId id : actors_.on_node(*asks)) {
      if (actors_.find(id)->address.host_id() == raw(host)) return {};
    }
  }
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("host {}: node {} asks for its certificate, but {}; a node gets certificates only for hosts that the head placed there",
                                short_id(host), asking,
                                actor == nullptr ? "no actor has it now" : fmt::format("it was placed on {}", node_name(actor->incarnation->node))));
}

Result<NodeSession> HeadCore::Impl::node_session(std::string_view name) const {
  const auto id = nodes_.resolve(name);
  if (!id) return make_error(id.error());
  const Node& node = *nodes_.find(*id);
  if (node.session) return *node.session;
  return make_error(ErrorCode::kUnavailable, fmt::format("node {} is {} and not connected; try again when it is back", node.name, to_string(node.state)));
}

Result<HeadCore::RunFilesPlace> HeadCore::Impl::find_run_files(std::string_view name) const {
  const auto found = experiments_.resolve(name);
  if (!found) return make_error(found.error());
  const Experiment& experiment = **found;
  if (experiment.directory.empty())
    return make_error(ErrorCode::kNotFound, fmt::format("experiment \"{}\" keeps no files", experiment.name));
  RunFilesPlace place{.directory = experiment.directory, .readers = {}};
  for (const auto& [id, node] : nodes_.all()) {
    const bool is_there = !experiment.machine_id.empty() && node.machine_id == experiment.machine_id;
    if (is_there && node.is_member() && node.session) place.readers.push_back({*node.session, "node " + node.name});
  }
  const Driver* const driver = clients_.find(experiment.driver);
  if (driver != nullptr && driver->session && driver->machine_id == experiment.machine_id) place.readers.push_back({*driver->session, "the program"});
  if (!place.readers.empty()) return place;
  return make_error(ErrorCode::kInfeasible, fmt::format("the files of experiment \"{}\" lie in {} on the machine where "
                                                        "its program was started, where neither the program nor a "
                                                        "node of this cluster is connected now; start a node there "
                                                        "(volador start --address=…), or copy them from there",
                                                        experiment.name, experiment.directory));
}

}  // namespace volador::head
