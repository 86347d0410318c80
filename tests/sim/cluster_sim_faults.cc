// Faults of the simulated cluster and the invariants checked afterwards.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "tests/sim/cluster_sim.h"

namespace volador::sim {

using namespace std::chrono_literals;

// ---- faults ----

void ClusterSim::next_fault() {
  if (!faults_on_) return;
  one_fault();
  after(random_between(0ms, 2 * faults_.between), [this] { next_fault(); });
}

void ClusterSim::one_fault() {
  Node& node = *nodes_[random_.below(nodes_.size())];
  Driver* driver = drivers_.empty() ? nullptr : drivers_[random_.below(drivers_.size())].get();
  const uint64_t some_link = driver != nullptr && chance(0.3) ? driver->connection : node.connection;
  const auto did = [&](const char* what) {
    note(what, node.name);
    sometimes_.happened(what);
  };
  switch (random_.below(12)) {
    case 0:
      if (!faults_.cuts || connection(some_link) == nullptr) return;
      did("a connection was cut");
      cut(some_link);
      break;
    case 1:
      if (Connection* link = connection(some_link); link != nullptr && faults_.stalls) {
        did("a connection stalled");
        link->stalled_until = now_ + random_between(100ms, 12s);
      }
      break;
    case 2:
      if (!faults_.node_freezes || node.core == nullptr) return;
      did("a node froze");
      node.worker_frozen_until = node.hosts_frozen_until = now_ + random_between(200ms, 12s);
      break;
    case 3:
      if (!faults_.worker_freezes || node.core == nullptr) return;
      did("a worker froze, its hosts did not");
      node.worker_frozen_until = now_ + random_between(200ms, 9s);
      break;
    case 4:
      if (!faults_.worker_crashes || node.core == nullptr) return;
      did("a worker crashed");
      crash_worker(node, false);
      break;
    case 5:
      if (!faults_.machine_crashes || node.core == nullptr) return;
      did("a machine crashed");
      crash_worker(node, true);
      break;
    case 6:
    case 7:
      if (!faults_.head_crashes || !head_) return;
      did("the head crashed");
      crash_head();
      after(random_between(50ms, faults_.head_down_max), [this] { start_head(); });
      break;
    case 8:
      if (!faults_.head_freezes || !head_) return;
      did("the head froze");
      head_frozen_until_ = now_ + random_between(200ms, 8s);
      break;
    case 9:
      if (!faults_.driver_deaths || driver == nullptr || !driver->alive || drivers_.size() < 2) return;
      did("a driver died");
      driver->alive = false;
      close_by_peer(driver->connection);
      drop_if_closed(driver->connection);
      driver->connection = 0;
      break;
    case 11:
      if (!faults_.store_outages) return;
      did("the store was away");
      store_away_until_ = now_ + random_between(500ms, 9s);
      if (head_ && faults_.head_crashes && chance(0.5)) {
        after(random_between(0ms, 9s), [this] {
          if (!faults_on_ || !head_) return;
          crash_head();
          after(random_between(50ms, faults_.head_down_max), [this] { start_head(); });
        });
      }
      break;
    case 10:
      if (!faults_.host_crashes || node.hosts.empty()) return;
      did("a host crashed");
      {
        auto host = node.hosts.begin();
        std::advance(host, static_cast<ptrdiff_t>(random_.below(node.hosts.size())));
        const auto process = node.shared.process_of(host->first);
        const std::vector<HostId> all = process ? node.shared.actors_of(*process) : std::vector<HostId>{host->first};
        if (all.size() > 1) sometimes_.happened("a shared host crashed with several actors");
        for (const HostId id : all) host_exits(node.index, node.generation, id, 11);
      }
      break;
  }
}

void ClusterSim::heal() {
  note("healed");
  faults_on_ = false;
  drivers_act_ = false;
  head_frozen_until_ = store_away_until_ = now_;
  for (auto& [id, link] : connections_) link.stalled_until = now_;
  for (auto& node : nodes_) node->worker_frozen_until = node->hosts_frozen_until = now_;
}

// ---- checks ----

void ClusterSim::check_healed() {
  if (!head_) fail("the head is down after everything was healed");
  check_groups();
  check_handles();
  v1::ListRequest all;
  all.set_limit(100'000);
  const auto nodes = head_->lists().nodes(head_now(), all);
  std::set<std::string> alive;
  for (const auto& row : nodes.nodes()) {
    if (row.state() == "alive") alive.insert(row.name());
  }
  if (alive.size() != nodes_.size()) fail(fmt::format("{} of {} nodes are alive", alive.size(), nodes_.size()));
  std::map<std::string, const Host*> running;
  for (const auto& node : nodes_) {
    if (!node->orphans.empty()) fail("orphans after everything was healed");
    for (const auto& [id, host] : node->hosts) {
      if (local(*node) >= host.page->deadline)
        fail(fmt::format("node {} has no lease after everything was healed", node->name));
      if (!running.emplace(to_string(host.actor), &host).second)
        fail(fmt::format("actor {} runs twice", to_string(host.actor)));
    }
  }
  const auto actors = head_->lists().actors(head_now(), all);
  std::map<std::string, const v1::Actor*> rows;
  for (const auto& row : actors.actors()) {
    rows[row.id()] = &row;
    const bool waits = row.state() == "pending" || row.state() == "restarting";
    if (waits && row.reason().empty()) fail(fmt::format("actor {} is {} without a reason", row.id(), row.state()));
    if (row.state() == "starting") fail(fmt::format("actor {} starts for ever", row.id()));
    const auto host = running.find(row.id());
    if (row.state() == "alive") {
      if (host == running.end()) fail(fmt::format("actor {} is alive and has no host", row.id()));
      if (host->second->epoch != row.epoch())
        fail(fmt::format("actor {} runs at epoch {}, the head has {}", row.id(), host->second->epoch, row.epoch()));
    } else if (host != running.end()) {
      fail(fmt::format("actor {} is {} and has a host of epoch {}", row.id(), row.state(), host->second->epoch));
    }
  }
  for (const auto& driver : drivers_) {
    if (driver->alive && !driver->open.empty())
      fail(fmt::format("driver {} has {} unanswered requests", driver->index, driver->open.size()));
    for (const ActorId id : driver->acknowledged) {
      const auto found = rows.find(to_string(id));
      const Wish& wish = wishes_.at(id);
      if (found == rows.end()) fail(fmt::format("acknowledged actor {} was lost", to_string(id)));
      const v1::Actor& row = *found->second;
      if (row.state() == "dead" && !wish.killed && (driver->alive || wish.detached)) {
        const bool used_up = wish.max_restarts >= 0 && row.restarts() >= wish.max_restarts;
        const bool threw = row.reason().find("constructor threw") != std::string::npos;
        const bool orphaned = row.reason().find("driver") != std::string::npos;  // Its stream was lost for longer than
                                                                                 // the grace period.
        const bool ended_with_group = wish.in_group && row.reason().find("was removed") != std::string::npos;
        const bool unheld =
            wish.ends_with_handles && row.reason().find("had a handle") != std::string::npos;  // check_handles().
        if (!used_up && !threw && !orphaned && !ended_with_group && !unheld)
          fail(fmt::format("actor {} is dead without need: {}", row.id(), row.reason()));
      }
      if (!driver->alive && !wish.detached && row.state() != "dead")
        fail(fmt::format("actor {} outlives its driver", row.id()));
      if (!driver->alive) continue;
      const auto seen = driver->seen.find(id);
      const char* const names[] = {"?", "pending", "starting", "alive", "restarting", "dead"};
      if (seen == driver->seen.end() || names[seen->second.state()] != row.state() ||
          seen->second.epoch() != row.epoch()) {
        fail(fmt::format("driver {} sees actor {} otherwise than the head ({})", driver->index, row.id(), row.state()));
      }
    }
  }
}

// A waiting group has a reason; a ready one has every bundle, and its actors run where their bundles are.
void ClusterSim::check_groups() const {
  v1::ListRequest all;
  all.set_limit(100'000);
  std::map<std::string, v1::Group> groups;
  const auto rows = head_->lists().groups(all);
  for (const auto& row : rows.groups()) groups[row.id()] = row;
  for (const auto& [id, group] : groups) {
    std::set<std::string> nodes;
    for (const v1::Bundle& bundle : group.bundles()) nodes.insert(bundle.node());
    if (group.state() == "removed") fail(fmt::format("group {} is removed and still holds something", id));
    if (group.state() != "ready" && group.reason().empty())
      fail(fmt::format("group {} is {} without a reason", id, group.state()));
    if (group.state() == "ready" && nodes.contains(""))
      fail(fmt::format("group {} is ready with a bundle that has no place", id));
    if (group.state() == "pending" && (nodes.size() != 1 || !nodes.contains("")))
      fail(fmt::format("group {} is pending and holds something", id));
  }
  const auto actors = head_->lists().actors(head_now(), all);
  for (const auto& row : actors.actors()) {
    if (row.group().empty() || row.state() == "dead") continue;
    const auto group = groups.find(row.group());
    if (group == groups.end()) fail(fmt::format("actor {} is {} in a group that is not there", row.id(), row.state()));
    if (row.state() == "alive" && group->second.bundles(row.bundle()).node() != row.node())
      fail(fmt::format("actor {} runs beside its bundle", row.id()));
  }
  for (const auto& driver : drivers_) {
    for (const GroupId id : driver->groups) {
      const bool there = groups.contains(to_string(id));
      if (driver->alive && !there) {
        const std::string end = head_->explainer().text(head_now(), to_string(id)).value_or("");
        if (end.find("driver") == std::string::npos && !end.empty())
          fail(fmt::format("group {} of driver {} is gone: {}", to_string(id), driver->index, end));
      }
    }
  }
}

void ClusterSim::leave() {
  note("everybody leaves");
  for (auto& driver : drivers_) {
    if (!driver->alive) continue;
    protocol::ClientMessage goodbye;
    goodbye.mutable_goodbye();
    send(driver->connection, true, std::move(goodbye));
  }
  after(3s, [this] {
    const uint64_t operator_link = 1'000'000'000;  // Sees every remaining actor.
    protocol::ClientMessage hello;
    hello.mutable_hello()->set_protocol_version(1);
    hello.mutable_hello()->set_driver_id(raw(new_id<DriverId>(random_)));
    with_head([&](head::HeadCore& head, BootTime now) {
      return head.on_client_message(now, head::ClientSession{operator_link}, hello);
    });
    v1::ListRequest all;
    all.set_limit(100'000);
    const auto groups = head_->lists().groups(all);
    for (const auto& row : groups.groups()) {
      if (row.state() == "removed") continue;
      if (!row.detached()) fail(fmt::format("group {} outlives its driver", row.id()));
      protocol::ClientMessage remove;
      remove.mutable_remove_group()->set_request_id(row.id());
      remove.mutable_remove_group()->set_group_id(raw(*parse_id<GroupId>(row.id())));
      with_head([&](head::HeadCore& head, BootTime now) {
        return head.on_client_message(now, head::ClientSession{operator_link}, remove);
      });
    }
    const auto actors = head_->lists().actors(head_now(), all);
    for (const auto& row : actors.actors()) {
      if (row.state() == "dead") continue;
      if (!row.detached()) {  // Actors created by a detached actor end with it.
        bool detached_left = false;
        for (const auto& other : actors.actors())
          detached_left = detached_left || (other.detached() && other.state() != "dead");
        if (!detached_left) fail(fmt::format("actor {} outlives its driver", row.id()));
        continue;
      }
      protocol::ClientMessage kill;
      kill.mutable_kill()->set_request_id(row.id());
      kill.mutable_kill()->set_actor_id(raw(*parse_id<ActorId>(row.id())));
      kill.mutable_kill()->set_no_restart(true);
      with_head([&](head::HeadCore& head, BootTime now) {
        return head.on_client_message(now, head::ClientSession{operator_link}, kill);
      });
    }
  });
}

void ClusterSim::check_empty() {
  const auto status = head_->lists().status(head_now());
  v1::ListRequest all;
  if (head_->lists().groups(all).total() != 0) fail("placement groups are left after everybody left");
  for (const auto& [row, value] : rows_) {
    if (row.first == head::kGroupsTable) fail("rows of placement groups are left after everybody left");
  }
  if (!status.used().empty()) fail("resources are in use after everybody left");
  for (const auto& [state, count] : status.actors_by_state()) {
    if (state != "dead") fail(fmt::format("{} actors are {} after everybody left", count, state));
  }
  for (const auto& node : nodes_) {
    if (!node->hosts.empty())
      fail(fmt::format("node {} has {} hosts after everybody left", node->name, node->hosts.size()));
  }
  head_->check_invariants();
}

}  // namespace volador::sim
