#include "cli/trial_output.h"

#include <algorithm>
#include <thread>

#include "jobs/job_client.h"
#include "runtime/control/cluster_api.h"

namespace volador::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookFirst{20}, kLookMax{500};

}  // namespace

Result<bool> TrialOutput::read(const v1::TrialInfo& trial) {
  bool news = false;
  if (!job_.empty() && job_ != trial.job()) {  // The rest of the run before.
    if (const auto before = jobs::JobClient(api_).get(job_); before) {
      const auto read = output_->read(*before);
      news = read && *read;
    }
  }
  if (trial.job().empty()) return news;
  if (job_ != trial.job()) {
    output_ = std::make_unique<jobs::JobOutput>(api_, rank_, job_.empty() ? tail_ : 0,
                                                [this](const jobs::JobOutput::Line& line) { print_(several_, line); });
    job_ = trial.job();
  }
  const auto job = jobs::JobClient(api_).get(job_);
  if (!job) return make_error(job.error());
  several_ = job->ranks_size() > 1 && rank_ < 0;
  const auto read = output_->read(*job);
  if (!read) return make_error(read.error());
  return news || *read;
}

Result<void> watch(const std::function<Result<Watch>()>& look) {
  milliseconds pause = kLookFirst;
  for (;;) {
    const auto seen = look();
    if (!seen && seen.error().code != ErrorCode::kUnavailable && seen.error().code != ErrorCode::kTimeout)
      return make_error(seen.error());
    if (seen && *seen == Watch::kDone) return {};
    pause = seen && *seen == Watch::kNews ? kLookFirst : std::min(pause * 2, kLookMax);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace volador::cli
