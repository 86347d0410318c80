// What one process knows of its cluster: the actors it has handles on, the connections to their hosts, the head.
// The typed face is handle.h; this is the untyped one beneath it, and the one that tune uses.
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
#include "runtime/node_wishes.h"
#include "runtime/language/reason.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/store/object_key.h"
#include "runtime/unique_function.h"

namespace volador {

class GroupSession;
class ObjectStore;

enum class Isolation : uint8_t {
  kProcess,  // A process of its own.
  kShared,   // In one process with other actors of its driver on the node: light, and a crash takes all of them with it.
};
std::string_view to_string(Isolation isolation);

// One actor as it is asked for.
struct SpawnRequest {
  std::string class_name;
  std::string arguments;  // Envelope: constructor id, arguments.
  ResourceSet resources;
  std::string name;
  std::string actor_namespace;  // Of the name; empty: that of who spawns it.
  int max_restarts = 0;  // -1: without limit.
  bool detached = false;
  bool ends_with_handles = false;  // When no process has a handle on it any more (hold()). Not of a detached one.
  int priority = 0;
  bool wait_if_infeasible = false;
  NodeWishes wishes;
  GroupId group;   // Of the placement group in which it runs; nil: none.
  int bundle = 0;  // Of the group; -1: any.
  std::map<std::string, std::string> env;
  std::string display;  // What logs call it; empty: the class.
  std::chrono::milliseconds start_timeout{60'000};
  // Of a class with save_checkpoint and load_checkpoint; 0: not.
  int64_t checkpoint_calls = 0;
  std::chrono::milliseconds checkpoint_interval{0};
  int max_concurrency = 1;   // Calls that run at once, of those in no group.
  struct ConcurrencyGroup {
    std::string name;
    int threads = 1;
    std::vector<uint64_t> methods;
  };
  std::vector<ConcurrencyGroup> groups;
  struct HealthMethod {
    uint64_t method = 0;  // 0: none.
    bool tells = false;   // It returns whether all is well.
    std::chrono::milliseconds period{0};
    std::chrono::milliseconds timeout{0};
    std::chrono::milliseconds turn_timeout{0};
    int failures = 1;
  };
  HealthMethod health;
  int max_task_retries = 0;  // How often a call that was under way when the actor died is made again; -1: without limit.
  bool retriable = false;    // Who spawns it makes it again where it dies: a node without memory ends it before others.
  // Calls that are made with it: they run right after its constructor, before any other, without waiting for this process to learn where it
  // lives. Only of an actor with a process of its own and without restarts; of no use once the spawn failed: then they never end.
  std::vector<std::shared_ptr<OutgoingCall>> opening;
  std::shared_ptr<const void> pins;  // What the arguments refer to: kept while the actor may be started again.
  Isolation isolation = Isolation::kProcess;
};

// kInvalidArgument: numbers of threads and retries out of range, a group without a name or twice, a method in two groups, checkpoints
// beside concurrency.
[[nodiscard]] Result<void> check_concurrency(const SpawnRequest& request);
// kInvalidArgument: an actor that asks for what a process has only as a whole (GPUs, environment) cannot share one.
[[nodiscard]] Result<void> check_isolation(const SpawnRequest& request);
// kInvalidArgument: a health check's times or number of failures are out of range.
[[nodiscard]] Result<void> check_health(const SpawnRequest& request);

enum class ActorState : uint8_t { kPending, kStarting, kAlive, kRestarting, kDead };
std::string_view to_string(ActorState state);

// One actor as the head last described it.
struct ActorStatus {
  ActorId id;
  ActorState state = ActorState::kPending;
  uint64_t epoch = 0;
  std::string node_name;
  int pid = 0;
  int restarts = 0;
  std::string class_name;
  std::string name;
  std::string actor_namespace;  // Of its name.
  std::string reason;  // Why it waits.
  Error death;         // When dead or restarting: the cause, as callers get it.
  Reason why;          // As data: the cause where there is one, else what `reason` says.
  bool lost = false;   // The cause was no fault of its own: its node was lost, or its node's lease.
};

struct ClusterTotals {
  ResourceSet total;
  ResourceSet used;
  int nodes = 0;
  int waiting = 0;  // Requests that wait for resources.
};

// A line that an actor printed.
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
  double time_s = 0;  // That the trial has run.
  std::map<std::string, double> metrics;
};
// One row of an experiment for `volador list trials` and the page.
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
  int64_t started_ms = 0, ended_ms = 0;  // Unix time; 0: not yet, or not known.
  std::string name = {};               // By the run's template; empty: its id.
  std::vector<std::string> tags = {};  // In the order in which it was given them.
  std::string cloned_from = {};        // Id of the trial whose values a person had it begin with; empty: none.
  std::vector<TrialPoint> points;  // Since the report before: rows coalesce, curves are complete.
};
// A rung of the scheduler, as SchedulerRung of control.proto has it.
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
  std::string trial;  // Its id; empty: no trial is the best.
  std::string name;   // Empty: its id.
  double value = 0;
  int64_t step = 0;
  std::string config_json;
  bool operator==(const BestReport&) const = default;
};
// How long a run still takes, in seconds: an estimate and the ends of a 90 % interval.
struct TimeLeft {
  double seconds = 0, low = 0, high = 0;
  bool operator==(const TimeLeft&) const = default;
};
struct ExperimentReport {
  std::string experiment;
  std::string state;
  std::string metric;
  std::string mode;
  std::string directory;
  std::vector<TrialReport> trials;  // Changed rows only.
  int64_t trials_total = 0;    // That there will be, while it goes on; once it has ended those that there are.
  int64_t trials_planned = 0;  // 0: no end of them, or not known.
  std::string scheduler;
  std::vector<RungReport> rungs;  // None: as before.
  std::string space = {};         // As JSON (tune/space/space_json.h); empty: as before, or it has none.
  std::vector<std::string> tags = {};  // With the first report; they can be changed where it is shown.
  std::optional<BestReport> best = {}, best_so_far = {};  // By the last and by the best values; none: as before.
  std::optional<TimeLeft> left = {};                      // None: not known.
};

// Somebody wants something of an experiment of this process, or of a trial of it.
struct ExperimentRequest {
  std::string act;    // "stop", "pause", "resume", "add"
  std::string trial;  // Whole id; empty: the whole experiment. Of "add": the values that `config` leaves out are its.
  std::string config = {};      // Of "add": a JSON object.
  std::string request_id = {};  // Of "add": one that came before does nothing twice; empty: it has none.
};

// A handle of this process on an actor: as long as one of them lives anywhere, an actor with `ends_with_handles` goes on.
class ActorHold {
 public:
  virtual ~ActorHold() = default;
  virtual void leaves() const {}  // A copy of the handle leaves this process.
  virtual void ended() const {}   // The actor was killed.
};

// Thread safe.
class Session {
 public:
  using Done = UniqueFunction<void(Result<std::string>&&)>;
  // A call of `method` that ends in `done`, for start() or SpawnRequest::opening.
  static std::shared_ptr<OutgoingCall> make_call(uint64_t method, std::string arguments, Done done);

  Session();
  virtual ~Session() = default;

  // Of this process; no other session has or will have it.
  uint64_t serial() const { return serial_; }

  // Why this process has left its cluster for good: it was stopped, or lets this program in no more. None: it belongs to it, or waits for its
  // head to come back.
  virtual std::optional<Error> left() { return std::nullopt; }

  // The session of this process: set by volador::init() or by the host runtime. Throws kUnavailable before that.
  static std::shared_ptr<Session> current();
  static std::shared_ptr<Session> current_or_none();
  static bool has_current() { return current_or_none() != nullptr; }
  static void set_current(std::shared_ptr<Session> session);

  // Returns when the head has taken the request or refused it (kInfeasible, a name in use…), not when the actor lives.
  virtual Result<ActorId> spawn(const SpawnRequest& request) = 0;
  // In an empty namespace: in that of who asks. kNotFound; kInvalidArgument where it is of another class than `class_name`.
  virtual Result<ActorId> find(const std::string& name, const std::string& actor_namespace, const std::string& class_name) = 0;
  // The actor's calls of this process run in the order of these calls; on_end() may come before it returns. Waits while the actor is
  // not alive yet, restarts or cannot be reached.
  virtual void start(std::shared_ptr<OutgoingCall> call) = 0;
  // The same, where a function takes the answer. Returns the number by which the call is cancelled.
  // kNever: also of an actor with max_task_retries the call is not made again.
  enum class Repeat : uint8_t { kAsTheActorSays, kNever };
  uint64_t call(const ActorId& actor, uint64_t method, std::string arguments, std::chrono::nanoseconds timeout, Done done, Repeat repeat = Repeat::kAsTheActorSays);
  // Ends the call with kCancelled, unless it has ended; its actor is told. Of a number that means nothing (any more): no effect.
  virtual void cancel(const ActorId& actor, uint64_t call) = 0;
  // Of an actor whose class runs tasks (ActorClass::runs_tasks): this process's calls that have not begun end with kCancelled,
  // the newest first; also of one that runs for long. Of any other: no effect.
  virtual void give_back(const ActorId& /*actor*/) {}
  // Ends the actor: its pending calls fail. no_restart false: it restarts by its max_restarts. grace 0: at once.
  virtual Result<void> kill(const ActorId& actor, bool no_restart, std::chrono::milliseconds grace) = 0;
  // The same without waiting: `done` runs once with the head's answer, on a thread of the runtime or before this returns. A head that
  // is away is waited for.
  virtual void kill_later(const ActorId& actor, bool no_restart, std::chrono::milliseconds grace, std::function<void(Result<void>)> done) {
    done(kill(actor, no_restart, grace));
  }
  // Begins to follow an actor of which only the id is known (a handle that came as an argument).
  virtual void watch(const ActorId& actor) = 0;
  // The same, of a handle that keeps the actor: what the handle carries from now on; null where nobody counts. Cheap where this process
  // has one already, and never waits.
  enum class HandleFrom : uint8_t {
    kSpawn,     // It was made here.
    kArgument,  // It came as an argument, or is about to leave as one.
    kAnswer,    // It came with an answer: who answered has lent it.
  };
  virtual std::shared_ptr<const ActorHold> hold(const ActorId& actor, HandleFrom from) {
    if (from != HandleFrom::kSpawn) watch(actor);
    return nullptr;
  }
  // A handle leaves with an answer, whose receiver will claim it.
  virtual void lend(const ActorId& /*actor*/) {}
  virtual Result<ActorStatus> status(const ActorId& actor) = 0;
  // At every change until the returned token is destroyed; on a thread of the runtime.
  virtual std::shared_ptr<void> on_status(const ActorId& actor, std::function<void(const ActorStatus&)> function) = 0;

  // How long in all no head has been in reach, as OutageClock counts it: actors may have been parked then, through no fault of theirs.
  virtual std::chrono::nanoseconds time_without_head() { return std::chrono::nanoseconds(0); }
  virtual ClusterTotals totals() = 0;
  virtual std::string cluster_name() = 0;
  virtual std::string node_name() = 0;  // Inside an actor; empty in a driver.
  // Lines of this driver's actors; one receiver, none by default (then they go to stderr as "(trial 3f2a, node b) …").
  virtual void on_log(std::function<void(const LogLine&)> function) = 0;
  virtual void report(const ExperimentReport& report) = 0;
  // Requests for an experiment that this process reports, on a thread of the runtime; null: no longer. None by default: then they are dropped.
  virtual void on_request(const std::string& /*experiment*/, std::function<void(const ExperimentRequest&)> /*function*/) {}
  // Of this process's executable, 32 bytes; empty where it is not known.
  virtual std::string program_sha256() { return {}; }
  // Of this process; null where there is none.
  virtual std::shared_ptr<ObjectStore> objects() { return nullptr; }
  // How others name who runs on this thread, to have it run a task again for an object that is lost; empty: they cannot ask.
  virtual std::string name_as_owner() { return {}; }
  // Asks the owner of an object, who submitted the task that brought it, to have it made again. `depth`: of how many lost objects this one is
  // needed to make one again. `done` runs once, on a thread of the runtime: a reference to what was made, as it travels, lent to this process;
  // kObjectLost: it could not be, or its owner has ended.
  virtual void rebuild(const std::string& /*owner*/, const ObjectKey& /*object*/, int /*depth*/, std::function<void(Result<std::string>)> done) {
    done(make_error(ErrorCode::kObjectLost, "this process cannot ask who submitted the task that brought it"));
  }
  // Of an actor: its CPUs are others' while it waits, then its own again. Repeated: no effect.
  virtual void lend_cpus(bool) {}
  // Null where there is no cluster that has placement groups.
  virtual std::shared_ptr<GroupSession> groups() { return nullptr; }

 private:
  const uint64_t serial_;
};

}  // namespace volador
