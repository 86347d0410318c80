// Determined's asynchronous successive halving, one bracket.
#pragma once

#include <set>
#include <unordered_map>
#include <utility>

#include "tune/determined/determined_search.h"

namespace volador::tune::determined {

struct AshaBracket {
  std::vector<int64_t> lengths;  // Lengths of its rungs, lowest first.
  int64_t max_trials = 1;
  int64_t max_concurrent = 1;  // Number of initial trials.
  double divisor = 4;
  bool stop_once = false;
};

// Promotion variant, or with stop_once stopping variant. Among equal metrics the promotion variant prefers the first
// arrival, the stopping variant the last.
class AshaMethod final : public Method {
 public:
  explicit AshaMethod(AshaBracket options);

  Operations initial_operations(Creator& creator) override;
  void created(const RequestId& request) override;
  Operations validated(Creator& creator, const RequestId& request, double metric) override {
    return arrive(creator, request, metric);
  }
  Operations closed(Creator& creator, const RequestId& request) override;
  Operations exited(Creator& creator, const RequestId& request, ExitReason reason) override;
  double progress(const std::map<RequestId, double>& units) const override;
  Config state() const override;
  void read(const Config& state) override;

 private:
  struct Entry {
    RequestId request;
    double metric = 0;
    bool promoted = false;
  };
  struct Rung {
    int64_t length = 0;
    std::vector<Entry> entries;  // By metric.
    int64_t outstanding = 0;     // Trials on the way to the rung.
  };
  Operations arrive(Creator& creator, const RequestId& request, double metric);
  Operations replace_invalid(Creator& creator, const RequestId& request);
  bool advance(Operations& operations, const RequestId& request, size_t rung);
  void begin(Operations& operations, Creator& creator);
  void close(Operations& operations, const RequestId& request);
  void close_out(Operations& operations);
  // Returns the trial promoted from the rung after this arrival; empty: none.
  RequestId promote(Rung& rung, const RequestId& request, double metric) const;
  bool passes(Rung& rung, const RequestId& request, double metric) const;

  const AshaBracket options_;
  std::vector<Rung> rungs_;
  std::unordered_map<RequestId, size_t> rung_of_;
  std::vector<RequestId> order_;  // In order of creation.
  std::set<RequestId> early_exits_, closed_;
  int64_t requested_ = 0, completed_ = 0, invalid_ = 0;
};

}  // namespace volador::tune::determined
