// The head's experiments in the form of Determined: a thread with its own store beside the jobs, which run the trials.
// It shows them as a program of the cluster in the head's list of experiments.
//
//   experiments, experiment_…   rows of ExperimentCore
//   experiments_server          "driver": id of the program that shows them
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "head/journal/journal.h"
#include "runtime/clock.h"
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
  // Submits a job with JobSpec::trial; see JobServer::submit_trial().
  std::function<void(const security::Principal& by, v1::SubmitJobRequest request,
                     std::function<void(Result<v1::SubmitJobReply>)> done)>
      submit;
  size_t requests = 16'384;  // Queued for the thread.
  size_t waits = 100'000;    // Requests that wait for a change.
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

  // URL of the dashboard, for the processes of trials.
  void set_page(std::string url);

  // Returns when the store has been read, so that is_of_trials() knows all tokens.
  void wait_until_read();

  // Registers the operations of Experiments; call withdraw("Experiments") before destroying this object.
  void serve();

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
