// State machine of a node: messages of the head and hosts, exits and clock ticks in, actions out. Pure: no clock,
// thread, I/O or randomness. The shell (worker_process.h) applies actions in order, all of them before it passes the
// next event.
//
// States of a host:
//
//   StartHost ──► launching ──launched──► starting ──ready──► running
//                     │                      │                   │
//                     │ launch failed        │ EndHost, constructor threw, start timeout, stale,
//                     │                      │ parked too long, node stops
//                     ▼                      ▼                   ▼
//                  (ended) ◄────exit────── ending ◄──────────────┘
//
// The lease: hosts may commit until the deadline in the lease page. Only an answer of the head (Registered,
// HeartbeatAck) renews it, counted from the sending of the answered message, and never while a host that the head
// declared stale is alive. A lost connection changes nothing here: hosts park when the deadline passes, and end after
// park_max.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/host.pb.h"
#include "runtime/result.h"
#include "worker/hosts/exit_cause.h"

namespace volador::worker {

// Identity, timeouts and limits of a WorkerCore.
struct CoreOptions {
  std::string node_name;
  protocol::Register registration;                     // Without hosts and sent_boot_ns.
  std::chrono::milliseconds start_timeout{60'000};     // For a constructor, if the spec has none.
  std::chrono::milliseconds end_grace_max{60'000};     // Maximum for an EndHost.
  std::chrono::milliseconds stop_grace{700};           // Grace of hosts when the node stops.
  std::chrono::milliseconds failed_host_grace{2'000};  // Between the constructor's exception and SIGKILL.
  std::chrono::milliseconds silence_max{7'000};        // Silence after which the connection is made anew.
  // Messages of hosts buffered while the head is unreachable; beyond it the oldest are dropped, and hosts resend them
  // after Welcome.
  size_t relay_bytes_max = 64 << 20;
  size_t ended_kept = 4096;  // Ended hosts remembered to answer repeated StartHost and EndHost.
};

struct SendToHead {
  protocol::WorkerMessage message;
};
// Get the program and fork or start the host; answer with on_launched or on_launch_failed.
struct LaunchHost {
  HostId host;
  protocol::StartHost start;
};
struct SendToHost {
  HostId host;
  protocol::ToHost message;
};
// EndRequest and SIGTERM now, SIGKILL to the whole process group after the grace; 0: SIGKILL now. If repeated, the
// earlier end counts. For an actor in a shared host only the actor ends, unless `whole`.
struct EndProcess {
  HostId host;
  std::chrono::milliseconds grace{0};
  bool whole = false;  // End the process with all of its actors.
};
// The launch is cancelled. If it has no process yet, answer with on_launch_failed; otherwise kill the process and
// answer with on_host_exit.
struct CancelLaunch {
  HostId host;
};
struct SetLeaseDeadline {
  BootTime deadline;
};
struct Reconnect {};  // The connection is silent: make a new one.
struct Finish {       // End the worker after sending queued messages; error: why it was rejected.
  std::optional<Error> error;
};

using Action =
    std::variant<SendToHead, LaunchHost, SendToHost, EndProcess, CancelLaunch, SetLeaseDeadline, Reconnect, Finish>;
using Actions = std::vector<Action>;

// State machine of a node. Not thread safe.
class WorkerCore {
 public:
  explicit WorkerCore(CoreOptions options);

  // The stream is open: registers. Also called when a new connection replaces an open one.
  [[nodiscard]] Actions on_connected(BootTime now);
  // The stream is lost; repeated calls have no effect. If the head rejects this node permanently (kUnauthenticated: its
  // join token was revoked, or its certificate has expired), its hosts are ended.
  [[nodiscard]] Actions on_disconnected(BootTime now, const Error& why = {});
  [[nodiscard]] Actions on_head_message(BootTime now, const protocol::HeadToWorker& message);
  // Messages of unknown hosts are dropped. A host's statements about itself (ids, epoch, pid) are overwritten.
  [[nodiscard]] Actions on_host_message(BootTime now, HostId host, const protocol::FromHost& message);
  // The control socket of a live host is closed: the host can no longer be controlled and is ended.
  [[nodiscard]] Actions on_host_closed(BootTime now, HostId host);
  // The process exists and HostStart can be sent; `extra` is merged into it: folder, addresses, certificate. If
  // repeated: a new pid.
  [[nodiscard]] Actions on_launched(BootTime now, HostId host, int pid, protocol::HostStart extra);
  [[nodiscard]] Actions on_launch_failed(BootTime now, HostId host, const protocol::DeathCause& cause);
  // The process and its group are gone. Once for each launched host.
  [[nodiscard]] Actions on_host_exit(BootTime now, HostId host, const HostExit& exit);
  [[nodiscard]] Actions on_program_failed(BootTime now, const std::string& sha256, const Error& error);
  // Forwarded while the head is connected; otherwise dropped and counted (log files keep everything).
  [[nodiscard]] Actions on_log(BootTime now, HostId host, protocol::LogLines lines);
  // The node is out of memory, and this host must end.
  [[nodiscard]] Actions on_out_of_memory(BootTime now, HostId host, const Reason& why);
  // Stops this node: sends Stopping, ends the hosts, sends Leaving, then Finish.
  [[nodiscard]] Actions on_stop(BootTime now, const std::string& reason);
  // Heartbeats and timeouts. Early and repeated ticks have no effect.
  [[nodiscard]] Actions on_tick(BootTime now, const protocol::NodeUsage& usage);
  // The node's health problems, for the next registration.
  void set_problems(const google::protobuf::RepeatedPtrField<protocol::HealthProblem>& problems) {
    problems_ = problems;
  }
  // Returns when on_tick is due.
  [[nodiscard]] BootTime next_tick(BootTime now) const;

  bool registered() const { return registered_; }
  bool stopping() const { return stopping_; }
  // Number of launched hosts not known to have ended.
  size_t hosts() const { return hosts_.size(); }
  // As in the lease page.
  std::optional<BootTime> lease_deadline() const { return deadline_; }
  struct Running {
    HostId host;
    int pid = 0;
    bool retriable = false;
  };
  // Returns hosts with a process that are not ending; for a shared process one of its actors, retriable if all of them
  // are.
  std::vector<Running> running() const;
  // Returns actors by process, including ending ones.
  std::map<int, std::vector<ActorId>> actors_by_process() const;
  // Returns the host of an actor; nothing if it has no process here.
  std::optional<HostId> host_of(ActorId actor) const;
  // Returns ids and names of a host for logs; nullptr if unknown.
  const protocol::StartHost* find_start(HostId host) const;

  // Aborts if the state is inconsistent; tests call it after each event.
  void check_invariants() const;

 private:
  enum class Phase : uint8_t { kLaunching, kStarting, kRunning, kEnding };
  struct Host {
    protocol::StartHost start;
    Phase phase = Phase::kLaunching;
    int pid = 0;
    bool told = false;  // HostStart was sent: the host may commit.
    bool ready = false;
    bool reported = false;                            // Readiness was reported on this connection.
    protocol::HostAddress address;                    // Set when ready.
    std::optional<protocol::DeathCause> asked_cause;  // Why this node ended it.
    std::optional<protocol::DeathCause> own_cause;    // Cause reported by the host before it ended.
    std::optional<BootTime> kill_at;                  // Start timeout, or end of a failed host's grace.
  };
  struct Ended {
    protocol::HostEnded message;
    uint64_t sent_session = 0;   // 0: not sent.
    uint64_t sent_sequence = 0;  // Number of the last heartbeat before it.
  };

  static bool is_shared(const Host& host) { return host.start.spec().isolation() == protocol::ISOLATION_SHARED; }
  void set_kill_time(HostId id, Host& host, std::optional<BootTime> at);
  protocol::HostReport report_of(HostId id, const Host& host) const;
  void send_ended(Actions& out, HostId id);
  void confirm_ended(uint64_t acked_sequence);
  void end_host(Actions& out, HostId id, Host& host, const protocol::DeathCause& cause,
                std::chrono::milliseconds grace);
  void finish_host(Actions& out, HostId id, protocol::DeathCause cause);
  void report_ready(Actions& out, HostId id, Host& host);
  void relay(Actions& out, HostId id, const protocol::ClientMessage& message);
  void on_registered(BootTime now, Actions& out, const protocol::Registered& message);
  void on_ack(BootTime now, Actions& out, const protocol::HeartbeatAck& ack);
  void on_start(Actions& out, const protocol::StartHost& start);
  void on_end(Actions& out, const protocol::EndHost& end);
  void begin_stop(Actions& out, const std::string& reason, std::optional<Error> error);
  void offer_lease(BootTime now, Actions& out, int64_t sent_boot_ns);
  void apply_lease(Actions& out);
  void leave_when_empty(Actions& out);

  const CoreOptions options_;
  google::protobuf::RepeatedPtrField<protocol::HealthProblem> problems_;
  std::map<HostId, Host> hosts_;
  std::set<std::pair<BootTime, HostId>> kill_times_;  // Same times as in hosts_.
  std::map<HostId, Ended> ended_;
  std::set<HostId> unconfirmed_;        // Entries of ended_ not yet confirmed by the head; limited by its requests.
  std::deque<HostId> confirmed_;        // Other entries of ended_, oldest first; at most ended_kept.
  std::set<HostId> stale_;              // Live hosts declared stale by the head: no renewal before they are gone.
  std::deque<protocol::Relay> relays_;  // Messages that wait for the head.
  size_t relay_bytes_ = 0;

  bool connected_ = false;
  bool registered_ = false;
  bool stopping_ = false;
  bool finished_ = false;
  std::optional<Error> refusal_;
  uint64_t session_ = 0;   // Number of the connection.
  uint64_t sequence_ = 0;  // Number of the last heartbeat.
  std::chrono::milliseconds lease_{3'500};
  std::chrono::milliseconds heartbeat_{500};
  std::chrono::milliseconds park_max_{600'000};
  BootTime next_heartbeat_{};
  BootTime last_answer_{};  // Last answer of the head on this connection, or its opening.
  BootTime last_tick_{};
  std::optional<BootTime> deadline_;  // As in the lease page.
  std::optional<BootTime> offered_;   // A later deadline that waits for stale hosts to be gone.
  std::map<HostId, uint64_t> dropped_lines_;
  std::string cluster_name_;
};

}  // namespace volador::worker
