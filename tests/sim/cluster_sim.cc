#include "tests/sim/cluster_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::sim {

using namespace std::chrono_literals;

namespace {

constexpr size_t kActorsOfADriver = 25;
constexpr size_t kDriversMax = 4;
constexpr size_t kGroupsOfADriver = 4;
constexpr Time kHeadBoot = 5000s;  // What the head's boot clock says when the run begins.

std::string digits(const std::string& bytes) { return bytes.empty() ? "" : short_id(id_from_raw<ActorId>(bytes)); }

// What a message is and whom it concerns, without anything whose order is not fixed.
std::string brief(const protocol::WorkerMessage& m) {
  using Kind = protocol::WorkerMessage;
  switch (m.kind_case()) {
    case Kind::kRegister: return fmt::format("Register {} with {} hosts", m.register_().incarnation(), m.register_().hosts_size());
    case Kind::kHeartbeat: return fmt::format("Heartbeat {}", m.heartbeat().sequence());
    case Kind::kHostReady: return fmt::format("HostReady {} of {}", digits(m.host_ready().host_id()), digits(m.host_ready().actor_id()));
    case Kind::kHostEnded: return fmt::format("HostEnded {} of {}", digits(m.host_ended().host_id()), digits(m.host_ended().actor_id()));
    default: return fmt::format("worker message {}", static_cast<int>(m.kind_case()));
  }
}
std::string brief(const protocol::HeadToWorker& m) {
  using Kind = protocol::HeadToWorker;
  switch (m.kind_case()) {
    case Kind::kRegistered: return fmt::format("Registered, {} stale", m.registered().stale_hosts_size());
    case Kind::kHeartbeatAck: return fmt::format("HeartbeatAck {}", m.heartbeat_ack().sequence());
    case Kind::kStartHost:
      return fmt::format("StartHost {} of {} epoch {}", digits(m.start_host().host_id()), digits(m.start_host().spec().actor_id()), m.start_host().epoch());
    case Kind::kEndHost: return fmt::format("EndHost {} grace {}", digits(m.end_host().host_id()), m.end_host().grace_ms());
    default: return fmt::format("head to worker {}", static_cast<int>(m.kind_case()));
  }
}
std::string brief(const protocol::ClientMessage& m) {
  return fmt::format("client message {} {}", static_cast<int>(m.kind_case()),
                     digits(m.has_spawn() ? m.spawn().request_id() : m.has_kill() ? m.kill().actor_id() : m.watch().actor_id()));
}
std::string brief(const protocol::HeadMessage& m) {
  return fmt::format("to client {} {} {} version {}", static_cast<int>(m.kind_case()), digits(m.reply().request_id()), digits(m.actor().actor_id()),
                     m.actor().version());
}

}  // namespace

ClusterSim::ClusterSim(uint64_t seed, const Faults& faults, Sometimes& sometimes)
    : seed_(seed), faults_(faults), sometimes_(sometimes), random_(seed) {
  const size_t nodes = 2 + random_.below(4);
  for (size_t index = 0; index < nodes; ++index) {
    auto node = std::make_unique<Node>();
    node->index = index;
    node->id = new_id<NodeId>(random_);
    node->name = fmt::format("n{}", index);
    node->total.set("cpus", static_cast<Amount>(1 + random_.below(8)) * kUnit);
    node->gpus = static_cast<int>(random_.below(3));
    node->offset = Time(static_cast<int64_t>(random_.below(1'000'000)) * 1'000'000);
    node->drift_ppm = static_cast<int64_t>(random_.below(40'001)) - 20'000;
    nodes_.push_back(std::move(node));
  }
}

ClusterSim::~ClusterSim() = default;

// ---- the loop ----

void ClusterSim::after(Time delay, std::function<void()> run) {
  events_.push({now_ + std::max(delay, Time{0}), ++event_number_, std::move(run)});
}

void ClusterSim::run_until(Time end) {
  while (!events_.empty() && events_.top().at <= end) {
    Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.at;
    event.run();
  }
  now_ = end;
}

Time ClusterSim::random_between(Time least, Time most) {
  return least + Time(static_cast<int64_t>(random_.below(static_cast<uint64_t>((most - least).count()) + 1)));
}

void ClusterSim::note(std::string_view what, std::string_view detail) {
  const auto mix = [&](std::string_view bytes) {
    for (const char byte : bytes) history_ = (history_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3ULL;
  };
  mix(what);
  mix(detail);
  mix(std::to_string(now_.count()));
  if (trace_) fmt::print("{:9.4f} {} {}\n", std::chrono::duration<double>(now_).count(), what, detail);
}

void ClusterSim::fail(const std::string& what) const {
  throw std::runtime_error(fmt::format("seed {} at {:.3f} s: {}", seed_, std::chrono::duration<double>(now_).count(), what));
}

void ClusterSim::run(Time busy) {
  start_head();
  for (auto& node : nodes_) after(random_between(0ms, 500ms), [this, index = node->index] { boot_worker(*nodes_[index]); });
  after(random_between(0ms, 500ms), [this] { start_driver(); });
  after(100ms, [this] { commit_round(); });
  after(2s, [this] { next_fault(); });
  run_until(busy);
  heal();
  run_until(now_ + 60s);
  check_healed();
  hosts_ended_before_leaving_ = hosts_ended_;
  leave();
  run_until(now_ + 25s);
  check_empty();
}

// ---- the head ----

BootTime ClusterSim::head_now() const { return BootTime(kHeadBoot + now_); }

void ClusterSim::start_head() {
  if (head_) return;
  ++head_number_;
  note("head starts");
  head::Options options;
  options.cluster_name = "sim";
  options.limits.dead_actors = 100'000;
  options.times.reserve_after = std::chrono::milliseconds(5000);
  head_random_ = std::make_unique<SeededRandom>(random_.next());
  head_ = std::make_unique<head::HeadCore>(options, *head_random_);
  for (const auto& [row, value] : rows_) head_->load(row.first, row.second, value);
  with_head([](head::HeadCore& head, BootTime now) { return head.start(now); });
  after(100ms, [this, number = head_number_] { head_tick(number); });
}

void ClusterSim::crash_head() {
  if (!head_) return;
  note("head crashes");
  head_.reset();
  head_frozen_until_ = now_;
  // Batches may be durable although nothing of them has left.
  const uint64_t durable = batches_.empty() ? 0 : random_.below(batches_.size() + 1);
  for (uint64_t at = 0; at < durable; ++at) {
    if (!batches_[at].actions.journal.empty()) sometimes_.happened("a batch was durable whose messages never left");
    for (const auto& mutation : batches_[at].actions.journal) {
      if (mutation.value) {
        rows_[{mutation.table, mutation.key}] = *mutation.value;
      } else {
        rows_.erase({mutation.table, mutation.key});
      }
    }
  }
  if (durable < batches_.size()) sometimes_.happened("a batch was lost with the head");
  batches_.clear();
  for (auto& [id, link] : connections_) {
    if (link.head_open) close_by_head(id);
  }
}

void ClusterSim::with_head(std::function<head::Actions(head::HeadCore&, BootTime)> event) {
  if (!head_) return;
  take(event(*head_, head_now()));
  head_->check_invariants();
}

void ClusterSim::head_tick(uint64_t number) {
  if (!head_ || number != head_number_) return;
  if (head_frozen_until_ > now_) {
    after(head_frozen_until_ - now_, [this, number] { head_tick(number); });
    return;
  }
  with_head([](head::HeadCore& head, BootTime now) { return head.on_tick(now); });
  after(100ms, [this, number] { head_tick(number); });
}

void ClusterSim::take(head::Actions actions) {
  if (actions.empty()) return;
  batches_.push_back({head_number_, std::move(actions)});
  if (!committing_) {
    committing_ = true;
    const bool slow = faults_on_ && chance(0.005);
    if (slow) sometimes_.happened("a slow commit");
    after(slow ? random_between(200ms, 1500ms) : random_between(1us, 3ms), [this] { commit_next(); });
  }
}

// One transaction may hold several batches, as the journal's writer makes them.
void ClusterSim::commit_next() {
  committing_ = false;
  const size_t together = std::min<size_t>(batches_.size(), 1 + random_.below(4));
  for (size_t at = 0; at < together; ++at) {
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    for (const auto& mutation : batch.actions.journal) {
      if (mutation.value) {
        rows_[{mutation.table, mutation.key}] = *mutation.value;
      } else {
        rows_.erase({mutation.table, mutation.key});
      }
    }
    release(std::move(batch.actions));
  }
  if (!batches_.empty()) {
    committing_ = true;
    after(random_between(1us, 3ms), [this] { commit_next(); });
  }
}

void ClusterSim::release(head::Actions actions) {
  for (auto& out : actions.to_nodes) {
    if (out.message.has_registered() && out.message.registered().stale_hosts_size() > 0) sometimes_.happened("a stale host was refused at its return");
    if (out.message.has_end_host() && out.message.end_host().cause().kind() == protocol::DeathCause::LEASE_LOST) {
      sometimes_.happened("a stale epoch was refused");
    }
    send(static_cast<uint64_t>(out.session), false, std::move(out.message));
  }
  for (auto& out : actions.to_clients) send(static_cast<uint64_t>(out.session), false, std::move(out.message));
  for (const auto session : actions.close_nodes) close_by_head(static_cast<uint64_t>(session));
  for (const auto session : actions.close_clients) close_by_head(static_cast<uint64_t>(session));
  for (const auto& event : actions.events) {
    std::string fields;
    for (const auto& [key, value] : event.fields) fields += fmt::format("{}={} ", key, value);
    note(event.text, fields);
    if (event.level == log::Level::kError) fail("the head logged an error: " + event.text);
    if (event.text == "node is gone") sometimes_.happened("a node was given up");
    if (event.text == "placement group is whole again") sometimes_.happened("a lost bundle was held again");
  }
}

// ---- the network ----

uint64_t ClusterSim::connect(bool is_node, size_t peer) {
  if (!head_) return 0;
  const uint64_t id = next_connection_++;
  Connection& link = connections_[id];
  link.id = id;
  link.is_node = is_node;
  link.peer = peer;
  link.head_number = head_number_;
  return id;
}

ClusterSim::Connection* ClusterSim::connection(uint64_t id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

void ClusterSim::send(uint64_t id, bool to_head, Payload payload, bool repeat) {
  Connection* link = connection(id);
  if (link == nullptr || !(to_head ? link->peer_open : link->head_open)) return;
  if (!(to_head ? link->head_open : link->peer_open)) return;  // Nobody reads it.
  if (!repeat && faults_on_ && faults_.repeats && chance(0.03) && !std::holds_alternative<Fin>(payload)) {
    sometimes_.happened("a message was repeated");
    after(random_between(0ms, 2000ms), [this, id, to_head, payload] { send(id, to_head, payload, true); });
  }
  const Time latency = chance(0.02) ? random_between(1ms, 300ms) : random_between(20us, 3ms);
  Time& last = to_head ? link->last_to_head : link->last_to_peer;
  last = std::max({now_ + latency, last, link->stalled_until});
  (to_head ? link->to_head : link->to_peer).push_back(std::move(payload));
  events_.push({last, ++event_number_, [this, id, to_head] { deliver(id, to_head); }});
}

void ClusterSim::deliver(uint64_t id, bool to_head) {
  Connection* link = connection(id);
  if (link == nullptr) return;
  auto& queue = to_head ? link->to_head : link->to_peer;
  if (queue.empty()) return;
  Time wait = link->stalled_until - now_;
  if (to_head) wait = std::max(wait, head_frozen_until_ - now_);
  if (!to_head && link->is_node) wait = std::max(wait, nodes_[link->peer]->worker_frozen_until - now_);
  if (wait > Time{0}) {
    after(wait, [this, id, to_head] { deliver(id, to_head); });
    return;
  }
  Payload payload = std::move(queue.front());
  queue.pop_front();
  const bool fin = std::holds_alternative<Fin>(payload);
  std::visit([&](const auto& message) {
    const std::string other_end = fmt::format("{} {}", link->is_node ? "node" : "driver", link->peer);
    if constexpr (std::is_same_v<std::decay_t<decltype(message)>, Fin>) {
      note("end of stream", other_end);
    } else {
      note(brief(message), other_end);
    }
  }, payload);
  if (to_head) {
    if (!link->head_open || link->head_number != head_number_ || !head_) return;
    const bool is_node = link->is_node;
    if (fin) link->head_open = false;
    with_head([&](head::HeadCore& head, BootTime now) {
      if (is_node) {
        const head::NodeSession session{id};
        return fin ? head.on_node_lost(now, session) : head.on_node_message(now, session, std::get<protocol::WorkerMessage>(payload));
      }
      const head::ClientSession session{id};
      return fin ? head.on_client_lost(now, session) : head.on_client_message(now, session, std::get<protocol::ClientMessage>(payload));
    });
  } else {
    if (!link->peer_open) return;
    if (fin) link->peer_open = false;
    if (link->is_node) {
      Node& node = *nodes_[link->peer];
      if (node.connection != id || node.core == nullptr) return;
      if (fin) {
        node_lost(node);
      } else {
        node_received(node, std::move(payload));
      }
    } else {
      Driver& driver = *drivers_[link->peer];
      if (driver.connection != id) return;
      if (fin) {
        driver_lost(driver);
      } else {
        driver_received(driver, std::move(payload));
      }
    }
  }
  drop_if_closed(id);
}

void ClusterSim::drop_if_closed(uint64_t id) {
  const auto found = connections_.find(id);
  if (found != connections_.end() && !found->second.peer_open && !found->second.head_open) connections_.erase(found);
}

// What it sent before still arrives, then the head learns of the end.
void ClusterSim::close_by_peer(uint64_t id) {
  Connection* link = connection(id);
  if (link == nullptr || !link->peer_open) return;
  send(id, true, Fin{});
  link->peer_open = false;
  link->to_peer.clear();
}

void ClusterSim::close_by_head(uint64_t id) {
  Connection* link = connection(id);
  if (link == nullptr || !link->head_open) return;
  send(id, false, Fin{});
  link->head_open = false;
  link->to_head.clear();
}

// What is on its way is lost; both sides learn of the end within a tenth of a second.
void ClusterSim::cut(uint64_t id) {
  Connection* link = connection(id);
  if (link == nullptr) return;
  link->to_head.clear();
  link->to_peer.clear();
  link->stalled_until = now_;
  for (const bool to_head : {true, false}) {
    if (!(to_head ? link->head_open : link->peer_open)) continue;
    Time& last = to_head ? link->last_to_head : link->last_to_peer;
    last = now_ + random_between(0ms, 100ms);
    (to_head ? link->to_head : link->to_peer).push_back(Fin{});
    events_.push({last, ++event_number_, [this, id, to_head] { deliver(id, to_head); }});
  }
}

// ---- nodes ----

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
          if (found == n.hosts.end() || found->second.process) return;  // It came up meanwhile and is being killed.
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

// It lends its CPUs, or takes them back; as of a task that waits for others.
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
  after(random_between(1ms, 20ms + within), [this, index = node.index, generation = node.generation, id] { host_exits(index, generation, id, 9); });
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
    if (Connection* link = connection(node.connection)) {  // No word of it reaches the head.
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
  after(machine ? random_between(1s, 8s) : random_between(20ms, 5s), [this, index = node.index] { boot_worker(*nodes_[index]); });
}

void ClusterSim::orphan_gone(size_t index, HostId id) { nodes_[index]->orphans.erase(id); }

// Every host that runs tries to commit; the oracle lets nothing pass that the head must exclude.
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
        if (!alone) fail(fmt::format("actor {}: epochs {} and {} may both commit", to_string(host.actor), entry->second->epoch, host.epoch));
        uint64_t& epoch = committed_epoch_[host.actor];
        if (host.epoch < epoch) fail(fmt::format("actor {}: epoch {} commits after epoch {}", to_string(host.actor), host.epoch, epoch));
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
  if (cpus > node.total.get("cpus")) fail(fmt::format("node {} runs hosts with {} of {} CPUs", node.name, format_amount(cpus), format_amount(node.total.get("cpus"))));
  for (const auto& [gpu, used] : devices) {
    if (used > kUnit || gpu >= node.gpus) fail(fmt::format("node {} runs hosts with {} of GPU {}", node.name, format_amount(used), gpu));
  }
}

// ---- drivers ----

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
        sometimes_.happened(message.reply().group().state() == protocol::GROUP_READY ? "a placement group was ready at once" : "a placement group waited");
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
  if (driver.welcomed) send(driver.connection, true, std::move(message));  // Else it says all of them when it is.
}

// At once into the worker's socket, which reads it when it runs.
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

// A handle goes to a host as an argument; the driver, whose call has ended then, may drop its own at once.
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
        if (nodes_[n]->generation != g || found == nodes_[n]->hosts.end() || found->second.handles.erase(actor) == 0) return;
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

// What somebody holds has not ended for want of handles; what nobody holds has ended.
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
  const auto actors = head_->list_actors(head_now(), all);
  for (const auto& row : actors.actors()) {
    const ActorId id = *parse_id<ActorId>(row.id());
    const auto wish = wishes_.find(id);
    if (wish == wishes_.end() || !wish->second.ends_with_handles) continue;
    const bool unheld = row.state() == "dead" && row.reason().find("had a handle") != std::string::npos;
    if (unheld) sometimes_.happened("an actor ended with its last handle");
    if (unheld && held.contains(id)) fail(fmt::format("actor {} ended although somebody has a handle on it", row.id()));
    if (row.state() != "dead" && !held.contains(id)) fail(fmt::format("actor {} is {} although nobody has a handle on it", row.id(), row.state()));
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
  switch (random_.below(11)) {
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
  head_frozen_until_ = now_;
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
  const auto nodes = head_->list_nodes(head_now(), all);
  std::set<std::string> alive;
  for (const auto& row : nodes.nodes()) {
    if (row.state() == "alive") alive.insert(row.name());
  }
  if (alive.size() != nodes_.size()) fail(fmt::format("{} of {} nodes are alive", alive.size(), nodes_.size()));
  std::map<std::string, const Host*> running;
  for (const auto& node : nodes_) {
    if (!node->orphans.empty()) fail("orphans after everything was healed");
    for (const auto& [id, host] : node->hosts) {
      if (local(*node) >= host.page->deadline) fail(fmt::format("node {} has no lease after everything was healed", node->name));
      if (!running.emplace(to_string(host.actor), &host).second) fail(fmt::format("actor {} runs twice", to_string(host.actor)));
    }
  }
  const auto actors = head_->list_actors(head_now(), all);
  std::map<std::string, const v1::Actor*> rows;
  for (const auto& row : actors.actors()) {
    rows[row.id()] = &row;
    const bool waits = row.state() == "pending" || row.state() == "restarting";
    if (waits && row.reason().empty()) fail(fmt::format("actor {} is {} without a reason", row.id(), row.state()));
    if (row.state() == "starting") fail(fmt::format("actor {} starts for ever", row.id()));
    const auto host = running.find(row.id());
    if (row.state() == "alive") {
      if (host == running.end()) fail(fmt::format("actor {} is alive and has no host", row.id()));
      if (host->second->epoch != row.epoch()) fail(fmt::format("actor {} runs at epoch {}, the head has {}", row.id(), host->second->epoch, row.epoch()));
    } else if (host != running.end()) {
      fail(fmt::format("actor {} is {} and has a host of epoch {}", row.id(), row.state(), host->second->epoch));
    }
  }
  for (const auto& driver : drivers_) {
    if (driver->alive && !driver->open.empty()) fail(fmt::format("driver {} has {} unanswered requests", driver->index, driver->open.size()));
    for (const ActorId id : driver->acknowledged) {
      const auto found = rows.find(to_string(id));
      const Wish& wish = wishes_.at(id);
      if (found == rows.end()) fail(fmt::format("acknowledged actor {} was lost", to_string(id)));
      const v1::Actor& row = *found->second;
      if (row.state() == "dead" && !wish.killed && (driver->alive || wish.detached)) {
        const bool used_up = wish.max_restarts >= 0 && row.restarts() >= wish.max_restarts;
        const bool threw = row.reason().find("constructor threw") != std::string::npos;
        const bool orphaned = row.reason().find("driver") != std::string::npos;  // Its stream was lost for longer than the grace.
        const bool ended_with_group = wish.in_group && row.reason().find("was removed") != std::string::npos;
        const bool unheld = wish.ends_with_handles && row.reason().find("had a handle") != std::string::npos;  // check_handles().
        if (!used_up && !threw && !orphaned && !ended_with_group && !unheld) fail(fmt::format("actor {} is dead without need: {}", row.id(), row.reason()));
      }
      if (!driver->alive && !wish.detached && row.state() != "dead") fail(fmt::format("actor {} outlives its driver", row.id()));
      if (!driver->alive) continue;
      const auto seen = driver->seen.find(id);
      const char* const names[] = {"?", "pending", "starting", "alive", "restarting", "dead"};
      if (seen == driver->seen.end() || names[seen->second.state()] != row.state() || seen->second.epoch() != row.epoch()) {
        fail(fmt::format("driver {} sees actor {} otherwise than the head ({})", driver->index, row.id(), row.state()));
      }
    }
  }
}

// A group that waits says why; one that is ready has every bundle, and its actors run where their bundles are.
void ClusterSim::check_groups() const {
  v1::ListRequest all;
  all.set_limit(100'000);
  std::map<std::string, v1::Group> groups;
  const auto rows = head_->list_groups(head_now(), all);
  for (const auto& row : rows.groups()) groups[row.id()] = row;
  for (const auto& [id, group] : groups) {
    std::set<std::string> nodes;
    for (const v1::Bundle& bundle : group.bundles()) nodes.insert(bundle.node());
    if (group.state() == "removed") fail(fmt::format("group {} is removed and still holds something", id));
    if (group.state() != "ready" && group.reason().empty()) fail(fmt::format("group {} is {} without a reason", id, group.state()));
    if (group.state() == "ready" && nodes.contains("")) fail(fmt::format("group {} is ready with a bundle that has no place", id));
    if (group.state() == "pending" && (nodes.size() != 1 || !nodes.contains(""))) fail(fmt::format("group {} is pending and holds something", id));
  }
  const auto actors = head_->list_actors(head_now(), all);
  for (const auto& row : actors.actors()) {
    if (row.group().empty() || row.state() == "dead") continue;
    const auto group = groups.find(row.group());
    if (group == groups.end()) fail(fmt::format("actor {} is {} in a group that is not there", row.id(), row.state()));
    if (row.state() == "alive" && group->second.bundles(row.bundle()).node() != row.node()) fail(fmt::format("actor {} runs beside its bundle", row.id()));
  }
  for (const auto& driver : drivers_) {
    for (const GroupId id : driver->groups) {
      const bool there = groups.contains(to_string(id));
      if (driver->alive && !there) {
        const std::string end = head_->explain(head_now(), to_string(id)).value_or("");
        if (end.find("driver") == std::string::npos && !end.empty()) fail(fmt::format("group {} of driver {} is gone: {}", to_string(id), driver->index, end));
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
    const uint64_t operator_link = 1'000'000'000;  // Sees every actor that is left.
    protocol::ClientMessage hello;
    hello.mutable_hello()->set_protocol_version(1);
    hello.mutable_hello()->set_driver_id(raw(new_id<DriverId>(random_)));
    with_head([&](head::HeadCore& head, BootTime now) { return head.on_client_message(now, head::ClientSession{operator_link}, hello); });
    v1::ListRequest all;
    all.set_limit(100'000);
    const auto groups = head_->list_groups(head_now(), all);
    for (const auto& row : groups.groups()) {
      if (row.state() == "removed") continue;
      if (!row.detached()) fail(fmt::format("group {} outlives its driver", row.id()));
      protocol::ClientMessage remove;
      remove.mutable_remove_group()->set_request_id(row.id());
      remove.mutable_remove_group()->set_group_id(raw(*parse_id<GroupId>(row.id())));
      with_head([&](head::HeadCore& head, BootTime now) { return head.on_client_message(now, head::ClientSession{operator_link}, remove); });
    }
    const auto actors = head_->list_actors(head_now(), all);
    for (const auto& row : actors.actors()) {
      if (row.state() == "dead") continue;
      if (!row.detached()) {  // What a detached actor made ends with it.
        bool detached_left = false;
        for (const auto& other : actors.actors()) detached_left = detached_left || (other.detached() && other.state() != "dead");
        if (!detached_left) fail(fmt::format("actor {} outlives its driver", row.id()));
        continue;
      }
      protocol::ClientMessage kill;
      kill.mutable_kill()->set_request_id(row.id());
      kill.mutable_kill()->set_actor_id(raw(*parse_id<ActorId>(row.id())));
      kill.mutable_kill()->set_no_restart(true);
      with_head([&](head::HeadCore& head, BootTime now) { return head.on_client_message(now, head::ClientSession{operator_link}, kill); });
    }
  });
}

void ClusterSim::check_empty() {
  const auto status = head_->status(head_now());
  v1::ListRequest all;
  if (head_->list_groups(head_now(), all).total() != 0) fail("placement groups are left after everybody left");
  for (const auto& [row, value] : rows_) {
    if (row.first == head::kGroupsTable) fail("rows of placement groups are left after everybody left");
  }
  if (!status.used().empty()) fail("resources are in use after everybody left");
  for (const auto& [state, count] : status.actors_by_state()) {
    if (state != "dead") fail(fmt::format("{} actors are {} after everybody left", count, state));
  }
  for (const auto& node : nodes_) {
    if (!node->hosts.empty()) fail(fmt::format("node {} has {} hosts after everybody left", node->name, node->hosts.size()));
  }
  head_->check_invariants();
}

}  // namespace volador::sim
