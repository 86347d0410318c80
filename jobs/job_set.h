// Several jobs from one description: a batch of tasks, or alternatives of which one runs. Pure.
#pragma once

#include <string>
#include <vector>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"

namespace volador::jobs {

struct JobSet {
  v1::JobSpec base;
  // Fields that replace those of the base, each as a YAML map such as "{gpus: 4, pool: a100}".
  std::vector<std::string> alternatives;  // One job each; the first that starts stops the others.
  std::vector<std::string> tasks;         // One job each.
  int array = 0;                          // Above 0: so many jobs that differ only in their index.
};

// The jobs of the set; one if it has neither alternatives nor tasks. A task is named "<name>-<index>", and its output
// folder is "<output>/<name>-<index>". `unique`: text for the name of a batch or of a set of alternatives, if none is
// given. kInvalidArgument: more than one kind of jobs, more than kBatchMax, or see with_fields().
Result<std::vector<v1::JobSpec>> jobs_of(const JobSet& set, const std::string& unique);

}  // namespace volador::jobs
