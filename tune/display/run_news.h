// What of a run the head has not been told yet: rows that changed, what trials reported, the scheduler's rungs.
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
  static constexpr size_t kPointsMax = 20'000;    // Reports with one piece of news; the files have all of them.
  static constexpr size_t kRungMembersMax = 256;  // Of all rungs, likewise.
  static constexpr std::chrono::seconds kRungsInterval{1};  // Between the scheduler's rungs, at least,
  static constexpr int kRungsShare =
      20;  // which take at most one part in so many of the time: they cost as much as there are trials.

  // References outlive it.
  RunNews(const RunOptions& options, const ExperimentDirectory& directory) : options_(options), directory_(directory) {}

  void note(const Trial& trial) { changed_.insert(trial.index); }
  void note_point(const Trial& trial, const RecordResult& action);
  // The scheduler has decided something.
  void note_decision() { rungs_changed_ = true; }
  // The estimate that goes with the next piece. It is news of its own where the one that was told, less the time since then, has become wrong.
  void note_left(const std::optional<TimeLeft>& left, BootTime now);
  // Whether a row or the estimate changed.
  bool any() const { return !changed_.empty() || left_changed_; }
  // All there is; afterwards there is none. `actor_of`: the one that runs a trial, or nil.
  ExperimentReport take(const TrialLoop& loop, const std::string& state, const Clock& clock,
                        const std::function<ActorId(const Trial&)>& actor_of);

 private:
  std::vector<RungReport> rungs(const TrialLoop& loop, const Clock& clock);
  // Without a value where it was told already.
  std::optional<BestReport> news_of_best(const TrialLoop& loop, Scope scope, std::optional<BestReport>& told) const;

  const RunOptions& options_;
  const ExperimentDirectory& directory_;
  bool space_told_ = false;
  bool rungs_changed_ = false;
  std::optional<TimeLeft> left_, left_told_;
  BootTime left_told_at_{};
  bool left_changed_ = false;
  BootTime next_rungs_{};
  std::optional<BestReport> best_, best_so_far_;       // As they were told.
  std::set<int64_t> changed_;                          // Trials, by index.
  std::map<int64_t, std::vector<TrialPoint>> points_;  // What they reported.
  size_t points_held_ = 0;
};

}  // namespace volador::tune
