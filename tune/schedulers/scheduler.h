// Interface of schedulers, which decide from the reports of trials which trials continue. Implementations are pure: no
// clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/resources.h"
#include "runtime/result.h"
#include "tune/loop/decision_record.h"
#include "tune/loop/earlier_run.h"
#include "tune/loop/trial.h"

namespace volador::tune {

enum class Decision : uint8_t {
  kContinue,
  kStop,        // Stop: other trials perform better.
  kFinish,      // Stop: the trial ran the maximum number of steps.
  kPause,       // Save a checkpoint and release the slot until an order resumes or ends the trial.
  kCheckpoint,  // Save a checkpoint and continue.
  kClone,       // Release the slot; the accompanying CloneOrder names the trial to copy.
};

struct Report {
  TrialId trial;
  int64_t step = 0;          // training_iteration, from 1.
  double value = 0;          // Value of the experiment's metric; NaN ranks last.
  double time_total_s = 0;   // Time that the trial has spent in steps.
  bool others_wait = false;  // Other trials wait for a slot.
  Metrics result = {};       // All metrics of the step.
};

// Orders for trials other than the reporting one.
struct ResumeOrder {
  TrialId trial;        // A paused or pausing trial, which continues.
  double priority = 0;  // Among trials waiting for a slot the smallest value starts first; new and retried trials have
                        // 0.
  bool yields = false;  // true: the trial still pauses and then queues for a slot; false: the pause is cancelled.
  bool operator==(const ResumeOrder&) const = default;
};
struct EndOrder {
  TrialId trial;
  Decision decision = Decision::kStop;  // Or kFinish.
  bool operator==(const EndOrder&) const = default;
};
// The trial continues from the last checkpoint of another trial, with this configuration. It is paused, pausing, or has
// just got kClone. A trial may be its own origin: then it is paused and only its configuration changes.
struct CloneOrder {
  TrialId trial;
  TrialId from;
  Config config;
  double priority = 0;  // As in ResumeOrder.
  bool operator==(const CloneOrder&) const = default;
};
// Resources of the trial from its next start on. Accompanied by a yielding pause, so that the next start comes soon.
struct ResourcesOrder {
  TrialId trial;
  ResourceSet resources;
  bool operator==(const ResourcesOrder&) const = default;
};
using Order = std::variant<ResumeOrder, EndOrder, CloneOrder, ResourcesOrder>;

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Called before on_trial_add with the suggested configuration, which the scheduler may complete.
  virtual void on_trial_config(TrialId /*trial*/, Config& /*config*/) {}
  // Called once per trial, before its first report. Repeated calls have no effect.
  virtual void on_trial_add(TrialId trial) = 0;
  // Repeated and late reports have no effect and get the standing decision.
  // kInvalidArgument: step < 1, or the trial was not added and decisions depend on others; nothing was recorded.
  [[nodiscard]] virtual Result<Decision> on_report(const Report& report) = 0;
  // The trial has ended for any reason; its reports continue to count. Later reports of it get the standing decision.
  // Repeated calls and calls for unknown trials have no effect.
  virtual void on_complete(TrialId trial) = 0;
  // As on_complete(), which is not called as well: the trial failed permanently.
  virtual void on_error(TrialId trial) { on_complete(trial); }

  // A checkpoint of the trial is complete. Repeated calls and calls for unknown trials have no effect.
  virtual void on_checkpoint(TrialId /*trial*/, int64_t /*step*/) {}
  // The order was executed: the trial is now the copy and its steps continue from `step`. Not called if the order
  // failed; the trial then continues unchanged.
  virtual void on_cloned(const CloneOrder& /*order*/, int64_t /*step*/) {}
  // No trial will be added before a paused one continues: trials that wait for others must not wait any longer. May be
  // called again.
  virtual void on_no_more_trials() {}
  // The cluster's total resources from now on. Called only if changes_resources().
  virtual void on_cluster(const ResourceSet& /*total*/) {}
  // No node has room for the ordered resources: the trial gets its initial resources again.
  virtual void on_resources_refused(TrialId /*trial*/) {}
  // Returns the orders that resulted from the last call, each once; called after each of the calls above.
  [[nodiscard]] virtual std::vector<Order> take_orders() { return {}; }
  // Returns the reasons of the decisions made in the last call, oldest first, each once; called after each of the calls
  // above. Reports that reach no rung are not decisions. Not part of a snapshot.
  [[nodiscard]] virtual std::vector<DecisionRecord> take_decisions() { return {}; }
  // Returns the rungs, lowest bracket and milestone first, with at most `members_max` members each. O(size of the
  // state).
  virtual std::vector<RungState> rungs(size_t /*members_max*/) const { return {}; }
  // Steps after which every trial ends; no value: unlimited.
  virtual std::optional<int64_t> steps_max() const { return std::nullopt; }
  // Whether it may return kPause.
  virtual bool pauses() const { return false; }
  // Whether it may copy trials: configurations then change, and searchers that learn from them cannot be used.
  virtual bool clones() const { return false; }

  // Whether it may change the resources of trials: hosts are then not reused.
  virtual bool changes_resources() const { return false; }

  // Whether decisions need the metric in every result.
  virtual bool needs_metric() const = 0;
  // For the header of the status table: "ASHA max_t 27, factor 3".
  virtual std::string describe() const = 0;

  // Serialises the whole state as JSON, and restores it; options and untaken orders are not included. A restored
  // scheduler makes exactly the same decisions as the original. kInvalidArgument: corrupt, another version or other
  // options; the state is unchanged.
  virtual std::string snapshot() const = 0;
  [[nodiscard]] virtual Result<void> restore(std::string_view snapshot) = 0;

  // Aborts if the state is inconsistent. O(size of the state); for tests.
  virtual void check_invariants() const = 0;
};

struct SchedulerContext {
  std::string metric;
  Mode mode = Mode::kMax;
  uint64_t seed = 0;
  ResourceSet resources = {};                      // Initial resources of each trial.
  std::shared_ptr<const EarlierRun> earlier = {};  // The run that is resumed; null: a new run.
};

// Result of tune::asha({…}) and similar functions: creates a new scheduler for each run.
using SchedulerFactory = std::function<Result<std::unique_ptr<Scheduler>>(const SchedulerContext&)>;

}  // namespace volador::tune
