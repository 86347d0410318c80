// Session of a process in a cluster: a driver (with its own stream to the head) or a host (through its worker).
//
// States of a remote actor:
//
//   watch ──► unknown ──info──► waiting (pending, starting, restarting: calls are queued)
//                                  │  ▲
//                            ALIVE │  │ its host or the connection ended
//                                  ▼  │
//                               connected (calls are sent at once) ──DEAD──► dead (calls fail with the cause)
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "runtime/actor/cluster_groups.h"
#include "runtime/actor/handle_holds.h"
#include "runtime/actor/outage_clock.h"
#include "runtime/actor/rebuild_requests.h"
#include "runtime/actor/session.h"
#include "runtime/actor/unacked_updates.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/clock.h"
#include "runtime/net/channel.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/random.h"

namespace volador::security {
class TlsContext;
}

namespace volador {

// Dependencies, identity and limits of a ClusterSession.
struct ClusterSessionOptions {
  net::IoLoop* loop = nullptr;  // Outlives the session.
  const Clock* clock = nullptr;
  Random* random = nullptr;  // Thread safe.
  // Sends to the head; never blocks. May discard without a connection: on_connected() resends everything unanswered.
  std::function<void(protocol::ClientMessage)> send;
  std::optional<protocol::Hello> hello;  // For a driver; hosts need none.
  DriverId driver;
  std::string machine_id;
  std::string node_name;                            // Set inside an actor.
  std::string program_sha256;                       // Program of spawned actors: this one.
  std::shared_ptr<const security::TlsContext> tls;  // For connections to other machines, which fail without it.
  std::string store_path = {};               // Socket of this node's object store; drivers receive it from the head.
  std::string who = {};                      // Display name in the object store: "driver tune_digits".
  std::function<void()> on_store_lost = {};  // See StoreClientOptions::on_lost.
  std::function<void(const std::string& sha256)> upload_program = {};  // The head requested the program.
  // For a driver's runs; replies with `send`.
  std::function<void(protocol::ReadRunFiles question)> read_run_files = {};
  // For a host: returns the connection to this process if `unix_path` is its own, otherwise null.
  std::function<std::shared_ptr<net::CallConnection>(const std::string& unix_path, net::ConnectionOptions options,
                                                     std::function<void(Error)> on_down)>
      connect_here = {};
  bool is_private = false;                        // The cluster ends with this program.
  std::string own_host = {};                      // For a process with one actor: its raw HostId.
  std::function<std::string()> asking_host = {};  // For a shared host: raw HostId of this thread's actor; empty: none.
  std::chrono::milliseconds head_patience{30'000};    // Time limit of spawn, find and kill.
  std::chrono::milliseconds verdict_patience{5'000};  // Wait of a cut-off call for the report of its actor's death.
  size_t asks_max = 100'000;                          // Maximum of pending asynchronous requests to the head.
  size_t waiting_calls_max = 100'000;                 // Per actor, while it is unreachable.
  size_t waiting_bytes_max = size_t{64} << 20;
};

// Session over a stream to the head. Thread safe.
class ClusterSession final : public Session, public std::enable_shared_from_this<ClusterSession> {
 public:
  explicit ClusterSession(ClusterSessionOptions options);
  ~ClusterSession() override;

  // The stream to the head is open (again): sends Hello and resends watches and unanswered requests.
  void on_connected();
  void on_message(const protocol::HeadMessage& message);
  // The stream is lost; running work continues. The error is included in later timeouts. kUnauthenticated: the head
  // rejects this program permanently; all pending and later calls end with that error.
  void on_lost(const Error& error);
  // Sends a checkpoint of the actor in this process. `done` runs once, on a runtime thread, when the head has stored or
  // rejected it. Waits for an unreachable head.
  void keep_checkpoint(protocol::Checkpoint checkpoint, std::function<void(Result<void>)> done);
  // Blocks until the head has accepted or rejected this driver.
  Result<void> wait_welcome(std::chrono::milliseconds timeout);
  // Ends every call with kCancelled, sends Goodbye and closes the connections. Nothing runs afterwards.
  void close();

  Result<ActorId> spawn(const SpawnRequest& request) override;
  Result<ActorId> find(const std::string& name, const std::string& actor_namespace,
                       const std::string& class_name) override;
  void start(std::shared_ptr<OutgoingCall> call) override;
  void cancel(const ActorId& actor, uint64_t call) override;
  void give_back(const ActorId& actor) override;
  Result<void> kill(const ActorId& actor, bool no_restart, std::chrono::milliseconds grace) override;
  void kill_later(const ActorId& actor, bool no_restart, std::chrono::milliseconds grace,
                  std::function<void(Result<void>)> done) override;
  void watch(const ActorId& actor) override;
  std::shared_ptr<const ActorHold> hold(const ActorId& actor, HandleFrom from) override;
  void lend(const ActorId& actor) override;
  Result<ActorStatus> status(const ActorId& actor) override;
  std::shared_ptr<void> on_status(const ActorId& actor, std::function<void(const ActorStatus&)> function) override;
  std::chrono::nanoseconds time_without_head() override;
  std::optional<Error> left() override;
  ClusterTotals totals() override;
  std::string cluster_name() override;
  std::string node_name() override { return options_.node_name; }
  void on_log(std::function<void(const LogLine&)> function) override;
  void report(const ExperimentReport& report) override;
  void on_request(const std::string& experiment, std::function<void(const ExperimentRequest&)> function) override;
  std::string program_sha256() override { return options_.program_sha256; }
  void lend_cpus(bool lend) override;
  std::string name_as_owner() override;
  void rebuild(const std::string& owner, const ObjectKey& object, int depth,
               std::function<void(Result<std::string>)> done) override;
  std::shared_ptr<ObjectStore> objects() override;
  std::shared_ptr<GroupSession> groups() override;
  // As objects(), but null if no object was put or read yet.
  std::shared_ptr<ObjectStore> objects_in_use() {
    if (!uses_objects_.load(std::memory_order_acquire)) return nullptr;
    const std::lock_guard<std::mutex> hold(objects_mutex_);
    return objects_;
  }

 private:
  using Call = OutgoingCall;
  struct Sent;
  struct Link;
  struct SharedHostConnection;
  struct Remote;
  struct Ask;
  using DeferredCallbacks = std::vector<UniqueFunction<void()>>;  // Callbacks to run after the lock is released.

  // Nested actors: cluster_lights.cc
  void warn_of_detached(const SpawnRequest& request);
  Result<ActorId> spawn_as(const ActorId& id, const SpawnRequest& request);
  Result<ActorId> spawn_light(const SpawnRequest& request);
  Result<ActorId> home_for(const std::string& owner);
  Result<std::string> ask_home(const ActorId& light, uint64_t method, std::string arguments);
  Result<void> kill_light(const ActorId& light, std::chrono::milliseconds grace);
  Result<ActorStatus> status_of_light(const ActorId& light);
  static bool is_dead(const Remote& remote);
  // Handles: cluster_handles.cc
  std::shared_ptr<HandleHolds> holds();
  void end_lights(const protocol::EndLights& message);
  // Object reconstruction: cluster_rebuilds.cc
  void on_rebuild(const protocol::RebuildObject& message);
  void ask_rebuilds_again();
  bool has_calls(const ActorId& actor);
  bool follow(const ActorId& actor);  // False: handles on it are not counted, as far as known.
  // Asynchronous: `answer` runs once, on a runtime thread.
  Result<void> on_kill_reply(Result<protocol::Reply> reply);
  void ask_later(const RequestId& id, protocol::ClientMessage message,
                 std::function<void(Result<protocol::Reply>)> answer);
  Result<protocol::Reply> ask(const RequestId& id, protocol::ClientMessage message);
  void sign(protocol::ClientMessage& message) const;
  std::shared_ptr<net::CallConnection> open(const Remote& remote, std::function<void(Error)> on_down);
  std::shared_ptr<SharedHostConnection> shared_connection_to(const Remote& remote);
  void on_shared_connection_lost(const HostId& host, const std::shared_ptr<SharedHostConnection>& road,
                                 const Error& error);
  Remote& remote(const ActorId& actor);  // Starts watching a new actor.
  void apply(const protocol::ActorInfo& info, DeferredCallbacks& later);
  void connect(Remote& remote);
  void flush(Remote& remote);
  void prepare(Remote& remote, Call& call);
  void add_opening(Remote& remote, const std::vector<std::shared_ptr<OutgoingCall>>& calls, protocol::ActorSpec& spec);
  void wait_again(Remote& remote, const std::shared_ptr<Call>& call);
  void make_again(Remote& remote, const std::shared_ptr<Call>& call, DeferredCallbacks& later);
  void count_retries(Remote& remote, DeferredCallbacks& later);
  static bool is_settled(Remote& remote);
  void transmit(Link& link, std::shared_ptr<Call> call);
  static void on_done(Link& link, const std::shared_ptr<Call>& call, Result<std::string>&& result);
  void on_doubtful(Link& link, const std::shared_ptr<Call>& call, Result<std::string>&& result);
  void await_verdict(Remote& remote, const std::shared_ptr<Call>& call, bool dropped, DeferredCallbacks& later);
  void go_on(const ActorId& actor);
  void on_down(const Link& link, const Error& error);
  void retire_connection(Remote& remote);
  void lose_connection(Remote& remote);
  void say_goodbye();
  void on_stopped(const protocol::ClusterStopped& stopped);
  bool leave(const Error& why);
  void fail_all(Remote& remote, const Error& error, DeferredCallbacks& later);
  void settle_held(Remote& remote, DeferredCallbacks& later);
  void expire(const ActorId& actor, uint64_t request_id);
  void finish(const std::shared_ptr<Call>& call, Result<std::string> result, DeferredCallbacks& later);
  ActorStatus status_of(const Remote& remote) const;
  static void run(DeferredCallbacks& later);

  const ClusterSessionOptions options_;
  const net::CallerId caller_;
  AdaptiveMutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Error> closed_;  // Set after leaving, with the reason.
  bool connected_ = false;
  OutageClock outages_;
  std::optional<Error> refused_;
  std::optional<Error> lost_;
  bool welcomed_ = false;
  std::string cluster_name_;
  ClusterTotals totals_;
  uint64_t next_request_ = 1;
  uint64_t next_listener_ = 1;
  std::unordered_map<ActorId, std::unique_ptr<Remote>> remotes_;
  std::unordered_map<RequestId, std::shared_ptr<Ask>> asks_;
  std::unordered_map<HostId, std::weak_ptr<SharedHostConnection>> shared_connections_;  // Connections to shared hosts.
  static constexpr uint64_t kLightsOfOneHome = uint64_t{1} << 40;
  static constexpr size_t kLightsStartingMax = 20'000;  // Nested actors with running constructors; then spawn() waits.
  struct Home {
    ActorId id;
    uint64_t next = 1;
  };
  std::mutex homes_mutex_;  // Locked before mutex_; nested actors of an owner are created in number order.
  std::unordered_map<std::string, Home> homes_;  // By raw HostId of the owning actor of this process.
  std::mutex lights_mutex_;
  std::condition_variable lights_changed_;
  size_t lights_starting_ = 0;
  std::function<void(const LogLine&)> log_receiver_;
  std::map<std::string, std::function<void(const ExperimentRequest&)>> request_receivers_;  // By experiment.
  UnackedUpdates unkept_;                                                                   // For a driver.
  std::string store_path_;  // Empty: no worker of the cluster is known on this machine.
  std::mutex lending_mutex_;
  bool lending_ = false;   // The CPUs are currently returned.
  bool has_lent_ = false;  // The CPUs were returned at least once.
  std::mutex objects_mutex_;
  std::shared_ptr<ObjectStore> objects_;
  std::atomic<bool> uses_objects_{false};  // objects_ was created.
  std::atomic<bool> warned_of_detached_{false};
  std::shared_ptr<GroupSession> groups_;  // Guarded by objects_mutex_.
  RebuildRequests rebuilds_;              // Guarded by mutex_, as asks_rebuilds_.
  bool asks_rebuilds_ = false;            // A resend timer is running.
  std::mutex holds_mutex_;
  std::shared_ptr<HandleHolds> holds_;  // Created on first use.
};

}  // namespace volador
