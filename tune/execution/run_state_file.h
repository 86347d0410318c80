// experiment_state.json of a run: what is in it, and when it is written. Of the runner's thread.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "tune/execution/run_options.h"
#include "tune/execution/source_revision.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/experiment_state.h"

namespace volador::tune {

// What of a run's state is not in its loop.
struct RunStanding {
  std::string name;   // "running", "paused", "finished", …
  Reason reason = {};  // Why it ended.
  std::optional<TimeLeft> left = {};
  std::vector<Reason> notices = {};
};

class RunStateFile {
 public:
  static constexpr std::chrono::seconds kInterval{10};  // Between writes while nothing but trials changes, at least,
  static constexpr int kCostShare = 20;                 // which take at most one part in so many of the time.

  // References outlive it.
  RunStateFile(const RunOptions& options, uint64_t seed, const ExperimentDirectory& directory, const Clock& clock)
      : options_(options), seed_(seed), directory_(directory), clock_(clock) {}

  // `source` is asked on a thread of its own; none: the revision is not known.
  void begin(WallTime started, const JournalProgram& program, const std::function<SourceRevision()>& source);
  ExperimentState state(const TrialLoop& loop, RunStanding standing) const;
  bool is_due(BootTime now, const std::string& name) const { return now >= next_ || name != written_; }
  // What the user has to know: it cannot be written, for the first time since it could.
  [[nodiscard]] std::vector<std::string> write(const TrialLoop& loop, RunStanding standing);

 private:
  // Where git has answered by now; `wait`: it answers within seconds.
  void note_revision(bool wait, std::vector<std::string>& notices);

  const RunOptions& options_;
  const uint64_t seed_;
  const ExperimentDirectory& directory_;
  const Clock& clock_;
  WallTime started_{};
  RunOrigin origin_;
  std::future<SourceRevision> revision_;
  std::string written_;  // The word in it.
  BootTime next_{};
  bool trouble_ = false;
};

}  // namespace volador::tune
