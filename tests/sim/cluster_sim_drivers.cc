// Programs of the simulated cluster: their requests, handles and disconnects.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "tests/sim/cluster_sim.h"

namespace volador::sim {

using namespace std::chrono_literals;

namespace {

constexpr size_t kActorsOfADriver = 25;
constexpr size_t kDriversMax = 4;
constexpr size_t kGroupsOfADriver = 4;

}  // namespace

void ClusterSim::start_driver() {
  if (!drivers_act_ || drivers_.size() >= kDriversMax) return;
  auto driver = std::make_unique<Driver>();
  driver->index = drivers_.size();
  driver->id = new_id<DriverId>(random_);
  const size_t index = driver->index;
  drivers_.push_back(std::move(driver));
  connect_driver(index);
  after(random_between(0ms, 300ms), [this, index] { driver_acts(index); });
  if (faults_on_) after(random_between(3s, 20s), [this] { start_driver(); });
}

void ClusterSim::connect_driver(size_t index) {
  Driver& driver = *drivers_[index];
  if (!driver.alive || driver.connection != 0) return;
  driver.connection = connect(false, index);
  if (driver.connection == 0) {
    after(random_between(50ms, 500ms), [this, index] { connect_driver(index); });
    return;
  }
  protocol::ClientMessage hello;
  hello.mutable_hello()->set_protocol_version(1);
  hello.mutable_hello()->set_driver_id(raw(driver.id));
  hello.mutable_hello()->set_name(fmt::format("driver{}", index));
  hello.mutable_hello()->mutable_program()->set_sha256(std::string(32, static_cast<char>('a' + index)));
  send(driver.connection, true, std::move(hello));
}

void ClusterSim::driver_lost(Driver& driver) {
  driver.connection = 0;
  driver.welcomed = false;
  after(random_between(20ms, 500ms), [this, index = driver.index] { connect_driver(index); });
}

void ClusterSim::driver_received(Driver& driver, Payload&& payload) {
  const auto& message = std::get<protocol::HeadMessage>(payload);
  const auto learn = [&](const protocol::ActorInfo& info) {
    protocol::ActorInfo& known = driver.seen[id_from_raw<ActorId>(info.actor_id())];
    if (info.version() > known.version()) known = info;
  };
  if (message.has_welcome()) {
    driver.welcomed = true;
    for (const auto& [id, request] : driver.open) send(driver.connection, true, request.message);
    for (const ActorId id : driver.acknowledged) {
      protocol::ClientMessage watch;
      watch.mutable_watch()->set_actor_id(raw(id));
      send(driver.connection, true, std::move(watch));
    }
    driver_says(driver, all_of(driver.handles));
  } else if (message.has_actor()) {
    learn(message.actor());
  } else if (message.has_reply()) {
    if (message.reply().has_actor()) learn(message.reply().actor());
    const auto open = driver.open.find(message.reply().request_id());
    if (open == driver.open.end()) return;
    if (open->second.message.has_create_group()) {
      if (message.reply().has_error()) {
        sometimes_.happened("a placement group was refused");
      } else {
        driver.groups.insert(open->second.group);
        sometimes_.happened(message.reply().group().state() == protocol::GROUP_READY
                                ? "a placement group was ready at once"
                                : "a placement group waited");
      }
    } else if (open->second.is_spawn) {
      if (!message.reply().has_error()) {
        driver.acknowledged.insert(open->second.actor);
      } else {
        sometimes_.happened("a spawn was refused");
        driver.handles.erase(open->second.actor);
        wishes_.erase(open->second.actor);
      }
    }
    driver.open.erase(open);
  } else if (message.has_refused()) {
    fail("a driver was refused: " + message.refused().message());
  }
}

void ClusterSim::ask(Driver& driver, Request request) {
  const protocol::ClientMessage& message = request.message;
  const std::string id = message.has_spawn()          ? message.spawn().request_id()
                         : message.has_create_group() ? message.create_group().request_id()
                         : message.has_remove_group() ? message.remove_group().request_id()
                                                      : message.kill().request_id();
  if (driver.welcomed) send(driver.connection, true, request.message);
  driver.open[id] = std::move(request);
}

protocol::ClientMessage ClusterSim::spawn_message(const Driver& driver, ActorId actor, Wish& wish) {
  protocol::ClientMessage message;
  protocol::ActorSpec& spec = *message.mutable_spawn()->mutable_spec();
  spec.set_actor_id(raw(actor));
  message.mutable_spawn()->set_request_id(raw(actor));
  spec.set_class_name("Sim");
  spec.set_driver_id(raw(driver.id));
  auto& amounts = *spec.mutable_resources()->mutable_amounts();
  if (const auto cpus = static_cast<Amount>(random_.below(5)) * kUnit / 2; cpus > 0) amounts["cpus"] = cpus;
  if (chance(0.2)) amounts["gpus"] = chance(0.5) ? kUnit / 4 : kUnit;
  wish.detached = chance(0.1);
  wish.max_restarts = chance(0.3) ? 0 : chance(0.5) ? -1 : 3;
  spec.set_detached(wish.detached);
  wish.ends_with_handles = !wish.detached && chance(0.5);
  spec.set_ends_with_handles(wish.ends_with_handles);
  spec.set_max_restarts(wish.max_restarts);
  spec.set_priority(static_cast<int32_t>(random_.below(3)));
  if (!driver.groups.empty() && chance(0.4)) {
    auto chosen = driver.groups.begin();
    std::advance(chosen, static_cast<ptrdiff_t>(random_.below(driver.groups.size())));
    spec.set_group_id(raw(*chosen));
    spec.set_bundle(static_cast<int32_t>(random_.below(3)) - 1);
    wish.in_group = true;
  }
  if (spec.group_id().empty() && chance(0.1)) spec.mutable_wishes()->set_apart(fmt::format("word{}", random_.below(2)));
  if (spec.group_id().empty() && chance(0.1)) {
    spec.mutable_wishes()->set_node(nodes_[random_.below(nodes_.size())]->name);
    spec.mutable_wishes()->set_node_preferred(chance(0.5));
  }
  if (!amounts.contains("gpus") && chance(0.4)) spec.set_isolation(protocol::ISOLATION_SHARED);
  if (chance(0.15)) spec.set_name(fmt::format("name{}", random_.below(6)));
  spec.set_wait_if_infeasible(chance(0.1));
  return message;
}

void ClusterSim::driver_acts(size_t index) {
  Driver& driver = *drivers_[index];
  if (!driver.alive || !drivers_act_) return;
  if (kills_ && !driver.handles.empty() && chance(0.25)) {
    pass_or_drop_handle(driver);
  } else if (chance(0.15)) {
    make_or_remove_group(driver);
  } else if (driver.acknowledged.size() + driver.open.size() < kActorsOfADriver && chance(0.7)) {
    const auto actor = new_id<ActorId>(random_);
    Wish wish;
    wish.driver = index;
    Request request{spawn_message(driver, actor, wish), true, actor};
    wishes_[actor] = wish;
    if (wish.ends_with_handles) driver.handles.insert(actor);
    ask(driver, std::move(request));
  } else if (kills_ && !driver.acknowledged.empty()) {
    auto chosen = driver.acknowledged.begin();
    std::advance(chosen, static_cast<ptrdiff_t>(random_.below(driver.acknowledged.size())));
    Request request{{}, false, *chosen};
    request.message.mutable_kill()->set_request_id(raw(new_id<RequestId>(random_)));
    request.message.mutable_kill()->set_actor_id(raw(*chosen));
    request.message.mutable_kill()->set_no_restart(chance(0.5));
    request.message.mutable_kill()->set_grace_ms(chance(0.5) ? 0 : 500);
    wishes_.at(*chosen).killed = true;
    ask(driver, std::move(request));
  }
  after(random_between(100ms, 1500ms), [this, index] { driver_acts(index); });
}

protocol::HoldActors ClusterSim::all_of(const std::set<ActorId>& handles) {
  protocol::HoldActors holds;
  holds.set_all(true);
  for (const ActorId actor : handles) holds.add_held(raw(actor));
  return holds;
}

void ClusterSim::driver_says(Driver& driver, protocol::HoldActors holds) {
  holds.set_sequence(++driver.holds_said);
  protocol::ClientMessage message;
  *message.mutable_holds() = std::move(holds);
  if (driver.welcomed) send(driver.connection, true, std::move(message));  // Otherwise all of them are sent when it is.
}

// Written to the worker's socket at once; the worker reads it when it runs.
void ClusterSim::host_says(size_t index, uint64_t generation, HostId id, protocol::HoldActors holds) {
  const auto host = nodes_[index]->hosts.find(id);
  if (host == nodes_[index]->hosts.end()) return;
  holds.set_sequence(++host->second.holds_said);
  after(1us, [this, index, generation, id, holds = std::move(holds)] {
    node_event(index, generation, [this, id, holds](Node& node) {
      if (!node.hosts.contains(id) || !node.hosts.at(id).process) return;
      protocol::FromHost message;
      *message.mutable_relay()->mutable_holds() = holds;
      apply(node, node.core->on_host_message(local(node), id, message));
    });
  });
}

// Passes a handle to a host as an argument; the driver, whose call has ended then, may drop its own at once.
void ClusterSim::pass_or_drop_handle(Driver& driver) {
  auto chosen = driver.handles.begin();
  std::advance(chosen, static_cast<ptrdiff_t>(random_.below(driver.handles.size())));
  const ActorId actor = *chosen;
  if (!driver.acknowledged.contains(actor)) return;
  Node& node = *nodes_[random_.below(nodes_.size())];
  if (node.core != nullptr && node.hosts_frozen_until <= now_ && !node.hosts.empty() && chance(0.7)) {
    auto host = node.hosts.begin();
    std::advance(host, static_cast<ptrdiff_t>(random_.below(node.hosts.size())));
    if (!host->second.process || host->second.shared || host->second.ending) return;
    host->second.handles.insert(actor);
    protocol::HoldActors held;
    held.add_held(raw(actor));
    host_says(node.index, node.generation, host->first, std::move(held));
    sometimes_.happened("a handle was passed to an actor");
    if (chance(0.3)) {
      after(random_between(0ms, 5s), [this, n = node.index, g = node.generation, id = host->first, actor] {
        const auto found = nodes_[n]->hosts.find(id);
        if (nodes_[n]->generation != g || found == nodes_[n]->hosts.end() || found->second.handles.erase(actor) == 0)
          return;
        protocol::HoldActors released;
        released.add_released(raw(actor));
        host_says(n, g, id, std::move(released));
      });
    }
    if (chance(0.4)) return;
  }
  driver.handles.erase(actor);
  protocol::HoldActors released;
  released.add_released(raw(actor));
  driver_says(driver, std::move(released));
  sometimes_.happened("a driver dropped a handle");
}

// An actor with a handle has not ended for lack of handles; one without handles has ended.
void ClusterSim::check_handles() const {
  std::set<ActorId> held;
  for (const auto& node : nodes_) {
    for (const auto& [id, host] : node->hosts) held.insert(host.handles.begin(), host.handles.end());
  }
  for (const auto& driver : drivers_) {
    if (driver->alive) held.insert(driver->handles.begin(), driver->handles.end());
  }
  v1::ListRequest all;
  all.set_limit(100'000);
  const auto actors = head_->lists().actors(head_now(), all);
  for (const auto& row : actors.actors()) {
    const ActorId id = *parse_id<ActorId>(row.id());
    const auto wish = wishes_.find(id);
    if (wish == wishes_.end() || !wish->second.ends_with_handles) continue;
    const bool unheld = row.state() == "dead" && row.reason().find("had a handle") != std::string::npos;
    if (unheld) sometimes_.happened("an actor ended with its last handle");
    if (unheld && held.contains(id)) fail(fmt::format("actor {} ended although somebody has a handle on it", row.id()));
    if (row.state() != "dead" && !held.contains(id))
      fail(fmt::format("actor {} is {} although nobody has a handle on it", row.id(), row.state()));
  }
}

void ClusterSim::make_or_remove_group(Driver& driver) {
  if (driver.groups.size() < kGroupsOfADriver && chance(0.7)) {
    const auto group = new_id<GroupId>(random_);
    Request request{{}, false, {}, group};
    request.message.mutable_create_group()->set_request_id(raw(group));
    protocol::GroupSpec& spec = *request.message.mutable_create_group()->mutable_spec();
    spec.set_group_id(raw(group));
    spec.set_strategy(static_cast<protocol::GroupStrategy>(random_.below(4)));
    spec.set_detached(chance(0.1));
    spec.set_wait_if_infeasible(chance(0.2));
    spec.set_priority(static_cast<int32_t>(random_.below(3)));
    for (uint64_t bundles = 1 + random_.below(3); bundles > 0; --bundles) {
      auto& amounts = *spec.add_bundles()->mutable_amounts();
      amounts["cpus"] = static_cast<Amount>(1 + random_.below(4)) * kUnit / 2;
      if (chance(0.2)) amounts["gpus"] = chance(0.5) ? kUnit / 2 : kUnit;
    }
    ask(driver, std::move(request));
  } else if (kills_ && !driver.groups.empty()) {
    const GroupId group = *driver.groups.begin();
    Request request{{}, false, {}, group};
    request.message.mutable_remove_group()->set_request_id(raw(new_id<RequestId>(random_)));
    request.message.mutable_remove_group()->set_group_id(raw(group));
    driver.groups.erase(group);
    ask(driver, std::move(request));
  }
}

}  // namespace volador::sim
