// The searcher `custom`: a program outside reads the events of a search and answers with operations.
#pragma once

#include <deque>
#include <optional>
#include <unordered_map>

#include "tune/determined/determined_search.h"

namespace volador::tune::determined {

struct SearchEvent {
  enum class Kind : uint8_t {
    kInitialOperations,
    kTrialCreated,
    kTrialProgress,
    kValidationCompleted,
    kTrialClosed,
    kTrialExitedEarly,
  };
  int64_t id = 0;  // 1, 2, …; progress that a later one replaces leaves a gap.
  Kind kind = Kind::kInitialOperations;
  RequestId request;                         // Empty for kInitialOperations.
  int64_t length = 0;                        // For kValidationCompleted.
  double value = 0;                          // The metric, or the units trained.
  ExitReason reason = ExitReason::kErrored;  // For kTrialExitedEarly.
  bool operator==(const SearchEvent&) const = default;
};
std::string_view to_string(SearchEvent::Kind kind);  // "trial_created".
std::string_view to_string(ExitReason reason);       // "INVALID_HP".
// {"id": 3, "event": "validation_completed", "request": "…", "length": 100, "metric": 0.5}.
Config to_config(const SearchEvent& event);

// Keeps events until they are answered, and only the last progress of each trial.
class CustomMethod final : public Method {
 public:
  const std::deque<SearchEvent>& events() const { return events_; }  // By id.
  int64_t last_event() const { return last_; }
  int64_t answered() const { return answered_; }  // Events up to this id are dropped.

  // Requires answered() < event <= last_event(), and operations that fit.
  void answer(int64_t event, const Operations& operations, std::optional<double> progress);

  Operations initial_operations(Creator&) override;
  void created(const RequestId& request) override;
  Operations validated(Creator&, const RequestId& request, double metric) override;
  void trained(const RequestId& request, double units) override;
  Operations closed(Creator&, const RequestId& request) override;
  Operations exited(Creator&, const RequestId& request, ExitReason reason) override;
  double progress(const TrialRecords&) const override { return progress_; }
  Config state() const override;
  void read(const Config& state) override;

 private:
  void add(SearchEvent event);

  std::deque<SearchEvent> events_;
  int64_t last_ = 0, answered_ = 0;
  double progress_ = 0;
  std::unordered_map<RequestId, int64_t> lengths_;  // Asked for and not completed.
};

}  // namespace volador::tune::determined
