// Changes the resources of running trials on top of the decisions of another scheduler. Pure.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/resource_allocation.h"
#include "tune/schedulers/scheduler.h"

namespace volador::tune {

struct ResourceChangingOptions {
  SchedulerFactory base_scheduler = {};                   // By default tune::fifo(); processes every report first.
  ResourceAllocation resources_allocation_function = {};  // By default tune::distribute_resources().
};

// Ray Tune's ResourceChangingScheduler. Calls the allocation function after each report after which the trial
// continues. If the result differs, the trial saves a checkpoint, its host exits, and it restarts from there with the
// new resources, before new trials. If no node has room for them, the trial continues with its initial resources and
// keeps those. O(log n) per report, plus the function and the base scheduler.
class ResourceChangingScheduler final : public Scheduler {
 public:
  // kInvalidArgument: from the base scheduler.
  [[nodiscard]] static Result<std::unique_ptr<ResourceChangingScheduler>> create(const ResourceChangingOptions& options,
                                                                                 const SchedulerContext& context);
  ~ResourceChangingScheduler() override;

  void on_trial_config(TrialId trial, Config& config) override;
  void on_trial_add(TrialId trial) override;
  // Additionally kApplication: the function threw, or returned impossible resources.
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  void on_checkpoint(TrialId trial, int64_t step) override;
  void on_cloned(const CloneOrder& order, int64_t step) override;
  void on_no_more_trials() override;
  void on_cluster(const ResourceSet& total) override;
  void on_resources_refused(TrialId trial) override;
  std::vector<Order> take_orders() override;
  std::vector<DecisionRecord> take_decisions() override;
  std::vector<RungState> rungs(size_t members_max) const override;
  bool pauses() const override { return true; }
  bool clones() const override;
  bool changes_resources() const override { return true; }
  bool needs_metric() const override;
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

 private:
  struct State;
  explicit ResourceChangingScheduler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

SchedulerFactory resource_changing(const ResourceChangingOptions& options = {});

}  // namespace volador::tune
