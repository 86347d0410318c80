// Scheduler that lets every trial run to its own end.
#pragma once

#include "tune/schedulers/scheduler.h"

namespace volador::tune {

class FifoScheduler final : public Scheduler {
 public:
  void on_trial_add(TrialId) override {}
  Result<Decision> on_report(const Report& report) override;
  void on_complete(TrialId) override {}
  bool needs_metric() const override { return false; }
  std::string describe() const override { return "FIFO"; }
  std::string snapshot() const override { return R"({"version":1})"; }
  Result<void> restore(std::string_view snapshot) override;
  void check_invariants() const override {}
};

SchedulerFactory fifo();

}  // namespace volador::tune
