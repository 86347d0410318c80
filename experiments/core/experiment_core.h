// State machine of the experiments of a cluster: requests and events in, actions out. A trial runs as a job of the
// queue, once for each of its runs; the head passes the search's operations to it and takes its reports.
// Pure: no clock, thread or I/O. Ids come from the injected Random.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/config/config_reader.h"
#include "experiments/metrics/metric_report.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/experiments.pb.h"
#include "runtime/protocol/katib.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::experiments {

// Tables of the journal. Keys are ids as 8 bytes, highest first, but for checkpoints, whose key is the id.
inline constexpr std::string_view kExperimentsTable = "experiments";  // protocol::ExperimentDefinition.
// protocol::SearchRecord; key: the experiment.
inline constexpr std::string_view kSearchesTable = "experiment_searches";
// protocol::SearchStep, what happened since the SearchRecord; key: the experiment, and the number of the step.
inline constexpr std::string_view kSearchStepsTable = "experiment_search_steps";
inline constexpr std::string_view kTrialsTable = "experiment_trials";                 // protocol::TrialRecord.
inline constexpr std::string_view kTrialProgramsTable = "experiment_trial_programs";  // protocol::KatibTrialProgram.
inline constexpr std::string_view kCheckpointsTable = "experiment_checkpoints";       // protocol::CheckpointRecord.
// "last": the highest ids of an experiment and a trial that were deleted: "12 340".
inline constexpr std::string_view kExperimentsHeadTable = "experiments_head";

struct ExperimentLimits {
  size_t open = 1000;         // Experiments that have not ended.
  size_t trials = 1'000'000;  // Those of one experiment.
  int losses = 100;           // Runs of a trial lost with their nodes, after which it fails.
};

// Who asks.
struct ExperimentRequester {
  std::string token_id;
  std::string user = {};  // Empty: the token has no user.
  bool operates = false;
};

struct ExperimentRow {
  std::string table;
  std::string key;
  std::optional<std::string> value;  // None: the row is removed.
};

// A job for a run of a trial, submitted as the creator of the experiment. JobSpec::trial makes it idempotent.
struct TrialJob {
  int64_t experiment = 0;
  int64_t trial = 0;
  int64_t run = 0;
  ExperimentRequester as;
  v1::JobSpec spec;
};
struct TrialStop {
  int64_t trial = 0;
  int64_t run = 0;
  std::string job;
  bool now = false;  // Kill; otherwise SIGTERM first.
};
// Another priority of a job, for Jobs/SetJobPriority. It has no effect if the job is not queued any more.
struct TrialPriority {
  std::string job;
  std::string priority;
};
struct ExperimentEvent {
  std::string text;
  std::vector<std::pair<std::string, std::string>> fields;
};

// Everything that one request or event produces. The rows become durable before the rest happens.
struct ExperimentActions {
  std::vector<ExperimentRow> rows;
  std::vector<TrialJob> submit;
  std::vector<TrialStop> stop;
  std::vector<TrialPriority> priorities;
  std::vector<MetricReport> metrics;
  std::vector<MetricRewind> rewinds;
  std::vector<int64_t> garbage;              // Experiments with checkpoints to delete: a job should collect them.
  std::vector<int64_t> deleted_experiments;  // Their metrics can be removed.
  std::vector<int64_t> trials;               // Changed: waiting requests of their processes are answered again.
  std::vector<int64_t> experiments;          // Changed.
  std::vector<std::string> revoke;           // Ids of tokens that trials used.
  std::vector<ExperimentEvent> events;
};

// How a search stands.
struct SearchOutlook {
  static constexpr size_t kMembersMax = 256;  // Over all rungs.
  struct Member {
    int64_t trial = 0;
    double value = 0;
    std::string act;  // passed, paused, stopped, finished.
  };
  struct Rung {
    int64_t bracket = 0;
    int64_t length = 0;  // In the unit of the search.
    int64_t trials = 0;  // That have reached it; more than members if those are cut off.
    int64_t passed = 0;
    int64_t awaited = 0;          // On the way to it.
    double cutoff = 0;            // The worst value that passed; NaN: none yet.
    std::vector<Member> members;  // Best first.
  };
  struct Left {
    double seconds = 0, low = 0, high = 0;  // See tune::estimate_time_left().
  };
  std::vector<Rung> rungs;   // Empty: it has none, or it has ended.
  std::optional<Left> left;  // None: unknown.
};

// The cluster as far as the sizes of trials depend on it.
struct SlotsView {
  struct Node {
    double cpus = 0;
    double gpus = 0;
    std::string pool;  // "default" without a label.
  };
  std::vector<Node> nodes;
};

// How a trial's slots are spread: a trial that fits one node runs on one, a larger one takes whole nodes with the same
// number of slots. Slots are GPUs if any node of the pool has GPUs, otherwise CPUs. 0 slots: one CPU.
struct SlotsPlan {
  int nodes = 1;
  int slots_on_node = 0;
  bool gpus = false;
};
// kInfeasible: the pool's nodes cannot hold them; the message says what they have.
Result<SlotsPlan> plan_slots(int64_t slots, bool is_single_node, const std::string& pool, const SlotsView& view);

class ExperimentCore {
 public:
  // `defaults`: of the cluster for configurations, YAML; must contain a checkpoint_storage.
  ExperimentCore(const ExperimentLimits& limits, Random& random, ConfigFile defaults);
  ~ExperimentCore();

  // Names what keeps a checkpoint from deletion, as "version 3 of model digits"; empty: nothing. Called during requests
  // and events; a checkpoint with a name is not collected. Call before start().
  void set_keeper(std::function<std::string(const std::string& checkpoint)> keeper);

  // Loads a row; call before start(). Returns false if it cannot be read.
  bool load(std::string_view table, std::string_view key, std::string_view value);
  // Goes on with the loaded experiments: open jobs are asked about again by open_jobs(), lost requests are made again.
  void start(int64_t now_ms);

  // ---- requests of users ----
  // kNotFound: no such experiment, trial or checkpoint that the requester may see. kPermissionDenied: it may not change
  // it: only its owner (user, else token) and operators may. kInvalidArgument: the state does not allow it; the message
  // has the state and what fits.

  struct Checked {
    ExperimentConfig config;
    std::vector<std::string> warnings;
  };
  // kInvalidArgument: the configuration has errors; the message has all of them, each with its place. kInfeasible: see
  // plan_slots(). kUnavailable: too many open experiments.
  Result<Checked> check(const v1::CreateExperimentRequest& request, const ExperimentRequester& by,
                        const SlotsView& view) const;
  // What the search of the configuration will run. kInvalidArgument: as check(), or the search is too large to be
  // simulated here.
  Result<v1::PreviewSearchReply> preview(const v1::PreviewSearchRequest& request) const;
  // The experiment that an earlier request of the same requester with the same request_id has created; none: there is
  // none, or the request has no request_id.
  std::optional<v1::CreateExperimentReply> created(const v1::CreateExperimentRequest& request,
                                                   const ExperimentRequester& by) const;
  // `token`: id and text of a token for the trials' processes. Revoked if the experiment was created() before. `katib`:
  // "<namespace>/<name>" of the resource that it runs; empty: none.
  Result<v1::CreateExperimentReply> create(const v1::CreateExperimentRequest& request, const ExperimentRequester& by,
                                           const std::pair<std::string, std::string>& token, const SlotsView& view,
                                           int64_t now_ms, const std::string& katib = {});
  Result<v1::ExperimentInfo> get(int64_t id, const ExperimentRequester& by) const;
  v1::ListExperimentsReply list(const v1::ListExperimentsRequest& request, const ExperimentRequester& by) const;
  Result<v1::ExperimentInfo> change(const v1::ChangeExperimentRequest& request, const ExperimentRequester& by,
                                    int64_t now_ms);
  Result<v1::ExperimentInfo> edit(const v1::EditExperimentRequest& request, const ExperimentRequester& by,
                                  int64_t now_ms);
  // O(trials), some milliseconds for many trials. Empty if there is no such experiment.
  SearchOutlook outlook(int64_t experiment, int64_t now_ms) const;
  Result<v1::TrialInfo> trial(int64_t id, const ExperimentRequester& by) const;
  Result<v1::ListTrialInfosReply> trials(const v1::ListTrialInfosRequest& request, const ExperimentRequester& by) const;
  Result<v1::TrialInfo> kill_trial(int64_t id, const ExperimentRequester& by, int64_t now_ms);
  Result<v1::CheckpointInfo> checkpoint(const std::string& id, const ExperimentRequester& by) const;
  // kInvalidArgument: it is deleted or being deleted, alone or with its experiment, so nothing can keep it any more.
  Result<v1::CheckpointInfo> checkpoint_to_keep(const std::string& id, const ExperimentRequester& by) const;
  Result<v1::ListCheckpointsReply> checkpoints(const v1::ListCheckpointsRequest& request,
                                               const ExperimentRequester& by) const;
  Result<void> delete_checkpoints(const v1::DeleteCheckpointsRequest& request, const ExperimentRequester& by);
  // None: no event yet; ask again after the experiment changed.
  Result<std::optional<v1::GetSearcherEventsReply>> searcher_events(int64_t experiment,
                                                                    const ExperimentRequester& by) const;
  Result<void> searcher_operations(const v1::PostSearcherOperationsRequest& request, const ExperimentRequester& by,
                                   int64_t now_ms);

  // ---- experiments of kind Experiment, for the server of these resources ----
  // Creates trials that each have a program of their own and search one unit of length. Those whose names the
  // experiment knows have no effect. kNotFound: there is none. kInvalidArgument: it takes no more.
  Result<void> run_trials(int64_t experiment, const std::vector<protocol::KatibTrialProgram>& programs, int64_t now_ms);
  // The search ends and the trials that have not ended are killed; then the experiment has completed, or failed. No
  // effect on one that ends or does not exist.
  void end_search(int64_t experiment, bool failure, int64_t now_ms);
  // No value: it does not exist or runs no resource.
  std::optional<v1::ExperimentInfo> of_resource(int64_t experiment) const;
  std::vector<int64_t> all_of_resources() const;
  // kNotFound; kPermissionDenied: neither the trial's token, nor its owner or an operator.
  Result<void> may_report(int64_t trial, const ExperimentRequester& by) const;

  // ---- requests of trials' processes: by the experiment's token, its owner or an operator ----
  // kCancelled: of an earlier run, or the trial has ended. kNotFound, kPermissionDenied: as above.

  Result<v1::StartTrialRunReply> start_run(const v1::StartTrialRunRequest& request, const ExperimentRequester& by,
                                           int64_t now_ms);
  // None: the program of a custom search has not decided; ask again after the trial changed. A trial that waits for
  // others of its search is told that there is no more: it releases its resources, and starts again if it goes on.
  Result<std::optional<v1::GetTrialOperationReply>> operation(int64_t trial, int64_t run,
                                                              const ExperimentRequester& by) const;
  Result<void> complete(const v1::CompleteTrialOperationRequest& request, const ExperimentRequester& by,
                        int64_t now_ms);
  Result<v1::ReportMetricsReply> report_metrics(const v1::ReportMetricsRequest& request, const ExperimentRequester& by,
                                                int64_t now_ms);
  Result<void> report_progress(const v1::ReportProgressRequest& request, const ExperimentRequester& by, int64_t now_ms);
  Result<void> report_exit(const v1::ReportTrialExitRequest& request, const ExperimentRequester& by, int64_t now_ms);
  Result<void> report_checkpoint(const v1::ReportCheckpointRequest& request, const ExperimentRequester& by,
                                 int64_t now_ms);
  Result<bool> should_preempt(int64_t trial, int64_t run, const ExperimentRequester& by) const;
  Result<void> acknowledge_preemption(int64_t trial, int64_t run, const ExperimentRequester& by, int64_t now_ms);

  // ---- deletion of checkpoints ----
  Result<v1::GetGarbageReply> garbage(int64_t experiment, const ExperimentRequester& by) const;
  Result<void> garbage_collected(const v1::ReportGarbageRequest& request, const ExperimentRequester& by,
                                 int64_t now_ms);
  // A new job that collects garbage of an experiment, `trial` 0. Its JobSpec::trial is "garbage-<experiment>.<run>", so
  // that on_job() takes its changes too. `token`: id and text of a new token for it; it is revoked when it has reported.
  Result<TrialJob> garbage_job(int64_t experiment, const std::pair<std::string, std::string>& token);
  // The job has ended without a report, or was refused. What it should delete can be given to another garbage_job(); an
  // experiment that is being deleted is in the state DELETE_FAILED, and a user tries again.
  void on_garbage_job_failed(int64_t experiment, const std::string& why, int64_t now_ms);

  // ---- events ----

  // A job of a trial (JobSpec::trial) has changed, or was looked up; stale ones have no effect.
  void on_job(const v1::Job& job, int64_t now_ms);
  // A job could not be submitted. Unless kUnavailable, after which it is submitted again, the trial fails.
  void on_refused(int64_t trial, int64_t run, const Error& error, int64_t now_ms);
  // A job that open_jobs() listed does not exist.
  void on_job_gone(int64_t trial, int64_t run, int64_t now_ms);
  // Runs whose jobs have not ended, for a look-up after a restart. `job` is empty if its submission was not confirmed.
  struct OpenJob {
    int64_t trial = 0;
    int64_t run = 0;
    std::string job;
  };
  std::vector<OpenJob> open_jobs() const;
  // Ends trials whose time to react to a preemption has passed. Call at deadline_ms().
  void on_tick(int64_t now_ms);
  std::optional<int64_t> deadline_ms() const;
  // Whether an experiment that is not deleted needs the archive of this code folder.
  bool needs_files(const std::string& sha256) const;
  // The experiment of a trial.
  std::optional<int64_t> experiment_of(int64_t trial) const;

  ExperimentActions take();
  // Aborts if the tables are inconsistent.
  void check_invariants() const;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace volador::experiments
