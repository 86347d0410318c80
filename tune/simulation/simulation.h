// A search under virtual time: the loop of tune::run with its searcher and scheduler, on slots whose trials follow
// given learning curves and durations. Compares schedulers before a GPU hour is spent.
//
//   auto report = tune::simulate({.space = …, .metric = "accuracy", .num_samples = 256, .scheduler = tune::asha({.max_t
//   = 81}),
//                                 .workload = tune::synthetic_workload({.straggler_sd = 0.5}), .slots = 16, .max_steps
//                                 = 81});
//
// Deterministic: the same options give the same report.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/loop_messages.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/analysis.h"
#include "tune/schedulers/scheduler.h"
#include "tune/searchers/searcher.h"
#include "tune/space/space.h"

namespace volador::tune {

// What a simulated trial does. Its functions are pure: the same arguments give the same result.
struct Workload {
  // What is asked about: step `step`, from 1, of a trial in its attempt `attempt`, from 1.
  struct At {
    TrialId trial;
    int64_t index = 0;
    const Config& config;
    int64_t attempt = 1;
    int64_t step = 1;
    // Value after the step before, of the trial itself or of the one whose copy it is; NaN at the first step.
    double before = std::numeric_limits<double>::quiet_NaN();
    double cpus = 1;  // That it has, where a slot is one: more where its scheduler gave it more.
  };
  std::function<double(const At&)> value;    // Of the metric.
  std::function<double(const At&)> seconds;  // Of the step; above 0.
  std::function<bool(const At&)> fails =
      {};              // Whether the attempt ends with this step instead of a report; none: never.
  double start_s = 0;  // From a free slot to the first step.
  double checkpoint_s = 0;
};

// Curves that rise as a power of the steps, from a trial's own start to its own limit, and cross each other.
struct SyntheticOptions {
  uint64_t seed = 0;
  double step_s = 1;        // Mean seconds of a step, times what follows.
  double speed_sd = 0;      // Trials differ: each is slower by 1 + |z|, z normal with this deviation.
  double straggler_sd = 0;  // So is each stretch between two powers of `stretch`, as a job between two rungs.
  double stretch = 4;
  double drop_per_s =
      0;  // Chance in each second of such a stretch that it is lost and its slot does it again, from its beginning.
  double fail_per_step = 0;  // Chance that an attempt fails, which counts against max_failures.
  double noise = 0.01;       // Standard deviation of each value.
  // Of the work of a step, that many CPUs share; the rest is done by one (Amdahl, 1967). 0 to 1.
  double parallel = 0.9;
};
// Trials that learn by the number `parameter` of their configuration, from 0 to 1: each step brings the value nearer to
// 1, the more the nearer that number is to a target, which moves from 1 to 0 in `horizon` steps. No constant is good all
// the way: what population based training is for.
struct MovingTarget {
  std::string parameter = "x";
  int64_t horizon = 100;
};
// As synthetic_workload, with such curves. kInvalidArgument: as there, or the horizon is below 1.
[[nodiscard]] Result<Workload> moving_target_workload(const SyntheticOptions& options, const MovingTarget& target);
// kInvalidArgument: an option is out of range; the message names it.
[[nodiscard]] Result<Workload> synthetic_workload(const SyntheticOptions& options);

// What an earlier run recorded, trial by trial. A trial goes on with its last value and mean duration where the record
// ends, since it was stopped there. kInvalidArgument: the metric was never reported; kNotFound: the run recorded no
// results.
struct RecordedWorkload {
  Workload workload;
  std::vector<Config> configs;  // Of its trials, in order: what the simulated searcher proposes.
  int64_t steps_max = 0;
};
[[nodiscard]] Result<RecordedWorkload> recorded_workload(const Analysis& analysis, const std::string& metric);

struct SimulationOptions {
  Space space = {};
  std::string metric = "value";
  Mode mode = Mode::kMax;
  int64_t num_samples = 1;  // -1: until the time limit.
  std::vector<Config> configs =
      {};  // Proposed in this order instead of what a searcher would; num_samples is their number.
  SearcherFactory searcher = {};    // By default random search.
  SchedulerFactory scheduler = {};  // By default fifo.
  Workload workload = {};
  int64_t slots = 1;  // Of a CPU each, which a trial has at its start.
  int64_t max_steps = 100;  // Every trial ends there.
  double time_limit_s = 0;  // Nothing is simulated beyond it; 0: to the end.
  int64_t max_failures = 0;
  uint64_t seed = 0;
  std::function<void(std::chrono::nanoseconds at, const Event&)> on_event = {};  // Before the loop is told of it.
  std::function<void(BootTime at, const TrialLoop&)> after_event = {};           // Likewise, afterwards.
};

struct SimulationReport {
  int64_t trials = 0;    // That started.
  int64_t finished = 0;  // That ran in full.
  int64_t stopped = 0;
  int64_t failed = 0;
  int64_t steps = 0;                       // Executed, those done again included.
  int64_t events = 0;                      // Told to the loop.
  double elapsed_s = 0;                    // Of virtual time.
  double busy_s = 0;                       // Of all slots together.
  std::optional<double> first_finished_s;  // When the first trial had run in full.
  std::optional<double> best;              // Value reported.
  Config best_config;                      // Of the trial that reported it first; null where none did.
  struct Point {
    double seconds = 0;
    double best = 0;
  };
  std::vector<Point> curve;  // Each improvement of the best value.
};

// kInvalidArgument: an option is out of range, or of searcher, scheduler or loop; the message names it.
[[nodiscard]] Result<SimulationReport> simulate(const SimulationOptions& options);

}  // namespace volador::tune
