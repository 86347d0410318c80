// Simulates a whole cluster in one thread with a virtual clock: the head's core with a journal, the workers' cores with
// modelled processes, drivers, and a network; a seed determines delays, cuts, stalls, repeats, freezes and crashes.
//
// Only journal rows of committed batches survive the head, and no message of an uncommitted batch is sent. Every node
// has its own boot clock, which starts elsewhere and runs up to 2 % fast or slow. Every host tries to commit
// continuously, by the lease page of its worker, like real hosts; an oracle outside the cluster decides whether it may.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "head/kernel/core.h"
#include "runtime/random.h"
#include "runtime/resources.h"
#include "worker/core/shared_hosts.h"
#include "worker/core/worker_core.h"

namespace volador::sim {

using Time = std::chrono::nanoseconds;  // Since the start of the run.

struct Faults {
  bool cuts = true;            // A connection ends; both sides see it.
  bool stalls = true;          // Nothing is delivered for a while, then everything in order.
  bool repeats = true;         // A message is delivered a second time, at once or later.
  bool node_freezes = true;    // Worker and hosts stop running temporarily.
  bool worker_freezes = true;  // Only the worker does.
  bool worker_crashes = true;  // Its hosts follow within a second; a new worker starts on the machine.
  bool machine_crashes = true;
  bool head_crashes = true;
  bool head_freezes = true;
  bool driver_deaths = true;
  bool host_crashes = true;
  bool start_failures = true;
  bool store_outages = true;  // The journal stores nothing, as on a full disk; the head may crash meanwhile.
  std::chrono::milliseconds between{1200};  // Mean.
  std::chrono::milliseconds head_down_max{9000};
};

// Counters of events; over all seeds each must be above 0.
struct Sometimes {
  std::map<std::string, uint64_t> counts;
  void happened(const std::string& what) { ++counts[what]; }
};

class ClusterSim {
 public:
  ClusterSim(uint64_t seed, const Faults& faults, Sometimes& sometimes);
  ~ClusterSim();

  // Injects faults for `busy`, then heals everything and checks, then disconnects all members and checks again.
  void run(Time busy);
  // Hash of all deliveries and actions, in order.
  uint64_t history() const { return history_; }
  uint64_t hosts_ended() const { return hosts_ended_; }
  uint64_t hosts_ended_before_leaving() const { return hosts_ended_before_leaving_; }
  void without_kills() { kills_ = false; }
  void trace() { trace_ = true; }  // Prints the history while it runs.
  uint64_t commits() const { return commits_; }

 private:
  struct Fin {};
  using Payload = std::variant<Fin, protocol::WorkerMessage, protocol::HeadToWorker, protocol::ClientMessage,
                               protocol::HeadMessage>;

  struct Connection {
    uint64_t id = 0;
    bool is_node = false;
    size_t peer = 0;  // Index of the node or driver.
    bool peer_open = true;
    bool head_open = true;
    uint64_t head_number = 0;  // The head process that it is connected to.
    Time stalled_until{0};
    std::deque<Payload> to_head;
    std::deque<Payload> to_peer;
    Time last_to_head{0};
    Time last_to_peer{0};
  };
  struct Page {
    BootTime deadline{};
  };
  struct Host {
    HostId id;
    ActorId actor;
    uint64_t epoch = 0;
    ResourceSet resources;
    std::vector<int32_t> gpus;
    std::shared_ptr<Page> page;
    bool process = false;  // True: running; false: being launched.
    bool ending = false;
    bool lent = false;  // Its CPUs were lent at some time.
    bool shared = false;
    std::set<ActorId> handles;  // Handles on actors of drivers that were passed to it.
    uint64_t holds_said = 0;
  };
  struct Node {
    size_t index = 0;
    NodeId id;
    std::string name;
    ResourceSet total;
    int gpus = 0;
    Time offset{0};
    int64_t drift_ppm = 0;
    std::unique_ptr<worker::WorkerCore> core;  // Null while the machine or the worker is down.
    uint64_t generation = 0;
    uint64_t connection = 0;  // 0: none.
    Time worker_frozen_until{0};
    Time hosts_frozen_until{0};
    std::map<HostId, Host> hosts;    // Hosts of this worker process.
    worker::SharedHosts shared;      // Hosts that share a process.
    std::map<HostId, Host> orphans;  // Hosts of a crashed worker, until they are gone.
    std::shared_ptr<Page> page;
  };
  struct Request {
    protocol::ClientMessage message;
    bool is_spawn = false;
    ActorId actor;
    GroupId group = {};  // Group that it creates or removes.
  };
  struct Driver {
    size_t index = 0;
    DriverId id;
    bool alive = true;
    bool welcomed = false;
    uint64_t connection = 0;
    std::map<std::string, Request> open;  // Unanswered requests by id.
    std::map<ActorId, protocol::ActorInfo> seen;
    std::set<ActorId> acknowledged;
    std::set<GroupId> groups;   // Acknowledged, not removed.
    std::set<ActorId> handles;  // Handles on actors that end with them.
    uint64_t holds_said = 0;
  };
  struct Wish {  // Expected state of a spawned actor.
    size_t driver = 0;
    bool detached = false;
    bool killed = false;
    int32_t max_restarts = 0;
    bool in_group = false;  // Its group may end it.
    bool ends_with_handles = false;
  };
  struct Batch {
    uint64_t head_number = 0;
    head::Actions actions;
  };
  struct Event {
    Time at{0};
    uint64_t number = 0;
    std::function<void()> run;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };

  // The loop.
  void after(Time delay, std::function<void()> run);
  void run_until(Time end);
  Time random_between(Time least, Time most);
  bool chance(double probability) { return random_.real() < probability; }
  void note(std::string_view what, std::string_view detail = {});
  void fail(const std::string& what) const;

  // The head.
  void start_head();
  void crash_head();
  void with_head(std::function<head::Actions(head::HeadCore&, BootTime)> event);
  void take(head::Actions actions);
  void commit_next();
  bool store_is_away() const { return now_ < store_away_until_; }
  void send_unjournaled(head::Actions& actions);
  bool refuse_while_read_only(uint64_t link, const protocol::ClientMessage& message);
  void release(head::Actions actions);
  void head_tick(uint64_t number);
  BootTime head_now() const;

  // The network.
  uint64_t connect(bool is_node, size_t peer);
  Connection* connection(uint64_t id);
  void send(uint64_t id, bool to_head, Payload payload, bool repeat = false);
  void deliver(uint64_t id, bool to_head);
  void close_by_peer(uint64_t id);
  void close_by_head(uint64_t id);
  void cut(uint64_t id);
  void drop_if_closed(uint64_t id);

  // Nodes.
  BootTime local(const Node& node) const;
  void boot_worker(Node& node);
  void connect_node(size_t index, uint64_t generation);
  void node_event(size_t index, uint64_t generation, std::function<void(Node&)> run);
  void worker_tick(size_t index, uint64_t generation);
  void node_received(Node& node, Payload&& payload);
  void node_lost(Node& node);
  void apply(Node& node, worker::Actions actions);
  void launch(Node& node, const worker::LaunchHost& action);
  void host_ready(size_t index, uint64_t generation, HostId id);
  void host_waits(size_t index, uint64_t generation, HostId id, bool waits);
  void end_process(Node& node, HostId id, Time within);
  void host_exits(size_t index, uint64_t generation, HostId id, int signal);
  void crash_worker(Node& node, bool machine);
  void orphan_gone(size_t index, HostId id);
  void commit_round();
  void check_usage(const Node& node);
  protocol::Register registration(const Node& node) const;

  // Drivers.
  void start_driver();
  void connect_driver(size_t index);
  void driver_received(Driver& driver, Payload&& payload);
  void driver_lost(Driver& driver);
  void driver_acts(size_t index);
  void ask(Driver& driver, Request request);
  void make_or_remove_group(Driver& driver);
  void pass_or_drop_handle(Driver& driver);
  void driver_says(Driver& driver, protocol::HoldActors holds);
  void host_says(size_t index, uint64_t generation, HostId id, protocol::HoldActors holds);
  static protocol::HoldActors all_of(const std::set<ActorId>& handles);
  void check_handles() const;
  void check_groups() const;
  protocol::ClientMessage spawn_message(const Driver& driver, ActorId actor, Wish& wish);

  // Faults and checks.
  void next_fault();
  void one_fault();
  void heal();
  void check_healed();
  void leave();
  void check_empty();

  uint64_t seed_;
  Faults faults_;
  Sometimes& sometimes_;
  SeededRandom random_;
  Time now_{0};
  uint64_t event_number_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t history_ = 0xcbf29ce484222325ULL;
  uint64_t hosts_ended_ = 0;
  uint64_t hosts_ended_before_leaving_ = 0;
  bool kills_ = true;
  bool trace_ = false;
  uint64_t commits_ = 0;
  bool faults_on_ = true;

  std::unique_ptr<head::HeadCore> head_;
  std::unique_ptr<SeededRandom> head_random_;
  uint64_t head_number_ = 0;
  Time head_frozen_until_{0};
  std::deque<Batch> batches_;
  bool committing_ = false;
  Time store_away_until_{0};
  std::map<std::pair<std::string, std::string>, std::string> rows_;  // Durable.

  std::map<uint64_t, Connection> connections_;
  uint64_t next_connection_ = 1;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Driver>> drivers_;
  std::map<ActorId, Wish> wishes_;
  bool drivers_act_ = true;

  // The oracle.
  std::map<ActorId, uint64_t> committed_epoch_;
};

}  // namespace volador::sim
