// What a node does, decided: messages of the head and of hosts, exits and clock ticks in, actions out.
// Pure: no clock, thread, I/O or randomness. The shell (worker_process.h) carries actions out in their order, all of
// them before it hands in the next event.
//
// A host here:
//
//   StartHost ──► launching ──launched──► starting ──ready──► running
//                     │                      │                   │
//                     │ launch failed        │ EndHost, constructor threw, start timeout, stale, parked too long, node
//                     stops ▼                      ▼                   ▼
//                  (ended) ◄────exit────── ending ◄──────────────┘
//
// The lease: hosts may commit until the deadline in the lease page. It is renewed only by an answer of the head
// (Registered, HeartbeatAck), counted from the sending of what was answered, and never while a host that the head
// called stale still lives. A lost connection changes nothing here: hosts park by themselves when the deadline passes,
// and end after park_max.
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

struct CoreOptions {
  std::string node_name;
  protocol::Register registration;                     // All but hosts and sent_boot_ns.
  std::chrono::milliseconds start_timeout{60'000};     // Of a constructor, where the spec has none.
  std::chrono::milliseconds end_grace_max{60'000};     // Of one EndHost: more is cut to this.
  std::chrono::milliseconds stop_grace{700};           // Of hosts when the node stops.
  std::chrono::milliseconds failed_host_grace{2'000};  // Between "the constructor threw" and SIGKILL.
  std::chrono::milliseconds silence_max{7'000};        // Without an answer for so long the connection is made anew.
  size_t relay_bytes_max = 64 << 20;  // Of hosts' messages kept while the head is away; above it the oldest are
                                      // dropped, hosts repeat them after Welcome.
  size_t ended_kept = 4096;           // Ends remembered to answer repeated StartHost and EndHost.
};

struct SendToHead {
  protocol::WorkerMessage message;
};
// Get the program, fork or start the host; answer on_launched or on_launch_failed.
struct LaunchHost {
  HostId host;
  protocol::StartHost start;
};
struct SendToHost {
  HostId host;
  protocol::ToHost message;
};
// EndRequest and SIGTERM now, SIGKILL to the whole group after the grace; 0: SIGKILL now. Repeated: the earlier end
// counts.
// Of an actor in a shared host only the actor ends, but for `whole`.
struct EndProcess {
  HostId host;
  std::chrono::milliseconds grace{0};
  bool whole = false;  // The process with all of its actors.
};
// The launch is not wanted any more. If it has no process yet, answer on_launch_failed; else kill it and answer
// on_host_exit.
struct CancelLaunch {
  HostId host;
};
struct SetLeaseDeadline {
  BootTime deadline;
};
struct Reconnect {};  // The connection is silent: make a new one.
struct Finish {       // The worker ends once what was sent is on its way; error: why it was refused.
  std::optional<Error> error;
};

using Action =
    std::variant<SendToHead, LaunchHost, SendToHost, EndProcess, CancelLaunch, SetLeaseDeadline, Reconnect, Finish>;
using Actions = std::vector<Action>;

class WorkerCore {
 public:
  explicit WorkerCore(CoreOptions options);

  // The stream is open: registers. Also when it was open before (a new connection took its place).
  [[nodiscard]] Actions on_connected(BootTime now);
  // The stream is gone; repeated calls do nothing. Where the head knows this node and will not have it any more (kUnauthenticated: the
  // token that it joined with was revoked, its certificate has expired), there is nothing to wait for: its hosts are ended.
  [[nodiscard]] Actions on_disconnected(BootTime now, const Error& why = {});
  [[nodiscard]] Actions on_head_message(BootTime now, const protocol::HeadToWorker& message);
  // Messages of unknown hosts are dropped. What a host says of itself (ids, epoch, pid) is not believed but filled in.
  [[nodiscard]] Actions on_host_message(BootTime now, HostId host, const protocol::FromHost& message);
  // The control socket of a host that still lives is closed: it cannot be commanded any more and is ended.
  [[nodiscard]] Actions on_host_closed(BootTime now, HostId host);
  // A process stands, HostStart may be sent to it; `extra` is copied there: folder, addresses, certificate. Again: a new pid.
  [[nodiscard]] Actions on_launched(BootTime now, HostId host, int pid, protocol::HostStart extra);
  [[nodiscard]] Actions on_launch_failed(BootTime now, HostId host, const protocol::DeathCause& cause);
  // The process and its group are gone. Once for each launched host.
  [[nodiscard]] Actions on_host_exit(BootTime now, HostId host, const HostExit& exit);
  [[nodiscard]] Actions on_program_failed(BootTime now, const std::string& sha256, const Error& error);
  // Passed on while the head listens; dropped and counted otherwise (files keep everything).
  [[nodiscard]] Actions on_log(BootTime now, HostId host, protocol::LogLines lines);
  // The node has no memory left for it.
  [[nodiscard]] Actions on_out_of_memory(BootTime now, HostId host, const Reason& why);
  // This node is to stop: Stopping is sent, hosts end, Leaving is sent, then Finish.
  [[nodiscard]] Actions on_stop(BootTime now, const std::string& reason);
  // Heartbeats and everything that waits for a time. Early and repeated ticks do nothing.
  [[nodiscard]] Actions on_tick(BootTime now, const protocol::NodeUsage& usage);
  // When on_tick is due next.
  [[nodiscard]] BootTime next_tick(BootTime now) const;

  bool registered() const { return registered_; }
  bool stopping() const { return stopping_; }
  size_t hosts() const { return hosts_.size(); }
  // Of hosts that are launched and not known to have ended.
  std::optional<BootTime> lease_deadline() const { return deadline_; }
  struct Running {
    HostId host;
    int pid = 0;
    bool retriable = false;
  };
  // Hosts that have a process and are not to end; of a shared one any of its actors, retriable where all of them are.
  std::vector<Running> running() const;
  // Actors by their process, those that are to end too.
  std::map<int, std::vector<ActorId>> actors_by_process() const;
  // Where an actor runs; none: it has no process here.
  std::optional<HostId> host_of(ActorId actor) const;
  // ActorId and names of a host, for logs; nullptr when unknown.
  const protocol::StartHost* find_start(HostId host) const;

  // Aborts where the parts of the state disagree; tests call it after each event.
  void check_invariants() const;

 private:
  enum class Phase : uint8_t { kLaunching, kStarting, kRunning, kEnding };
  struct Host {
    protocol::StartHost start;
    Phase phase = Phase::kLaunching;
    int pid = 0;
    bool told = false;  // HostStart was sent: it could commit.
    bool ready = false;
    bool reported = false;                            // The head of this connection knows that it is ready.
    protocol::HostAddress address;                    // When ready.
    std::optional<protocol::DeathCause> asked_cause;  // Why we ended it.
    std::optional<protocol::DeathCause> own_cause;    // What it said before it ended.
    std::optional<BootTime> kill_at;                  // Start timeout, or the end of a failed host's grace.
  };
  struct Ended {
    protocol::HostEnded message;
    uint64_t sent_session = 0;   // 0: not sent yet.
    uint64_t sent_sequence = 0;  // Of the last heartbeat before it.
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
  std::map<HostId, Host> hosts_;
  std::set<std::pair<BootTime, HostId>> kill_times_;  // As in hosts_.
  std::map<HostId, Ended> ended_;
  std::set<HostId> unconfirmed_;  // Of ended_: the head may not know. Bounded by the hosts that it asked for.
  std::deque<HostId> confirmed_;  // The rest of ended_, oldest first; at most ended_kept.
  std::set<HostId> stale_;        // The head called them stale and they still live: no renewal before they are gone.
  std::deque<protocol::Relay> relays_;  // Waiting for the head.
  size_t relay_bytes_ = 0;

  bool connected_ = false;
  bool registered_ = false;
  bool stopping_ = false;
  bool finished_ = false;
  std::optional<Error> refusal_;
  uint64_t session_ = 0;   // Grows with each connection.
  uint64_t sequence_ = 0;  // Of the last heartbeat.
  std::chrono::milliseconds lease_{3'500};
  std::chrono::milliseconds heartbeat_{500};
  std::chrono::milliseconds park_max_{600'000};
  BootTime next_heartbeat_{};
  BootTime last_answer_{};  // Of the head on this connection; its opening counts.
  BootTime last_tick_{};
  std::optional<BootTime> deadline_;  // As in the page.
  std::optional<BootTime> offered_;   // A later one that waits for stale hosts to be gone.
  std::map<HostId, uint64_t> dropped_lines_;
  std::string cluster_name_;
};

}  // namespace volador::worker
