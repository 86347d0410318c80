// The jobs that show experiments in TensorBoard: starts and lists them through the operations of Jobs of the same head.
//
// A job's JobSpec::trial is "tensorboard-<id of its token>", so that its end is told here and its token is revoked.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/tensorboards.pb.h"
#include "runtime/random.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::operations {
class Registry;
}

namespace volador {

// Confined to the thread of the experiments.
class TensorBoardJobs {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;
  struct Parts {
    operations::Registry& registry;
    Random& random;
    // Submits jobs with JobSpec::trial.
    std::function<void(const security::Principal& by, v1::SubmitJobRequest request, Done<v1::SubmitJobReply> done)>
        submit;
    // Runs the function on the thread of the experiments, unless they stop; any thread.
    std::function<void(std::function<void()> function)> post;
    // Variables that all jobs get.
    std::function<std::vector<std::pair<std::string, std::string>>()> env;
    // Makes a token for a program that acts as the user: its id and text; `done` on any thread.
    std::function<void(const security::Principal& by, const std::string& note,
                       Done<std::pair<std::string, std::string>> done)>
        token;
    std::function<void(const std::string& token_id)> revoke;
    // kNotFound: there is no such experiment or trial.
    std::function<Result<void>(int64_t experiment)> check_experiment;
    std::function<Result<void>(int64_t trial)> check_trial;
  };
  explicit TensorBoardJobs(Parts parts) : parts_(std::move(parts)) {}

  // The open one of the requester for the same experiments and trials, or a new one. `done` on any thread.
  // kInvalidArgument, kNotFound, and errors of Jobs/SubmitJob.
  void start(const security::Principal& by, const v1::StartTensorBoardRequest& request,
             Done<v1::StartTensorBoardReply> done);
  void list(const security::Principal& by, const v1::ListTensorBoardsRequest& request,
            Done<v1::ListTensorBoardsReply> done);
  // A job with JobSpec::trial has changed, or was looked up after a restart.
  void on_job(const v1::Job& job);

 private:
  void submit(const security::Principal& by, const v1::StartTensorBoardRequest& request,
              const std::pair<std::string, std::string>& token, Done<v1::StartTensorBoardReply> done);

  const Parts parts_;
};

}  // namespace volador
