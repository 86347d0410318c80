// Proposes configurations. Implementations are deterministic, serialisable state machines: no clock, thread or I/O, and
// randomness from the seed they are given only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/metrics.h"
#include "tune/loop/objectives.h"
#include "tune/space/space.h"

namespace volador::tune {

struct SearchContext {
  Space space;
  std::string metric;
  Mode mode = Mode::kMax;
  int64_t num_samples =
      1;  // Configurations to try; times the size of the grid where the space has grid_search axes. -1: no end.
  uint64_t seed = 0;   // Used where the searcher's own options give none.
  bool ahead = false;  // Searchers that compute for long do so on a thread of their own and answer kWait meanwhile.
  Goals goals = {};    // Several objectives, constraints; none: the metric alone.
};

struct Suggestion {
  enum class Kind : uint8_t { kConfig, kWait, kExhausted };
  Kind kind = Kind::kExhausted;
  Config config;
};

struct Observation {
  int64_t index = 0;  // Of the trial.
  int64_t step = 0;
  std::optional<double> value;  // Of the metric; absent where it was not reported.
  // On completion, where the run has such goals: of each, in their order; NaN where it was not reported.
  std::vector<double> objectives = {};
  std::vector<double> constraints = {};
};

// What a trial of an earlier run taught.
struct EarlierTrial {
  Config config;
  std::vector<std::pair<int64_t, double>> curve = {};  // Steps and values of the metric, ascending.
  std::optional<Observation> last = std::nullopt;      // As for on_complete(); absent: it failed or reported nothing.
};

class Searcher {
 public:
  virtual ~Searcher() = default;

  // The configuration of trial `index`. Indices are asked for in order from 0; after kWait the same one is asked for
  // again. An error ends the experiment.
  [[nodiscard]] virtual Result<Suggestion> suggest(int64_t index) = 0;
  // Trial `index` runs with a configuration of the caller, and suggest(index) is not called: nothing is computed but
  // what on_start() does. False: this searcher must be asked all the same; nothing changed.
  [[nodiscard]] virtual bool skip(int64_t /*index*/, const Config& /*config*/) { return false; }
  // Trial `index` runs with this configuration instead of the one suggested for it.
  virtual void on_start(int64_t /*index*/, const Config& /*config*/) {}
  // Before anything is asked for: learns from trials of earlier runs as from its own, oldest first; those that are no configurations of its
  // space are left out. kInvalidArgument: it learns nothing from results; nothing has changed.
  [[nodiscard]] virtual Result<void> learn(const std::vector<EarlierTrial>& trials);
  // To be suggested next, besides its own and beyond total(). False: it does not do that, or has no room; nothing
  // changed. See tune/searchers/added_configs.h.
  virtual bool add(const Config& /*config*/) { return false; }
  // Each step of a trial once. Of unknown and ended trials it changes nothing, here and below.
  virtual void on_result(const Observation& observation) = 0;
  // Once a trial; `last` is its last result, absent where it failed or reported nothing.
  virtual void on_complete(int64_t index, const std::optional<Observation>& last) = 0;

  // How many configurations there will be; no value: no end.
  virtual std::optional<int64_t> total() const = 0;
  // Whether results change later suggestions: then few are asked for ahead.
  virtual bool learns() const = 0;
  virtual bool needs_metric() const = 0;
  // Whether it can be used with several objectives and constraints: it learns from all of them, or from nothing.
  virtual bool takes_goals() const { return !learns(); }
  virtual std::string describe() const = 0;

  // The whole state as JSON, and back; space and options are not part of it. A restored one suggests byte for byte what
  // the original would. kInvalidArgument: torn, or of another version; nothing has changed then.
  virtual std::string snapshot() const = 0;
  [[nodiscard]] virtual Result<void> restore(std::string_view snapshot) = 0;
};

// What tune::random_search({…}) and the like return: options that make a fresh searcher for each run.
// kInvalidArgument: the space or the options are wrong; the message names path, value and rule.
using SearcherFactory = std::function<Result<std::unique_ptr<Searcher>>(const SearchContext&)>;

}  // namespace volador::tune
