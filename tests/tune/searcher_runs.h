// Sequential trials on a function, for the tests of searchers.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "tune/searchers/searcher.h"
#include "tune/space/config.h"

namespace volador::tune {

using Function = std::function<double(const Config&)>;

// Returns the configurations of `count` trials.
inline std::vector<Config> search(Searcher& searcher, int64_t count, const Function& function) {
  std::vector<Config> out;
  for (int64_t i = 0; i < count; ++i) {
    out.push_back(searcher.suggest(i).value().config);
    searcher.on_complete(i, Observation{i, 1, function(out.back())});
  }
  return out;
}

inline double least(const std::vector<Config>& configs, const Function& function) {
  double out = 1e300;
  for (const Config& config : configs) out = std::min(out, function(config));
  return out;
}

}  // namespace volador::tune
