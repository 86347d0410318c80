// Passes the output of a rank's processes on to this process's own output, and looks for log policies on the way. Jobs
// without policies have none: their processes write to the output of this process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/log_policy.h"
#include "jobs/rank_process.h"
#include "runtime/actor/deferred.h"
#include "runtime/result.h"

namespace volador::jobs {

// The matches of a rank, until the head has them. A policy reports its first match at once, later ones at most once a
// minute. Thread safe.
class LogMatches {
 public:
  void add(size_t policy, std::string_view line);
  // The command has failed, and the rank is kept: a match of kRankFailed with the exit code.
  void add_failure(int code);
  // Answered as soon as there are matches beyond the first `after`, which the caller has. A second call before that
  // is answered with nothing.
  Deferred<std::vector<LogMatch>> beyond(int64_t after);
  // Waits until the head has all matches, at most so long.
  void wait_until_taken(std::chrono::milliseconds patience);

 private:
  void answer_locked();

  std::mutex mutex_;
  std::condition_variable taken_changed_;
  std::vector<LogMatch> matches_;
  std::vector<std::chrono::steady_clock::time_point> last_;  // By policy.
  int64_t taken_ = 0;
  std::unique_ptr<Deferred<std::vector<LogMatch>>> waits_;
  int64_t wanted_ = 0;
};

class OutputTap {
 public:
  // Makes the pipes. kInvalidArgument: see LogMatcher::create(). kUnavailable: there are no descriptors. `matches`
  // outlives this object.
  static Result<std::unique_ptr<OutputTap>> create(const std::vector<LogRule>& rules, LogMatches& matches);
  // Calls finish().
  ~OutputTap();
  OutputTap(const OutputTap&) = delete;
  OutputTap& operator=(const OutputTap&) = delete;

  // For the processes that are started; valid until finish().
  RankProcess::Streams streams() const;
  // Starts the threads that read. Processes may have been started before. Once.
  void start();
  // Passes on what is in the pipes, and closes them. What processes that are left write later is lost.
  void finish();

 private:
  struct Stream;
  OutputTap();
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace volador::jobs
