// Conditions of resources of kind Experiment, Suggestion and Trial, and when an experiment ends.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/observation.h"
#include "runtime/protocol/katib.pb.h"

namespace volador::experiments::katib {

using ConditionList = google::protobuf::RepeatedPtrField<protocol::KatibCondition>;

// Null: there is none of this type.
const protocol::KatibCondition* find_condition(const ConditionList& conditions, std::string_view type);
bool has_condition(const ConditionList& conditions, std::string_view type);  // With status True.
// It becomes the last one; the time of its change stays if its status does. Returns whether anything changed.
bool set_condition(ConditionList& conditions, std::string_view type, bool status, std::string_view reason,
                   std::string_view message, int64_t now_ms);
void remove_condition(ConditionList& conditions, std::string_view type);
// Sets the condition, and Running, if it is there, to False: an end.
void set_end(ConditionList& conditions, std::string_view type, std::string_view reason, std::string_view message,
             int64_t now_ms);

// Whether a resource of kind Experiment, or a job, has ended.
bool is_complete(const protocol::KatibResourceRecord& record);
// Whether the experiment or trial that runs a resource has not ended, by its state.
bool goes_on(std::string_view state);

// ---- Trials ----

enum class TrialCondition : uint8_t {
  kCreated,
  kRunning,
  kSucceeded,
  kKilled,
  kFailed,
  kMetricsUnavailable,
  kEarlyStopped,
};
inline constexpr size_t kTrialConditions = 7;
std::string_view to_string(TrialCondition condition);  // "MetricsUnavailable".
TrialCondition condition_of(const protocol::KatibTrialRecord& trial);
bool is_end(TrialCondition condition);

// The value of a metric that counts. No value: it was not seen, or is no number.
std::optional<double> value_of(const protocol::KatibMetric& metric, MetricStrategy strategy);
std::string text_of(const protocol::KatibMetric& metric, MetricStrategy strategy);
MetricStrategy strategy_of(const Objective& objective, const std::string& metric);
// The objective of a trial that has ended. No value: it was not seen.
std::optional<double> objective_of(const Objective& objective, const protocol::KatibTrialRecord& trial);
bool is_better(const Objective& objective, double value, double than);

// ---- Experiments ----

struct TrialCounts {
  int64_t by_condition[kTrialConditions] = {};

  int64_t of(TrialCondition condition) const { return by_condition[static_cast<size_t>(condition)]; }
  void add(TrialCondition condition) { ++by_condition[static_cast<size_t>(condition)]; }
  int64_t active() const { return of(TrialCondition::kCreated) + of(TrialCondition::kRunning); }
  int64_t ended() const;
  int64_t all() const { return active() + ended(); }
};

// How many trials should be active: parallelTrialCount, unless fewer are left of maxTrialCount.
int64_t wanted_trials(const ExperimentSpec& spec, const TrialCounts& counts);

// An end of an experiment, as its condition says it.
struct ExperimentEnd {
  bool failed = false;
  std::string_view reason;  // "ExperimentGoalReached".
  std::string_view message;
};
// In this order: the goal is reached, too many trials have failed, the maximum of trials has ended, the algorithm has
// no more. `best`: of the objective so far. No value: it goes on.
std::optional<ExperimentEnd> end_of(const ExperimentSpec& spec, const TrialCounts& counts, std::optional<double> best,
                                    bool exhausted);

inline constexpr std::string_view kMaxTrialsReached = "ExperimentMaxTrialsReached";

}  // namespace volador::experiments::katib
