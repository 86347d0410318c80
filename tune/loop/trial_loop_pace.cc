// Input of the time-left estimate from the state of the trials.
#include <algorithm>

#include "tune/loop/trial_loop_core.h"
#include "tune/seconds.h"

namespace volador::tune {
namespace {

RunPace::Place place_of(Phase phase, TrialStatus status, bool placed) {
  switch (phase) {
    case Phase::kQueued:
    case Phase::kHeld:
      return RunPace::Place::kQueued;
    case Phase::kPaused:
      return RunPace::Place::kPaused;
    case Phase::kDone: {
      const bool ended = status == TrialStatus::kFinished || status == TrialStatus::kStopped;
      return ended ? RunPace::Place::kEnded : RunPace::Place::kLost;
    }
    default:
      return placed ? RunPace::Place::kRunning : RunPace::Place::kQueued;
  }
}

}  // namespace

int64_t TrialLoop::Core::slots_at_once() const {
  const int64_t most = options.max_concurrent_trials;
  return most > 0 && (slots_ == 0 || most < slots_) ? most : slots_;
}

RunPace TrialLoop::Core::pace(BootTime now) const {
  RunPace run;
  run.trials.reserve(table.trials().size());
  int64_t placed = 0;
  bool any_starves = false;
  // A slot that the cluster should have but has not provided for this long is in use by others.
  const double patience_s = 2 + 3 * table.clock.typical_start();
  for (const Trial& trial : table.trials()) {
    const PhaseClock::Times& times = table.clock.of(trial.index);
    const Slot& state = table.slot(trial);
    const bool starves = state.phase == Phase::kStarting && times.placed && !trial.reason.empty() &&
                         seconds_of(now - times.since) > patience_s;
    any_starves = any_starves || starves;
    RunPace::Trial& one = run.trials.emplace_back();
    one.place = place_of(state.phase, trial.status, times.placed && !starves);
    one.step = trial.step;
    one.steps_seen = times.steps.count;
    one.step_s = times.steps.mean();
    if (times.steps.count > 0) one.step_s2 = times.steps.squares / static_cast<double>(times.steps.count);
    one.since_s = std::max(seconds_of(now - times.since), 0.0);
    one.starting = state.phase == Phase::kStarting;
    const bool ends = state.phase == Phase::kStopping || (state.phase == Phase::kSaving && state.verdict);
    if (one.place == RunPace::Place::kRunning && ends) one.ending = true;
    placed += one.place == RunPace::Place::kRunning;
  }
  if (const TrialCounts& counts = table.counts; counts.total) {
    run.to_start = exhausted_ ? 0 : std::max<int64_t>(*counts.total - counts.known, 0);
  } else {
    run.to_start = exhausted_ ? std::optional<int64_t>(0) : std::nullopt;
  }
  run.steps_max = options.stop.steps_max();
  if (const auto most = scheduler->steps_max(); most && (!run.steps_max || *most < *run.steps_max))
    run.steps_max = most;
  const std::vector<RungState> rungs = scheduler->rungs(0);
  for (size_t i = 0; i < rungs.size(); ++i) {
    const RungState& rung = rungs[i];
    RunPace::Rung& one = run.rungs.emplace_back();
    one.step = static_cast<int64_t>(rung.milestone);
    one.bracket = rung.bracket;
    const bool last = i + 1 == rungs.size() || rungs[i + 1].bracket != rung.bracket;
    const double next = last ? static_cast<double>(run.steps_max.value_or(0)) : rungs[i + 1].milestone;
    if (next > rung.milestone && rung.milestone > 0) one.pass = rung.milestone / next;
    one.waits = rung.state != "open";
    one.decided = rung.state == "decided";
    one.trials = rung.trials;
    one.awaited = rung.awaited;
  }
  run.copies = scheduler->clones();
  run.starts_s = table.clock.starts();
  run.stops_s = table.clock.stops();
  run.saving_of_step_s = table.clock.saving_of_step();
  run.pausing_of_step_s = table.clock.pausing_of_step();
  const int64_t slots = slots_at_once();
  run.slots = any_starves ? placed : slots;
  if (options.time_budget.count() > 0) run.budget_left_s = seconds_of(options.time_budget - (now - started_));
  return run;
}

std::optional<TimeLeft> TrialLoop::Core::time_left(BootTime now) const {
  if (!begun_ || ending_ || ended || holding) return std::nullopt;
  return estimate_time_left(pace(now));
}

}  // namespace volador::tune
