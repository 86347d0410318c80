// Decides from the reports of trials which of them go on. Implementations are pure: no clock, thread, I/O or
// randomness.
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
#include "tune/loop/trial.h"

namespace volador::tune {

enum class Decision : uint8_t {
  kContinue,
  kStop,    // Others do better.
  kFinish,  // It has run as long as a trial may.
  kPause,   // It saves a checkpoint and gives its place up until an order resumes or ends it.
  kCheckpoint,  // It saves a checkpoint and goes on.
  kClone,       // It gives its place up as it is; the order that comes with this says of which trial it becomes a copy.
};

struct Report {
  TrialId trial;
  int64_t step = 0;  // training_iteration, from 1.
  double value = 0;  // Of the experiment's metric; NaN ranks last.
  double time_total_s = 0;   // Of the trial, in steps.
  bool others_wait = false;  // Trials that have no place.
};

// What becomes of trials other than the one that reports.
struct ResumeOrder {
  TrialId trial;        // Paused, or to be paused: it goes on.
  double priority = 0;  // Of those that wait for a place the smallest starts first; new and retried trials have 0.
  bool yields = false;  // Only after it has paused, to wait for a place with the others; else the pause is off.
  bool operator==(const ResumeOrder&) const = default;
};
struct EndOrder {
  TrialId trial;
  Decision decision = Decision::kStop;  // Or kFinish.
  bool operator==(const EndOrder&) const = default;
};
// It goes on from the last checkpoint of another trial, with this configuration. It is paused, about to, or just got kClone.
// A trial may be its own origin: then it is paused and only its configuration changes.
struct CloneOrder {
  TrialId trial;
  TrialId from;
  Config config;
  double priority = 0;  // As above.
  bool operator==(const CloneOrder&) const = default;
};
// From its next start on it asks for these. Comes with a pause that yields, so that the start is soon.
struct ResourcesOrder {
  TrialId trial;
  ResourceSet resources;
  bool operator==(const ResourcesOrder&) const = default;
};
using Order = std::variant<ResumeOrder, EndOrder, CloneOrder, ResourcesOrder>;

class Scheduler {
 public:
  virtual ~Scheduler() = default;

  // Before on_trial_add: the configuration that was suggested. The scheduler may complete it.
  virtual void on_trial_config(TrialId /*trial*/, Config& /*config*/) {}
  // Once a trial, before its first report. A repeated call changes nothing.
  virtual void on_trial_add(TrialId trial) = 0;
  // Repeated and late reports change nothing and get the standing decision.
  // kInvalidArgument: step < 1, or the trial was not added and decisions depend on others; nothing was recorded.
  [[nodiscard]] virtual Result<Decision> on_report(const Report& report) = 0;
  // The trial has ended for whatever reason; what it reported goes on to count. Later reports of it get the standing
  // decision. A repeated call and one for an unknown trial change nothing.
  virtual void on_complete(TrialId trial) = 0;

  // A checkpoint of the trial counts now. A repeated call and one for an unknown trial change nothing.
  virtual void on_checkpoint(TrialId /*trial*/, int64_t /*step*/) {}
  // The order is carried out: the trial is that copy now, its steps count on from this one. Where it cannot be carried out, the trial goes
  // on as it was and nothing is said.
  virtual void on_cloned(const CloneOrder& /*order*/, int64_t /*step*/) {}
  // No trial will be added before a paused one goes on: what waits for company must not wait any longer. May come again.
  virtual void on_no_more_trials() {}
  // What the cluster has from now on. Told to schedulers that change resources alone.
  virtual void on_cluster(const ResourceSet& /*total*/) {}
  // No node has room for what its order said: the trial asks for what it had at its first start again.
  virtual void on_resources_refused(TrialId /*trial*/) {}
  // What the calls above want of other trials, each once; asked for after each of them.
  [[nodiscard]] virtual std::vector<Order> take_orders() { return {}; }
  // Why it decided as it did in the calls above, oldest first, each once; asked for after each of them. What passed no rung, and reports
  // between two of them, are no decisions. Not part of a snapshot.
  [[nodiscard]] virtual std::vector<DecisionRecord> take_decisions() { return {}; }
  // Its rungs, lowest bracket and milestone first, with at most `members_max` members each. Costs as much as the state is large.
  virtual std::vector<RungState> rungs(size_t /*members_max*/) const { return {}; }
  // Steps after which it ends every trial; no value: it lets them run on.
  virtual std::optional<int64_t> steps_max() const { return std::nullopt; }
  // Whether it ever says kPause.
  virtual bool pauses() const { return false; }
  // Whether it ever makes copies: then configurations change, and searchers that learn from them cannot be used with it.
  virtual bool clones() const { return false; }

  // Whether it ever gives a trial other resources: then hosts are not reused.
  virtual bool changes_resources() const { return false; }

  // Whether decisions need the metric in every result.
  virtual bool needs_metric() const = 0;
  // For the first line of the table: "ASHA max_t 27, factor 3".
  virtual std::string describe() const = 0;

  // The whole state as JSON, and back; options and orders not taken are not part of it. A restored one decides byte for byte as the
  // original would. kInvalidArgument: torn, or of another version or other options; nothing has changed then.
  virtual std::string snapshot() const = 0;
  [[nodiscard]] virtual Result<void> restore(std::string_view snapshot) = 0;

  // Aborts where the state contradicts itself. Costs as much as the state is large; for tests.
  virtual void check_invariants() const = 0;
};

struct SchedulerContext {
  std::string metric;
  Mode mode = Mode::kMax;
  uint64_t seed = 0;
  ResourceSet resources = {};  // Of each trial at its start.
};

// What tune::asha({…}) and the like return: options that make a fresh scheduler for each run.
using SchedulerFactory = std::function<Result<std::unique_ptr<Scheduler>>(const SchedulerContext&)>;

}  // namespace volador::tune
