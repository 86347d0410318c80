// Determined's searchers as state machines, events in, operations out: single, random, grid, adaptive_asha, and the
// ASHA that it is built on. Pure; randomness from the seed only. A seed gives the same trials, lengths and ids as
// Determined 0.24.
//
//   auto search = determined::Search::create({.name = "adaptive_asha", .max_length = 1000, .max_trials = 100},
//   hyperparameters, 42); for (const Operation& operation : search->initial_operations()) …
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/result.h"
#include "tune/determined/determined_hyperparameters.h"
#include "tune/determined/determined_random.h"

namespace volador::tune::determined {

using RequestId = std::string;  // A UUID that identifies a trial.

// ---- Operations.

struct Create {
  RequestId request;
  uint32_t trial_seed = 0;
  Config hyperparameters;
};
// The trial trains to `length` units in total, then validates.
struct ValidateAfter {
  RequestId request;
  int64_t length = 0;
};
struct Close {
  RequestId request;
};
// Emitted last, once.
struct Shutdown {
  bool failure = false;  // Every trial failed.
  bool cancel = false;   // The user cancelled every trial.
};
using Operation = std::variant<Create, ValidateAfter, Close, Shutdown>;
using Operations = std::vector<Operation>;

enum class ExitReason : uint8_t { kErrored, kInvalidHp, kUserRequestedStop, kUserCancelled };

// ---- Options.

enum class AdaptiveMode : uint8_t { kConservative, kStandard, kAggressive };

struct SearchOptions {
  std::string name = "single";         // single, random, grid, async_halving or adaptive_asha.
  int64_t max_length = 1;              // At least 1; ignored by grid, which has one trial per point.
  int64_t max_trials = 1;              // At least 1; a grid has as many as it has points.
  int64_t max_concurrent_trials = 16;  // 0: chosen by the method.
  bool smaller_is_better = true;
  // adaptive_asha and async_halving:
  double divisor = 4;      // Above 1.
  bool stop_once = false;  // Trials stop permanently at a rung; otherwise they wait to be promoted.
  int64_t num_rungs = 5;   // For async_halving.
  int64_t max_rungs = 5;   // For adaptive_asha, as are the next two.
  AdaptiveMode mode = AdaptiveMode::kStandard;
  std::vector<int64_t> bracket_rungs = {};  // Overrides mode: the rungs of each bracket.
};

// A bracket of adaptive_asha.
struct Bracket {
  int64_t rungs = 0;
  int64_t trials = 0;
  int64_t concurrent = 0;
  std::vector<int64_t> lengths;  // Lengths of its rungs, lowest first.
  bool operator==(const Bracket&) const = default;
};
// Uses double logarithms, as Determined does: 243 and 3 give one rung less than exact arithmetic.
std::vector<Bracket> adaptive_brackets(const SearchOptions& options);
std::vector<int64_t> rung_lengths(int64_t num_rungs, double divisor, int64_t max_length);

// ---- A search.

// Creates new trials for a method.
class Creator {
 public:
  Creator(const Hyperparameters& hyperparameters, Random& random)
      : hyperparameters_(hyperparameters), random_(random) {}
  Create create();  // With drawn hyperparameters.
  Create create(Config hyperparameters);

 private:
  const Hyperparameters& hyperparameters_;
  Random& random_;
};

// A search method. It tracks a trial from created() on.
class Method {
 public:
  virtual ~Method() = default;
  virtual Operations initial_operations(Creator& creator) = 0;
  virtual void created(const RequestId& /*request*/) {}
  // `metric`: smaller is better.
  virtual Operations validated(Creator& creator, const RequestId& request, double metric) = 0;
  virtual Operations closed(Creator& creator, const RequestId& request) = 0;
  virtual Operations exited(Creator& creator, const RequestId& request, ExitReason reason) = 0;
  // Returns 0 to 1. `units`: units trained so far, by trial.
  virtual double progress(const std::map<RequestId, double>& units) const = 0;
  virtual Config state() const = 0;
  // Throws the exceptions of Config's accessors; the object must not be used after that.
  virtual void read(const Config& state) = 0;
};
// kInvalidArgument: as Search::create.
[[nodiscard]] Result<std::unique_ptr<Method>> make_method(const SearchOptions& options,
                                                          const Hyperparameters& hyperparameters);

// Events of unknown trials and repeated ends have no effect and return no operation.
class Search {
 public:
  // kInvalidArgument: an option is out of range; names it.
  [[nodiscard]] static Result<std::unique_ptr<Search>> create(const SearchOptions& options,
                                                              const Hyperparameters& hyperparameters, uint32_t seed);

  Operations initial_operations();
  Operations created(const RequestId& request);
  Operations validated(const RequestId& request, double metric);
  Operations closed(const RequestId& request);
  Operations exited(const RequestId& request, ExitReason reason);
  void trained(const RequestId& request, double units) { units_[request] = units; }
  double progress() const;

  // Serialises the whole state, including random numbers, as JSON, and restores it into a search with the same options.
  // kInvalidArgument: corrupt, or of another version; the state is unchanged.
  std::string snapshot() const;
  [[nodiscard]] Result<void> restore(std::string_view snapshot);

 private:
  Search(const SearchOptions& options, Hyperparameters hyperparameters, uint32_t seed, std::unique_ptr<Method> method);
  Operations take(Operations operations);
  Operations with_end(Operations operations);

  const SearchOptions options_;
  const Hyperparameters hyperparameters_;
  Random random_;
  std::unique_ptr<Method> method_;
  std::set<RequestId> requested_, created_, closed_, exited_;
  int64_t failures_ = 0, cancels_ = 0;
  bool shut_down_ = false;
  std::map<RequestId, double> units_;
};

// Returns each trial's lengths, in order of creation, when operations are executed immediately, first in first out.
// `metric` maps a trial's number to its metric; `exit`: that trial exits early at the given operation; both count from
// 0.
struct EarlyExit {
  int64_t trial = -1;
  int64_t operation = 0;
};
std::vector<std::vector<int64_t>> simulate_fifo(Search& search, const std::function<double(int64_t trial)>& metric,
                                                const EarlyExit& exit = {});

}  // namespace volador::tune::determined
