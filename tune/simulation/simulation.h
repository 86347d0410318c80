// Simulates a search in virtual time: the loop of tune::run with its searcher and scheduler, on slots whose trials
// follow given learning curves and durations. Compares schedulers without using GPUs.
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

// Behaviour of simulated trials. Its functions are pure: the same arguments give the same result.
struct Workload {
  // Arguments: step `step`, from 1, of a trial in its attempt `attempt`, from 1.
  struct At {
    TrialId trial;
    int64_t index = 0;
    const Config& config;
    int64_t attempt = 1;
    int64_t step = 1;
    // Value after the previous step of the trial, or of the trial that it was copied from; NaN at the first step.
    double before = std::numeric_limits<double>::quiet_NaN();
    double cpus = 1;  // CPUs of the trial; a slot has one, and the scheduler may assign more.
  };
  std::function<double(const At&)> value;    // Value of the metric.
  std::function<double(const At&)> seconds;  // Duration of the step; above 0.
  std::function<bool(const At&)> fails =
      {};              // Whether the attempt fails at this step instead of reporting; empty: never.
  double start_s = 0;  // From a free slot to the first step.
  double checkpoint_s = 0;
};

// Curves that rise as a power of the steps, from a trial's own start to its own limit, and may cross.
struct SyntheticOptions {
  uint64_t seed = 0;
  double step_s = 1;        // Mean duration of a step, multiplied by the factors below.
  double speed_sd = 0;      // Variation between trials: each is slower by 1 + |z|, z normal with this deviation.
  double straggler_sd = 0;  // Variation of each stretch between two powers of `stretch`, likewise; models a job between
                            // two rungs.
  double stretch = 4;
  double drop_per_s =
      0;  // Probability per second that such a stretch is lost and repeated by its slot from its beginning.
  double fail_per_step = 0;  // Probability that an attempt fails, which counts towards max_failures.
  double noise = 0.01;       // Standard deviation of the noise of each value.
  // Fraction of the work of a step that several CPUs share; the rest is serial (Amdahl, 1967). 0 to 1.
  double parallel = 0.9;
};
// Trials whose progress depends on the number `parameter` of their configuration, from 0 to 1: each step brings the
// value closer to 1, by more the closer the number is to a target, which moves from 1 to 0 in `horizon` steps. No
// constant is good throughout, which is the use case of population based training.
struct MovingTarget {
  std::string parameter = "x";
  int64_t horizon = 100;
};
// As synthetic_workload() with such curves. kInvalidArgument: as there, or the horizon is below 1.
[[nodiscard]] Result<Workload> moving_target_workload(const SyntheticOptions& options, const MovingTarget& target);
// kInvalidArgument: an option is out of range; the message names it.
[[nodiscard]] Result<Workload> synthetic_workload(const SyntheticOptions& options);

// Workload of an earlier run, trial by trial. If the record of a trial ends because it was stopped, the trial continues
// with its last value and mean duration. kInvalidArgument: the metric was never reported; kNotFound: the run recorded
// no results.
struct RecordedWorkload {
  Workload workload;
  std::vector<Config> configs;  // Configurations of its trials, in order, for the simulated searcher.
  int64_t steps_max = 0;
};
[[nodiscard]] Result<RecordedWorkload> recorded_workload(const Analysis& analysis, const std::string& metric);

struct SimulationOptions {
  Space space = {};
  std::string metric = "value";
  Mode mode = Mode::kMax;
  int64_t num_samples = 1;           // -1: until the time limit.
  std::vector<Config> configs = {};  // Proposed in this order instead of using a searcher; num_samples is their number.
  SearcherFactory searcher = {};     // By default random search.
  SchedulerFactory scheduler = {};   // By default fifo.
  Workload workload = {};
  int64_t slots = 1;        // One CPU each, which a trial has at its start.
  int64_t max_steps = 100;  // Every trial ends at this step.
  double time_limit_s = 0;  // Virtual time limit; 0: none.
  int64_t max_failures = 0;
  uint64_t seed = 0;
  std::function<void(std::chrono::nanoseconds at, const Event&)> on_event = {};  // Called before the loop handles the
                                                                                 // event.
  std::function<void(BootTime at, const TrialLoop&)> after_event = {};           // Called after the loop has handled
                                                                                 // the event.
};

struct SimulationReport {
  int64_t trials = 0;    // Started.
  int64_t finished = 0;  // Ran in full.
  int64_t stopped = 0;
  int64_t failed = 0;
  int64_t steps = 0;                       // Executed, including repeated ones.
  int64_t events = 0;                      // Handled by the loop.
  double elapsed_s = 0;                    // Virtual time.
  double busy_s = 0;                       // Sum over all slots.
  std::optional<double> first_finished_s;  // Time at which the first trial had run in full.
  std::optional<double> best;              // Best reported value.
  Config best_config;                      // Configuration of the trial that first reported it; null if none did.
  struct Point {
    double seconds = 0;
    double best = 0;
  };
  std::vector<Point> curve;  // Each improvement of the best value.
};

// kInvalidArgument: an option is out of range, or an error of searcher, scheduler or loop; the message names it.
[[nodiscard]] Result<SimulationReport> simulate(const SimulationOptions& options);

}  // namespace volador::tune
