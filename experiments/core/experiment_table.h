// The experiments of a cluster: ids, names, access, creation.
// Pure: no clock, thread or I/O. Ids come from the injected Random.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "experiments/core/running_experiment.h"
#include "experiments/core/shared_rules.h"

namespace volador::experiments {

struct ExperimentCore::Impl {
  Impl(const ExperimentLimits& limits, Random& random, ConfigFile defaults);

  bool load(std::string_view table, std::string_view key, std::string_view value);
  void start(int64_t now_ms);
  ExperimentActions take();
  void check_invariants() const;

  // kNotFound: there is none with this id.
  Result<RunningExperiment*> experiment(int64_t id) const;
  // The experiment of a trial or a checkpoint. An id of a checkpoint may be the start of exactly one.
  Result<RunningExperiment*> experiment_of_trial(int64_t trial) const;
  Result<std::pair<RunningExperiment*, std::string>> experiment_of_checkpoint(const std::string& checkpoint) const;
  // kPermissionDenied: neither its owner nor an operator. `what`: "pause experiment 7".
  Result<void> check_owner(const RunningExperiment& experiment, const ExperimentRequester& by,
                           std::string_view what) const;
  // The same, with the experiment's own tokens.
  Result<void> check_process(const RunningExperiment& experiment, const ExperimentRequester& by) const;
  // The experiment of a trial whose process asks, in its newest run.
  Result<RunningExperiment*> process(int64_t trial, int64_t run, const ExperimentRequester& by) const;
  // What a trial's job is: see parse_trial_text(). Calls `call` if there is such an experiment.
  void with_trial(int64_t trial, const std::function<void(RunningExperiment&)>& call);

  // ---- creation ----
  struct Plan {
    Checked checked;
    std::string config;  // As it was given, with secrets.
    SlotsPlan slots;
    uint32_t seed = 0;
    std::string files_sha256;
    int64_t warm_start_trial = 0;
    std::string warm_start_checkpoint;
    int64_t warm_start_batches = 0;
  };
  Result<Plan> plan(const v1::CreateExperimentRequest& request, const ExperimentRequester& by,
                    const SlotsView& view) const;
  Result<v1::PreviewSearchReply> preview(const v1::PreviewSearchRequest& request) const;
  // The configuration of the request, with the secrets of its parent where it has hidden ones.
  Result<std::string> config_text(const v1::CreateExperimentRequest& request, const ExperimentRequester& by) const;
  Result<void> plan_warm_start(const v1::CreateExperimentRequest& request, Plan& plan) const;
  protocol::ExperimentDefinition definition_of(const Plan& plan, const v1::CreateExperimentRequest& request,
                                               const ExperimentRequester& by,
                                               const std::pair<std::string, std::string>& token, int64_t now_ms) const;
  size_t open() const;

  ExperimentContext context;
  Random& random;
  const ConfigFile defaults;
  std::map<int64_t, ExperimentRows> loaded;
  std::map<int64_t, std::unique_ptr<RunningExperiment>> experiments;
};

}  // namespace volador::experiments
