// What an experiment still has to do: the rungs of its search, and the time that the rest takes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/core/running_experiment.h"
#include "tune/loop/time_left.h"

namespace volador::experiments {
namespace {

namespace determined = tune::determined;
using tune::RunPace;

SearchOutlook::Rung shown_rung(const determined::SearchRung& rung, bool smaller_is_better) {
  SearchOutlook::Rung shown{.bracket = rung.bracket,
                            .length = rung.length,
                            .trials = static_cast<int64_t>(rung.members.size()),
                            .awaited = rung.awaited,
                            .cutoff = std::numeric_limits<double>::quiet_NaN(),
                            .members = {}};
  for (const determined::SearchRung::Member& member : rung.members) {
    if (member.act != tune::Act::kPassed) continue;
    ++shown.passed;
    const bool is_worse = smaller_is_better ? member.metric > shown.cutoff : member.metric < shown.cutoff;
    if (std::isnan(shown.cutoff) || is_worse) shown.cutoff = member.metric;
  }
  return shown;
}

}  // namespace

std::vector<SearchOutlook::Rung> RunningExperiment::shown_rungs(
    const std::vector<determined::SearchRung>& rungs) const {
  std::vector<SearchOutlook::Rung> all;
  const auto reached = std::ranges::count_if(rungs, [](const auto& rung) { return !rung.members.empty(); });
  const size_t share = SearchOutlook::kMembersMax / static_cast<size_t>(std::max<std::ptrdiff_t>(reached, 1));
  for (const determined::SearchRung& rung : rungs) {
    SearchOutlook::Rung& shown = all.emplace_back(shown_rung(rung, definition_.info().smaller_is_better()));
    for (const determined::SearchRung::Member& member : rung.members) {
      if (shown.members.size() == share) break;
      if (const auto trial = by_request_.find(member.request); trial != by_request_.end())
        shown.members.push_back({trial->second, member.metric, std::string(to_string(member.act))});
    }
  }
  return all;
}

void RunningExperiment::keep_rungs() {
  if (search_ != nullptr) last_rungs_ = shown_rungs(search_->rungs());
}

SearchOutlook RunningExperiment::outlook(int64_t now_ms) const {
  if (search_ == nullptr) return {.rungs = last_rungs_, .left = std::nullopt};
  const std::vector<determined::SearchRung> rungs = search_->rungs();
  SearchOutlook outlook{.rungs = shown_rungs(rungs), .left = std::nullopt};
  if (state() != RunState::kActive) return outlook;
  if (const auto left = tune::estimate_time_left(run_pace(rungs, now_ms)))
    outlook.left = {.seconds = left->seconds, .low = left->low, .high = left->high};
  return outlook;
}

// Trials that the search will create; none: unknown.
std::optional<int64_t> RunningExperiment::planned_trials() const {
  const determined::SearchOptions& options = settings_.options;
  if (options.name == "custom") return std::nullopt;
  if (options.name == "single") return 1;
  if (options.name != "grid") return options.max_trials;
  if (!grid_points_) {
    const auto space = hyperparameter_space(config());
    const auto grid = space ? space->grid() : make_error(space.error());
    grid_points_ = grid ? static_cast<int64_t>(grid->size()) : 0;
  }
  return grid_points_;
}

RunPace RunningExperiment::run_pace(const std::vector<determined::SearchRung>& rungs, int64_t now_ms) const {
  RunPace run;
  run.trials.reserve(trials_.size());
  int64_t at_once = 0, queued = 0;
  for (const auto& [number, trial] : trials_) {
    RunPace::Trial& one = run.trials.emplace_back();
    const protocol::TrialRecord& record = trial.record;
    const TrialStanding& standing = trial.machine.standing();
    const bool runs = record.job_requested() && record.job_state() == "running";
    one.place = trial.is_over()
                    ? (standing.state == RunState::kCompleted ? RunPace::Place::kEnded : RunPace::Place::kLost)
                : runs                                     ? RunPace::Place::kRunning
                : standing.has_processes || standing.asked ? RunPace::Place::kQueued
                                                           : RunPace::Place::kPaused;
    one.step = std::max(record.length_done(), static_cast<int64_t>(trial.pace.units()));
    one.step_s = trial.pace.mean_s();
    one.step_s2 = trial.pace.mean_square_s();
    one.steps_seen = trial.pace.timed() > 0 ? std::max<int64_t>(std::llround(trial.pace.timed()), 1) : 0;
    one.since_s = trial.pace.since_s(now_ms);
    one.starting = runs && record.begun_run() != record.info().run();
    one.ending = runs && !standing.asked;
    at_once += runs;
    queued += one.place == RunPace::Place::kQueued;
  }
  const determined::SearchOptions& options = settings_.options;
  if (const auto planned = planned_trials())
    run.to_start = std::max<int64_t>(*planned - static_cast<int64_t>(trials_.size()), 0);
  else
    run.to_start = std::nullopt;
  run.steps_max = options.max_length;
  for (size_t i = 0; i + 1 < rungs.size(); ++i) {
    if (rungs[i + 1].bracket != rungs[i].bracket) continue;  // The top of a bracket ends the trial in any case.
    run.rungs.push_back({.step = rungs[i].length,
                         .pass = 1 / options.divisor,
                         .bracket = rungs[i].bracket,
                         .trials = static_cast<int64_t>(rungs[i].members.size()),
                         .awaited = rungs[i].awaited});
  }
  // Where trials wait, the cluster has no room for more.
  run.slots = queued > 0 ? at_once : std::max(at_once, options.max_concurrent_trials);
  return run;
}

}  // namespace volador::experiments
