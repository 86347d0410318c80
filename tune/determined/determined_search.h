// Determined's searchers as state machines, events in, operations out: single, random, grid, adaptive_asha, and the
// ASHA that it is built on. Pure; randomness from the seed only. A seed gives the same trials, lengths and ids as
// Determined 0.24, or with `timed` the same decisions as Determined 0.38.
//
//   auto search = determined::Search::create({.name = "adaptive_asha", .max_length = 1000, .max_trials = 100},
//   hyperparameters, 42); for (const Operation& operation : search->initial_operations()) …
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/result.h"
#include "tune/determined/determined_hyperparameters.h"
#include "tune/determined/determined_random.h"
#include "tune/loop/decision_record.h"

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

enum class ExitReason : uint8_t { kErrored, kInvalidHp, kInitInvalidHp, kUserRequestedStop, kUserCancelled };
// The trial calls its hyperparameters invalid.
inline bool is_invalid_hp(ExitReason reason) {
  return reason == ExitReason::kInvalidHp || reason == ExitReason::kInitInvalidHp;
}

// ---- Options.

enum class AdaptiveMode : uint8_t { kConservative, kStandard, kAggressive };

struct SearchOptions {
  std::string name = "single";         // single, random, grid, async_halving, adaptive_asha or custom.
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
  // Trials validate when they like and report how far they are (Determined's time_metric): the operations are Create
  // and Close, trials stop permanently at a rung, and max_length is the length of a full run.
  bool timed = false;
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

// What a search knows of a trial.
struct TrialRecord {
  bool created = false;
  bool closing = false;  // Its Close was returned.
  bool closed = false;
  bool exited = false;   // Early.
  bool invalid = false;  // Exited early because of its hyperparameters.
  double units = 0;      // Trained so far.
  int64_t awaited = 0;   // Length of the validation that the search waits for; 0: none.
};
class TrialRecords {
 public:
  using Entries = std::deque<std::pair<RequestId, TrialRecord>>;
  Entries::const_iterator begin() const { return entries_.begin(); }  // In the order in which they were requested.
  Entries::const_iterator end() const { return entries_.end(); }

  // Null if absent; valid as long as these records.
  TrialRecord* find(const RequestId& request) {
    const auto found = index_.find(request);
    return found == index_.end() ? nullptr : &entries_[found->second].second;
  }
  const TrialRecord* find(const RequestId& request) const { return const_cast<TrialRecords*>(this)->find(request); }
  // Requires a new request.
  void add(const RequestId& request, const TrialRecord& trial = {}) {
    index_.emplace(request, entries_.size());
    entries_.emplace_back(request, trial);
  }

 private:
  Entries entries_;
  std::unordered_map<RequestId, size_t> index_;
};

// A rung of a search that ends trials early.
struct SearchRung {
  struct Member {
    RequestId request;
    double metric = 0;
    Act act = Act::kPassed;  // Passed, paused, stopped or finished.
  };
  int64_t bracket = 0;
  int64_t length = 0;
  int64_t awaited = 0;          // Trials on the way to it.
  std::vector<Member> members;  // Best first; without trials that ended before they validated.
};

// A search method. It tracks a trial from created() on.
class Method {
 public:
  virtual ~Method() = default;
  virtual Operations initial_operations(Creator& creator) = 0;
  virtual void created(const RequestId& /*request*/) {}
  // `metric`: smaller is better.
  virtual Operations validated(Creator& creator, const RequestId& request, double metric) = 0;
  // For timed searches: the trial has validated at `units`.
  virtual Operations reported(Creator& /*creator*/, const RequestId& /*request*/, int64_t /*units*/,
                              double /*metric*/) {
    return {};
  }
  virtual void trained(const RequestId& /*request*/, double /*units*/) {}
  virtual Operations closed(Creator& creator, const RequestId& request) = 0;
  virtual Operations exited(Creator& creator, const RequestId& request, ExitReason reason) = 0;
  // Returns 0 to 1.
  virtual double progress(const TrialRecords& trials) const = 0;
  // By bracket and length; none: the method has no rungs. Smaller metrics are better.
  virtual std::vector<SearchRung> rungs() const { return {}; }
  virtual Config state() const = 0;
  // Throws the exceptions of Config's accessors; the object must not be used after that.
  virtual void read(const Config& state) = 0;
};
// kInvalidArgument: as Search::create.
[[nodiscard]] Result<std::unique_ptr<Method>> make_method(const SearchOptions& options,
                                                          const Hyperparameters& hyperparameters);

class CustomMethod;

// Number of trials by what happened to them.
struct SearchCounts {
  int64_t requested = 0;
  int64_t created = 0;
  int64_t closed = 0;
  int64_t failed = 0;     // Exited with kErrored.
  int64_t cancelled = 0;  // Exited with kUserCancelled.
  int64_t invalid = 0;    // Exited with kInvalidHp or kInitInvalidHp.
  bool operator==(const SearchCounts&) const = default;
};

// Events of unknown trials, repeated ends and validations that the search does not wait for have no effect and return
// no operation. A trial that ends before created() counts as created.
class Search {
 public:
  // kInvalidArgument: an option is out of range; names it.
  [[nodiscard]] static Result<std::unique_ptr<Search>> create(const SearchOptions& options,
                                                              const Hyperparameters& hyperparameters, uint32_t seed);

  Operations initial_operations();
  Operations created(const RequestId& request);
  // The trial has validated at the length that the search asked for. A NaN metric is the worst.
  Operations validated(const RequestId& request, double metric);
  // The same; a validation of another length has no effect.
  Operations validated(const RequestId& request, int64_t length, double metric);
  // For timed searches, instead of validated().
  Operations reported(const RequestId& request, int64_t units, double metric);
  // The trial has ended. If its search waits for a validation of it, it counts as exited with kUserRequestedStop.
  Operations closed(const RequestId& request);
  Operations exited(const RequestId& request, ExitReason reason);
  void trained(const RequestId& request, double units);
  // Returns 0 to 1, and never less than before.
  double progress();
  // Metrics as they were validated. O(trials).
  std::vector<SearchRung> rungs() const;

  // For custom searches: the events that wait for their program; null for others. Each is an answer to an operation, or
  // the last progress of a trial, which bounds them.
  const CustomMethod* custom() const { return custom_; }
  // Takes the program's answer to the events up to `event`, which are dropped, and returns the operations to execute.
  // An answer to events that were answered before has no effect, so that a program may repeat it. Operations on trials
  // that have ended meanwhile are left out. `progress`: 0 to 1.
  // kInvalidArgument: the search is not custom or has shut down, there is no such event, or an operation is wrong; then
  // none takes effect.
  [[nodiscard]] Result<Operations> answer(int64_t event, const Operations& operations,
                                          std::optional<double> progress = std::nullopt);

  const SearchCounts& counts() const { return counts_; }
  bool is_shut_down() const { return shut_down_; }
  const TrialRecords& trials() const { return trials_; }

  // Serialises the whole state, including random numbers, as JSON, and restores it into a search with the same options.
  // kInvalidArgument: corrupt, or of another version; the state is unchanged.
  std::string snapshot() const;
  [[nodiscard]] Result<void> restore(std::string_view snapshot);

 private:
  Search(const SearchOptions& options, Hyperparameters hyperparameters, uint32_t seed, std::unique_ptr<Method> method);
  Operations take(Operations operations);
  Operations with_end(Operations operations);
  [[nodiscard]] Result<Operations> checked(const Operations& operations) const;
  double cost(double metric) const;
  void ensure_created(const RequestId& request, TrialRecord& trial);

  const SearchOptions options_;
  const Hyperparameters hyperparameters_;
  Random random_;
  std::unique_ptr<Method> method_;
  CustomMethod* custom_ = nullptr;  // method_, if it is one.
  TrialRecords trials_;
  SearchCounts counts_;
  bool shut_down_ = false;
  double progress_ = 0;  // The highest so far.
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
