// Determined's asynchronous successive halving, one bracket.
#pragma once

#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

#include "tune/determined/determined_ranks.h"
#include "tune/determined/determined_search.h"

namespace volador::tune::determined {

// The metric of a trial that exited early: the worst.
constexpr double kExitedMetric = std::numeric_limits<double>::max();

struct AshaBracket {
  std::vector<int64_t> lengths;  // Lengths of its rungs, lowest first.
  int64_t max_trials = 1;
  int64_t max_concurrent = 1;  // Number of initial trials.
  double divisor = 4;
  bool stop_once = false;
};

// Promotion variant, or with stop_once stopping variant. Among equal metrics the promotion variant prefers the first
// arrival, the stopping variant the last. Determined enters a trial that exits while it waits a second time into its
// rung, and may then never end; here such a trial keeps its metric, and counts as the worst where it is promoted.
class AshaMethod final : public Method {
 public:
  explicit AshaMethod(AshaBracket options);

  Operations initial_operations(Creator& creator) override;
  void created(const RequestId& request) override;
  Operations validated(Creator& creator, const RequestId& request, double metric) override;
  Operations closed(Creator& creator, const RequestId& request) override;
  Operations exited(Creator& creator, const RequestId& request, ExitReason reason) override;
  double progress(const TrialRecords& trials) const override;
  std::vector<SearchRung> rungs() const override;
  Config state() const override;
  void read(const Config& state) override;

 private:
  struct Trial {
    RequestId request;
    size_t rung = 0;
    bool under_way = true;  // On the way to the rung; else it waits there.
    bool exited = false;
    bool closed = false;
  };
  struct Rung {
    int64_t length = 0;
    RankedEntries entries;
    int64_t outstanding = 0;  // Trials on the way to the rung.
    bool settled = false;     // All unpromoted trials of its entries are closed.
  };
  Operations arrive(Creator& creator, uint32_t number, double metric);
  Operations replace_invalid(Creator& creator, uint32_t number);
  bool advance(Operations& operations, uint32_t number, size_t rung);
  void begin(Operations& operations, Creator& creator);
  void close(Operations& operations, Trial& trial);
  void close_out(Operations& operations);
  // Returns the trial promoted from the rung after this arrival.
  std::optional<uint32_t> promote(Rung& rung, uint32_t number, double metric) const;
  bool passes(Rung& rung, uint32_t number, double metric) const;

  const AshaBracket options_;
  std::vector<Rung> rungs_;
  std::vector<Trial> trials_;  // In order of creation.
  std::unordered_map<RequestId, uint32_t> numbers_;
  int64_t requested_ = 0, completed_ = 0, invalid_ = 0;
};

// Progress of a bracket: 20 % of it are left for the trials above the lowest rung.
double asha_progress(size_t arrived, int64_t completed, int64_t max_trials);

// A rung's entries in a snapshot.
Config ranked_state(const RankedEntries& entries);
// Throws the exceptions of Config's accessors; kInvalidArgument: a trial's number is not below `trials`.
void read_ranked(const Config& state, size_t trials, RankedEntries& entries);
// Throws kInvalidArgument.
[[noreturn]] void refuse_rungs();

}  // namespace volador::tune::determined
