// The job of a trial's run: how it is submitted to the queue, and the environment of its processes.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/config/experiment_config.h"
#include "runtime/protocol/experiments.pb.h"
#include "runtime/protocol/katib.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::experiments {

// JobSpec::trial: "<trial>.<run>".
std::string trial_text(int64_t trial, int64_t run);
// JobSpec::trial of a job that deletes checkpoints: "garbage-<experiment>.<run>".
std::string garbage_text(int64_t experiment, int64_t run);
struct TrialText {
  bool is_garbage = false;
  int64_t id = 0;  // The trial's, or the experiment's.
  int64_t run = 0;
};
std::optional<TrialText> parse_trial_text(std::string_view text);

// Determined's priorities are 1 to 99, a lower one is more urgent, and 42 is the default: lower ones are urgent, the
// rest is normal. very_urgent is for operators, who set it with EditExperiment.
std::string_view job_priority(const std::optional<int64_t>& priority);

// The job for the present run of the trial.
v1::JobSpec job_of_trial(const protocol::ExperimentDefinition& experiment, const ExperimentConfig& config,
                         const v1::TrialInfo& trial);
// The same for a trial with a program of its own: the job of the program, whose command is run by `volador experiment
// run-trial`.
v1::JobSpec job_of_program(const protocol::ExperimentDefinition& experiment, const protocol::KatibTrialProgram& program,
                           const v1::TrialInfo& trial);
v1::JobSpec job_of_garbage(const protocol::ExperimentDefinition& experiment, const ExperimentConfig& config,
                           const std::string& token);

// A checkpoint that a run starts from.
struct StartingPoint {
  std::string checkpoint;  // Empty: none.
  int64_t batches = 0;
};
// What StartTrialRun answers.
v1::StartTrialRunReply start_of_trial(const protocol::ExperimentDefinition& experiment, const ExperimentConfig& config,
                                      const v1::TrialInfo& trial, const StartingPoint& from);

// Puts the program's command in the place of the configuration's entrypoint.
void start_program(const protocol::KatibTrialProgram& program, v1::StartTrialRunReply& reply);

// "s3://bucket/prefix", "/shared/folder".
std::string storage_text(const ExperimentConfig& config);
// checkpoint_storage of the configuration as JSON, with secrets.
std::string storage_json(const ExperimentConfig& config);

// Label of the jobs' log policies for a policy: its name, else its pattern.
std::string label_of(const LogPolicy& policy);

}  // namespace volador::experiments
