// Quality of a search's final configuration on the multi-fidelity Hartmann function: 8 slots for 10 times the duration
// of a full trial, in virtual time. For the test and the figure that use it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "runtime/random.h"
#include "tests/tune/hartmann.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/simulation/simulation.h"
#include "tune/space/drawing.h"

namespace volador::tune::testing {

inline constexpr int64_t kQualitySteps = 81;  // Steps of a full trial, which is fidelity 100; each takes a second.

inline SixReals point_of(const Config& config) {
  SixReals x{};
  for (size_t i = 0; i < x.size(); ++i) x[i] = config.real("x" + std::to_string(i));
  return x;
}

// `scheduler`: null lets every trial run in full. Each seed draws other configurations and other noise.
inline tune::SimulationOptions quality_options(const MfSurface& surface, const SchedulerFactory& scheduler,
                                               uint64_t seed) {
  Space space;
  for (int i = 0; i < 6; ++i) space.set("x" + std::to_string(i), uniform(0, 1));
  const auto value = [surface, seed](const Workload::At& at) {
    SeededRandom random(mixed(mixed(mixed(seed) ^ static_cast<uint64_t>(at.index)) ^ static_cast<uint64_t>(at.step)));
    const double fidelity = std::max(1.0, 100.0 * static_cast<double>(at.step) / kQualitySteps);
    return mf_hartmann6(surface, point_of(at.config), fidelity, normal_deviate(random));
  };
  return {.space = space,
          .mode = Mode::kMin,
          .num_samples = -1,
          .scheduler = scheduler,
          .workload = {.value = value, .seconds = [](const Workload::At&) { return 1.0; }},
          .slots = 8,
          .max_steps = kQualitySteps,
          .time_limit_s = 10 * kQualitySteps,
          .seed = seed};
}

struct Quality {
  double regret = 0;  // Full-fidelity value of the configuration with the best report, above the minimum.
  double trials = 0;  // Number of started trials, including those that wait for a slot at the end.
};

// Average over the seeds from 0 on.
inline Quality search_quality(const MfSurface& surface, const SchedulerFactory& scheduler, uint64_t seeds) {
  Quality mean;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const auto report = simulate(quality_options(surface, scheduler, seed)).value();
    mean.regret += (hartmann6(point_of(report.best_config)) - kHartmannLeast) / static_cast<double>(seeds);
    mean.trials += static_cast<double>(report.trials) / static_cast<double>(seeds);
  }
  return mean;
}

inline SchedulerFactory quality_asha(AshaVariant variant = AshaVariant::kStopping) {
  return asha({.grace_period = 1, .max_t = kQualitySteps, .reduction_factor = 3, .variant = variant});
}

}  // namespace volador::tune::testing
