// The simulation of the ASHA paper's appendix (Li et al., MLSys 2020): 25 workers, 2,000 units of time, r = 1, R = 256,
// eta = 4, 256 configurations per bracket of successive halving; jobs are slower by 1 + |z|, z normal, and are lost
// with a given probability per unit of time. For the test and the figure that reproduce it.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/simulation/simulation.h"

namespace volador::tune::testing {

// Number of configurations that ran in full, and the time of the first.
struct AppendixOutcome {
  double finished = 0, first = 0;
};
struct AppendixCell {
  double sd = 0, drop = 0;  // Standard deviation of the slow-down; probability per unit of time.
  AppendixOutcome asha, overlap, barrier;
};

// As published. `root`: the source folder.
inline std::vector<AppendixCell> published_appendix(const std::string& root) {
  std::ifstream in(root + "/tests/tune/data/asha_appendix.json");
  std::vector<AppendixCell> cells;
  for (const auto& row : nlohmann::json::parse(in)) {
    const auto outcome = [&row](const char* name) { return AppendixOutcome{row[name][0], row[name][1]}; };
    cells.push_back({row["std"], row["p"], outcome("asha"), outcome("sha_overlap"), outcome("sha_barrier")});
  }
  return cells;
}

// Reports a job between two rungs to its scheduler at the step in which it ends: one step is then one job, and a
// simulation takes a third of the time.
class JobsAsSteps final : public Scheduler {
 public:
  explicit JobsAsSteps(std::unique_ptr<Scheduler> inner) : inner_(std::move(inner)) {}
  static int64_t step_of(int64_t job) { return int64_t{1} << (2 * (job - 1)); }

  void on_trial_add(TrialId trial) override { inner_->on_trial_add(trial); }
  Result<Decision> on_report(const Report& report) override {
    Report at = report;
    at.step = step_of(report.step);
    return inner_->on_report(at);
  }
  void on_complete(TrialId trial) override { inner_->on_complete(trial); }
  void on_checkpoint(TrialId trial, int64_t job) override { inner_->on_checkpoint(trial, step_of(job)); }
  void on_no_more_trials() override { inner_->on_no_more_trials(); }
  std::vector<Order> take_orders() override { return inner_->take_orders(); }
  std::vector<DecisionRecord> take_decisions() override { return inner_->take_decisions(); }
  bool pauses() const override { return inner_->pauses(); }
  bool needs_metric() const override { return inner_->needs_metric(); }
  std::string describe() const override { return inner_->describe(); }
  std::string snapshot() const override { return inner_->snapshot(); }
  Result<void> restore(std::string_view snapshot) override { return inner_->restore(snapshot); }
  void check_invariants() const override { inner_->check_invariants(); }

 private:
  const std::unique_ptr<Scheduler> inner_;
};

// `by_jobs`: a step is a job between two rungs, otherwise a unit of time.
inline tune::SimulationOptions appendix_options(const SchedulerFactory& scheduler, const AppendixCell& cell,
                                                uint64_t seed, int64_t samples, bool by_jobs = true) {
  tune::SimulationOptions options{
      .space = {{"lr", uniform(0.0, 1.0)}},
      .num_samples = samples,
      .scheduler = scheduler,
      .workload =
          synthetic_workload({.seed = seed, .straggler_sd = cell.sd, .drop_per_s = cell.drop, .noise = 0}).value(),
      .slots = 25,
      .max_steps = 256,
      .time_limit_s = 2000,
      .seed = seed};
  if (!by_jobs) return options;
  options.max_steps = 5;
  options.scheduler = [scheduler](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto inner = scheduler(context);
    if (!inner) return inner;
    return std::make_unique<JobsAsSteps>(std::move(*inner));
  };
  const auto last = [](const Workload::At& at) {
    return Workload::At{at.trial, at.index, at.config, at.attempt, JobsAsSteps::step_of(at.step)};
  };
  options.workload.value = [last, value = std::move(options.workload.value)](const Workload::At& at) {
    return value(last(at));
  };
  options.workload.seconds = [last, seconds = std::move(options.workload.seconds)](const Workload::At& at) {
    const int64_t steps = at.step == 1 ? 1 : JobsAsSteps::step_of(at.step) - JobsAsSteps::step_of(at.step - 1);
    return seconds(last(at)) * static_cast<double>(steps);
  };
  return options;
}

// The paper's algorithm promotes paused configurations; so does the variant compared here.
inline SchedulerFactory appendix_asha() {
  return asha({.max_t = 256, .reduction_factor = 4, .variant = AshaVariant::kPromotion});
}
inline SchedulerFactory appendix_halving() { return hyperband({.max_t = 256, .eta = 4, .only_bracket = 4}); }

inline AppendixOutcome overlapping(const SchedulerFactory& scheduler, const AppendixCell& cell, uint64_t seed,
                                   bool by_jobs = true) {
  const auto report = simulate(appendix_options(scheduler, cell, seed, -1, by_jobs)).value();
  return {static_cast<double>(report.finished), report.first_finished_s.value_or(2000)};
}
// One bracket after the other.
inline AppendixOutcome one_by_one(const SchedulerFactory& scheduler, const AppendixCell& cell, uint64_t seed) {
  AppendixOutcome out{0, 2000};
  double spent = 0;
  for (uint64_t bracket = 0; spent < 1999.99; ++bracket) {
    tune::SimulationOptions one = appendix_options(scheduler, cell, seed + 1000 * bracket, 256);
    one.time_limit_s = 2000 - spent;
    const auto report = simulate(one).value();
    out.finished += static_cast<double>(report.finished);
    if (bracket == 0) out.first = report.first_finished_s.value_or(2000);
    spent += report.elapsed_s;
  }
  return out;
}

// The cell as reproduced here, averaged over the seeds from 1 on.
inline AppendixCell simulated_appendix(AppendixCell cell, uint64_t asha_seeds, uint64_t halving_seeds) {
  const AppendixCell asked = cell;
  const auto mean = [](uint64_t seeds, const auto& run) {
    AppendixOutcome out;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const AppendixOutcome one = run(seed);
      out.finished += one.finished / static_cast<double>(seeds);
      out.first += one.first / static_cast<double>(seeds);
    }
    return out;
  };
  cell.asha = mean(asha_seeds, [&](uint64_t seed) { return overlapping(appendix_asha(), asked, seed); });
  cell.overlap = mean(halving_seeds, [&](uint64_t seed) { return overlapping(appendix_halving(), asked, seed); });
  cell.barrier = mean(halving_seeds, [&](uint64_t seed) { return one_by_one(appendix_halving(), asked, seed); });
  return cell;
}

}  // namespace volador::tune::testing
