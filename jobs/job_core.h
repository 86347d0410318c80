// State machine of the jobs of a cluster: events in, actions out.
// Pure: no clock, thread or I/O. Ids come from the injected Random.
//
//            planner admits it       all ranks run        a rank failed, all ranks ended, stop, expiry
//   queued ──────────────────► placing ─────────► running ─────────────────────────────────────┐
//     ▲                           │ stop, refusal                                               ▼
//     │                           └──────────────────────────────────────────────────────►   ending
//     └──────── restarts or resumes remain, its node was lost, it is moved or grows ──────────┤
//                                                                                               ▼
//                                              ended: succeeded, failed, stopped or expired
//
// Each rank is a detached actor (jobs/command.h) of the jobs' own driver. A job on several nodes has a placement group
// with a bundle per node. The head's scheduler places them and never sees a job.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "jobs/job_access.h"
#include "jobs/log_policy.h"
#include "jobs/queue/incremental_planner.h"
#include "jobs/queue/job_planner.h"
#include "jobs/queue/run_time_predictor.h"
#include "jobs/queue/start_forecast.h"
#include "jobs/usage.h"
#include "runtime/ids.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::jobs {

inline constexpr std::string_view kJobsTable = "jobs";  // JobRecord; key: its number, 8 bytes, highest first.
// "driver": id of the jobs' driver; "program": hash of its program; "last": the highest number of a deleted job;
// "settings": QueueSettings.
inline constexpr std::string_view kJobsHeadTable = "jobs_head";
inline constexpr std::string_view kUsageTable = "jobs_usage";              // v1::Usage; key: day, project and owner.
inline constexpr std::string_view kLeavingGroupsTable = "leaving_groups";  // Empty values; key: raw id of a group.
inline constexpr std::string_view kNoticesTable = "job_notices";           // JobNotice; key: its number, 8 bytes.

// "job-7".
std::string job_id(int64_t number);

struct JobLimits {
  size_t open = 20'000;   // Queued and running jobs.
  size_t ended = 10'000;  // Kept; the oldest are dropped.
  int losses = 100;       // Attempts lost with their nodes, after which a job fails.
};

// One row for the journal; no value removes it.
struct JobRow {
  std::string table;
  std::string key;
  std::optional<std::string> value;
};

// One line for the log and the page's events.
struct JobEvent {
  std::string text;
  std::vector<std::pair<std::string, std::string>> fields;
  Reason why = {};  // Data of the field "why".
};

// The actors that are or were ranks of a job, as far as the job's record has them.
struct JobActors {
  int64_t number = 0;
  v1::Job access;               // See access_part().
  std::vector<ActorId> actors;  // Empty: the job was dropped.
};

// Everything that one event produces. The rows become durable before the messages are sent.
struct JobActions {
  std::vector<JobRow> rows;
  std::vector<protocol::ClientMessage> messages;  // To the head, as the jobs' driver.
  std::vector<JobEvent> events;
  std::vector<protocol::JobNotice> notices;   // To be delivered when the rows are durable; see on_reported().
  std::optional<v1::QueueSettings> settings;  // With their secrets, if they changed.
  std::vector<JobActors> actors;              // Jobs whose actors changed.
  std::vector<v1::Job> trials;                // Jobs with JobSpec.trial that changed, as they are now.
  bool look = false;                          // The capacity of the cluster is needed: call on_cluster() with it.
};

// The cluster as the queue sees it, read at one time.
struct ClusterState {
  ClusterView view;                              // Without `running`.
  std::map<std::string, std::string> addresses;  // Address by node, without a port.
  struct Problem {
    bool of_gpu = false;  // One of its GPUs has it, not the node.
    Reason what;
  };
  std::map<std::string, std::vector<Problem>> problems;  // Health problems by node.
  std::map<std::string, Amount> withheld_gpus;           // Unused GPUs with a problem, by node: not free.
  std::vector<ActorId> gone;  // Actors that were asked for, as ending() lists them, and have no process any more.
};

class JobCore {
 public:
  JobCore(const JobLimits& limits, Random& random) : limits_(limits), random_(random) {}

  // Loads a row; call before start(). Returns false if it cannot be read.
  bool load(std::string_view table, std::string_view key, std::string_view value);
  // Goes on with the loaded jobs.
  void start(int64_t now_ms);
  // The program of the ranks, by its hash. The driver's id is kept across restarts of the head as long as its program is
  // the same: actors of a driver run one program. Call before the driver connects.
  void use_program(const std::string& sha256);
  DriverId driver() const { return driver_; }
  // Whether any job is not ended or left a group behind, so that the driver must be connected.
  bool any_open() const { return !open_.empty() || !leaving_groups_.empty(); }

  // ---- requests ----

  // kInvalidArgument: see checked_spec(). kInfeasible: no node of the cluster can ever hold it; the message says what
  // is missing. kUnavailable: too many jobs. `files_bytes`: size of its archive.
  // A job whose `trial` another one has is that job.
  Result<v1::SubmitJobReply> submit(const v1::SubmitJobRequest& request, const Requester& by, int64_t files_bytes,
                                    int64_t now_ms);
  Result<v1::Job> get(const std::string& job, const Requester& by, int64_t now_ms) const;
  // Those that the requester may see.
  v1::ListJobsReply list(const v1::ListJobsRequest& request, const Requester& by, int64_t now_ms) const;
  // All of them: kNotFound: no such job that the requester may see (jobs/job_access.h), or several have this name.
  // kPermissionDenied: the requester may not change it.
  // kInvalidArgument: its state does not allow the request; the message has the state.
  Result<v1::Job> stop(const v1::StopJobRequest& request, const Requester& by, int64_t now_ms);
  Result<void> remove(const v1::DeleteJobRequest& request, const Requester& by, int64_t now_ms);
  Result<v1::Job> set_priority(const v1::SetJobPriorityRequest& request, const Requester& by, int64_t now_ms);
  Result<v1::Job> extend(const v1::ExtendJobRequest& request, const Requester& by, int64_t now_ms);

  // The actor of a rank in which users may run commands. Errors as above; the job must run.
  Result<ActorId> rank_for_commands(const std::string& job, int rank, const Requester& by) const;

  v1::GetQueueReply queue() const;
  // kInvalidArgument: see UsageLedger::usage().
  Result<v1::GetUsageReply> usage(const v1::GetUsageRequest& request, int64_t now_ms) const;
  // kInvalidArgument: see checked_settings(), or another version than the present one.
  // The reply, as that of queue(), has no secrets: see without_secrets().
  Result<v1::QueueSettings> set_queue(const v1::QueueSettings& settings);

  // ---- events ----

  void on_message(const protocol::HeadMessage& message, int64_t now_ms);
  // The driver's connection was opened, or opened again: requests of unfinished jobs are sent again.
  void on_connected(int64_t now_ms);
  void on_cluster(ClusterState state, int64_t now_ms);
  // Reports with these numbers were delivered or given up. Those whose end the journal does not have are delivered
  // again after a restart of the head.
  void on_reported(const std::vector<int64_t>& numbers);
  // Expires jobs, and asks for a view of the cluster now and then. Call at deadline(), at least every second while
  // any_open() and every minute otherwise.
  void on_tick(int64_t now_ms);
  // When the next job expires; none: never.
  std::optional<int64_t> deadline_ms() const;
  // Ranks that watch their output for log policies or are kept after a failure, and how many of their matches are known.
  struct WatchedRank {
    ActorId actor;
    int64_t known = 0;
  };
  std::vector<WatchedRank> watched_ranks() const;
  // Matches of a rank beyond the first `known`.
  void on_log_matches(ActorId rank, int64_t known, const std::vector<LogMatch>& matches, int64_t now_ms);
  // Actors whose end is awaited.
  std::vector<ActorId> ending() const;
  // Whether an open job needs the files with this hash, in hex.
  bool needs_files(const std::string& sha256) const;

  JobActions take();
  // Aborts if the tables are inconsistent. O(jobs).
  void check_invariants() const;

 private:
  using Phase = protocol::JobRecord;
  struct Rank {
    ActorId actor;
    protocol::ActorState state = protocol::ACTOR_STATE_UNSPECIFIED;
    uint64_t version = 0;
    bool gone = false;  // No process is left.
    protocol::DeathCause cause;
    std::set<std::string> problems;  // Health problems of its node and GPUs that are known, as keys.
  };
  struct Job {
    protocol::JobRecord record;
    std::vector<Rank> ranks;                                // Ranks of the newest attempt; empty while queued.
    std::vector<std::pair<std::string, ResourceSet>> held;  // By node, from the planner or the placed ranks.
    Reason waits;                                           // Why it is not placed, after hand_over().
    int64_t promised_ms = 0;                                // See QueuedJob.
    bool ask_again = false;                                 // The head refused a request because of a limit.
    int64_t leaves_ms = 0;                                  // While it ends: when its processes are killed.
    int64_t begun_ms = 0;                                   // When the newest attempt was requested.
    int64_t again_ms = 0;                                   // When it was last queued again.
    int64_t room_since_ms = 0;  // Since when there is room for more of its nodes, see grow(); 0: there is none.
    std::optional<protocol::DeathCause> failed;  // The first failure of this attempt.
    int failed_rank = -1;
    const v1::JobSpec& spec() const { return record.job().spec(); }
  };

  const Job* find(const std::string& name, const Requester& by, Error* why) const;
  Result<Job*> change(const std::string& name, const Requester& by, std::string_view what);
  v1::Job row(const Job& job, int64_t now_ms) const;
  std::string public_name(const Job& job) const;
  google::protobuf::RepeatedPtrField<std::string> nodes_to_avoid(const std::string& trial) const;
  void tell_actors(const Job& job);
  using Fields = std::vector<std::pair<std::string, std::string>>;
  void event(std::string text, Fields fields, Reason why = {});
  // Without the details if not all may see the job, since everyone sees the events.
  void event_of(const Job& job, std::string text, Fields fields, Fields details);
  bool load_notice(std::string_view value);
  // Reports an event (as v1.Notification.events) of the job to those that the settings and the job name. `why`: in
  // place of the job's reason.
  void report(const Job& job, std::string_view event, int64_t now_ms, const Reason& why = {});
  void keep(Job& job);
  void plan(int64_t now_ms);
  QueuedJob queued(const Job& job) const;
  void take_room(const Job& job);
  void update_running(const Job& job);
  void add_held(JobNumber running, int sign);
  void drop_running(int64_t number);
  const std::unordered_map<JobNumber, Wait>& waits() const;
  Reason wait_reason(const Job& job) const;
  void enqueue(Job& job);
  void dequeue(int64_t number);
  IncrementalPlanner& planner() const;
  int64_t position(const Job& job) const;
  void record_run(const Job& job, int64_t run_ms);
  // The forecast of the whole queue, at most 1 s and 1 ms a queued job old.
  const std::map<int64_t, StartForecast>& forecasts(int64_t now_ms) const;
  Result<void> check_admission(const Job& job) const;
  Result<void> check_urgency(const Job& job, const std::string& priority) const;
  const Job* started_alternative(const Job& job) const;
  void stop_alternatives(const Job& job, int64_t now_ms);
  void preempt(Job& job, int64_t by, int64_t now_ms);
  void hand_over(Job& job, int64_t now_ms);
  bool awaits_own_nodes(const Job& job, int64_t now_ms) const;
  void grow(int64_t now_ms);
  bool may_grow(const Job& job, int64_t now_ms) const;
  std::set<std::string> awaited_pools() const;
  size_t room_of(const Job& job, int64_t now_ms) const;
  std::vector<RunningJob> running_of_project(const Job& job) const;
  // Enters the job into the sets of active jobs, and takes it out of them.
  void activate(const Job& job);
  void deactivate(int64_t number);
  void begin(Job& job, const std::vector<std::string>& nodes, int64_t now_ms);
  void spawn_ranks(Job& job, const std::vector<std::string>& nodes);
  void send_requests(Job& job);
  void send_removal(const std::string& group);
  protocol::ActorSpec actor_spec(const Job& job, int rank, const std::vector<std::string>& nodes) const;
  void on_actor(const protocol::ActorInfo& info, int64_t now_ms);
  void on_reply(const protocol::Reply& reply, int64_t now_ms);
  std::string resume(Job& job, const Reason& why);
  void move(Job& job, const Reason& why, int64_t now_ms);
  void note_problems(Job& job, Rank& rank, const protocol::ActorInfo& info, int64_t now_ms);
  std::vector<std::pair<std::string, ClusterState::Problem>> problems_for(const Job& job) const;
  void note_left_out(const Job& job);
  bool has_failed_node(const Job& job) const;
  void apply_policy(Job& job, const v1::LogPolicy& policy, const v1::JobRank& rank, const std::string& line,
                    int64_t now_ms);
  void leave_closed_nodes(int64_t now_ms);
  bool waits_in_vain(const Job& job, int64_t now_ms) const;
  void settle(Job& job, int64_t now_ms);
  static UsageLedger::Run run_of(const Job& job, int64_t until_ms);
  void account(Job& job, int64_t now_ms);
  void account_idle(int64_t now_ms);
  void keep_usage();
  void end_ranks(Job& job, const std::string& outcome, bool now);
  void finish(Job& job, int64_t now_ms);
  void set_end(Job& job, const std::string& state, const Reason& why, int64_t now_ms);
  Reason reason_of_failure(const Job& job) const;
  void keep_failed(Job& job, int rank, int code, int64_t now_ms);
  void set_reason_of_kept(Job& job);
  void drop_oldest();
  void forget(int64_t number);
  void forget_ranks(Job& job);

  const JobLimits limits_;
  Random& random_;
  DriverId driver_;
  std::string program_;
  std::map<int64_t, Job> jobs_;
  std::set<int64_t> open_;              // Not ended: queued jobs and those of active_.
  std::set<int64_t> active_;            // Open jobs that are not queued; as many as the cluster holds.
  std::set<int64_t> growing_;           // Those of active_ that may be given more nodes, see JobSpec.grow.
  std::set<int64_t> watched_;           // Those of active_ whose ranks report to the head, see watched_ranks().
  mutable IncrementalPlanner planner_;  // The queued jobs, and the running ones: those of active_.
  std::array<std::vector<int64_t>, 3> waiting_;  // Queued jobs by priority, ascending.
  std::set<int64_t> unseen_;                     // Those of active_ whose resources the last view did not show as used.
  std::vector<int64_t> newly_ending_;            // Since the last plan.
  std::deque<int64_t> ended_;                    // In the order of their ends.
  std::unordered_map<ActorId, int64_t> by_actor_;
  std::map<std::string, int64_t> by_group_;            // Raw id.
  std::set<std::string> leaving_groups_;               // Raw ids of groups whose removal is not confirmed.
  std::unordered_map<std::string, int64_t> by_trial_;  // By JobSpec.trial.
  std::set<int64_t> changed_trials_;                   // Jobs of trials that changed since the last take().
  int64_t last_ = 0;
  // Free resources are less those of jobs that the view does not show yet.
  ClusterState cluster_;
  std::unordered_map<std::string, size_t> node_index_;  // Into the nodes of the view.
  std::unordered_map<std::string, ResourceSet> held_;   // By active jobs, by node.
  std::set<std::string> pools_;                         // Pools that nodes belong to.
  mutable std::optional<int64_t> waits_stale_at_ms_;    // The time of the last plan, if waits_ is older than it.
  mutable std::unordered_map<JobNumber, Wait> waits_;   // Why jobs wait, by the last plan.
  struct NotHandedOver {
    int64_t number = 0;
    int64_t at_ms = 0;
  };
  std::map<std::string, NotHandedOver> not_handed_over_;  // By pool, the last job for which hand_over() found no room.
  bool seen_cluster_ = false;
  RunTimePredictor predictor_;
  UsageLedger usage_;
  ResourceSet idle_;        // Free on all nodes together, since idle_at_ms_.
  int64_t idle_at_ms_ = 0;  // 0: not known yet.
  int64_t idle_kept_ms_ = 0;
  v1::QueueSettings settings_;
  std::set<int64_t> notices_;  // Numbers of reports whose delivery is not finished.
  int64_t last_notice_ = 0;
  mutable std::map<int64_t, StartForecast> forecasts_;  // By number.
  mutable int64_t forecast_at_ms_ = 0;
  JobActions actions_;
};

}  // namespace volador::jobs
