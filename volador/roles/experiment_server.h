// The head's experiments in the form of Determined: a thread with its own store beside the jobs, which run the trials.
// It shows them as a program of the cluster in the head's list of experiments.
//
//   experiments, experiment_…   rows of ExperimentCore
//   models, model_…             rows of ModelRegistry
//   experiments_server          "driver": id of the program that shows them
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/metrics/metric_report.h"
#include "head/journal/journal.h"
#include "runtime/clock.h"
#include "runtime/protocol/katib.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::head {
class HeadAccess;
}
namespace volador::operations {
class Registry;
}

namespace volador {

struct ExperimentServerOptions {
  std::string cluster_id;
  std::string address;            // The head's, host:port, for the processes of trials.
  std::string defaults;           // For configurations; see experiment_defaults().
  std::string local_storage;      // The folder that they name, if only this machine is sure to have it; else empty.
  std::filesystem::path files;    // Folder with the archives of code folders, as that of the jobs.
  std::filesystem::path metrics;  // Folder for the metrics of trials.
  bool survive_power_cut = false;
  bool has_page = false;  // set_page() follows: no run of a trial starts before it.
  // Submits a job with JobSpec::trial; see JobServer::submit_trial().
  std::function<void(const security::Principal& by, v1::SubmitJobRequest request,
                     std::function<void(Result<v1::SubmitJobReply>)> done)>
      submit;
  size_t requests = 16'384;  // Queued for the thread.
  size_t waits = 100'000;    // Requests that wait for a change.
};

// What the server of resources in Katib's form has to do with the experiments that run them. Called on the thread of the
// experiments; must not block.
struct ResourceHooks {
  // An experiment and some of its trials changed, durably.
  std::function<void(const v1::ExperimentInfo& experiment, const std::vector<v1::TrialInfo>& trials)> on_change;
  std::function<void(int64_t experiment)> on_gone;  // It was deleted.
  std::function<void()> on_all;                     // on_change() was called for each experiment and all of its trials.
};

// Thread safe; requests return at once.
class ExperimentServer final {
 public:
  // Serves when it returns; requests wait until the store has been read. Head, registry, whose operations of Jobs,
  // Cluster and Users it calls, and clock must outlive it.
  ExperimentServer(std::unique_ptr<head::Journal> journal, head::HeadAccess& head, operations::Registry& registry,
                   ExperimentServerOptions options, const Clock& clock);
  // Calls stop().
  ~ExperimentServer();

  // Drops queued and waiting requests and refuses later ones; trials go on. Call before the jobs stop. Idempotent.
  void stop();

  // URL of the dashboard, for the processes of trials, and the authority of its certificate (PEM); empty: it has none of
  // the cluster.
  void set_page(std::string url, std::string authority_pem);

  // Returns when the store has been read, so that is_of_trials() knows all tokens.
  void wait_until_read();

  // Registers the operations of Experiments, Models and TensorBoards; withdraw() them before destroying this object.
  void serve();

  // ---- experiments of resources (katib_server.h) ----
  // Calls the hooks for all experiments, then for each change. Null functions end it.
  void set_resource_hooks(ResourceHooks hooks);
  // As Experiments/CreateExperiment; see ExperimentCore::create() for `katib`.
  void create_for(const security::Principal& by, const v1::CreateExperimentRequest& request, const std::string& katib,
                  std::function<void(Result<v1::CreateExperimentReply>)> done);
  // See ExperimentCore. `done` is called after the hooks, on the thread of the experiments, when it is stored.
  void run_trials(int64_t experiment, std::vector<protocol::KatibTrialProgram> programs,
                  std::function<void(Result<void>)> done);
  void end_search(int64_t experiment, bool failure);
  void kill_trial(int64_t trial);
  // `command`: as ChangeExperimentRequest::command.
  void change(int64_t experiment, const std::string& command);
  // Adds reports of group "observation" of a trial; their experiment, trial, group and batches, which are the numbers of
  // the reports of the trial, are set here.
  void observe(const security::Principal& by, int64_t experiment, int64_t trial,
               std::vector<experiments::MetricReport> reports, std::function<void(Result<void>)> done);
  // Removes the reports of this group.
  void forget_observations(const security::Principal& by, int64_t experiment, int64_t trial,
                           std::function<void(Result<void>)> done);
  // Series of group "observation" at full resolution.
  void observations(const std::vector<int64_t>& trials, const std::string& metric,
                    std::function<void(Result<v1::GetMetricsReply>)> done);

  // A job with JobSpec::trial has changed.
  void on_job(const v1::Job& job);
  // Whether an experiment needs the archive of this code folder, by its hash in hex.
  bool needs_files(const std::string& sha256) const;
  // Whether the token is that of the trials of an experiment.
  bool is_of_trials(std::string_view token_id) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador
