// Text specifications of schedulers, for command lines: "asha:grace_period=1,reduction_factor=3".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"
#include "tune/space/space.h"

namespace volador::tune {

// Parses fifo, asha, hyperband, hb_bohb, successive_halving, median_stopping, percentile or wilcoxon, followed by named
// options of that scheduler. `max_t` applies unless the text sets it. kInvalidArgument: names the unknown word, the
// known ones and the nearest.
[[nodiscard]] Result<SchedulerFactory> scheduler_of(std::string_view text, int64_t max_t);
const std::vector<std::string>& scheduler_names();

enum class SimulatedKind : uint8_t {
  kPlain,
  kPopulation,  // Copies trials and changes their configurations: recorded curves do not exist for those.
  kResources,   // Changes the resources of trials: recorded durations do not exist for those.
};
struct SimulatedScheduler {
  SchedulerFactory factory;
  SimulatedKind kind = SimulatedKind::kPlain;
};
// As scheduler_of(), plus pbt, pb2 and resource_changing:base=asha; pbt and pb2 mutate all parameters of the space.
[[nodiscard]] Result<SimulatedScheduler> simulated_scheduler_of(std::string_view text, int64_t max_t,
                                                                const Space& space);

}  // namespace volador::tune
