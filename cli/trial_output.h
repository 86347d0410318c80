// Follows trials and experiments on behalf of commands.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "jobs/job_output.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/result.h"

namespace volador::control {
class ClusterApi;
}

namespace volador::cli {

// The output of a trial's runs, each of which is a job.
class TrialOutput {
 public:
  // `several`: the run has more ranks. `rank` and `tail`: see jobs::JobOutput.
  using Print = std::function<void(bool several, const jobs::JobOutput::Line& line)>;
  TrialOutput(control::ClusterApi& api, int rank, int tail, Print print)
      : api_(api), rank_(rank), tail_(tail), print_(std::move(print)) {}

  // Prints new lines of the newest run, and whether there were any. A trial without a run has none.
  Result<bool> read(const v1::TrialInfo& trial);

 private:
  control::ClusterApi& api_;
  const int rank_, tail_;
  const Print print_;
  std::string job_;  // The run that was read last.
  std::unique_ptr<jobs::JobOutput> output_;
  bool several_ = false;
};

// Asks until `look` says that it is done. A head that does not answer is asked again, since it may be restarting.
enum class Watch : uint8_t { kDone, kNews, kNothing };
Result<void> watch(const std::function<Result<Watch>()>& look);

}  // namespace volador::cli
