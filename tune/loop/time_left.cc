#include "tune/loop/time_left.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <set>

namespace volador::tune {
namespace {

constexpr int kDraws = 101;
constexpr size_t kToComeMax = 512;        // Future trials simulated individually; the others count as an equal load of
                                          // the slots.
constexpr size_t kHazardsDrawnMax = 256;  // Steps at which trials end; if there are more, observed chances are used
                                          // without sampling.
constexpr double kPriorTrials = 6;        // Weight of the scheduler's rule at each rung, in trials.
constexpr double kEstimateSecondsMax = 10.0 * 365 * 86400;  // Larger estimates are not informative.
constexpr double kStepsBeyondMax = 10;  // Multiple of the completed steps, if nothing limits the steps.

// Calibration of a kind of run on simulated runs (tests/tune/time_left_test.cc), in addition to the sampled
// uncertainty: standard deviation and mean of the logarithm of true to modelled time, and the fraction of draws
// excluded from the interval on either side.
struct Calibration {
  double deviation, mean, tail;
};
constexpr Calibration kWholeTrials{0.06, 0, 0.05};    // Changing paces, shared machines.
constexpr Calibration kOpenRungs{0.12, -0.02, 0.05};  // The chances at the rungs are sampled already and have a wide
                                                      // spread.
constexpr Calibration kBrackets{0.17, -0.09, 0.05};   // Brackets overlap more than in the model.
constexpr Calibration kCopies{0.28, -0.08, 0.05};     // A copy continues from another trial's step.
constexpr Calibration kAnyStep{0.44, -0.25, 0.05};    // Rules that judge a trial at each step are stricter with later
                                                      // trials.

Calibration calibration_of(const RunPace& run, bool waits, bool ends_early) {
  if (run.copies) return kCopies;
  if (waits) return kBrackets;
  if (!run.rungs.empty()) return kOpenRungs;
  return ends_early ? kAnyStep : kWholeTrials;
}

class Draws {
 public:
  double real() { return std::uniform_real_distribution<double>()(engine_); }
  double normal() { return std::normal_distribution<double>()(engine_); }
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(engine_); }
  double beta(double a, double b) {
    const double x = std::gamma_distribution<double>(a)(engine_), y = std::gamma_distribution<double>(b)(engine_);
    return x + y > 0 ? x / (x + y) : a / (a + b);
  }

 private:
  std::mt19937_64 engine_{20261125};  // Fixed seed: an estimate is a function of its inputs.
};

// Distribution of the step at which a trial ends, given a step that it has reached.
class EndSteps {
 public:
  explicit EndSteps(const RunPace& run) : steps_max_(run.steps_max) {
    std::map<int64_t, Hazard> by_step;
    // Later trials meet more competitors at a rung and end more often: the weight of the first trial is a quarter of
    // that of the last.
    const double half = std::max(static_cast<double>(run.trials.size()) / 2, 1.0);
    const auto weight_of = [&](size_t i) { return std::exp2(-static_cast<double>(run.trials.size() - 1 - i) / half); };
    for (const RunPace::Rung& rung : run.rungs) {
      if (is_limit(rung.step) || rung.step < 1) continue;
      Hazard& hazard = by_step[rung.step];
      hazard.prior_ends += kPriorTrials * (1 - rung.pass);
      hazard.prior_stays += kPriorTrials * rung.pass;
    }
    std::vector<std::pair<int64_t, double>> reached;  // With weights. A paused trial is not decided at its step yet.
    for (size_t i = 0; i < run.trials.size(); ++i) {
      const RunPace::Trial& trial = run.trials[i];
      if (trial.step < 1) continue;
      const double weight = weight_of(i);
      reached.emplace_back(trial.place == RunPace::Place::kPaused ? trial.step - 1 : trial.step, weight);
      if (trial.place != RunPace::Place::kEnded || is_limit(trial.step)) continue;
      by_step[trial.step].ends += weight;
      seen_ = true;
    }
    if (run.rungs.empty() && seen_ && steps_max_) spread_over_steps(by_step, reached);
    std::sort(reached.begin(), reached.end());
    auto not_beyond = reached.size();
    double at_risk = 0;
    for (auto at = by_step.rbegin(); at != by_step.rend(); ++at) {
      for (; not_beyond > 0 && reached[not_beyond - 1].first >= at->first; --not_beyond)
        at_risk += reached[not_beyond - 1].second;
      at->second.stays = std::max(at_risk - at->second.ends, 0.0);
    }
    for (const auto& [step, hazard] : by_step) {
      steps_.push_back(step);
      hazards_.push_back(hazard);
    }
  }

  // Whether there is any data on the step at which a trial ends.
  bool known() const { return steps_max_ || seen_; }
  // Whether trials have ended before the limit.
  bool early() const { return seen_ && steps_max_; }
  void draw(Draws& draws) {
    alive_.assign(1, 0);  // Logarithm of the chance to survive the first n of steps_.
    for (const Hazard& one : hazards_) {
      const double ends = one.ends + one.prior_ends + 0.01, stays = one.stays + one.prior_stays + 0.01;
      const double chance = hazards_.size() <= kHazardsDrawnMax ? draws.beta(ends, stays) : ends / (ends + stays);
      alive_.push_back(alive_.back() + std::log1p(-std::min(chance, 1 - 1e-12)));
    }
  }
  // `undecided`: the trial may end at the step that it has reached.
  int64_t of(int64_t step, bool undecided, Draws& draws) const {
    const auto first = undecided ? std::lower_bound(steps_.begin(), steps_.end(), step)
                                 : std::upper_bound(steps_.begin(), steps_.end(), step);
    const auto from = static_cast<size_t>(first - steps_.begin());
    const double chance = std::max(draws.real(), 1e-300);
    const double level = alive_[from] + std::log(chance);
    // The first step after which fewer trials survive.
    const auto end =
        std::upper_bound(alive_.begin() + static_cast<std::ptrdiff_t>(from) + 1, alive_.end(), level, std::greater<>());
    if (end != alive_.end()) return steps_[static_cast<size_t>(end - alive_.begin()) - 1];
    if (steps_max_) return std::max(step, *steps_max_);
    // It survives all trials that ended: it runs as long again as so far, or longer, with equal probability.
    const auto so_far = static_cast<double>(std::max<int64_t>({step, 1, steps_.empty() ? 1 : steps_.back()}));
    return static_cast<int64_t>(std::min(so_far / std::max(draws.real(), 1e-3), so_far * kStepsBeyondMax));
  }

 private:
  struct Hazard {
    double ends = 0, stays = 0, prior_ends = 0, prior_stays = 0;
  };
  bool is_limit(int64_t step) const { return steps_max_ && step >= *steps_max_; }
  // Without rungs a trial may end at any step from the first observed end on; the overall rate contributes a little to
  // each step.
  void spread_over_steps(std::map<int64_t, Hazard>& by_step,
                         const std::vector<std::pair<int64_t, double>>& reached) const {
    const int64_t first = by_step.begin()->first;
    if (*steps_max_ - first > static_cast<int64_t>(kHazardsDrawnMax)) return;
    double ends = 0, steps = 0;
    for (const auto& [step, hazard] : by_step) ends += hazard.ends;
    for (const auto& [step, weight] : reached)
      steps += weight * static_cast<double>(std::max<int64_t>(std::min(step, *steps_max_ - 1) - first + 1, 0));
    if (steps <= 0) return;
    const double chance = std::min(ends / steps, 1.0);
    for (int64_t step = first; step < *steps_max_; ++step) {
      by_step[step].prior_ends += kPriorTrials * chance;
      by_step[step].prior_stays += kPriorTrials * (1 - chance);
    }
  }

  const std::optional<int64_t> steps_max_;
  bool seen_ = false;
  std::vector<int64_t> steps_;
  std::vector<Hazard> hazards_;
  std::vector<double> alive_;
};

// Durations of steps, starts and ends.
class Pace {
 public:
  // `pauses`: pauses are simulated individually.
  Pace(const RunPace& run, bool pauses)
      : run_(run), overhead_(run.saving_of_step_s + (pauses ? 0 : run.pausing_of_step_s)) {
    double relative = 0, weight = 0;
    for (const RunPace::Trial& trial : run.trials) {
      if (trial.steps_seen < 1 || !(trial.step_s > 0)) continue;
      means_.push_back(trial.step_s);
      if (trial.steps_seen < 2) continue;
      relative +=
          std::max(trial.step_s2 / (trial.step_s * trial.step_s) - 1, 0.0) * static_cast<double>(trial.steps_seen);
      weight += static_cast<double>(trial.steps_seen - 1);
    }
    noise_ = weight > 0 ? std::sqrt(relative / weight) : 0.2;
  }

  bool known() const { return !means_.empty(); }
  void draw(Draws& draws) {
    drawn_.resize(std::min(means_.size(), kMeansMax));
    for (double& mean : drawn_) mean = means_[draws.below(means_.size())];
  }
  // Average duration of a step; the trial's own if it is known.
  double of(const RunPace::Trial* trial, Draws& draws) const {
    if (trial == nullptr || trial->steps_seen < 1 || !(trial->step_s > 0)) return drawn_[draws.below(drawn_.size())];
    const double spread = std::min(noise_, 1.0) / std::sqrt(static_cast<double>(trial->steps_seen));
    return trial->step_s * std::exp(spread * draws.normal());
  }
  double steps(double count, double each, Draws& draws) const {
    if (count <= 0) return 0;
    const double luck = 1 + std::min(noise_, 1.0) / std::sqrt(count) * draws.normal();
    return count * (each * std::max(luck, 0.1) + overhead_);
  }
  double start(Draws& draws) const { return any_of(run_.starts_s, draws); }
  double stop(Draws& draws) const { return any_of(run_.stops_s, draws); }

 private:
  static constexpr size_t kMeansMax = 256;
  static double any_of(const std::vector<double>& samples, Draws& draws) {
    return samples.empty() ? 0 : samples[draws.below(samples.size())];
  }

  const RunPace& run_;
  const double overhead_;
  std::vector<double> means_, drawn_;
  double noise_ = 0;  // Relative noise of a step.
};

// Slots that are occupied by one trial after another.
class WorkerSlots {
 public:
  WorkerSlots(int64_t slots, size_t tasks)
      : slots_(static_cast<size_t>(std::max<int64_t>(slots, 1))), tasks_max_(tasks) {}

  // Occupies a slot with a running trial.
  void running(double seconds) {
    ends_.push(seconds);
    last_ = std::max(last_, seconds);
  }
  double next(double seconds, double not_before = 0) {
    while (ends_.size() > slots_) ends_.pop();
    double begin = not_before;
    if (ends_.size() == slots_) begin = std::max(begin, ends_.top()), ends_.pop();
    ends_.push(begin + seconds);
    last_ = std::max(last_, begin + seconds);
    return begin + seconds;
  }
  // Occupies all slots for the given total time, by trials that are not simulated individually.
  void load(double seconds_together) {
    const double each = seconds_together / static_cast<double>(slots_);
    std::priority_queue<double, std::vector<double>, std::greater<>> moved;
    for (; !ends_.empty(); ends_.pop()) moved.push(ends_.top() + each);
    while (moved.size() < slots_ && moved.size() < tasks_max_) moved.push(each);
    ends_ = std::move(moved);
    last_ += each;
  }
  double last() const { return last_; }

 private:
  size_t slots_, tasks_max_;
  std::priority_queue<double, std::vector<double>, std::greater<>> ends_;
  double last_ = 0;
};

double rest_of_running(const RunPace::Trial& trial, int64_t end, const Pace& pace, Draws& draws) {
  if (trial.ending) {
    const double stop = pace.stop(draws);
    return std::max(stop - trial.since_s, 0.05 * stop);
  }
  const double each = pace.of(&trial, draws);
  double seconds = pace.steps(static_cast<double>(end - trial.step), each, draws);
  if (trial.starting) {
    const double start = pace.start(draws);
    seconds += std::max(start - trial.since_s, 0.05 * start);
  } else {
    seconds -= std::min(trial.since_s, 0.95 * each);
  }
  return std::max(seconds, 0.0) + pace.stop(draws);
}

// Simulates trials that end at rungs or at their limit.
double play_through(const RunPace& run, const EndSteps& ends, const Pace& pace, Draws& draws) {
  WorkerSlots slots(run.slots, run.trials.size() + static_cast<size_t>(*run.to_start));
  for (const RunPace::Trial& trial : run.trials) {
    if (trial.place == RunPace::Place::kRunning)
      slots.running(rest_of_running(trial, ends.of(trial.step, false, draws), pace, draws));
  }
  const auto whole = [&](const RunPace::Trial* trial, int64_t from, bool undecided) {
    const int64_t end = ends.of(from, undecided, draws);
    if (end <= from) return -1.0;
    return pace.start(draws) + pace.steps(static_cast<double>(end - from), pace.of(trial, draws), draws) +
           pace.stop(draws);
  };
  for (const RunPace::Trial& trial : run.trials) {
    const bool paused = trial.place == RunPace::Place::kPaused;
    if (!paused && trial.place != RunPace::Place::kQueued) continue;
    if (const double seconds = whole(&trial, trial.step, paused); seconds >= 0) slots.next(seconds);
  }
  const auto to_start = static_cast<size_t>(*run.to_start);
  const size_t one_by_one = std::min(to_start, kToComeMax);
  std::vector<double> to_come(one_by_one);
  double sum = 0;
  for (double& seconds : to_come) sum += seconds = std::max(whole(nullptr, 0, false), 0.0);
  if (to_start > one_by_one)
    slots.load(sum / static_cast<double>(one_by_one) * static_cast<double>(to_start - one_by_one));
  for (const double seconds : to_come) slots.next(seconds);
  return slots.last();
}

// Brackets whose trials wait for each other at each rung, where the number of trials per rung is known.
class Brackets {
 public:
  explicit Brackets(const RunPace& run) : run_(run) {
    for (const RunPace::Rung& rung : run.rungs) {
      if (brackets_.empty() || brackets_.back().front().bracket != rung.bracket) brackets_.emplace_back();
      brackets_.back().push_back(rung);
    }
    for (size_t i = 0; i < brackets_.size(); ++i) {
      if (i > 0 && brackets_[i].front().step == brackets_.front().front().step) break;
      ++kinds_;
    }
  }

  double play_through(const Pace& pace, Draws& draws) const {
    WorkerSlots slots(run_.slots, SIZE_MAX);
    // Trials that run or wait for a slot belong to the first bracket that waits for a trial of their step.
    std::vector<const RunPace::Trial*> running, queued;
    int64_t fresh = *run_.to_start;
    for (const RunPace::Trial& trial : run_.trials) {
      if (trial.place == RunPace::Place::kRunning) running.push_back(&trial);
      if (trial.place == RunPace::Place::kQueued) queued.push_back(&trial);
    }
    std::vector<bool> used_running(running.size()), used_queued(queued.size());
    struct Wave {
      double ready = 0;
      const std::vector<RunPace::Rung>* ladder = nullptr;
      size_t rung = 0;
      double share = 1;  // Fraction of the ladder's trials in a bracket that is not full.
    };
    std::vector<Wave> waves;
    struct Start {
      const RunPace::Trial* trial;
      double steps;
      size_t wave;
    };
    std::vector<Start> starts;
    const auto take = [&](const auto& trials, auto& used, int64_t from, int64_t to, int64_t most, auto&& each) {
      int64_t taken = 0;
      for (size_t i = 0; i < trials.size() && taken < most; ++i) {
        if (used[i] || trials[i]->step < from || trials[i]->step >= to) continue;
        used[i] = true;
        ++taken;
        each(*trials[i]);
      }
      return taken;
    };
    for (const std::vector<RunPace::Rung>& ladder : brackets_) {
      size_t at = 0;
      while (at < ladder.size() && ladder[at].decided) ++at;
      if (at == ladder.size()) continue;
      const int64_t from = at == 0 ? 0 : ladder[at - 1].step;
      int64_t awaited = ladder[at].awaited;
      waves.push_back({.ladder = &ladder, .rung = at});
      const size_t wave = waves.size() - 1;
      awaited -= take(running, used_running, from, ladder[at].step, awaited, [&](const RunPace::Trial& trial) {
        const double seconds = rest_of_running(trial, ladder[at].step, pace, draws);
        slots.running(seconds);
        waves[wave].ready = std::max(waves[wave].ready, seconds);
      });
      awaited -= take(queued, used_queued, from, ladder[at].step, awaited, [&](const RunPace::Trial& trial) {
        starts.push_back({&trial, static_cast<double>(ladder[at].step - trial.step), wave});
      });
      for (; at == 0 && awaited > 0 && fresh > 0; --awaited, --fresh)
        starts.push_back({nullptr, static_cast<double>(ladder[0].step), wave});
      if (at == 0)
        waves[wave].share =
            1 - static_cast<double>(awaited) / static_cast<double>(std::max<int64_t>(size_of(ladder[0]), 1));
    }
    for (size_t i = 0; i < running.size(); ++i) {
      if (!used_running[i])
        slots.running(
            rest_of_running(*running[i], std::max(running[i]->step, run_.steps_max.value_or(0)), pace, draws));
    }
    for (size_t i = 0; i < queued.size(); ++i) {
      if (!used_queued[i] && queued[i]->step == 0) ++fresh;
    }
    // Brackets that do not exist yet, in the order in which their kinds cycle.
    for (size_t kind = brackets_.size(); fresh > 0; ++kind) {
      const std::vector<RunPace::Rung>& like = brackets_[kinds_ == 0 ? 0 : kind % kinds_];
      const int64_t size = size_of(like.front());
      const int64_t count = std::min(fresh, std::max<int64_t>(size, 1));
      waves.push_back(
          {.ladder = &like, .share = static_cast<double>(count) / static_cast<double>(std::max<int64_t>(size, 1))});
      for (int64_t i = 0; i < count; ++i)
        starts.push_back({nullptr, static_cast<double>(like.front().step), waves.size() - 1});
      fresh -= count;
    }
    const auto seconds_of_task = [&](const RunPace::Trial* trial, double steps) {
      return pace.start(draws) + pace.steps(steps, pace.of(trial, draws), draws) + pace.stop(draws);
    };
    for (const Start& start : starts)
      waves[start.wave].ready =
          std::max(waves[start.wave].ready, slots.next(seconds_of_task(start.trial, start.steps)));
    // The next rung of a bracket, due once all trials have reached the previous one; earliest first.
    using Due = std::pair<double, size_t>;
    std::priority_queue<Due, std::vector<Due>, std::greater<>> due;
    for (size_t i = 0; i < waves.size(); ++i) due.emplace(waves[i].ready, i);
    while (!due.empty()) {
      const auto [ready, i] = due.top();
      due.pop();
      Wave& wave = waves[i];
      if (++wave.rung >= wave.ladder->size()) continue;
      const RunPace::Rung& rung = (*wave.ladder)[wave.rung];
      const double planned = static_cast<double>(size_of(rung)) * wave.share;
      const double steps = static_cast<double>(rung.step - (*wave.ladder)[wave.rung - 1].step);
      double end = ready;
      for (int64_t n = std::max<int64_t>(std::llround(planned), 1); n > 0; --n)
        end = std::max(end, slots.next(seconds_of_task(nullptr, steps), ready));
      due.emplace(end, i);
    }
    return slots.last();
  }

 private:
  static int64_t size_of(const RunPace::Rung& rung) { return rung.trials + rung.awaited; }

  const RunPace& run_;
  std::vector<std::vector<RunPace::Rung>> brackets_;
  size_t kinds_ = 0;  // Number of different ladders, after which they repeat.
};

// Variation of the fraction of time spent in starts: on a busy machine several in a row are slow.
double wandering_of_starts(const RunPace& run) {
  if (run.starts_s.size() < 2) return 0;
  double sum = 0, squares = 0, steps_s = 0, ended = 0;
  for (const double seconds : run.starts_s) sum += seconds, squares += seconds * seconds;
  const auto count = static_cast<double>(run.starts_s.size());
  const double mean = sum / count;
  for (const RunPace::Trial& trial : run.trials) {
    if (trial.place != RunPace::Place::kEnded) continue;
    steps_s += trial.step_s * static_cast<double>(trial.step);
    ++ended;
  }
  if (ended == 0 || mean <= 0) return 0;
  const double share = mean / (mean + steps_s / ended);
  return share * std::min(std::sqrt(std::max(squares / count - mean * mean, 0.0)) / mean, 1.0);
}

}  // namespace

std::optional<TimeLeft> estimate_time_left(const RunPace& run) {
  const auto running = std::count_if(run.trials.begin(), run.trials.end(), [](const RunPace::Trial& trial) {
    return trial.place == RunPace::Place::kRunning;
  });
  if (running == 0) return std::nullopt;
  const double budget = run.budget_left_s ? std::max(*run.budget_left_s, 0.0) : kEstimateSecondsMax;
  const auto by_budget = [&]() -> std::optional<TimeLeft> {
    return run.budget_left_s && budget < kEstimateSecondsMax ? std::optional(TimeLeft{budget, budget, budget})
                                                             : std::nullopt;
  };
  if (!run.to_start) return by_budget();
  const bool waits =
      std::any_of(run.rungs.begin(), run.rungs.end(), [](const RunPace::Rung& rung) { return rung.waits; });
  EndSteps ends(run);
  Pace pace(run, waits);
  if (!pace.known() || run.slots < 1 || !ends.known()) return std::nullopt;
  const Brackets brackets(run);
  const Calibration calibration = calibration_of(run, waits, ends.early());
  const double deviation = std::hypot(calibration.deviation, wandering_of_starts(run));
  Draws draws;
  std::array<double, kDraws> results{};
  for (double& result : results) {
    ends.draw(draws);
    pace.draw(draws);
    const double seconds = waits ? brackets.play_through(pace, draws) : play_through(run, ends, pace, draws);
    result = seconds * std::exp(calibration.mean + deviation * draws.normal());
  }
  std::sort(results.begin(), results.end());
  const auto at = [&](double share) { return results[static_cast<size_t>(std::lround(share * (kDraws - 1)))]; };
  if (!(at(0.5) < kEstimateSecondsMax)) return by_budget();
  return TimeLeft{std::min(at(0.5), budget), std::min(at(calibration.tail), budget),
                  std::min(at(1 - calibration.tail), budget)};
}

}  // namespace volador::tune
