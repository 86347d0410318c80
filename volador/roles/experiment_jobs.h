// The jobs of experiments: submits, stops and follows them through the operations of Jobs of the same head.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::operations {
class Registry;
}

namespace volador {

// Acts in the name of the experiments' creators, and as the cluster itself for the rest.
security::Principal principal_of_cluster();
security::Principal principal_of(const experiments::ExperimentRequester& requester);

// Confined to the thread of the experiments.
class ExperimentJobs {
 public:
  using Submit = std::function<void(const security::Principal& by, v1::SubmitJobRequest request,
                                    std::function<void(Result<v1::SubmitJobReply>)> done)>;
  struct Parts {
    operations::Registry& registry;
    Submit submit;  // Jobs with JobSpec::trial.
    experiments::ExperimentCore& core;
    // Runs the function on the thread of the experiments, unless they stop; any thread.
    std::function<void(std::function<void()> function)> post;
    // The same, after a while.
    std::function<void(std::chrono::milliseconds delay, std::function<void()> function)> later;
    std::function<int64_t()> now_ms;
    // Variables that all jobs get.
    std::function<std::vector<std::pair<std::string, std::string>>()> env;
    // Makes a token for a program of the cluster; `done` on any thread.
    std::function<void(const std::string& note, std::function<void(Result<std::pair<std::string, std::string>>)> done)>
        token;
    // A job of a trial was heard of.
    std::function<void(const v1::Job& job)> seen;
    // Likewise of another job with JobSpec::trial, also of those that had ended before recover().
    std::function<void(const v1::Job& job)> other = {};
  };
  explicit ExperimentJobs(Parts parts) : parts_(std::move(parts)) {}

  // Looks up the jobs of the runs that the core believes to be open. Until it is answered no garbage is collected.
  void recover();

  void submit(experiments::TrialJob job);
  void stop(const experiments::TrialStop& stop);
  // Checkpoints of the experiment wait for deletion. One job at a time for each experiment; after a failed one it waits.
  void collect_garbage(int64_t experiment);
  void revoke(const std::string& token_id);
  void set_priority(const experiments::TrialPriority& priority);

  // A job with JobSpec::trial has changed.
  void on_job(const v1::Job& job);

 private:
  struct Garbage {
    bool runs = false;    // A job runs, or is about to.
    std::string job;      // Its JobSpec::trial, once it is known.
    bool wanted = false;  // Something was added since it started.
    int failures = 0;     // In a row.
    bool waits = false;   // For the pause after a job.
  };
  void recovered(const std::vector<experiments::ExperimentCore::OpenJob>& open, const v1::ListJobsReply& jobs);
  void on_submitted(int64_t trial, int64_t run, const Result<v1::SubmitJobReply>& reply);
  void on_stop_failed(const experiments::TrialStop& stop, const Error& error);
  void start_garbage(int64_t experiment);
  void submit_garbage(int64_t experiment, const std::pair<std::string, std::string>& token);
  void garbage_refused(int64_t experiment, const std::string& why);
  void on_garbage_job(int64_t experiment, const v1::Job& job);
  void end_garbage(int64_t experiment, bool is_failure);
  v1::SubmitJobRequest request_of(const experiments::TrialJob& job) const;

  const Parts parts_;
  bool is_recovered_ = false;
  std::map<std::pair<int64_t, int64_t>, bool>
      stops_;  // For jobs whose submission is not answered, by run: whether now.
  std::set<std::pair<int64_t, int64_t>> submitting_;
  std::map<int64_t, Garbage> garbage_;  // By experiment.
};

}  // namespace volador
