#include "tests/sim/cluster_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::sim {

using namespace std::chrono_literals;

namespace {

constexpr Time kHeadBoot = 5000s;  // The head's boot clock at the start of the run.

std::string digits(const std::string& bytes) { return bytes.empty() ? "" : short_id(id_from_raw<ActorId>(bytes)); }

// Kind and subject of a message, without parts whose order is not fixed.
std::string brief(const protocol::WorkerMessage& m) {
  using Kind = protocol::WorkerMessage;
  switch (m.kind_case()) {
    case Kind::kRegister:
      return fmt::format("Register {} with {} hosts", m.register_().incarnation(), m.register_().hosts_size());
    case Kind::kHeartbeat:
      return fmt::format("Heartbeat {}", m.heartbeat().sequence());
    case Kind::kHostReady:
      return fmt::format("HostReady {} of {}", digits(m.host_ready().host_id()), digits(m.host_ready().actor_id()));
    case Kind::kHostEnded:
      return fmt::format("HostEnded {} of {}", digits(m.host_ended().host_id()), digits(m.host_ended().actor_id()));
    default:
      return fmt::format("worker message {}", static_cast<int>(m.kind_case()));
  }
}
std::string brief(const protocol::HeadToWorker& m) {
  using Kind = protocol::HeadToWorker;
  switch (m.kind_case()) {
    case Kind::kRegistered:
      return fmt::format("Registered, {} stale", m.registered().stale_hosts_size());
    case Kind::kHeartbeatAck:
      return fmt::format("HeartbeatAck {}", m.heartbeat_ack().sequence());
    case Kind::kStartHost:
      return fmt::format("StartHost {} of {} epoch {}", digits(m.start_host().host_id()),
                         digits(m.start_host().spec().actor_id()), m.start_host().epoch());
    case Kind::kEndHost:
      return fmt::format("EndHost {} grace {}", digits(m.end_host().host_id()), m.end_host().grace_ms());
    default:
      return fmt::format("head to worker {}", static_cast<int>(m.kind_case()));
  }
}
std::string brief(const protocol::ClientMessage& m) {
  return fmt::format("client message {} {}", static_cast<int>(m.kind_case()),
                     digits(m.has_spawn()  ? m.spawn().request_id()
                            : m.has_kill() ? m.kill().actor_id()
                                           : m.watch().actor_id()));
}
std::string brief(const protocol::HeadMessage& m) {
  return fmt::format("to client {} {} {} version {}", static_cast<int>(m.kind_case()), digits(m.reply().request_id()),
                     digits(m.actor().actor_id()), m.actor().version());
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
  throw std::runtime_error(
      fmt::format("seed {} at {:.3f} s: {}", seed_, std::chrono::duration<double>(now_).count(), what));
}

void ClusterSim::run(Time busy) {
  start_head();
  for (auto& node : nodes_)
    after(random_between(0ms, 500ms), [this, index = node->index] { boot_worker(*nodes_[index]); });
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
  // Batches may be durable although none of their messages has left.
  const uint64_t durable = batches_.empty() || store_is_away() ? 0 : random_.below(batches_.size() + 1);
  if (store_is_away()) sometimes_.happened("the head crashed while its store was away");
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
  if (!batches_.empty() || !actions.journal.empty()) send_unjournaled(actions);
  if (actions.empty()) return;
  batches_.push_back({head_number_, std::move(actions)});
  if (!committing_) {
    committing_ = true;
    const bool slow = faults_on_ && chance(0.005);
    if (slow) sometimes_.happened("a slow commit");
    after(slow ? random_between(200ms, 1500ms) : random_between(1us, 3ms), [this] { commit_next(); });
  }
}

// As in the head's shell: messages that do not depend on the journal do not wait for it.
void ClusterSim::send_unjournaled(head::Actions& actions) {
  std::erase_if(actions.to_nodes, [this](head::ToNode& one) {
    if (!one.message.has_heartbeat_ack()) return false;
    if (store_is_away()) sometimes_.happened("a heartbeat was acknowledged while the store was away");
    send(static_cast<uint64_t>(one.session), false, std::move(one.message));
    return true;
  });
}

// As in the head's shell.
bool ClusterSim::refuse_while_read_only(uint64_t link, const protocol::ClientMessage& message) {
  if (!store_is_away()) return false;
  const std::string* request = nullptr;
  if (message.has_spawn()) request = &message.spawn().request_id();
  if (message.has_kill()) request = &message.kill().request_id();
  if (message.has_create_group()) request = &message.create_group().request_id();
  if (message.has_remove_group()) request = &message.remove_group().request_id();
  if (request == nullptr || head_->has_accepted(message)) return false;
  sometimes_.happened("a request was refused while the store was away");
  protocol::HeadMessage answer;
  answer.mutable_reply()->set_request_id(*request);
  answer.mutable_reply()->mutable_error()->set_code(static_cast<int>(ErrorCode::kUnavailable));
  answer.mutable_reply()->mutable_error()->set_message("the head is read-only");
  send(link, false, std::move(answer));
  return true;
}

// One transaction may contain several batches, as the journal's writer creates them.
void ClusterSim::commit_next() {
  if (store_is_away()) {
    after(store_away_until_ - now_, [this] { commit_next(); });
    return;
  }
  committing_ = false;
  const size_t together = std::min<size_t>(batches_.size(), 1 + random_.below(4));
  for (size_t at = 0; at < together; ++at) {
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    for (const auto& mutation : batch.actions.journal) {
      // The order of a value's maps is not fixed: its bytes are summed.
      const std::string value = mutation.value.value_or("");
      const uint64_t sum = std::accumulate(value.begin(), value.end(), uint64_t{0}, [](uint64_t before, char byte) {
        return before + static_cast<uint8_t>(byte);
      });
      note(mutation.table, fmt::format("{} {} {}", to_string(id_from_raw<ActorId>(mutation.key)), value.size(), sum));
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
    if (out.message.has_registered() && out.message.registered().stale_hosts_size() > 0)
      sometimes_.happened("a stale host was refused at its return");
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
  if (!(to_head ? link->head_open : link->peer_open)) return;  // Nothing reads it.
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
  std::visit(
      [&](const auto& message) {
        const std::string other_end = fmt::format("{} {}", link->is_node ? "node" : "driver", link->peer);
        if constexpr (std::is_same_v<std::decay_t<decltype(message)>, Fin>) {
          note("end of stream", other_end);
        } else {
          note(brief(message), fmt::format("{} {}", other_end, message.ByteSizeLong()));
        }
      },
      payload);
  if (to_head) {
    if (!link->head_open || link->head_number != head_number_ || !head_) return;
    const bool is_node = link->is_node;
    if (fin) link->head_open = false;
    if (!is_node && !fin && refuse_while_read_only(id, std::get<protocol::ClientMessage>(payload))) return;
    with_head([&](head::HeadCore& head, BootTime now) {
      if (is_node) {
        const head::NodeSession session{id};
        return fin ? head.on_node_lost(now, session)
                   : head.on_node_message(now, session, std::get<protocol::WorkerMessage>(payload));
      }
      const head::ClientSession session{id};
      return fin ? head.on_client_lost(now, session)
                 : head.on_client_message(now, session, std::get<protocol::ClientMessage>(payload));
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

// Earlier messages still arrive, then the head sees the end.
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

// Messages in transit are lost; both sides see the end within a tenth of a second.
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

}  // namespace volador::sim
