// How long trials spend in which phase: what an estimate of the time left is made from. Told of each change of a phase with its time. Pure.
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
  // Step times of one trial, in seconds from the request to the report.
  struct Steps {
    int64_t count = 0;
    double sum = 0, squares = 0;
    double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
  };
  struct Times {
    Phase phase = Phase::kQueued;
    bool placed = false;  // It has a place, not only asked for one: as many have one as the cluster holds.
    BootTime since{};     // The start of the phase; of kStarting the time at which it got its place.
    Steps steps = {};
  };

  // So many trials have a place at once; 0: not known, then each has one at once.
  void set_slots(int64_t slots, BootTime now);
  void enter(int64_t index, Phase phase, int64_t attempt, BootTime now);
  // The report of the step that the trial is in.
  void step_done(int64_t index, BootTime now);

  const Times& of(int64_t index) const;
  // The newest first starts, from the place to the first step, and the newest ends; at most kSamplesMax of each.
  static constexpr size_t kSamplesMax = 24;
  const std::vector<double>& starts() const { return starts_; }
  const std::vector<double>& stops() const { return stops_; }
  double typical_start() const;  // The median of them; 0 without any.
  // What each step costs beside itself: checkpoints, and pauses with the starts after them, divided by all steps.
  double saving_of_step() const { return steps_ == 0 ? 0 : saving_ / static_cast<double>(steps_); }
  double pausing_of_step() const { return steps_ == 0 ? 0 : pausing_ / static_cast<double>(steps_); }
  int64_t steps() const { return steps_; }

 private:
  void sample(std::vector<double>& samples, size_t& next, double seconds);
  void ask_for_place(int64_t index, BootTime now);
  void give_place_back(int64_t index, BootTime now);
  void place_waiting(BootTime now);

  std::vector<Times> times_;     // By index.
  std::deque<int64_t> waiting_;  // For a place, first to get one first; some have left meanwhile.
  int64_t slots_ = 0, placed_ = 0;
  std::vector<double> starts_, stops_;
  size_t next_start_ = 0, next_stop_ = 0;
  double saving_ = 0, pausing_ = 0;
  int64_t steps_ = 0;
};

}  // namespace volador::tune
