// Searchers around searchers: points to try first, fewer trials at once, each configuration several times, results in
// a fixed order, no forbidden combinations.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// Tries these configurations first, then what `inner` proposes. A point that gives some parameters only, by path, gets
// the others from `inner`'s proposal. Points count as samples. kInvalidArgument: a point names what the space has not,
// or gives a value that it would never draw; there are more points than trials; the space has grid_search axes.
SearcherFactory points_to_evaluate(std::vector<Config> points, SearcherFactory inner = {});

struct ConcurrencyLimiterOptions {
  int64_t max_concurrent = 1;  // Trials whose end `inner` waits for; at least 1.
  bool batch = false;          // Proposes nothing new before all of them have ended.
};
SearcherFactory concurrency_limiter(const ConcurrencyLimiterOptions& options, SearcherFactory inner);

struct RepeaterOptions {
  int64_t repeat =
      1;  // Trials of each configuration, told to `inner` as one with the mean of their results; at least 1.
  bool set_index = true;  // Adds "__trial_index__", from 0 to repeat - 1, to the configuration: for a seed.
};
// num_samples counts trials, as in Ray Tune: 12 trials of 4 each are 3 configurations; the last one may get fewer.
// Trials that failed or reported no number are left out of the mean; where all of them did, the configuration failed.
SearcherFactory repeater(const RepeaterOptions& options, SearcherFactory inner);

struct DeterministicOptions {
  int64_t window = 8;  // Trials at once; at least 1. Part of the promise: another window gives other configurations.
  static constexpr int64_t kWindowMax = 10'000;
};
// One seed gives one set of configurations, whatever the timing and the number of workers: before trial i is proposed,
// `inner` has been told of trials 0 to i - window, in that order, and of no others. A trial waits where one of those
// still runs. Holds where a trial's results follow from its configuration: not with schedulers that compare trials.
// Searchers that do not learn are left as they are.
SearcherFactory deterministic(const DeterministicOptions& options, SearcherFactory inner);

// Never proposes a configuration for which the rule says true: combinations that the trainable cannot run. The rule
// depends on the configuration alone. A proposal of `inner` that is forbidden counts as a failed trial to it and starts
// none. suggest() gives kInvalidArgument after 10,000 in a row, kApplication where the rule throws.
SearcherFactory forbid(std::function<bool(const Config&)> forbidden, SearcherFactory inner = {});

}  // namespace volador::tune
