// Rows that show the experiments of volador.v1.Experiments in the head's list of experiments. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "experiments/metrics/metric_report.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador {

// Name of the experiment's rows, "<name>-<id>", with other characters than those of file names replaced.
std::string run_name_of(const v1::ExperimentInfo& experiment);
// The id at the end of such a name.
std::optional<int64_t> experiment_of_run(std::string_view run);
// "trial-17", and back.
std::string trial_row_id(int64_t trial);
std::optional<int64_t> trial_of_row(std::string_view id);

// "<trial>.<run>" of JobSpec::trial.
struct TrialRun {
  int64_t trial = 0;
  int64_t run = 0;
};
std::optional<TrialRun> trial_run_of(std::string_view text);

// What rows show of the job of a trial's newest run.
struct TrialPlace {
  int64_t run = 0;
  std::string job_state;  // v1::Job::state.
  std::string node;       // That of rank 0, likewise below.
  std::string actor;      // Raw id.
};
TrialPlace place_of(const v1::Job& job, int64_t run);

// Without trials. `trials_planned`: 0: unknown.
protocol::ExperimentUpdate experiment_update(const v1::ExperimentInfo& experiment, int64_t trials_planned);
// Rungs and time left.
void fill(protocol::ExperimentUpdate& update, const experiments::SearchOutlook& outlook);
// The best trial of an experiment, for its update.
protocol::BestTrial best_trial(const v1::TrialInfo& trial, double metric);
// `place`: null: it has no job.
protocol::TrialRow trial_row(const v1::TrialInfo& trial, const TrialPlace* place);
// The number of trials that a search creates, from a complete configuration as JSON; 0: unknown.
int64_t planned_trials(std::string_view config_json);

// The points of a trial's curves from its reports: metrics of validations by their names, other ones with their group in
// front: "training_loss". Reports of one step make one point, since points have growing steps.
class TrialPoints {
 public:
  void add(const experiments::MetricReport& report, int64_t trial_started_ms);
  // Points to send. The newest one is held back while only training reports make it, unless `all`.
  std::vector<protocol::TrialPoint> take(bool all);

 private:
  std::vector<protocol::TrialPoint> points_;
  bool is_whole_ = false;  // The newest point has a validation.
};

}  // namespace volador
