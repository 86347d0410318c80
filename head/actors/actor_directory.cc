#include "head/actors/actor_directory.h"

#include <fmt/format.h>

#include <algorithm>

#include "head/kernel/wire.h"
#include "runtime/quantities.h"

namespace volador::head {

std::string namespace_of(const protocol::ActorSpec& spec) {
  return spec.namespace_().empty() ? std::string(kDefaultNamespace) : spec.namespace_();
}

std::string full_name(const protocol::ActorSpec& spec) {
  return spec.name().empty() || namespace_of(spec) == kDefaultNamespace ? spec.name()
                                                                        : spec.namespace_() + "/" + spec.name();
}

Result<void> ActorDirectory::check_room(const protocol::ActorSpec& spec) const {
  if (not_dead() >= limits_.actors) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} not dead, the limit of a cluster; end some and try again",
                                  counted(not_dead(), "actor is", "actors are")));
  }
  if (spec_bytes_ + spec.ByteSizeLong() > limits_.spec_bytes) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("the arguments of all actors take {} of {}; pass large values in calls, not to constructors",
                    format_bytes(static_cast<int64_t>(spec_bytes_)),
                    format_bytes(static_cast<int64_t>(limits_.spec_bytes))));
  }
  if (const Actor* holder = spec.name().empty() ? nullptr : named(namespace_of(spec), spec.name())) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("actor name \"{}\" is held by actor {} ({}, {}) in namespace \"{}\"; get that one by "
                                  "its name, or choose another name or namespace",
                                  spec.name(), short_id(holder->id), holder->spec.class_name(),
                                  state_name(holder->state), namespace_of(spec)));
  }
  return {};
}

Actor& ActorDirectory::create(protocol::ActorSpec spec, ResourceSet resources, DriverId driver, ActorId owner,
                              uint64_t sequence) {
  const auto id = id_from_raw<ActorId>(spec.actor_id());
  const auto [entry, added] = actors_.try_emplace(id);
  VOLADOR_CHECK(added, to_string(id));
  Actor& actor = entry->second;
  actor.id = id;
  actor.spec = std::move(spec);
  actor.resources = std::move(resources);
  actor.driver = driver;
  actor.owner = owner;
  actor.sequence = sequence;
  index(actor);
  touch(actor);
  return actor;
}

bool ActorDirectory::restore(Actor restored) {
  if (actors_.contains(restored.id)) return false;
  if (!restored.is_dead() && !restored.spec.name().empty() && names_.contains(name_of(restored))) return false;
  if (restored.incarnation && hosts_.contains(restored.incarnation->host)) return false;
  const ActorId id = restored.id;
  index(actors_.emplace(id, std::move(restored)).first->second);
  return true;
}

void ActorDirectory::index(Actor& actor) {
  ++states_[static_cast<size_t>(actor.state)];
  spec_bytes_ += actor.spec.ByteSizeLong();
  if (actor.incarnation) {
    hosts_[actor.incarnation->host] = actor.id;
    nodes_[actor.incarnation->node].insert(actor.id);
  }
  if (actor.is_dead()) {
    dead_.emplace(++deaths_, actor.id);
    death_order_[actor.id] = deaths_;
    if (!actor.incarnation) forgettable_.emplace(deaths_, actor.id);
    if (actor.incarnation && !actor.spec.name().empty()) lingering_[name_of(actor)].insert(actor.id);
    return;
  }
  if (!actor.spec.name().empty()) names_[name_of(actor)] = actor.id;
  ++program_users_[actor.driver];
  if (actor.owner.is_nil()) {
    drivers_[actor.driver].insert(actor.id);
  } else {
    children_[actor.owner].insert(actor.id);
  }
}

void ActorDirectory::set_state(Actor& actor, protocol::ActorState state) {
  --states_[static_cast<size_t>(actor.state)];
  actor.state = state;
  ++states_[static_cast<size_t>(state)];
  touch(actor);
}

void ActorDirectory::place(Actor& actor, Incarnation incarnation) {
  VOLADOR_CHECK(actor.waits_for_place() && !actor.incarnation, to_string(actor.id));
  ++actor.epoch;
  hosts_[incarnation.host] = actor.id;
  nodes_[incarnation.node].insert(actor.id);
  actor.incarnation = std::make_unique<Incarnation>(std::move(incarnation));
  set_state(actor, protocol::STARTING);
}

bool ActorDirectory::ready(Actor& actor, const protocol::HostAddress& address, int32_t pid, BootTime now) {
  if (actor.state != protocol::STARTING) return false;
  actor.address = address;
  if (actor.spec.isolation() == protocol::ISOLATION_SHARED)
    actor.shared_process = id_from_raw<HostId>(address.host_id());
  actor.pid = pid;
  actor.alive_since = now;
  actor.starts_lost = 0;
  set_state(actor, protocol::ALIVE);
  return true;
}

void ActorDirectory::restart(Actor& actor, const protocol::DeathCause& cause, bool counts) {
  VOLADOR_CHECK(!actor.is_dead(), to_string(actor.id));
  actor.cause = cause;
  actor.address.Clear();
  actor.pid = 0;
  if (counts) ++actor.restarts;
  set_state(actor, protocol::RESTARTING);
}

void ActorDirectory::back_to_pending(Actor& actor) {
  VOLADOR_CHECK(actor.state == protocol::STARTING, to_string(actor.id));
  set_state(actor, protocol::PENDING);
}

void ActorDirectory::die(Actor& actor, const protocol::DeathCause& cause) {
  if (actor.is_dead()) return;
  actor.cause = cause;
  actor.address.Clear();
  actor.pid = 0;
  if (!actor.spec.name().empty()) {
    names_.erase(name_of(actor));
    if (actor.incarnation) lingering_[name_of(actor)].insert(actor.id);
  }
  if (const auto users = program_users_.find(actor.driver); --users->second == 0) program_users_.erase(users);
  const auto drop = [&](auto& owners, const auto& owner) {
    const auto entry = owners.find(owner);
    entry->second.erase(actor.id);
    if (entry->second.empty()) owners.erase(entry);
  };
  if (actor.owner.is_nil()) {
    drop(drivers_, actor.driver);
  } else {
    drop(children_, actor.owner);
  }
  spec_bytes_ -= actor.spec.ByteSizeLong();
  actor.spec.clear_arguments();
  actor.spec.clear_env();
  spec_bytes_ += actor.spec.ByteSizeLong();
  dead_.emplace(++deaths_, actor.id);
  death_order_[actor.id] = deaths_;
  if (!actor.incarnation) forgettable_.emplace(deaths_, actor.id);
  set_state(actor, protocol::DEAD);
  if (!actor.incarnation) settle(actor);
}

void ActorDirectory::over(Actor& actor) {
  if (!actor.incarnation) return;
  hosts_.erase(actor.incarnation->host);
  const auto node = nodes_.find(actor.incarnation->node);
  node->second.erase(actor.id);
  if (node->second.empty()) nodes_.erase(node);
  if (const auto entry = lingering_.find(name_of(actor)); actor.is_dead() && entry != lingering_.end()) {
    entry->second.erase(actor.id);
    if (entry->second.empty()) lingering_.erase(entry);
  }
  actor.incarnation.reset();
  if (actor.is_dead()) {
    forgettable_.emplace(death_order_.at(actor.id), actor.id);
    settle(actor);
  }
  touch(actor);
}

// The actor does not change any more. Cleared protobuf messages keep their memory, so they are rebuilt.
void ActorDirectory::settle(Actor& actor) {
  actor.spec = protocol::ActorSpec(actor.spec);
  actor.address = protocol::HostAddress();
}

Actor* ActorDirectory::find(ActorId id) {
  const auto found = actors_.find(id);
  return found == actors_.end() ? nullptr : &found->second;
}

const Actor* ActorDirectory::find(ActorId id) const {
  const auto found = actors_.find(id);
  return found == actors_.end() ? nullptr : &found->second;
}

Actor* ActorDirectory::find_host(HostId host) {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? nullptr : find(found->second);
}

const Actor* ActorDirectory::find_host(HostId host) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? nullptr : find(found->second);
}

const Actor* ActorDirectory::named(std::string_view actor_namespace, std::string_view name) const {
  const auto found = names_.find({std::string(actor_namespace), std::string(name)});
  return found == names_.end() ? nullptr : find(found->second);
}

const Actor* ActorDirectory::lingering(const Actor& of) const {
  const auto found = of.spec.name().empty() ? lingering_.end() : lingering_.find(name_of(of));
  return found == lingering_.end() ? nullptr : find(*found->second.begin());
}

std::vector<ActorId> ActorDirectory::successors(const Actor& before) const {
  const Actor* successor = before.spec.name().empty() ? nullptr : named(namespace_of(before.spec), before.spec.name());
  if (successor == nullptr || !successor->waits_for_place() || successor->incarnation) return {};
  return {successor->id};
}

std::vector<ActorId> ActorDirectory::on_node(NodeId node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<ActorId> ActorDirectory::children(ActorId owner) const {
  std::vector<ActorId> ids;
  const auto found = children_.find(owner);
  if (found == children_.end()) return ids;
  for (const ActorId id : found->second) {
    if (!find(id)->spec.detached()) ids.push_back(id);
  }
  return ids;
}

std::vector<ActorId> ActorDirectory::of_driver(DriverId driver) const {
  std::vector<ActorId> ids;
  const auto found = drivers_.find(driver);
  if (found == drivers_.end()) return ids;
  for (const ActorId id : found->second) {
    if (!find(id)->spec.detached()) ids.push_back(id);
  }
  return ids;
}

bool ActorDirectory::any_of_program(DriverId driver) const { return program_users_.contains(driver); }

void ActorDirectory::touch(Actor& actor) {
  if (actor.touched) return;
  actor.touched = true;
  touched_.push_back(actor.id);
}

std::vector<ActorId> ActorDirectory::take_touched() {
  std::vector<ActorId> touched;
  touched.swap(touched_);
  for (const ActorId id : touched) {
    if (Actor* actor = find(id)) actor->touched = false;
  }
  return touched;
}

std::vector<ActorId> ActorDirectory::forget_oldest() {
  std::vector<ActorId> forgotten;
  for (auto entry = forgettable_.begin(); dead_.size() > limits_.dead_actors && entry != forgettable_.end();) {
    const Actor& actor = *find(entry->second);
    if (actor.touched) {
      ++entry;
      continue;
    }
    forgotten.push_back(actor.id);
    spec_bytes_ -= actor.spec.ByteSizeLong();
    --states_[static_cast<size_t>(actor.state)];
    death_order_.erase(actor.id);
    actors_.erase(actor.id);
    dead_.erase(*entry);
    entry = forgettable_.erase(entry);
  }
  return forgotten;
}

void ActorDirectory::check_invariants() const {
  size_t with_host = 0;
  size_t names = 0;
  size_t dead = 0;
  size_t forgettable = 0;
  size_t counts[8] = {};
  for (const auto& [id, actor] : actors_) {
    ++counts[static_cast<size_t>(actor.state)];
    dead += actor.is_dead() ? 1 : 0;
    forgettable += actor.is_dead() && !actor.incarnation ? 1 : 0;
    if (!actor.is_dead() && !actor.spec.name().empty()) {
      ++names;
      VOLADOR_CHECK(names_.contains(name_of(actor)) && names_.at(name_of(actor)) == id, full_name(actor.spec));
    }
    if (actor.incarnation) {
      ++with_host;
      VOLADOR_CHECK(actor.epoch > 0 && hosts_.at(actor.incarnation->host) == id, to_string(id));
      VOLADOR_CHECK(nodes_.at(actor.incarnation->node).contains(id), to_string(id));
    }
    const bool runs = actor.state == protocol::STARTING || actor.state == protocol::ALIVE;
    VOLADOR_CHECK(!runs || actor.incarnation, fmt::format("{} {}", to_string(id), state_name(actor.state)));
    VOLADOR_CHECK(actor.spec.max_restarts() < 0 || actor.restarts <= actor.spec.max_restarts(), to_string(id));
  }
  VOLADOR_CHECK(with_host == hosts_.size() && names == names_.size() && dead == dead_.size() &&
                    forgettable == forgettable_.size(),
                fmt::format("{} {} {} {}", with_host, names, dead, forgettable));
  for (size_t state = 0; state < 8; ++state)
    VOLADOR_CHECK(counts[state] == states_[state], fmt::format("state {}", state));
}

}  // namespace volador::head
