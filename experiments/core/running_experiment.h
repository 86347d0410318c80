// One experiment with its search, trials and checkpoints. Requests arrive checked for access.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "experiments/core/experiment_state.h"
#include "experiments/core/trial_job.h"
#include "experiments/core/trial_pace.h"
#include "experiments/core/trial_state.h"
#include "experiments/search/searcher_settings.h"
#include "runtime/protocol/experiments.pb.h"
#include "runtime/protocol/katib.pb.h"
#include "tune/determined/determined_custom.h"

namespace volador::tune {
struct RunPace;
}

namespace volador::experiments {

// What the experiments of a cluster share.
struct ExperimentContext {
  const ExperimentLimits limits;
  ExperimentActions actions;
  std::set<int64_t> touched = {};  // Experiments with changes that have no rows yet.
  int64_t last_experiment = 0;     // The highest ids that were given.
  int64_t last_trial = 0;
  std::unordered_map<int64_t, int64_t> experiment_of = {};         // By trial.
  std::map<std::string, int64_t, std::less<>> checkpoint_of = {};  // Experiment by id of a checkpoint.
  std::map<std::string, int> warm_starts = {};                     // Experiments that start from a checkpoint.
  // See ExperimentCore::set_keeper().
  std::function<std::string(const std::string& checkpoint)> keeper = [](const std::string&) { return std::string(); };
};

// The search of a configuration. kInvalidArgument: its options or hyperparameters allow none.
Result<std::unique_ptr<tune::determined::Search>> search_of(const ExperimentConfig& config, uint32_t seed);

// Rows of one experiment, as they were loaded.
struct ExperimentRows {
  std::optional<protocol::ExperimentDefinition> definition;
  std::optional<protocol::SearchRecord> search;
  std::map<int64_t, protocol::SearchStep> steps;
  std::map<int64_t, protocol::TrialRecord> trials;
  std::vector<protocol::CheckpointRecord> checkpoints;
  std::map<int64_t, protocol::KatibTrialProgram> programs;
};

class RunningExperiment {
 public:
  // A new one, to be begun.
  RunningExperiment(ExperimentContext& context, protocol::ExperimentDefinition definition,
                    std::optional<ExperimentConfig> config);
  // One of an earlier run of the head, to be resumed.
  RunningExperiment(ExperimentContext& context, ExperimentRows rows);

  // Starts its search; `who` created it. kInvalidArgument: see search_of().
  Result<void> begin(const std::string& who, int64_t now_ms);
  void resume(int64_t now_ms);

  int64_t id() const { return definition_.id(); }
  RunState state() const { return machine_.state(); }
  bool is_over() const { return !is_active(); }
  bool is_deleted() const { return machine_.state() == RunState::kDeleted; }
  const protocol::ExperimentDefinition& definition() const { return definition_; }
  const ExperimentConfig& config() const;
  v1::ExperimentInfo info() const;
  v1::ExperimentInfo info_with_config() const;

  // ---- requests of users ----
  Result<void> command(ExperimentCommand command, const std::string& who, int64_t now_ms);
  Result<void> edit(const v1::EditExperimentRequest& request, const ExperimentRequester& by, int64_t now_ms);
  Result<void> kill_trial(int64_t trial, const std::string& who, int64_t now_ms);
  v1::TrialInfo trial_info(int64_t trial) const;
  v1::ListTrialInfosReply trials(const v1::ListTrialInfosRequest& request) const;
  SearchOutlook outlook(int64_t now_ms) const;
  std::optional<v1::GetSearcherEventsReply> searcher_events() const;
  Result<void> searcher_operations(const v1::PostSearcherOperationsRequest& request, int64_t now_ms);

  // ---- experiments of kind Experiment ----
  Result<void> run_trials(const std::vector<protocol::KatibTrialProgram>& programs, int64_t now_ms);
  void end_search(bool failure, int64_t now_ms);

  // ---- requests of trials' processes ----
  // kCancelled: `run` is not the trial's run, or the trial has ended.
  Result<void> check_run(int64_t trial, int64_t run) const;
  v1::StartTrialRunReply start_run(const v1::StartTrialRunRequest& request, int64_t now_ms);
  std::optional<v1::GetTrialOperationReply> operation(int64_t trial) const;
  Result<void> complete(const v1::CompleteTrialOperationRequest& request, int64_t now_ms);
  Result<v1::ReportMetricsReply> report_metrics(const v1::ReportMetricsRequest& request, int64_t now_ms);
  Result<void> report_progress(const v1::ReportProgressRequest& request, int64_t now_ms);
  Result<void> report_exit(const v1::ReportTrialExitRequest& request, int64_t now_ms);
  Result<void> report_checkpoint(const v1::ReportCheckpointRequest& request, int64_t now_ms);
  bool should_preempt(int64_t trial) const;

  // ---- checkpoints ----
  const v1::CheckpointInfo* checkpoint(const std::string& id) const;
  const std::map<std::string, protocol::CheckpointRecord>& checkpoints() const { return checkpoints_; }
  // The newest checkpoint of a trial that is not deleted; null: none.
  const v1::CheckpointInfo* latest_checkpoint(int64_t trial) const;
  // The trial that was created last; 0: none.
  int64_t newest_trial() const { return trials_.empty() ? 0 : trials_.rbegin()->first; }
  // kInvalidArgument: a trial goes on from it, or a version of a model is it.
  Result<void> may_delete(const std::string& checkpoint) const;
  // kInvalidArgument: a version of a model is one of its checkpoints.
  Result<void> may_delete_all() const;
  void delete_checkpoints(const std::vector<std::string>& ids);
  bool has_garbage() const;
  v1::GetGarbageReply garbage() const;
  void garbage_collected(const v1::ReportGarbageRequest& request, int64_t now_ms);
  TrialJob garbage_job(const std::pair<std::string, std::string>& token);

  void garbage_failed(const std::string& why, int64_t now_ms);

  // ---- events ----
  void on_job(int64_t trial, int64_t run, const v1::Job& job, int64_t now_ms);
  void on_garbage_job(int64_t run, const v1::Job& job, int64_t now_ms);
  void on_refused(int64_t trial, int64_t run, const Error& error, int64_t now_ms);
  void on_job_gone(int64_t trial, int64_t run, int64_t now_ms);
  std::vector<ExperimentCore::OpenJob> open_jobs() const;
  void on_tick(int64_t now_ms);
  std::optional<int64_t> deadline_ms() const;

  // Puts the rows of all changes into the actions.
  void flush();
  void check_invariants() const;

 private:
  struct Trial {
    Trial(protocol::TrialRecord record_in, int64_t max_restarts);

    protocol::TrialRecord record;
    TrialMachine machine;
    std::vector<std::string> checkpoints = {};  // In the order in which they were reported.
    TrialPace pace = {};                        // Without a row: it is measured again after a restart of the head.

    int64_t id() const { return record.info().id(); }
    bool is_over() const { return is_terminal(machine.state()); }
    // It asked for resources that its experiment does not have.
    bool waits_for_slots() const { return machine.standing().has_processes && !record.job_requested(); }
  };
  using Step = protocol::SearchStep;

  bool is_active() const { return machine_.state() <= RunState::kStoppingError; }
  bool has_search() const { return search_ != nullptr && !is_stopping(state()) && is_active(); }
  Trial& at(int64_t trial) { return trials_.at(trial); }
  const Trial& at(int64_t trial) const { return trials_.at(trial); }
  void touch();
  void touch(Trial& trial);
  void touch_checkpoint(const std::string& id);
  void event(std::string text, std::vector<std::pair<std::string, std::string>> fields);

  // Search.
  tune::determined::Operations execute(const Step& step);
  void tell(Step step, int64_t now_ms);
  void note(Step step);
  void perform(tune::determined::Operations operations, int64_t now_ms);
  void create(const tune::determined::Create& operation, int64_t now_ms);
  void ask(Trial& trial, int64_t length, int64_t now_ms);
  void close(Trial& trial, int64_t now_ms);
  void restore_search(const ExperimentRows& rows);
  bool awaits_program(const Trial& trial) const;
  std::vector<SearchOutlook::Rung> shown_rungs(const std::vector<tune::determined::SearchRung>& rungs) const;
  void keep_rungs();
  std::optional<int64_t> planned_trials() const;
  tune::RunPace run_pace(const std::vector<tune::determined::SearchRung>& rungs, int64_t now_ms) const;

  // Programs of trials of kind Trial.
  Result<tune::determined::Operations> answer(const Step& step);
  Result<void> decide(std::vector<v1::SearcherOperation> operations, int64_t now_ms);
  const protocol::KatibTrialProgram* program_of(const Trial& trial) const;
  void take_program(Trial& trial);
  void drop_program(const Trial& trial);

  // States.
  void obey(TrialOrder order, int64_t now_ms);
  void act(Trial& trial, const TrialActions& actions, int64_t now_ms);
  void end_trial(Trial& trial, int64_t now_ms);
  void finish_if_over(int64_t now_ms);
  void remove();
  void count(const Trial& trial, int change);
  void retain(int64_t now_ms);
  void revoke_garbage_token();
  void note_garbage_failure(const std::string& why);

  // Jobs.
  std::optional<int64_t> max_slots() const;
  bool has_room() const;
  void request_run(Trial& trial);
  void submit(Trial& trial);
  void send_job(const Trial& trial);
  ExperimentRequester creator() const;
  bool ends_without_job(Trial& trial, int64_t now_ms);
  void submit_waiting();
  void preempt_excess(int64_t now_ms);
  void ask_to_end(Trial& trial, int64_t now_ms);
  void kill(Trial& trial, int64_t now_ms);
  void send_stop(Trial& trial, bool now);
  void set_deadline(Trial& trial, int64_t at_ms);
  void job_ended(Trial& trial, const v1::Job& job, int64_t now_ms);
  void run_ended(Trial& trial, ProcessEnd end, Reason why, int64_t now_ms);
  ProcessEnd end_of(const Trial& trial, const v1::Job& job, Reason& why) const;
  StartingPoint starting_point(const Trial& trial) const;

  // Reports.
  bool is_better(double metric, const std::optional<double>& than) const;
  void note_validation(Trial& trial, double metric, const std::string& metrics, int64_t batches);
  void note_metric(Trial& trial, protocol::CheckpointRecord& checkpoint);
  void choose_checkpoints(Trial& trial);
  std::optional<double> best_metric() const;

  ExperimentContext& context_;
  protocol::ExperimentDefinition definition_;
  mutable std::optional<ExperimentConfig> config_;  // Read when it is needed, for experiments that are over.
  SearcherSettings settings_;
  ExperimentMachine machine_;
  std::unique_ptr<tune::determined::Search> search_;  // While it is active.
  std::deque<tune::determined::Operation> operations_;
  bool performing_ = false;
  int64_t completing_ = 0;       // The trial whose completion the search hears of.
  int64_t step_ = 0;             // The last step of the search,
  int64_t stored_step_ = 0;      // the last one that is in a row,
  int64_t snapshot_step_ = 0;    // and the last one that the stored snapshot includes.
  std::vector<Step> new_steps_;  // Without rows.

  std::map<int64_t, Trial> trials_;
  std::unordered_map<std::string, int64_t> by_request_;
  std::set<int64_t> open_;                           // Trials that are not over.
  std::set<int64_t> waiting_;                        // Those that wait for slots,
  std::set<int64_t> running_;                        // and those with jobs.
  std::set<std::pair<int64_t, int64_t>> deadlines_;  // Time and trial, when its processes are killed.
  std::map<int64_t, int64_t> retries_;               // By trial: when its job is submitted again.
  std::map<std::string, int64_t> states_;            // Number of trials.
  int64_t best_trial_ = 0;
  std::vector<SearchOutlook::Rung> last_rungs_;      // The search that has ended had them; without a row.
  mutable std::optional<int64_t> grid_points_ = {};  // Counted when they are needed.
  std::map<std::string, protocol::CheckpointRecord> checkpoints_;
  int64_t last_checkpoint_ = 0;
  int64_t kept_checkpoints_ = 0, kept_bytes_ = 0;  // Not deleted.
  std::set<std::string> garbage_;                  // Checkpoints that are being deleted.
  // The newest job began after the experiment was to be deleted. Without a row: after a restart of the head another job
  // looks again.
  bool garbage_job_takes_all_ = false;

  bool changed_ = false;
  std::set<int64_t> changed_trials_;
  std::set<std::string> changed_checkpoints_;

  std::map<std::string, protocol::KatibTrialProgram> new_programs_;  // By name, while their trials are created.
  std::map<int64_t, protocol::KatibTrialProgram> programs_;          // By trial, until it has ended.
  std::set<int64_t> changed_programs_;
};

}  // namespace volador::experiments
