// Repeats the schedule found by population based training: one trial goes through the configurations of a policy, step
// by step. Pure: no clock, thread, I/O or randomness; the policy file is read before the run.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tune/schedulers/pbt_policy.h"
#include "tune/schedulers/scheduler.h"

namespace volador::tune {

// Each trial starts with the policy's first configuration, laid over that of the space, and changes it at the steps of
// the policy by saving a checkpoint and continuing from it.
class PbtReplayScheduler final : public Scheduler {
 public:
  explicit PbtReplayScheduler(PbtPolicy policy);
  ~PbtReplayScheduler() override;

  void on_trial_config(TrialId trial, Config& config) override;
  void on_trial_add(TrialId trial) override;
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId trial) override;
  std::vector<Order> take_orders() override;
  bool pauses() const override { return true; }
  bool clones() const override { return true; }
  bool needs_metric() const override { return false; }
  std::string describe() const override;
  std::string snapshot() const override;
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Reads pbt_policy_<id>.txt of a trial. kNotFound, kInvalidArgument: missing or invalid file; names path and line.
SchedulerFactory pbt_replay(const std::filesystem::path& policy);

}  // namespace volador::tune
