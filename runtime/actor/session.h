// Connection of a process to its cluster: its actors, the connections to their hosts, the head. Untyped; handle.h is
// the typed interface. tune uses this one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/actor/outgoing_call.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/node_affinity.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/store/object_key.h"
#include "runtime/unique_function.h"

namespace volador {

class GroupSession;
class ObjectStore;

enum class Isolation : uint8_t {
  kProcess,  // The actor has its own process.
  kShared,   // Shares a process with other actors of its driver on the node: small, but a crash ends all of them.
};
std::string_view to_string(Isolation isolation);

// Request to spawn an actor.
struct SpawnRequest {
  std::string class_name;
  std::string arguments;  // Envelope: constructor id, arguments.
  ResourceSet resources;
  std::string name;
  std::string actor_namespace;  // Namespace of the name; empty: the creator's.
  int max_restarts = 0;         // -1: unlimited.
  bool detached = false;
  bool ends_with_handles = false;  // Ends when no process has a handle on it (hold()). Ignored for detached actors.
  int priority = 0;
  bool wait_if_infeasible = false;
  NodeAffinity wishes;
  GroupId group;   // Placement group in which it runs; nil: none.
  int bundle = 0;  // Bundle of the group; -1: any.
  std::map<std::string, std::string> env;
  std::string display;  // Name shown in logs; empty: the class name.
  std::chrono::milliseconds start_timeout{60'000};
  // For a class with save_checkpoint and load_checkpoint; 0: never.
  int64_t checkpoint_calls = 0;
  std::chrono::milliseconds checkpoint_interval{0};
  int max_concurrency = 1;  // Concurrent calls outside concurrency groups.
  struct ConcurrencyGroup {
    std::string name;
    int threads = 1;
    std::vector<uint64_t> methods;
  };
  std::vector<ConcurrencyGroup> groups;
  struct HealthMethod {
    uint64_t method = 0;  // 0: none.
    bool tells = false;   // The method returns a bool, false if unhealthy.
    std::chrono::milliseconds period{0};
    std::chrono::milliseconds timeout{0};
    std::chrono::milliseconds turn_timeout{0};
    int failures = 1;
  };
  HealthMethod health;
  int max_task_retries = 0;  // Retries of a call that was running when the actor died; -1: unlimited.
  bool retriable = false;    // The creator recreates it after a failure: a node short of memory ends it before others.
  // Calls sent with the request: they run right after the constructor, before any other call, without waiting for the
  // actor's address. Only for actors with their own process and without restarts. If the spawn fails they never end.
  std::vector<std::shared_ptr<OutgoingCall>> opening;
  std::shared_ptr<const void> pins;  // References in the arguments, held while the actor may restart.
  Isolation isolation = Isolation::kProcess;
};

// kInvalidArgument: thread or retry counts out of range, an unnamed or duplicate group, a method in two groups,
// checkpoints together with concurrency.
[[nodiscard]] Result<void> check_concurrency(const SpawnRequest& request);
// kInvalidArgument: a shared actor requests per-process features (GPUs, environment).
[[nodiscard]] Result<void> check_isolation(const SpawnRequest& request);
// kInvalidArgument: a health check's times or number of failures are out of range.
[[nodiscard]] Result<void> check_health(const SpawnRequest& request);

enum class ActorState : uint8_t { kPending, kStarting, kAlive, kRestarting, kDead };
std::string_view to_string(ActorState state);

// State of an actor as last reported by the head.
struct ActorStatus {
  ActorId id;
  ActorState state = ActorState::kPending;
  uint64_t epoch = 0;
  std::string node_name;
  int pid = 0;
  int restarts = 0;
  std::string class_name;
  std::string name;
  std::string actor_namespace;  // Namespace of its name.
  std::string reason;           // Why it waits.
  Error death;                  // If dead or restarting: the cause, as callers get it.
  Reason why;                   // As data: the cause, if there is one, otherwise `reason`.
  bool lost = false;            // The actor did not fail itself: its node or the node's lease was lost.
  // Its node drains or stops, or has a health problem, as may a GPU that it holds: the actor should move elsewhere.
  bool node_leaves = false;
};

// Resources and nodes of the cluster as last reported by the head.
struct ClusterTotals {
  ResourceSet total;
  ResourceSet used;
  int nodes = 0;
  int waiting = 0;  // Requests that wait for resources.
};

// A line printed by an actor.
struct LogLine {
  ActorId actor;
  std::string display;
  std::string node_name;
  bool is_stderr = false;
  std::string text;
};

// One report of a trial.
struct TrialPoint {
  int64_t step = 0;
  double time_s = 0;  // Running time of the trial.
  std::map<std::string, double> metrics;
};
// Row of an experiment for `volador list trials` and the dashboard.
struct TrialReport {
  std::string trial_id;
  std::string status;
  ActorId actor;
  std::string node_name;
  int64_t step = 0;
  std::string config_json;
  std::map<std::string, double> metrics;
  Reason error;
  Reason reason;
  int64_t started_ms = 0, ended_ms = 0;  // Unix time; 0: not yet or unknown.
  std::string name = {};                 // From the run's name template; empty: the id.
  std::vector<std::string> tags = {};    // In the order in which they were added.
  std::string cloned_from = {};          // Id of the trial whose configuration a user copied; empty: none.
  std::vector<TrialPoint> points;        // Since the previous report: rows are coalesced, curves are complete.
};
// A rung of the scheduler; see SchedulerRung in control.proto.
struct RungReport {
  struct Member {
    std::string trial;
    double value = 0;
    std::string act;
  };
  int64_t bracket = 0;
  double milestone = 0;
  int64_t trials = 0, passed = 0;
  double cutoff = 0;  // NaN: none yet.
  std::string state;
  int64_t awaited = 0;
  std::vector<Member> members;
};
// The best trial of an experiment (tune/loop/best_trial.h).
struct BestReport {
  std::string trial;  // Id; empty: there is no best trial.
  std::string name;   // Empty: the id.
  double value = 0;
  int64_t step = 0;
  std::string config_json;
  bool operator==(const BestReport&) const = default;
};
// Estimated remaining time of a run in seconds, with a 90 % interval.
struct TimeLeft {
  double seconds = 0, low = 0, high = 0;
  bool operator==(const TimeLeft&) const = default;
};
// State of an experiment and its changed trials, sent to the head.
struct ExperimentReport {
  std::string experiment;
  std::string state;
  std::string metric;
  std::string mode;
  std::string directory;
  std::vector<TrialReport> trials;  // Changed rows only.
  int64_t trials_total = 0;         // Expected number while it runs, actual number after its end.
  int64_t trials_planned = 0;       // 0: unlimited or unknown.
  std::string scheduler;
  std::vector<RungReport> rungs;       // Empty: unchanged.
  std::string space = {};              // JSON (tune/space/space_json.h); empty: unchanged, or no space.
  std::vector<std::string> tags = {};  // Sent with the first report; users can change them in the dashboard.
  std::optional<BestReport> best = {}, best_so_far = {};  // By the last and by the best values; empty: unchanged.
  std::optional<TimeLeft> left = {};                      // Empty: unknown.
};

// A user's request for an experiment or trial of this process.
struct ExperimentRequest {
  std::string act;    // "stop", "pause", "resume", "add"
  std::string trial;  // Full id; empty: the whole experiment. For "add": the source of values missing in `config`.
  std::string config = {};      // For "add": a JSON object.
  std::string request_id = {};  // For "add": makes the request idempotent; empty: none.
};

// Shared by a process's handles on an actor. An actor with `ends_with_handles` lives while any of them exists.
class ActorHold {
 public:
  virtual ~ActorHold() = default;
  virtual void leaves() const {}  // A copy of the handle leaves this process.
  virtual void ended() const {}   // The actor was killed.
};

// Interface of a process to its cluster. Thread safe.
class Session {
 public:
  using Done = UniqueFunction<void(Result<std::string>&&)>;
  // Creates a call of `method` that ends in `done`, for start() or SpawnRequest::opening.
  static std::shared_ptr<OutgoingCall> make_call(uint64_t method, std::string arguments, Done done);

  Session();
  virtual ~Session() = default;

  // Unique among all sessions of this process.
  uint64_t serial() const { return serial_; }

  // Returns why this process has permanently left its cluster: the cluster was stopped, or it rejects this program.
  // Nothing if it is a member or waits for its head to return.
  virtual std::optional<Error> left() { return std::nullopt; }

  // Returns the session of this process, set by volador::init() or the host runtime. Throws kUnavailable before that.
  static std::shared_ptr<Session> current();
  static std::shared_ptr<Session> current_or_none();
  static bool has_current() { return current_or_none() != nullptr; }
  static void set_current(std::shared_ptr<Session> session);

  // Returns when the head has accepted or rejected the request (kInfeasible, name in use, …), not when the actor is
  // alive.
  virtual Result<ActorId> spawn(const SpawnRequest& request) = 0;
  // An empty namespace means the caller's, an empty class name any class. kNotFound; kInvalidArgument if its class is
  // not `class_name`.
  virtual Result<ActorId> find(const std::string& name, const std::string& actor_namespace,
                               const std::string& class_name) = 0;
  // Starts a call. Calls of this process on an actor run in the order of start(); on_end() may run before start()
  // returns. Calls are queued while the actor is starting, restarting or unreachable.
  virtual void start(std::shared_ptr<OutgoingCall> call) = 0;
  // As start(), with a function for the reply. Returns the call's number for cancel(). kNever: the call is not retried,
  // even on an actor with max_task_retries.
  enum class Repeat : uint8_t { kAsTheActorSays, kNever };
  uint64_t call(const ActorId& actor, uint64_t method, std::string arguments, std::chrono::nanoseconds timeout,
                Done done, Repeat repeat = Repeat::kAsTheActorSays);
  // Ends the call with kCancelled unless it has ended; its actor is notified. Unknown numbers have no effect.
  virtual void cancel(const ActorId& actor, uint64_t call) = 0;
  // For an actor whose class runs tasks (ActorClass::runs_tasks): ends this process's calls that have not begun with
  // kCancelled, newest first, even behind a long-running call. No effect on other actors.
  virtual void give_back(const ActorId& /*actor*/) {}
  // Ends the actor; its pending calls fail. no_restart false: it restarts by its max_restarts. grace 0: at once.
  virtual Result<void> kill(const ActorId& actor, bool no_restart, std::chrono::milliseconds grace) = 0;
  // As kill(), without waiting: `done` runs once with the head's answer, on a runtime thread or before kill_later()
  // returns. Waits for an unreachable head.
  virtual void kill_later(const ActorId& actor, bool no_restart, std::chrono::milliseconds grace,
                          std::function<void(Result<void>)> done) {
    done(kill(actor, no_restart, grace));
  }
  // Starts watching an actor known only by its id (a handle received as an argument).
  virtual void watch(const ActorId& actor) = 0;
  // As watch(), for a handle that keeps the actor alive: returns the state that the handle carries; null if handles are
  // not counted. Cheap if this process already has a handle; never waits.
  enum class HandleFrom : uint8_t {
    kSpawn,     // Spawned in this process.
    kArgument,  // Received as an argument, or about to be sent as one.
    kAnswer,    // Received in a reply, whose sender transferred it.
  };
  virtual std::shared_ptr<const ActorHold> hold(const ActorId& actor, HandleFrom from) {
    if (from != HandleFrom::kSpawn) watch(actor);
    return nullptr;
  }
  // Transfers a handle in a reply, whose receiver will accept it.
  virtual void lend(const ActorId& /*actor*/) {}
  virtual Result<ActorStatus> status(const ActorId& actor) = 0;
  // Called at every change until the returned token is destroyed; on a runtime thread.
  virtual std::shared_ptr<void> on_status(const ActorId& actor, std::function<void(const ActorStatus&)> function) = 0;

  // Total time without a reachable head, by OutageClock: actors may have been parked during it.
  virtual std::chrono::nanoseconds time_without_head() { return std::chrono::nanoseconds(0); }
  virtual ClusterTotals totals() = 0;
  virtual std::string cluster_name() = 0;
  virtual std::string node_name() = 0;  // Set inside an actor; empty in a driver.
  // Sets the receiver of log lines of this driver's actors. Default: stderr, as "(trial 3f2a, node b) …".
  virtual void on_log(std::function<void(const LogLine&)> function) = 0;
  virtual void report(const ExperimentReport& report) = 0;
  // Sets the receiver of requests for an experiment that this process reports, called on a runtime thread; null removes
  // it. Without a receiver requests are dropped.
  virtual void on_request(const std::string& /*experiment*/,
                          std::function<void(const ExperimentRequest&)> /*function*/) {}
  // Digest of this process's executable, 32 bytes; empty if unknown.
  virtual std::string program_sha256() { return {}; }
  // Object store of this process; null if it has none.
  virtual std::shared_ptr<ObjectStore> objects() { return nullptr; }
  // Address of the caller of this thread for reconstruction requests of other processes; empty: not reachable.
  virtual std::string name_as_owner() { return {}; }
  // Requests reconstruction of a lost object from its owner, the submitter of the task that returned it. `depth`:
  // number of lost objects in the reconstruction chain. `done` runs once, on a runtime thread, with a serialized
  // reference to the replacement, transferred to this process. kObjectLost: it cannot be reconstructed, or its owner
  // has ended.
  virtual void rebuild(const std::string& /*owner*/, const ObjectKey& /*object*/, int /*depth*/,
                       std::function<void(Result<std::string>)> done) {
    done(make_error(ErrorCode::kObjectLost, "this process cannot ask who submitted the task that brought it"));
  }
  // For an actor: returns its CPUs while it waits (true), then acquires them again. Repeated: no effect.
  virtual void lend_cpus(bool) {}
  // Null if the cluster has no placement groups.
  virtual std::shared_ptr<GroupSession> groups() { return nullptr; }

 private:
  const uint64_t serial_;
};

}  // namespace volador
