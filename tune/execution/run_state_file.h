// Contents and update schedule of a run's experiment_state.json. On the runner's thread.
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

// State of a run that its loop does not have.
struct RunStanding {
  std::string name;    // "running", "paused", "finished", …
  Reason reason = {};  // Why it ended.
  std::optional<TimeLeft> left = {};
  std::vector<Reason> notices = {};
};

class RunStateFile {
 public:
  static constexpr std::chrono::seconds kInterval{10};  // Minimum time between writes while only trials change;
  static constexpr int kCostShare = 20;                 // writing takes at most 1/kCostShare of the time.

  // References must outlive the object.
  RunStateFile(const RunOptions& options, uint64_t seed, const ExperimentDirectory& directory, const Clock& clock)
      : options_(options), seed_(seed), directory_(directory), clock_(clock) {}

  // Calls `source` on a separate thread; empty: the revision is unknown.
  void begin(WallTime started, const JournalProgram& program, const std::function<SourceRevision()>& source);
  ExperimentState state(const TrialLoop& loop, RunStanding standing) const;
  bool is_due(BootTime now, const std::string& name) const { return now >= next_ || name != written_; }
  // Returns messages to the user: the file cannot be written, for the first time since the last success.
  [[nodiscard]] std::vector<std::string> write(const TrialLoop& loop, RunStanding standing);

 private:
  // Adds the revision if git has responded; `wait`: waits for it, which takes seconds at most.
  void note_revision(bool wait, std::vector<std::string>& notices);

  const RunOptions& options_;
  const uint64_t seed_;
  const ExperimentDirectory& directory_;
  const Clock& clock_;
  WallTime started_{};
  RunOrigin origin_;
  std::future<SourceRevision> revision_;
  std::string written_;  // Status name in the file.
  BootTime next_{};
  bool trouble_ = false;
};

}  // namespace volador::tune
