// Training jobs of Kubernetes and Kubeflow as jobs of the queue.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/config/finding.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/yaml/value.h"

namespace volador::experiments::katib {

inline constexpr int kBackoffLimitDefault = 6;

// Reports what is wrong with the object of a Job, PyTorchJob, TFJob, MPIJob or TrainJob, and what has no effect, and
// gives its job. `path`: of the object, "spec.trialTemplate.trialSpec"; empty: the document.
// `primary_container`: the container that trains, where a pod has several; empty: the usual one of the kind.
//
// | kind       | nodes                          | mode       | ranks                                        |
// |------------|--------------------------------|------------|----------------------------------------------|
// | Job        | parallelism                    | single     | JOB_COMPLETION_INDEX                         |
// | PyTorchJob | Master and Worker              | torch      | the master first; RANK, WORLD_SIZE, PET_*    |
// | TFJob      | PS, Chief and Worker           | tensorflow | servers first, then the chief, then workers  |
// | MPIJob     | Worker                         | mpi        | the launcher's command on the first worker   |
// | TrainJob   | trainer.numNodes               | torch, mpi | PET_*                                        |
//
// Each node is one replica with the resources of the largest one. The container's command and arguments are the job's
// command; where replicas have different ones, or variables that depend on the rank, it is a command for bash that chooses.
v1::JobSpec read_training_job(const yaml::Value& object, std::string_view primary_container, std::string_view path,
                              Findings& findings);

// The same for an object that was checked before. `warnings` may be null.
// kInvalidArgument: the first error of the object.
[[nodiscard]] Result<v1::JobSpec> job_of(const yaml::Value& object, std::string_view primary_container = {},
                                         std::vector<std::string>* warnings = nullptr);

// Lets the job run in a copy of the code folder whose archive has this hash. A job with code has no directory outside
// it: where its container has a working directory, paths of the command below that directory become relative to the
// folder, so that "/opt/mnist/train.py" with workingDir /opt/mnist is train.py of the folder.
void add_code(const std::string& files_sha256, v1::JobSpec& job);

}  // namespace volador::experiments::katib
