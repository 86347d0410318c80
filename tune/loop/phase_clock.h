// Time that trials spend in each phase, as input of the time-left estimate. The caller reports each phase change with
// its time. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/clock.h"
#include "tune/loop/trial_phase.h"

namespace volador::tune {

class PhaseClock {
 public:
  // Step durations of one trial, in seconds from request to report.
  struct Steps {
    int64_t count = 0;
    double sum = 0, squares = 0;
    double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };
  struct Times {
    Phase phase = Phase::kQueued;
    bool placed = false;  // The trial holds a slot, as opposed to waiting for one; at most as many do as the cluster
                          // has slots.
    BootTime since{};     // Start of the phase; for kStarting the time at which the trial got its slot.
    Steps steps = {};
  };

  // Sets the number of slots; 0: unknown, and each trial gets one at once.
  void set_slots(int64_t slots, BootTime now);
  void enter(int64_t index, Phase phase, int64_t attempt, BootTime now);
  // Records the report of the current step.
  void step_done(int64_t index, BootTime now);

  const Times& of(int64_t index) const;
  // The newest first-start durations (from slot to first step) and end durations; at most kSamplesMax of each.
  static constexpr size_t kSamplesMax = 24;
  const std::vector<double>& starts() const { return starts_; }
  const std::vector<double>& stops() const { return stops_; }
  double typical_start() const;  // Median of starts(); 0 if empty.
  // Average overhead per step: checkpoints, and pauses including the starts after them, each divided by all steps.
  double saving_of_step() const { return steps_ == 0 ? 0 : saving_ / static_cast<double>(steps_); }
  double pausing_of_step() const { return steps_ == 0 ? 0 : pausing_ / static_cast<double>(steps_); }
  int64_t steps() const { return steps_; }

 private:
  void sample(std::vector<double>& samples, size_t& next, double seconds);
  void ask_for_place(int64_t index, BootTime now);
  void give_place_back(int64_t index, BootTime now);
  void place_waiting(BootTime now);

  std::vector<Times> times_;     // By index.
  std::deque<int64_t> waiting_;  // Trials waiting for a slot, in order; may contain trials that have left meanwhile.
  int64_t slots_ = 0, placed_ = 0;
  std::vector<double> starts_, stops_;
  size_t next_start_ = 0, next_stop_ = 0;
  double saving_ = 0, pausing_ = 0;
  int64_t steps_ = 0;
};

}  // namespace volador::tune
