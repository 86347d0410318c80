// Fetches the matches of log policies from the ranks of jobs (jobs/command.h): each rank that watches its output has one
// call open, which it answers when there is a match.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "jobs/job_core.h"
#include "jobs/log_policy.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"
#include "volador/roles/rank_calls.h"

namespace volador {

// Confined to the thread of the jobs.
class LogWatch {
 public:
  struct Parts {
    std::function<bool(std::function<void()> function)> post;  // To the thread of the jobs; any thread.
    std::function<Result<RankCalls*>()> calls;
    // Matches beyond the first `known`.
    std::function<void(ActorId rank, int64_t known, const std::vector<jobs::LogMatch>& matches)> on_matches;
    const Clock& clock;  // Outlives this object.
  };

  explicit LogWatch(Parts parts) : parts_(std::move(parts)) {}

  // The ranks that are watched now; asks those that have no open call.
  void update(const std::vector<jobs::JobCore::WatchedRank>& ranks);

 private:
  void ask(const jobs::JobCore::WatchedRank& rank);

  const Parts parts_;
  std::set<ActorId> asked_;
  std::map<ActorId, BootTime> again_at_;  // Ranks that could not be reached.
};

}  // namespace volador
