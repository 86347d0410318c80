// Workers of the simulated cluster and the processes that they start.
#include <fmt/format.h>

#include <algorithm>

#include "tests/sim/cluster_sim.h"

namespace volador::sim {

using namespace std::chrono_literals;

BootTime ClusterSim::local(const Node& node) const {
  return BootTime(node.offset + now_ + Time(now_.count() / 1'000'000 * node.drift_ppm));
}

protocol::Register ClusterSim::registration(const Node& node) const {
  protocol::Register message;
  message.set_protocol_version(1);
  message.set_version("0.1.0");
  message.set_node_id(raw(node.id));
  message.set_incarnation(fmt::format("{}-{}", node.name, node.generation));
  message.set_name(node.name);
  message.set_machine_id(node.name);
  (*message.mutable_total()->mutable_amounts())["cpus"] = node.total.get("cpus");
  (*message.mutable_total()->mutable_amounts())["gpus"] = node.gpus * kUnit;
  for (int gpu = 0; gpu < node.gpus; ++gpu) message.add_gpus()->set_index(gpu);
  return message;
}

void ClusterSim::boot_worker(Node& node) {
  if (node.core != nullptr) return;
  ++node.generation;
  note("worker starts", node.name);
  worker::CoreOptions options;
  options.node_name = node.name;
  options.registration = registration(node);
  node.core = std::make_unique<worker::WorkerCore>(options);
  node.page = std::make_shared<Page>();
  node.worker_frozen_until = now_;
  connect_node(node.index, node.generation);
  after(100ms, [this, index = node.index, generation = node.generation] { worker_tick(index, generation); });
}

void ClusterSim::node_event(size_t index, uint64_t generation, std::function<void(Node&)> run) {
  Node& node = *nodes_[index];
  if (node.core == nullptr || node.generation != generation) return;
  if (node.worker_frozen_until > now_) {
    after(node.worker_frozen_until - now_, [this, index, generation, run] { node_event(index, generation, run); });
    return;
  }
  run(node);
  if (node.core != nullptr) node.core->check_invariants();
}

void ClusterSim::connect_node(size_t index, uint64_t generation) {
  node_event(index, generation, [this](Node& node) {
    if (node.connection != 0) return;
    node.connection = connect(true, node.index);
    if (node.connection == 0) {
      after(random_between(100ms, 800ms), [this, i = node.index, g = node.generation] { connect_node(i, g); });
      return;
    }
    apply(node, node.core->on_connected(local(node)));
  });
}

void ClusterSim::node_lost(Node& node) {
  node.connection = 0;
  apply(node, node.core->on_disconnected(local(node)));
  after(random_between(50ms, 800ms), [this, i = node.index, g = node.generation] { connect_node(i, g); });
}

void ClusterSim::node_received(Node& node, Payload&& payload) {
  apply(node, node.core->on_head_message(local(node), std::get<protocol::HeadToWorker>(payload)));
  node.core->check_invariants();
  check_usage(node);
}

void ClusterSim::worker_tick(size_t index, uint64_t generation) {
  node_event(index, generation, [this, index, generation](Node& node) {
    apply(node, node.core->on_tick(local(node), {}));
    after(100ms, [this, index, generation] { worker_tick(index, generation); });
  });
}

void ClusterSim::apply(Node& node, worker::Actions actions) {
  for (worker::Action& action : actions) {
    if (auto* send_out = std::get_if<worker::SendToHead>(&action)) {
      send(node.connection, true, std::move(send_out->message));
    } else if (const auto* start = std::get_if<worker::LaunchHost>(&action)) {
      launch(node, *start);
    } else if (const auto* to_host = std::get_if<worker::SendToHost>(&action)) {
      const auto found = node.hosts.find(to_host->host);
      if (found == node.hosts.end() || !to_host->message.relayed().has_welcome()) continue;
      host_says(node.index, node.generation, to_host->host, all_of(found->second.handles));
    } else if (const auto* end = std::get_if<worker::EndProcess>(&action)) {
      end_process(node, end->host, end->grace);
    } else if (const auto* cancel = std::get_if<worker::CancelLaunch>(&action)) {
      if (const auto found = node.hosts.find(cancel->host); found != node.hosts.end()) found->second.ending = true;
      after(1ms, [this, index = node.index, generation = node.generation, host = cancel->host] {
        node_event(index, generation, [this, host](Node& n) {
          const auto found = n.hosts.find(host);
          if (found == n.hosts.end() || found->second.process) return;  // It started meanwhile and is being killed.
          n.hosts.erase(found);
          n.shared.remove(host);
          apply(n, n.core->on_launch_failed(local(n), host, {}));
        });
      });
    } else if (const auto* lease = std::get_if<worker::SetLeaseDeadline>(&action)) {
      node.page->deadline = lease->deadline;
    } else if (std::holds_alternative<worker::Reconnect>(action)) {
      sometimes_.happened("a worker gave up a silent connection");
      close_by_peer(node.connection);
      drop_if_closed(node.connection);
      node.connection = 0;
      after(random_between(50ms, 800ms), [this, i = node.index, g = node.generation] { connect_node(i, g); });
    } else if (const auto* finish = std::get_if<worker::Finish>(&action)) {
      fail(fmt::format("worker {} finished: {}", node.name, finish->error ? finish->error->message : "no error"));
    }
  }
}

void ClusterSim::launch(Node& node, const worker::LaunchHost& action) {
  Host& host = node.hosts[action.host];
  host.id = action.host;
  host.actor = id_from_raw<ActorId>(action.start.spec().actor_id());
  host.epoch = action.start.epoch();
  host.shared = action.start.spec().isolation() == protocol::ISOLATION_SHARED;
  if (host.shared) node.shared.add(action.host, action.start);
  for (const auto& [name, amount] : action.start.spec().resources().amounts()) host.resources.set(name, amount);
  host.gpus.assign(action.start.gpus().begin(), action.start.gpus().end());
  host.page = node.page;
  if (!action.start.spec().group_id().empty()) sometimes_.happened("an actor ran in a placement group");
  check_usage(node);
  after(random_between(5ms, 80ms), [this, index = node.index, generation = node.generation, id = action.host] {
    node_event(index, generation, [this, id](Node& n) {
      const auto found = n.hosts.find(id);
      if (found == n.hosts.end()) return;
      if (faults_on_ && faults_.start_failures && chance(0.02)) {
        n.hosts.erase(found);
        n.shared.remove(id);
        protocol::DeathCause cause;
        cause.set_kind(protocol::DeathCause::START_FAILED);
        apply(n, n.core->on_launch_failed(local(n), id, cause));
        return;
      }
      found->second.process = true;
      protocol::HostStart extra;
      if (found->second.shared) extra.set_shared_host_id(raw(*n.shared.process_of(id)));
      apply(n, n.core->on_launched(local(n), id, 1000, extra));
      after(random_between(10ms, 400ms), [this, i = n.index, g = n.generation, id] { host_ready(i, g, id); });
    });
  });
}

void ClusterSim::host_ready(size_t index, uint64_t generation, HostId id) {
  node_event(index, generation, [this, id](Node& node) {
    const auto found = node.hosts.find(id);
    if (found == node.hosts.end() || !found->second.process) return;
    if (faults_on_ && faults_.start_failures && chance(0.02)) {
      protocol::FromHost message;
      message.mutable_failed()->mutable_cause()->set_kind(protocol::DeathCause::CONSTRUCTOR_THREW);
      apply(node, node.core->on_host_message(local(node), id, message));
      host_exits(node.index, node.generation, id, 0);
      return;
    }
    protocol::FromHost message;
    message.mutable_ready()->set_host_id(raw(id));
    apply(node, node.core->on_host_message(local(node), id, message));
    if (drivers_act_ && chance(0.1)) {
      Driver nobody;
      Wish wish;
      protocol::FromHost relay;
      const auto child = new_id<ActorId>(random_);
      *relay.mutable_relay() = spawn_message(nobody, child, wish);
      if (wish.ends_with_handles) found->second.handles.insert(child);
      relay.mutable_relay()->mutable_spawn()->mutable_spec()->clear_driver_id();
      relay.mutable_relay()->mutable_spawn()->mutable_spec()->clear_name();
      apply(node, node.core->on_host_message(local(node), id, relay));
      sometimes_.happened("an actor spawned another");
    }
    if (drivers_act_ && chance(0.15)) {
      host_waits(node.index, node.generation, id, true);
      after(random_between(20ms, 3s), [this, n = node.index, g = node.generation, id] { host_waits(n, g, id, false); });
    }
  });
}

// Lends its CPUs, or takes them back, like a task that waits for others.
void ClusterSim::host_waits(size_t index, uint64_t generation, HostId id, bool waits) {
  node_event(index, generation, [this, id, waits](Node& node) {
    const auto found = node.hosts.find(id);
    if (found == node.hosts.end() || !found->second.process) return;
    found->second.lent = true;
    protocol::FromHost message;
    message.mutable_relay()->mutable_waits()->set_waits(waits);
    apply(node, node.core->on_host_message(local(node), id, message));
    sometimes_.happened(waits ? "a host lent its CPUs" : "a host took its CPUs back");
  });
}

void ClusterSim::end_process(Node& node, HostId id, Time within) {
  const auto found = node.hosts.find(id);
  if (found == node.hosts.end()) return;
  found->second.ending = true;
  after(random_between(1ms, 20ms + within),
        [this, index = node.index, generation = node.generation, id] { host_exits(index, generation, id, 9); });
}

// The process ends now; its worker sees it when it runs.
void ClusterSim::host_exits(size_t index, uint64_t generation, HostId id, int signal) {
  Node& node = *nodes_[index];
  if (node.core == nullptr || node.generation != generation) return;
  const auto found = node.hosts.find(id);
  if (found == node.hosts.end() || !found->second.process) return;
  found->second.process = false;
  ++hosts_ended_;
  note("host exits", short_id(id));
  node_event(index, generation, [this, id, signal](Node& n) {
    if (n.hosts.erase(id) == 0) return;
    n.shared.remove(id);
    worker::HostExit exit;
    exit.signal = signal;
    apply(n, n.core->on_host_exit(local(n), id, exit));
  });
}

void ClusterSim::crash_worker(Node& node, bool machine) {
  if (node.core == nullptr) return;
  note(machine ? "machine crashes" : "worker crashes", node.name);
  node.core.reset();
  if (machine) {
    node.orphans.clear();
    if (Connection* link = connection(node.connection)) {  // None of its messages reaches the head.
      link->peer_open = false;
      link->to_peer.clear();
      link->to_head.clear();
      drop_if_closed(node.connection);
    }
  } else {
    for (auto& [id, host] : node.hosts) {
      if (!host.process) continue;
      node.orphans[id] = host;
      after(random_between(0ms, 1000ms), [this, index = node.index, id = id] { orphan_gone(index, id); });
    }
    close_by_peer(node.connection);
    drop_if_closed(node.connection);
  }
  hosts_ended_ += node.hosts.size();
  node.hosts.clear();
  node.shared = worker::SharedHosts();
  node.connection = 0;
  node.hosts_frozen_until = now_;
  after(machine ? random_between(1s, 8s) : random_between(20ms, 5s),
        [this, index = node.index] { boot_worker(*nodes_[index]); });
}

void ClusterSim::orphan_gone(size_t index, HostId id) { nodes_[index]->orphans.erase(id); }

// Every running host tries to commit; the oracle rejects commits that the head must exclude.
void ClusterSim::commit_round() {
  std::map<ActorId, const Host*> committing;
  for (const auto& node : nodes_) {
    if (node->hosts_frozen_until > now_) continue;
    for (const auto* hosts : {&node->hosts, &node->orphans}) {
      for (const auto& [id, host] : *hosts) {
        if (!host.process) continue;
        if (local(*node) >= host.page->deadline) {
          sometimes_.happened("a parked host did not commit");
          continue;
        }
        const auto [entry, alone] = committing.emplace(host.actor, &host);
        if (!alone)
          fail(fmt::format("actor {}: epochs {} and {} may both commit", to_string(host.actor), entry->second->epoch,
                           host.epoch));
        uint64_t& epoch = committed_epoch_[host.actor];
        if (host.epoch < epoch)
          fail(fmt::format("actor {}: epoch {} commits after epoch {}", to_string(host.actor), host.epoch, epoch));
        if (host.epoch > epoch && epoch > 0) sometimes_.happened("a later epoch took over");
        epoch = host.epoch;
        ++commits_;
        history_ = history_ * 31 + host.epoch;
      }
    }
  }
  after(random_between(30ms, 120ms), [this] { commit_round(); });
}

void ClusterSim::check_usage(const Node& node) {
  Amount cpus = 0;
  std::map<int32_t, Amount> devices;
  for (const auto& [id, host] : node.hosts) {
    if (host.ending) continue;
    if (!host.lent) cpus += host.resources.get("cpus");  // Others may hold them by now.
    for (const int32_t gpu : host.gpus) devices[gpu] += std::min(host.resources.get("gpus"), kUnit);
  }
  if (cpus > node.total.get("cpus"))
    fail(fmt::format("node {} runs hosts with {} of {} CPUs", node.name, format_amount(cpus),
                     format_amount(node.total.get("cpus"))));
  for (const auto& [gpu, used] : devices) {
    if (used > kUnit || gpu >= node.gpus)
      fail(fmt::format("node {} runs hosts with {} of GPU {}", node.name, format_amount(used), gpu));
  }
}

}  // namespace volador::sim
