// Collects the changes of a run for the next report to the head: changed rows, reported metrics, the scheduler's rungs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "tune/execution/run_options.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/experiment_directory.h"

namespace volador::tune {

class RunNews {
 public:
  static constexpr size_t kPointsMax = 20'000;    // Limit of points per report; the files contain all of them.
  static constexpr size_t kRungMembersMax = 256;  // Limit of members over all rungs.
  static constexpr std::chrono::seconds kRungsInterval{1};  // Minimum interval between reports of the rungs;
  static constexpr int kRungsShare =
      20;  // these take at most 1/kRungsShare of the time, since their cost grows with the number of trials.

  // References must outlive the object.
  RunNews(const RunOptions& options, const ExperimentDirectory& directory) : options_(options), directory_(directory) {}

  void note(const Trial& trial) { changed_.insert(trial.index); }
  void note_point(const Trial& trial, const RecordResult& action);
  // Notes that the scheduler has made a decision.
  void note_decision() { rungs_changed_ = true; }
  // Sets the estimate for the next report. It counts as a change if the reported estimate, less the time since then,
  // has become wrong.
  void note_left(const std::optional<TimeLeft>& left, BootTime now);
  // Whether a row or the estimate has changed.
  bool any() const { return !changed_.empty() || left_changed_; }
  // Returns all changes and clears them. `actor_of`: returns the actor that runs a trial, or nil.
  ExperimentReport take(const TrialLoop& loop, const std::string& state, const Clock& clock,
                        const std::function<ActorId(const Trial&)>& actor_of);

 private:
  std::vector<RungReport> rungs(const TrialLoop& loop, const Clock& clock);
  // No value if it was already reported.
  std::optional<BestReport> news_of_best(const TrialLoop& loop, Scope scope, std::optional<BestReport>& told) const;

  const RunOptions& options_;
  const ExperimentDirectory& directory_;
  bool space_told_ = false;
  bool rungs_changed_ = false;
  std::optional<TimeLeft> left_, left_told_;
  BootTime left_told_at_{};
  bool left_changed_ = false;
  BootTime next_rungs_{};
  std::optional<BestReport> best_, best_so_far_;       // As last reported.
  std::set<int64_t> changed_;                          // Trials by index.
  std::map<int64_t, std::vector<TrialPoint>> points_;  // New points by trial.
  size_t points_held_ = 0;
};

}  // namespace volador::tune
