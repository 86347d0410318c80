#include "head/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "head/core_impl.h"
#include "head/wire.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

constexpr int kVersionBits = 40;  // Of one head's changes; its generation stands above them, so that versions always grow.
constexpr size_t kBadRowsNamed = 20;

double seconds(std::chrono::nanoseconds span) { return std::chrono::duration<double>(span).count(); }

}  // namespace

HeadCore::Impl::Impl(const Options& options, Random& random)
    : options_(options),
      random_(random),
      nodes_(options.limits),
      leases_(options.times.lease + options.times.lease_margin),
      placement_(options.times, options.limits),
      actors_(options.limits),
      clients_(options.limits),
      experiments_(options.limits),
      checkpoints_(options.limits),
      handles_(options.times.handle_grace, options.times.lent_handle, options.limits.passed_on_lights),
      groups_(options.limits) {
  VOLADOR_CHECK(options.times.reconnect_window >= options.times.lease + options.times.lease_margin,
                "a restarted head must wait for the leases of the one before it");
}

void HeadCore::Impl::event(log::Level level, std::string text, std::vector<std::pair<std::string, std::string>> fields, Reason why) {
  out_.events.push_back({level, std::move(text), std::move(fields), std::move(why)});
}

void HeadCore::Impl::journal(std::string_view table, std::string key, std::optional<std::string> value) {
  out_.journal.push_back({std::string(table), std::move(key), std::move(value)});
}

void HeadCore::Impl::send(NodeSession session, protocol::HeadToWorker message) {
  out_.to_nodes.push_back({session, std::move(message)});
}

// What is for a host whose node is away is left out: it gets its watched actors' states when the node is back.
void HeadCore::Impl::send(const ClientRef& client, protocol::HeadMessage message) {
  if (client.host.is_nil()) {
    out_.to_clients.push_back({client.session, std::move(message)});
    return;
  }
  const Actor* actor = actors_.find_host(client.host);
  const Node* node = actor == nullptr ? nullptr : nodes_.find(actor->incarnation->node);
  if (node == nullptr || !node->session) return;
  protocol::HeadToWorker wrapped;
  wrapped.mutable_relayed()->set_host_id(raw(client.host));
  *wrapped.mutable_relayed()->mutable_message() = std::move(message);
  send(*node->session, std::move(wrapped));
}

void HeadCore::Impl::begin(BootTime now) {
  const BootTime before = now_;
  now_ = std::max(now, now_);
  query_now_ = now_;
  if (!started_ || now_ - before <= options_.times.own_pause) return;
  leases_.own_pause(now_);
  for (auto& [id, node] : nodes_.all()) node.last_heard = std::max(node.last_heard, now_);
  for (auto& [id, driver] : clients_.all()) {
    if (!driver.session) driver.gone_at = std::max(driver.gone_at, now_ + options_.times.driver_grace);
  }
  event(log::Level::kWarn, "head stood still, nobody is given up for it", {{"seconds", fmt::format("{:.1f}", seconds(now_ - before))}});
}

void HeadCore::Impl::settle() {
  if (!started_) return;
  while (true) {
    const std::vector<Placed> placed = placement_.schedule(now_);
    for (const Placed& one : placed) place(one);
    place_groups();
    if (placed.size() < Placement::kDecisionsMax) break;
  }
  for (const ActorId id : actors_.take_touched()) {
    if (Actor* actor = actors_.find(id)) flush_actor(*actor);
    changes_.actor(id);
    note_group_of(id);
  }
  flush_groups();
  for (const SpawnReply& reply : replies_) {
    protocol::HeadMessage message;
    message.mutable_reply()->set_request_id(reply.request_id);
    if (const Actor* actor = actors_.find(reply.actor)) *message.mutable_reply()->mutable_actor() = info_of(*actor);
    send(reply.client, std::move(message));
  }
  replies_.clear();
  for (const ActorId id : actors_.forget_oldest()) {
    clients_.forget(id);
    changes_.actor(id);
    journal(kActorsTable, raw(id), std::nullopt);
    journal(kActorStatesTable, raw(id), std::nullopt);
  }
  send_cluster_state();
}

// ---- restoring ----

void HeadCore::Impl::load(std::string_view table, std::string_view key, std::string_view value) {
  const auto parse = [&](auto& message) {
    if (message.ParseFromArray(value.data(), static_cast<int>(value.size()))) return true;
    bad_rows_.push_back(fmt::format("{}", table));
    return false;
  };
  if (table == kActorsTable || table == kActorStatesTable) {
    protocol::ActorRecord record;
    if (!parse(record)) return;
    auto& rows = loaded_actors_[std::string(key)];
    (table == kActorsTable ? rows.first : rows.second) = std::move(record);
  } else if (table == kGroupsTable) {
    if (protocol::GroupRecord record; parse(record)) loaded_groups_.push_back(std::move(record));
  } else if (table == kNodesTable) {
    if (protocol::NodeRecord record; parse(record)) loaded_nodes_.push_back(std::move(record));
  } else if (table == kDriversTable) {
    if (protocol::DriverRecord record; parse(record)) loaded_drivers_.push_back(std::move(record));
  } else if (table == kProgramsTable) {
    if (protocol::Program program; parse(program)) programs_[id_from_raw<DriverId>(key)] = std::move(program);
  } else if (table == kCheckpointsTable) {
    protocol::Checkpoint checkpoint;
    if (parse(checkpoint) && !checkpoints_.keep(id_from_raw<ActorId>(key), std::move(checkpoint))) bad_rows_.push_back(fmt::format("{}", table));
  } else if (table == kExperimentNotesTable) {
    if (!experiment_notes_.load(key, value)) bad_rows_.push_back(fmt::format("{}", table));
  } else if (table == kHeadTable && key == "generation") {
    uint64_t number = 0;
    if (std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc{}) generation_ = number;
  }
}

void HeadCore::Impl::start() {
  VOLADOR_CHECK(!started_, "start() is called once");
  started_ = true;
  started_at_ = now_;
  ++generation_;
  version_ = generation_ << kVersionBits;
  journal(kHeadTable, "generation", std::to_string(generation_));
  const BootTime window_end = now_ + options_.times.reconnect_window;
  std::sort(loaded_nodes_.begin(), loaded_nodes_.end(), [](const auto& a, const auto& b) { return a.node_id() < b.node_id(); });
  for (const protocol::NodeRecord& record : loaded_nodes_) {
    const auto id = id_from_raw<NodeId>(record.node_id());
    if (id.is_nil() || nodes_.holder(record.name()) != nullptr) {
      bad_rows_.push_back(fmt::format("nodes: {}", record.name()));
      continue;
    }
    nodes_.restore(id, record.name(), record.incarnation(), record.draining());
    leases_.await(id, window_end);
  }
  for (const protocol::DriverRecord& record : loaded_drivers_) {
    const auto id = id_from_raw<DriverId>(record.driver_id());
    if (!id.is_nil()) clients_.restore(id, record.name(), window_end);
  }
  window_end_ = loaded_nodes_.empty() && loaded_drivers_.empty() && loaded_actors_.empty() && loaded_groups_.empty() ? now_ : window_end;
  interrupt_orphaned_experiments();
  for (const protocol::GroupRecord& record : loaded_groups_) restore_group(record);
  restore_actors();
  settle_restored_groups();
  if (window_end_ > now_) {
    event(log::Level::kInfo, "restarted from the journal, nodes and drivers may come back",
          {{"generation", std::to_string(generation_)}, {"nodes", std::to_string(nodes_.members())},
           {"drivers", std::to_string(clients_.all().size())}, {"actors", std::to_string(actors_.not_dead())},
           {"seconds", fmt::format("{:.1f}", seconds(window_end_ - now_))}});
  }
  for (size_t at = 0; at < bad_rows_.size() && at < kBadRowsNamed; ++at) {
    event(log::Level::kError, "a row of the journal was left out: it cannot be read or contradicts another", {{"row", bad_rows_[at]}});
  }
  loaded_nodes_.clear();
  loaded_drivers_.clear();
  loaded_actors_.clear();
  loaded_groups_.clear();
  bad_rows_.clear();
}

void HeadCore::Impl::restore_actors() {
  for (const auto& [key, rows] : loaded_actors_) {
    if (!rows.first || !rows.second) {
      bad_rows_.push_back(fmt::format("actors: {}", to_string(id_from_raw<ActorId>(key))));
      continue;
    }
    restore_actor(key, *rows.first, *rows.second);
  }
  std::vector<ActorId> orphans;
  std::vector<ActorId> out_of_group;
  for (const auto& [id, actor] : actors_.all()) {
    sequence_ = std::max(sequence_, actor.sequence);
    if (actor.incarnation && nodes_.find(actor.incarnation->node) == nullptr) {
      nodes_.restore(actor.incarnation->node, "", "", false);
      leases_.await(actor.incarnation->node, window_end_);
    }
    const GroupId group_id = group_of(actor);
    if (!group_id.is_nil() && actor.incarnation) groups_.adopt(group_id, id, actor.incarnation->bundle, actor.resources, actor.incarnation->gpus);
    if (actor.is_dead()) continue;
    if (const Group* group = groups_.find(group_id); group != nullptr && !group->is_removed()) {
      groups_.join(group_id, id);
    } else if (!group_id.is_nil()) {
      out_of_group.push_back(id);
    }
    if (actor.spec.detached()) continue;
    if (actor.spec.ends_with_handles()) handles_.add(window_end_, id);  // Who holds it says so again.
    const Actor* owner = actor.owner.is_nil() ? nullptr : actors_.find(actor.owner);
    if (!actor.owner.is_nil() && (owner == nullptr || owner->is_dead())) orphans.push_back(id);
    if (actor.owner.is_nil() && clients_.find(actor.driver) == nullptr) clients_.restore(actor.driver, "unknown", window_end_);
  }
  std::vector<ActorId> stray;  // Never, unless somebody else wrote to the journal.
  for (const auto& [id, checkpoint] : checkpoints_.all()) {
    const Actor* actor = actors_.find(id);
    if (actor == nullptr || actor->is_dead() || checkpoint.epoch() > actor->epoch) stray.push_back(id);
  }
  for (const ActorId id : stray) drop_checkpoint(id);
  for (const ActorId id : out_of_group) die(id, make_cause(Cause::KILLED, reason("cause.group_removed")), {});
  for (const ActorId id : orphans) die(id, make_cause(Cause::DRIVER_GONE, reason("cause.maker_ended")), {});
  for (const auto& [id, constant] : actors_.all()) {
    Actor& actor = *actors_.find(id);
    actor.version = version_;
    maybe_submit(actor);
    rearm(actor);
  }
}

void HeadCore::Impl::restore_actor(const std::string& key, const protocol::ActorRecord& spec, const protocol::ActorRecord& state) {
  Actor actor;
  actor.id = id_from_raw<ActorId>(key);
  actor.spec = spec.spec();
  auto resources = resources_from(actor.spec.resources(), options_.limits);
  const bool known_state = state.state() >= protocol::PENDING && state.state() <= protocol::DEAD;
  if (actor.id.is_nil() || !resources || !known_state) {
    bad_rows_.push_back(fmt::format("actors: {}", to_string(actor.id)));
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
  if (actor.spec.isolation() == protocol::ISOLATION_SHARED) actor.shared_process = id_from_raw<HostId>(state.address().host_id());
  actor.pid = state.pid();
  actor.saved = actor.is_dead() ? Actor::Saved::kTrimmedSpec : Actor::Saved::kSpec;
  if (const auto host = id_from_raw<HostId>(state.host_id()); !host.is_nil()) {
    actor.incarnation = std::make_unique<Incarnation>(
        Incarnation{.node = id_from_raw<NodeId>(state.node_id()), .worker = state.worker_incarnation(), .host = host, .since = now_});
    actor.incarnation->gpus.assign(state.gpus().begin(), state.gpus().end());
    actor.incarnation->bundle = state.bundle();
    if (actor.state != protocol::STARTING && actor.state != protocol::ALIVE) {
      actor.incarnation->ending = true;
      actor.incarnation->end_cause = make_cause(Cause::LEASE_LOST, reason("cause.starts_anew"));
    }
  } else if (actor.state == protocol::STARTING || actor.state == protocol::ALIVE) {
    actor.state = protocol::RESTARTING;
    actor.address.Clear();
    actor.pid = 0;
  }
  remember(actor, reason("cause.earlier_head"));
  if (!actors_.restore(std::move(actor))) bad_rows_.push_back(fmt::format("actors: {}", to_string(id_from_raw<ActorId>(key))));
}

size_t HeadCore::Impl::awaited() const {
  return static_cast<size_t>(std::count_if(nodes_.all().begin(), nodes_.all().end(),
                                           [](const auto& entry) { return entry.second.state == NodeState::kAwaited; }));
}

// ---- time ----

void HeadCore::Impl::tick() {
  for (const NodeId id : leases_.ended(now_)) {
    const Node* node = nodes_.find(id);
    if (node == nullptr) continue;
    const bool awaited = node->state == NodeState::kAwaited;
    give_up(id, awaited ? reason("cause.not_back") : reason("cause.silent", fmt::format("{:.1f}", seconds(now_ - node->last_heard))),
            log::Level::kWarn);
  }
  check_silence();
  std::vector<DriverId> gone;
  for (const auto& [id, driver] : clients_.all()) {
    if (!driver.session && driver.gone_at <= now_) gone.push_back(id);
  }
  for (const DriverId id : gone) driver_gone(id, reason("cause.connection_lost"));
  while (!timers_.empty() && timers_.begin()->first <= now_) {
    Actor* actor = actors_.find(timers_.begin()->second);
    timers_.erase(timers_.begin());
    if (actor == nullptr) continue;
    actor->wake.reset();
    wake(*actor);
    rearm(*actor);
  }
  end_unheld();
  placement_.on_tick(now_);
}

// ---- programs, draining ----

Result<void> HeadCore::Impl::need_program(const std::string& sha256) {
  bool known = false;
  bool asked = false;
  for (const auto& [id, program] : programs_) {
    if (program.sha256() != sha256) continue;
    known = true;
    const Driver* driver = clients_.find(id);
    if (driver == nullptr || !driver->session) continue;
    protocol::HeadMessage message;
    message.mutable_need_program()->set_sha256(sha256);
    send({.session = *driver->session}, std::move(message));
    asked = true;
  }
  if (asked) return {};
  if (known) {
    return make_error(ErrorCode::kUnavailable,
                      "the program that this actor runs is not here, and none of the drivers that have it is connected; start one of them again");
  }
  return make_error(ErrorCode::kNotFound, "no driver and no actor of this cluster runs that program");
}

Result<void> HeadCore::Impl::drain(std::string_view text, bool undo, std::string_view by) {
  const auto id = nodes_.resolve(text);
  if (!id) return make_error(id.error());
  Node& node = *nodes_.find(*id);
  if (!node.is_member()) {
    return make_error(ErrorCode::kNotFound, fmt::format("node \"{}\" is dead ({}); there is nothing to drain", node.name, node.why_dead.text()));
  }
  if (node.draining == !undo) return {};
  node.draining = !undo;
  changes_.node(node.id);
  save_node(node);
  set_placeable(node);
  move_from_draining(node.id);
  event(log::Level::kInfo, undo ? "node takes actors again" : "node drains: nothing new is placed there", {{"node", node.name}, {"by", std::string(by)}});
  return {};
}

void HeadCore::Impl::check_invariants() const {
  nodes_.check_invariants();
  placement_.check_invariants();
  groups_.check_invariants();
  actors_.check_invariants();
  clients_.check_invariants();
  handles_.check_invariants();
  experiments_.check_invariants();
  checkpoints_.check_invariants();
  for (const auto& [id, checkpoint] : checkpoints_.all()) {
    const Actor* actor = actors_.find(id);
    VOLADOR_CHECK(actor != nullptr && !actor->is_dead() && checkpoint.epoch() <= actor->epoch, to_string(id));
  }
  for (const auto& [id, actor] : actors_.all()) {
    const auto holds_on = group_of(actor).is_nil() ? placement_.ledger().node_of(id) : groups_.node_of(id);
    const bool waits = placement_.waits(id) || (!group_of(actor).is_nil() && groups_.waits(group_of(actor), id));
    VOLADOR_CHECK(!holds_on || (actor.incarnation && actor.incarnation->node == *holds_on), to_string(id));
    if (actor.incarnation) {
      const Node* node = nodes_.find(actor.incarnation->node);
      VOLADOR_CHECK(node != nullptr && node->is_member(), to_string(id));
      const bool runs = actor.state == protocol::STARTING || actor.state == protocol::ALIVE;
      // An awaited node's ledger stands when it is back; what a restarted worker left behind may not fit any more.
      VOLADOR_CHECK(holds_on || !runs || node->state == NodeState::kAwaited || actor.incarnation->gone_at, to_string(id));
    }
    VOLADOR_CHECK(!waits || (actor.waits_for_place() && !actor.incarnation), to_string(id));
    const bool idle = actor.waits_for_place() && !actor.incarnation && !waits;
    VOLADOR_CHECK(!idle || actor.not_before > now_ || actor.wake || actors_.lingering(actor) != nullptr, to_string(id));
    VOLADOR_CHECK(actor.is_dead() || programs_.contains(actor.driver) || actor.spec.program_sha256().empty(), to_string(id));
  }
  for (const auto& [id, group] : groups_.all()) {
    VOLADOR_CHECK(placement_.waits(group.holder) == group.waits_for_places(), to_string(id));
    for (const ActorId actor : group.actors) VOLADOR_CHECK(!actors_.find(actor)->is_dead() && group_of(*actors_.find(actor)) == id, to_string(actor));
    for (const Bundle& bundle : group.bundles) {
      const auto held_on = placement_.ledger().node_of(bundle.holder);
      const Node* node = nodes_.find(bundle.node);
      VOLADOR_CHECK(!held_on || *held_on == bundle.node, to_string(id));
      VOLADOR_CHECK(held_on || !bundle.is_placed() || (node != nullptr && node->state == NodeState::kAwaited), to_string(id));
    }
  }
  for (const auto& [time, id] : timers_) {
    const Actor* actor = actors_.find(id);
    VOLADOR_CHECK(actor == nullptr || actor->wake == time, to_string(id));
  }
}

// ---- the public face ----

HeadCore::HeadCore(const Options& options, Random& random) : impl_(std::make_unique<Impl>(options, random)) {}
HeadCore::~HeadCore() = default;

void HeadCore::load(std::string_view table, std::string_view key, std::string_view value) { impl_->load(table, key, value); }

Actions HeadCore::start(BootTime now) {
  return impl_->run(now, [&] { impl_->start(); });
}
bool HeadCore::restore_experiment(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank) {
  return impl_->restore_experiment(driver, machine_id, part, rank);
}
Actions HeadCore::on_experiment_kept(BootTime now, DriverId driver, const std::string& experiment, uint64_t number) {
  return impl_->run(now, [&] { impl_->experiment_kept(driver, experiment, number); });
}
Actions HeadCore::on_node_message(BootTime now, NodeSession session, const protocol::WorkerMessage& message) {
  return impl_->run(now, [&] { impl_->on_node_message(session, message); });
}
Actions HeadCore::on_node_lost(BootTime now, NodeSession session) {
  return impl_->run(now, [&] { impl_->on_node_lost(session); });
}
Actions HeadCore::on_client_message(BootTime now, ClientSession session, const protocol::ClientMessage& message) {
  return impl_->run(now, [&] { impl_->on_client_message(session, message); });
}
Actions HeadCore::on_client_lost(BootTime now, ClientSession session) {
  return impl_->run(now, [&] { impl_->on_client_lost(session); });
}
Actions HeadCore::on_tick(BootTime now) {
  return impl_->run(now, [&] { impl_->tick(); });
}

Result<Actions> HeadCore::need_program(BootTime now, std::string_view sha256) {
  Result<void> result;
  Actions actions = impl_->run(now, [&] { result = impl_->need_program(std::string(sha256)); });
  if (!result) {
    impl_->keep(std::move(actions));
    return make_error(result.error());
  }
  return actions;
}

const protocol::Program* HeadCore::program(std::string_view sha256) const {
  for (const auto& [driver, program] : impl_->programs()) {
    if (program.sha256() == sha256) return &program;
  }
  return nullptr;
}

bool HeadCore::program_in_use(std::string_view sha256) const { return program(sha256) != nullptr; }

Result<Actions> HeadCore::drain(BootTime now, std::string_view node, bool undo, std::string_view by) {
  Result<void> result;
  Actions actions = impl_->run(now, [&] { result = impl_->drain(node, undo, by); });
  if (!result) {
    impl_->keep(std::move(actions));
    return make_error(result.error());
  }
  return actions;
}

Result<Actions> HeadCore::kill(BootTime now, const v1::KillRequest& request, v1::KillReply& reply, std::string_view by) {
  Result<void> result;
  Actions actions = impl_->run(now, [&] { result = impl_->kill(request, reply, by); });
  if (!result) {
    impl_->keep(std::move(actions));
    return make_error(result.error());
  }
  return actions;
}

Result<Actions> HeadCore::control_experiment(BootTime now, const v1::ControlExperimentRequest& request, v1::ControlExperimentReply& reply, std::string_view by) {
  Result<void> result;
  Actions actions = impl_->run(now, [&] { result = impl_->control_experiment(request, reply, by); });
  if (!result) {
    impl_->keep(std::move(actions));
    return make_error(result.error());
  }
  return actions;
}

Result<Actions> HeadCore::annotate_experiment(BootTime now, const v1::AnnotateExperimentRequest& request, v1::AnnotateExperimentReply& reply, std::string_view by) {
  Result<void> result;
  Actions actions = impl_->run(now, [&] { result = impl_->annotate_experiment(request, reply, by); });
  if (!result) {
    impl_->keep(std::move(actions));
    return make_error(result.error());
  }
  return actions;
}

bool HeadCore::has_accepted(const protocol::ClientMessage& request) const { return impl_->has_accepted(request); }
size_t HeadCore::connected_drivers() const {
  return impl_->connected_drivers();
}

v1::StatusReply HeadCore::status(BootTime now) const {
  v1::StatusReply reply;
  impl_->look_at(now);
  impl_->fill_status(reply);
  return reply;
}
v1::ListNodesReply HeadCore::list_nodes(BootTime now, const v1::ListRequest& request) const {
  v1::ListNodesReply reply;
  impl_->look_at(now);
  impl_->list_nodes(request, reply);
  return reply;
}
v1::ListActorsReply HeadCore::list_actors(BootTime now, const v1::ListRequest& request) const {
  v1::ListActorsReply reply;
  impl_->look_at(now);
  impl_->list_actors(request, reply);
  return reply;
}
v1::ListGroupsReply HeadCore::list_groups(BootTime now, const v1::ListRequest& request) const {
  v1::ListGroupsReply reply;
  impl_->look_at(now);
  impl_->list_groups(request, reply);
  return reply;
}

v1::ListQueueReply HeadCore::list_queue(BootTime now, const v1::ListRequest& request) const {
  v1::ListQueueReply reply;
  impl_->look_at(now);
  impl_->list_queue(request, reply);
  return reply;
}
Result<v1::ListTrialsReply> HeadCore::list_trials(BootTime now, const v1::ListRequest& request) const {
  v1::ListTrialsReply reply;
  impl_->look_at(now);
  VOLADOR_TRY(impl_->list_trials(request, reply));
  return reply;
}
void HeadCore::watch_changes() { impl_->watch_changes(); }
bool HeadCore::has_changes(BootTime now) const {
  impl_->look_at(now);
  return impl_->has_changes();
}
v1::Changes HeadCore::take_changes(BootTime now, size_t rows_max) {
  v1::Changes changes;
  impl_->look_at(now);
  impl_->take_changes(rows_max, changes);
  return changes;
}
Result<v1::ExplainReply> HeadCore::explanation(BootTime now, std::string_view id) const {
  impl_->look_at(now);
  return impl_->explain(id);
}
Result<std::string> HeadCore::explain(BootTime now, std::string_view id) const {
  return explanation(now, id).map([](const v1::ExplainReply& reply) { return reply.text(); });
}
Result<HeadCore::LogSource> HeadCore::find_log_source(std::string_view id) const { return impl_->find_log_source(id); }
Result<HeadCore::RunningActor> HeadCore::find_running(std::string_view id) const { return impl_->find_running(id); }
Result<void> HeadCore::may_certify(std::string_view node_name, HostId host) const { return impl_->may_certify(node_name, host); }
Result<NodeSession> HeadCore::node_session(std::string_view name) const { return impl_->node_session(name); }

std::vector<HeadCore::Program> HeadCore::connected_programs() const { return impl_->connected_programs(); }

std::string HeadCore::program_of(ActorId actor) const { return impl_->program_of(actor); }

std::string HeadCore::node_on(const std::string& machine_id) const { return impl_->node_on(machine_id); }
Result<HeadCore::RunFilesPlace> HeadCore::find_run_files(std::string_view experiment) const { return impl_->find_run_files(experiment); }

void HeadCore::check_invariants() const { impl_->check_invariants(); }

}  // namespace volador::head
