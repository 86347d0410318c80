#include "tune/remaining_time.h"

#include <algorithm>
#include <cmath>

namespace volador::tune {
namespace {

constexpr size_t kEndedMin = 3;
constexpr double kRemainingSecondsMax = 10.0 * 365 * 86400;  // Beyond it a number tells nobody anything.

// The chance that a trial takes longer than so many seconds: 1 at first, falling at each time at which trials ended.
class Survival {
 public:
  Survival(const std::vector<double>& ended, const std::vector<double>& going) {
    struct Time {
      double at;
      bool end;
    };
    std::vector<Time> times;
    for (const double at : ended) times.push_back({at, true});
    for (const double at : going) times.push_back({at, false});
    // Of equal times those that ended come first: what goes on has outlived them.
    std::sort(times.begin(), times.end(),
              [](const Time& a, const Time& b) { return a.at != b.at ? a.at < b.at : a.end && !b.end; });
    double alive = 1;
    for (size_t i = 0; i < times.size(); ++i) {
      const bool last = i + 1 == times.size();  // Counts as ended, or the mean would have no end.
      if (!times[i].end && !last) continue;
      const auto at_risk = static_cast<double>(times.size() - i);
      alive *= last ? 0 : 1 - 1 / at_risk;
      steps_.push_back({times[i].at, alive});
    }
    // The area under the curve to the right of each step.
    areas_.assign(steps_.size(), 0);
    for (size_t i = steps_.size() - 1; i-- > 0;)
      areas_[i] = areas_[i + 1] + steps_[i].alive * (steps_[i + 1].at - steps_[i].at);
  }

  double mean() const { return left_after(0); }
  // Of a trial that has gone on for so long: the mean of what is left.
  double left_after(double seconds) const {
    const auto next = std::upper_bound(steps_.begin(), steps_.end(), seconds,
                                       [](double at, const Step& step) { return at < step.at; });
    if (next == steps_.end()) return 0;
    const double alive = next == steps_.begin() ? 1 : (next - 1)->alive;
    const auto index = static_cast<size_t>(next - steps_.begin());
    return alive <= 0 ? 0 : (next->at - seconds) + areas_[index] / alive;
  }

 private:
  struct Step {
    double at, alive;
  };
  std::vector<Step> steps_;
  std::vector<double> areas_;
};

}  // namespace

std::optional<std::chrono::nanoseconds> remaining_time(const RunSoFar& run) {
  const auto bounded = [&](double seconds) -> std::optional<std::chrono::nanoseconds> {
    if (run.budget_left)
      seconds = std::min(seconds, std::max(0.0, std::chrono::duration<double>(*run.budget_left).count()));
    if (!(seconds < kRemainingSecondsMax)) return std::nullopt;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
  };
  if (!run.to_start) return bounded(INFINITY);
  if (run.ended_s.size() < kEndedMin || run.slots < 1) return std::nullopt;
  const Survival survival(run.ended_s, run.going_s);
  double work = survival.mean() * static_cast<double>(*run.to_start), longest = *run.to_start > 0 ? survival.mean() : 0;
  for (const double so_far : run.going_s) {
    const double left = survival.left_after(so_far);
    work += left;
    longest = std::max(longest, left);
  }
  const int64_t trials = *run.to_start + static_cast<int64_t>(run.going_s.size());
  return bounded(
      std::max(work / static_cast<double>(std::clamp<int64_t>(run.slots, 1, std::max<int64_t>(trials, 1))), longest));
}

RunSoFar run_so_far(const std::vector<const Trial*>& trials, std::optional<int64_t> to_start) {
  RunSoFar run{.to_start = to_start};
  for (const Trial* trial : trials) {
    if (!std::isfinite(trial->time_total_s)) continue;
    switch (trial->status) {
      case TrialStatus::kFinished:
      case TrialStatus::kStopped:
        run.ended_s.push_back(trial->time_total_s);
        break;
      case TrialStatus::kRunning:
      case TrialStatus::kPaused:
        run.going_s.push_back(trial->time_total_s);
        break;
      case TrialStatus::kWaiting:
        if (run.to_start) ++*run.to_start;
        break;
      case TrialStatus::kFailed:
      case TrialStatus::kInterrupted:
        break;
    }
  }
  return run;
}

}  // namespace volador::tune
