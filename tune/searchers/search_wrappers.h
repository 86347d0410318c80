// Searchers that wrap other searchers: initial points, limited concurrency, repeated configurations, a fixed order of
// results, forbidden combinations.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

// Tries these configurations first, then those proposed by `inner`. A partial point, given by path, is completed from
// `inner`'s proposal. Points count as samples. kInvalidArgument: a point has a name that is not in the space or a value
// outside its domain; there are more points than trials; the space has grid_search axes.
SearcherFactory points_to_evaluate(std::vector<Config> points, SearcherFactory inner = {});

struct ConcurrencyLimiterOptions {
  int64_t max_concurrent = 1;  // Maximum number of unfinished trials of `inner`; at least 1.
  bool batch = false;          // Proposes nothing new until all of them have ended.
};
SearcherFactory concurrency_limiter(const ConcurrencyLimiterOptions& options, SearcherFactory inner);

struct RepeaterOptions {
  int64_t repeat =
      1;  // Trials per configuration, reported to `inner` as one with the mean of their results; at least 1.
  bool set_index = true;  // Adds "__trial_index__", from 0 to repeat - 1, to the configuration, for use as a seed.
};
// num_samples counts trials, as in Ray Tune: 12 trials with repeat 4 are 3 configurations; the last one may get fewer.
// Trials that failed or reported no number are excluded from the mean; if all did, the configuration failed.
SearcherFactory repeater(const RepeaterOptions& options, SearcherFactory inner);

struct DeterministicOptions {
  int64_t window = 8;  // Concurrent trials; at least 1. Part of the guarantee: another window gives other
                       // configurations.
  static constexpr int64_t kWindowMax = 10'000;
};
// One seed gives one set of configurations, independent of timing and the number of workers: before trial i is
// proposed, `inner` has received the results of trials 0 to i - window, in that order, and no others. A suggestion
// waits while one of those trials runs. The guarantee requires that a trial's results follow from its configuration,
// which excludes schedulers that compare trials. Searchers that do not learn are returned unchanged.
SearcherFactory deterministic(const DeterministicOptions& options, SearcherFactory inner);

// Never proposes a configuration for which `forbidden` returns true, for combinations that the trainable cannot run.
// The rule must depend on the configuration only. A forbidden proposal counts as a failed trial for `inner` and starts
// no trial. suggest() returns kInvalidArgument after 10,000 forbidden proposals in a row and kApplication if the rule
// throws.
SearcherFactory forbid(std::function<bool(const Config&)> forbidden, SearcherFactory inner = {});

}  // namespace volador::tune
