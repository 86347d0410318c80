// Schedulers named in a few words, for command lines: "asha:grace_period=1,reduction_factor=3".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/scheduler.h"
#include "tune/space/space.h"

namespace volador::tune {

// fifo, asha, hyperband, hb_bohb, successive_halving, median_stopping, percentile or wilcoxon, then options of that scheduler by their names. max_t is
// that of the argument where the text gives none. kInvalidArgument: names the word, what is known and the nearest.
[[nodiscard]] Result<SchedulerFactory> scheduler_of(std::string_view text, int64_t max_t);
const std::vector<std::string>& scheduler_names();

enum class SimulatedKind : uint8_t {
  kPlain,
  kPopulation,  // It copies trials and changes their configurations: no record has curves for those.
  kResources,   // It changes what trials have: no record has durations for that.
};
struct SimulatedScheduler {
  SchedulerFactory factory;
  SimulatedKind kind = SimulatedKind::kPlain;
};
// The same, and pbt, pb2 and resource_changing:base=asha; the first two change all parameters of the space.
[[nodiscard]] Result<SimulatedScheduler> simulated_scheduler_of(std::string_view text, int64_t max_t, const Space& space);

}  // namespace volador::tune
