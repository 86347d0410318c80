#include "head/kernel/core.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace volador::head {
namespace {

constexpr int kVersionBits =
    40;  // Bits for the changes of one head; the generation occupies the bits above, so versions always grow.
constexpr size_t kBadRowsNamed = 20;

}  // namespace

HeadCore::HeadCore(const Options& options, Random& random) : context_(options, random), tables_(options) {
  VOLADOR_CHECK(options.times.reconnect_window >= options.times.lease + options.times.lease_margin,
                "a restarted head must wait for the leases of the one before it");
  context_.session_of = [this](HostId host) -> std::optional<NodeSession> {
    const Actor* actor = tables_.actors.find_host(host);
    const Node* node = actor == nullptr ? nullptr : tables_.nodes.find(actor->incarnation->node);
    return node == nullptr ? std::nullopt : node->session;
  };
}

// ---- an event ----

void HeadCore::begin(BootTime now) {
  const BootTime before = context_.now;
  context_.now = std::max(now, before);
  if (!started_ || context_.now - before <= context_.options.times.own_pause) return;
  nodes_.own_pause();
  clients_.own_pause();
  const double seconds = std::chrono::duration<double>(context_.now - before).count();
  context_.event(log::Level::kWarn, "head stood still, nobody is given up for it",
                 {{"seconds", fmt::format("{:.1f}", seconds)}});
}

void HeadCore::settle() {
  if (!started_) return;
  while (true) {
    const std::vector<Placed> placed = tables_.placement.schedule(context_.now);
    for (const Placed& one : placed) actor_life_.place(one);
    groups_.place();
    if (placed.size() < Placement::kDecisionsMax) break;
  }
  for (Module* module : modules_) module->settle();
  actor_life_.flush();
  groups_.flush();
  actor_life_.send_replies();
  actor_life_.forget_oldest();
  clients_.send_cluster_state();
}

// ---- restoring ----

void HeadCore::load(std::string_view table, std::string_view key, std::string_view value) {
  const auto is_bad = [&] { context_.bad_rows.emplace_back(table); };
  const auto parse = [&](auto& message) {
    const bool is_sound = message.ParseFromArray(value.data(), static_cast<int>(value.size()));
    if (!is_sound) is_bad();
    return is_sound;
  };
  if (table == kActorsTable) {
    if (protocol::ActorRecord record; parse(record)) actor_restore_.load_spec(key, std::move(record));
  } else if (table == kActorStatesTable) {
    if (protocol::ActorRecord record; parse(record)) actor_restore_.load_state(key, std::move(record));
  } else if (table == kGroupsTable) {
    if (protocol::GroupRecord record; parse(record)) groups_.load(std::move(record));
  } else if (table == kNodesTable) {
    if (protocol::NodeRecord record; parse(record)) nodes_.load(std::move(record));
  } else if (table == kDriversTable) {
    if (protocol::DriverRecord record; parse(record)) clients_.load(std::move(record));
  } else if (table == kProgramsTable) {
    if (protocol::Program program; parse(program))
      clients_.load_program(id_from_raw<DriverId>(key), std::move(program));
  } else if (table == kCheckpointsTable) {
    if (protocol::Checkpoint checkpoint;
        parse(checkpoint) && !actor_restore_.load_checkpoint(key, std::move(checkpoint)))
      is_bad();
  } else if (table == kExperimentNotesTable) {
    if (!experiments_.load_note(key, value)) is_bad();
  } else if (table == kHeadTable && key == "generation") {
    uint64_t number = 0;
    if (std::from_chars(value.data(), value.data() + value.size(), number).ec == std::errc{}) generation_ = number;
  } else {
    for (Module* module : modules_) {
      if (module->load(table, key, value)) break;
    }
  }
}

Actions HeadCore::start(BootTime now) {
  return run(now, [this] { restore(); });
}

void HeadCore::restore() {
  VOLADOR_CHECK(!started_, "start() is called once");
  started_ = true;
  context_.started_at = context_.now;
  ++generation_;
  context_.version = generation_ << kVersionBits;
  context_.journal(kHeadTable, "generation", std::to_string(generation_));
  const bool is_fresh =
      !nodes_.has_loaded() && !clients_.has_loaded() && !actor_restore_.has_loaded() && !groups_.has_loaded();
  const BootTime window_end = context_.now + context_.options.times.reconnect_window;
  nodes_.restore(window_end);
  clients_.restore(window_end);
  context_.window_end = is_fresh ? context_.now : window_end;
  experiments_.interrupt_orphaned();
  groups_.restore();
  actor_restore_.restore();
  groups_.settle_restored();
  for (Module* module : modules_) module->start();
  if (!is_fresh) {
    context_.event(
        log::Level::kInfo, "restarted from the journal, nodes and drivers may come back",
        {{"generation", std::to_string(generation_)},
         {"nodes", std::to_string(tables_.nodes.members())},
         {"drivers", std::to_string(tables_.clients.all().size())},
         {"actors", std::to_string(tables_.actors.not_dead())},
         {"seconds", fmt::format("{:.1f}", std::chrono::duration<double>(window_end - context_.now).count())}});
  }
  for (size_t at = 0; at < context_.bad_rows.size() && at < kBadRowsNamed; ++at) {
    context_.event(log::Level::kError, "a row of the journal was left out: it cannot be read or contradicts another",
                   {{"row", context_.bad_rows[at]}});
  }
  context_.bad_rows.clear();
}

bool HeadCore::restore_experiment(DriverId driver, const std::string& machine_id,
                                  const protocol::ExperimentUpdate& part, uint64_t rank) {
  return experiments_.restore(driver, machine_id, part, rank);
}

// ---- events ----

Actions HeadCore::on_node_message(BootTime now, NodeSession session, const protocol::WorkerMessage& message) {
  return run(now, [&] {
    if (message.kind_case() == protocol::WorkerMessage::kRegister)
      return nodes_.on_register(session, message.register_());
    Node* node = nodes_.heard(session);
    if (node == nullptr) return;
    switch (message.kind_case()) {
      case protocol::WorkerMessage::kHeartbeat:
        nodes_.on_heartbeat(*node, message.heartbeat());
        break;
      case protocol::WorkerMessage::kStopping:
        nodes_.on_stopping(*node);
        break;
      case protocol::WorkerMessage::kLeaving:
        nodes_.give_up(node->id, reason("cause.stopped"), log::Level::kInfo);
        break;
      case protocol::WorkerMessage::kHostReady:
        actor_hosts_.on_ready(*node, message.host_ready());
        break;
      case protocol::WorkerMessage::kHostEnded:
        actor_hosts_.on_ended(*node, message.host_ended());
        break;
      case protocol::WorkerMessage::kProgramFailed:
        actor_hosts_.on_program_failed(*node, message.program_failed());
        break;
      case protocol::WorkerMessage::kLog:
        actor_hosts_.on_log(message.log());
        break;
      case protocol::WorkerMessage::kMetrics:
        actor_hosts_.on_metrics(*node, message.metrics());
        break;
      case protocol::WorkerMessage::kHolds:
        handles_.on_holds({.driver = {}, .host = {}, .node = node->id}, message.holds());
        break;
      case protocol::WorkerMessage::kRelay: {
        const auto host = id_from_raw<HostId>(message.relay().host_id());
        if (const Actor* actor = actor_hosts_.sender(*node, host))
          dispatch({.session = {}, .host = host}, actor->driver, actor, message.relay().message());
        break;
      }
      case protocol::WorkerMessage::kRegister:
      case protocol::WorkerMessage::kLogTails:  // Replies; the shell has already forwarded them.
      case protocol::WorkerMessage::kLogPart:
      case protocol::WorkerMessage::kObjects:
      case protocol::WorkerMessage::kRunFiles:
      case protocol::WorkerMessage::kStacks:
      case protocol::WorkerMessage::kTimeline:
      case protocol::WorkerMessage::kProcesses:
      case protocol::WorkerMessage::KIND_NOT_SET:
        break;
    }
  });
}

Actions HeadCore::on_node_lost(BootTime now, NodeSession session) {
  return run(now, [&] { nodes_.on_lost(session); });
}

Actions HeadCore::on_client_message(BootTime now, ClientSession session, const protocol::ClientMessage& message,
                                    const security::Principal& by) {
  return run(now, [&] {
    if (message.kind_case() == protocol::ClientMessage::kHello) return clients_.on_hello(session, message.hello(), by);
    const ClientRef client{.session = session, .host = {}};
    const Driver* driver = tables_.clients.find(session);
    if (driver == nullptr) {  // Before Hello, after Goodbye, or on a stream replaced by a newer one of the same driver.
      if (message.kind_case() == protocol::ClientMessage::kPing) clients_.on_ping(client, message.ping());
    } else if (message.kind_case() == protocol::ClientMessage::kGoodbye) {
      clients_.gone(driver->id, reason("cause.program_ended"));
    } else {
      dispatch(client, driver->id, nullptr, message);
    }
  });
}

Actions HeadCore::on_client_lost(BootTime now, ClientSession session) {
  return run(now, [&] { clients_.on_lost(session); });
}

// `owner`: the actor that sent the request through its worker; null if the driver sent it.
void HeadCore::dispatch(const ClientRef& client, DriverId driver, const Actor* owner,
                        const protocol::ClientMessage& message) {
  switch (message.kind_case()) {
    case protocol::ClientMessage::kSpawn:
      actor_requests_.on_spawn(client, driver, owner, message.spawn());
      break;
    case protocol::ClientMessage::kKill:
      actor_requests_.on_kill(client, driver, owner, message.kill());
      break;
    case protocol::ClientMessage::kFind:
      actor_requests_.on_find(client, driver, owner, message.find());
      break;
    case protocol::ClientMessage::kWatch:
      actor_requests_.on_watch(client, driver, owner, message.watch());
      break;
    case protocol::ClientMessage::kFailedCall:
      actor_requests_.tell(client, driver, owner, id_from_raw<ActorId>(message.failed_call().actor_id()));
      break;
    case protocol::ClientMessage::kCheckpoint:
      actor_requests_.on_checkpoint(client, owner, message.checkpoint());
      break;
    case protocol::ClientMessage::kWaits:
      actor_requests_.on_waits(owner, message.waits().waits());
      break;
    case protocol::ClientMessage::kHolds:
      handles_.on_holds(HandleModule::holder_of(client, driver), message.holds());
      break;
    case protocol::ClientMessage::kRebuild:
      rebuilds_.on_rebuild(client, driver, message.rebuild());
      break;
    case protocol::ClientMessage::kRebuilt:
      rebuilds_.on_rebuilt(message.rebuilt());
      break;
    case protocol::ClientMessage::kCreateGroup:
      groups_.on_create(client, driver, owner, message.create_group());
      break;
    case protocol::ClientMessage::kFindGroup:
      groups_.on_find(client, message.find_group());
      break;
    case protocol::ClientMessage::kRemoveGroup:
      groups_.on_remove(client, driver, owner, message.remove_group());
      break;
    case protocol::ClientMessage::kExperiment:
      experiments_.on_update(driver, message.experiment());
      break;
    case protocol::ClientMessage::kPing:
      clients_.on_ping(client, message.ping());
      break;
    case protocol::ClientMessage::kHello:
      clients_.on_host_hello(client);
      break;
    case protocol::ClientMessage::kRunFiles:  // A reply; the shell has already forwarded it.
    case protocol::ClientMessage::kGoodbye:   // The worker reports the end of a host.
    case protocol::ClientMessage::KIND_NOT_SET:
      break;
  }
}

Actions HeadCore::on_tick(BootTime now) {
  return run(now, [&] {
    nodes_.on_tick();
    clients_.on_tick();
    actor_life_.on_tick();
    handles_.on_tick();
    for (Module* module : modules_) module->on_tick();
    tables_.placement.on_tick(context_.now);
  });
}

Actions HeadCore::on_experiment_kept(BootTime now, DriverId driver, const std::string& experiment, uint64_t number) {
  return run(now, [&] { experiments_.on_kept(driver, experiment, number); });
}

// ---- queries ----

size_t HeadCore::connected_drivers() const {
  const auto& drivers = tables_.clients.all();
  return static_cast<size_t>(std::count_if(drivers.begin(), drivers.end(),
                                           [](const auto& driver) { return driver.second.session.has_value(); }));
}

bool HeadCore::has_accepted(const protocol::ClientMessage& request) const {
  if (request.has_spawn())
    return tables_.actors.find(id_from_raw<ActorId>(request.spawn().spec().actor_id())) != nullptr;
  if (request.has_create_group())
    return tables_.groups.find(id_from_raw<GroupId>(request.create_group().request_id())) != nullptr;
  return false;
}

const protocol::Program* HeadCore::program(std::string_view sha256) const {
  for (const auto& [driver, program] : tables_.programs) {
    if (program.sha256() == sha256) return &program;
  }
  return nullptr;
}

void HeadCore::check_invariants() const {
  const Tables& tables = tables_;
  tables.nodes.check_invariants();
  tables.placement.check_invariants();
  tables.groups.check_invariants();
  tables.actors.check_invariants();
  tables.clients.check_invariants();
  tables.handles.check_invariants();
  tables.experiments.check_invariants();
  tables.checkpoints.check_invariants();
  for (const auto& [id, checkpoint] : tables.checkpoints.all()) {
    const Actor* actor = tables.actors.find(id);
    VOLADOR_CHECK(actor != nullptr && !actor->is_dead() && checkpoint.epoch() <= actor->epoch, to_string(id));
  }
  for (const auto& [id, actor] : tables.actors.all()) check_actor(actor);
  for (const auto& [id, group] : tables.groups.all()) check_group(group);
  actor_life_.check_invariants();
  for (const Module* module : modules_) module->check_invariants();
}

void HeadCore::check_actor(const Actor& actor) const {
  const Tables& tables = tables_;
  const std::string id = to_string(actor.id);
  const GroupId group = actor.group();
  const auto holds_on = group.is_nil() ? tables.placement.ledger().node_of(actor.id) : tables.groups.node_of(actor.id);
  const bool waits = tables.placement.waits(actor.id) || (!group.is_nil() && tables.groups.waits(group, actor.id));
  VOLADOR_CHECK(!holds_on || (actor.incarnation && actor.incarnation->node == *holds_on), id);
  if (actor.incarnation) {
    const Node* node = tables.nodes.find(actor.incarnation->node);
    VOLADOR_CHECK(node != nullptr && node->is_member(), id);
    const bool runs = actor.state == protocol::STARTING || actor.state == protocol::ALIVE;
    // The ledger of an awaited node is final once it reconnects; hosts left by a restarted worker may no longer fit.
    VOLADOR_CHECK(holds_on || !runs || node->state == NodeState::kAwaited || actor.incarnation->gone_at, id);
  }
  VOLADOR_CHECK(!waits || (actor.waits_for_place() && !actor.incarnation), id);
  const bool idle = actor.waits_for_place() && !actor.incarnation && !waits;
  VOLADOR_CHECK(!idle || actor.not_before > context_.now || actor.wake || tables.actors.lingering(actor) != nullptr,
                id);
  VOLADOR_CHECK(actor.is_dead() || tables.programs.contains(actor.driver) || actor.spec.program_sha256().empty(), id);
}

void HeadCore::check_group(const Group& group) const {
  const Tables& tables = tables_;
  const std::string id = to_string(group.id);
  VOLADOR_CHECK(tables.placement.waits(group.holder) == group.waits_for_places(), id);
  for (const ActorId member : group.actors) {
    const Actor* actor = tables.actors.find(member);
    VOLADOR_CHECK(actor != nullptr && !actor->is_dead() && actor->group() == group.id, to_string(member));
  }
  for (const Bundle& bundle : group.bundles) {
    const auto held_on = tables.placement.ledger().node_of(bundle.holder);
    const Node* node = tables.nodes.find(bundle.node);
    VOLADOR_CHECK(!held_on || *held_on == bundle.node, id);
    VOLADOR_CHECK(held_on || !bundle.is_placed() || (node != nullptr && node->state == NodeState::kAwaited), id);
  }
}

}  // namespace volador::head
