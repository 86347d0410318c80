// Interface of searchers, which propose configurations. Implementations are deterministic, serialisable state machines:
// no clock, thread or I/O; randomness from their seed only.
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
#include "tune/loop/earlier_run.h"
#include "tune/loop/metrics.h"
#include "tune/loop/objectives.h"
#include "tune/space/space.h"

namespace volador::tune {

struct SearchContext {
  Space space;
  std::string metric;
  Mode mode = Mode::kMax;
  int64_t num_samples =
      1;  // Configurations to try, multiplied by the grid size if the space has grid_search axes. -1: unlimited.
  uint64_t seed = 0;   // Used unless the searcher's own options set one.
  bool ahead = false;  // Slow searchers compute on their own thread and return kWait meanwhile.
  Goals goals = {};    // Several objectives and constraints; empty: the metric only.
  std::shared_ptr<const EarlierRun> earlier = {};  // The run that is resumed; null: a new run.
};

struct Suggestion {
  // kKnown: in a replay only, the record has the configuration, and the searcher's state includes this suggestion.
  enum class Kind : uint8_t { kConfig, kWait, kExhausted, kKnown };
  Kind kind = Kind::kExhausted;
  Config config;
};

struct Observation {
  int64_t index = 0;  // Index of the trial.
  int64_t step = 0;
  std::optional<double> value;  // Value of the metric; no value if it was not reported.
  // Set on completion if the run has goals: one value per objective or constraint, in their order; NaN if not reported.
  std::vector<double> objectives = {};
  std::vector<double> constraints = {};
  Metrics result = {};  // All metrics of that step; empty where a searcher that wraps another one made it up.
};

// A trial of an earlier run, for warm starts.
struct EarlierTrial {
  Config config;
  std::vector<std::pair<int64_t, double>> curve = {};  // Steps and values of the metric, ascending.
  std::optional<Observation> last = std::nullopt;      // As for on_complete(); no value: it failed or reported nothing.
};

class Searcher {
 public:
  virtual ~Searcher() = default;

  // Returns the configuration of trial `index`. Indices are requested in order from 0; after kWait the same index is
  // requested again. An error ends the experiment.
  [[nodiscard]] virtual Result<Suggestion> suggest(int64_t index) = 0;
  // Trial `index` runs with a configuration of the caller and suggest(index) is not called: nothing is computed except
  // for on_start(). Returns false, without effect, if suggest(index) must be called nevertheless.
  [[nodiscard]] virtual bool skip(int64_t /*index*/, const Config& /*config*/) { return false; }
  // Trial `index` runs with this configuration instead of the suggested one.
  virtual void on_start(int64_t /*index*/, const Config& /*config*/) {}
  // Learns from trials of earlier runs as from its own, oldest first; called before the first suggestion. Trials whose
  // configurations do not belong to the space are skipped. kInvalidArgument: the searcher does not learn; the state is
  // unchanged.
  [[nodiscard]] virtual Result<void> learn(const std::vector<EarlierTrial>& trials);
  // Adds a configuration to suggest next, in addition to its own and beyond total(). Returns false, without effect, if
  // this is not supported or the queue is full. See tune/searchers/added_configs.h.
  virtual bool add(const Config& /*config*/) { return false; }
  // Called once per step of a trial. Here and below, unknown and ended trials are ignored.
  virtual void on_result(const Observation& observation) = 0;
  // Called once per trial; `last` is its last result; no value if it failed or reported nothing.
  virtual void on_complete(int64_t index, const std::optional<Observation>& last) = 0;

  // Planned number of configurations; no value: unlimited.
  virtual std::optional<int64_t> total() const = 0;
  // Whether results influence later suggestions; if so, few are requested in advance.
  virtual bool learns() const = 0;
  virtual bool needs_metric() const = 0;
  // Whether several objectives and constraints are supported: the searcher learns from all of them, or from none.
  virtual bool takes_goals() const { return !learns(); }
  virtual std::string describe() const = 0;

  // Serialises the whole state as JSON, and restores it; space and options are not included. A restored searcher makes
  // exactly the same suggestions as the original. kInvalidArgument: corrupt or another version; the state is unchanged.
  virtual std::string snapshot() const = 0;
  [[nodiscard]] virtual Result<void> restore(std::string_view snapshot) = 0;
};

// Result of tune::random_search({…}) and similar functions: creates a new searcher for each run. kInvalidArgument: the
// space or the options are invalid; the message names path, value and rule.
using SearcherFactory = std::function<Result<std::unique_ptr<Searcher>>(const SearchContext&)>;

}  // namespace volador::tune
