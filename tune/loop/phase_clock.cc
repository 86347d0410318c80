#include "tune/loop/phase_clock.h"

#include <algorithm>

#include "tune/seconds.h"

namespace volador::tune {

const PhaseClock::Times& PhaseClock::of(int64_t index) const {
  static const Times kNothing;
  const auto at = static_cast<size_t>(index);
  return at < times_.size() ? times_[at] : kNothing;
}

void PhaseClock::sample(std::vector<double>& samples, size_t& next, double seconds) {
  if (samples.size() < kSamplesMax) return samples.push_back(seconds);
  samples[next] = seconds;
  next = (next + 1) % kSamplesMax;
}

double PhaseClock::typical_start() const {
  if (starts_.empty()) return 0;
  std::vector<double> sorted = starts_;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

void PhaseClock::set_slots(int64_t slots, BootTime now) {
  slots_ = slots;
  // Trials that requested a slot last do not hold one after all.
  for (auto index = static_cast<int64_t>(times_.size()); slots_ > 0 && placed_ > slots_ && index-- > 0;) {
    Times& times = times_[static_cast<size_t>(index)];
    if (!times.placed || times.phase != Phase::kStarting) continue;
    times.placed = false;
    --placed_;
    waiting_.push_front(index);
  }
  place_waiting(now);
}

void PhaseClock::ask_for_place(int64_t index, BootTime now) {
  waiting_.push_back(index);
  place_waiting(now);
}

void PhaseClock::place_waiting(BootTime now) {
  while (!waiting_.empty() && (slots_ == 0 || placed_ < slots_)) {
    Times& times = times_[static_cast<size_t>(waiting_.front())];
    waiting_.pop_front();
    if (times.phase != Phase::kStarting || times.placed) continue;
    times.placed = true;
    times.since = now;
    ++placed_;
  }
}

void PhaseClock::give_place_back(int64_t index, BootTime now) {
  Times& times = times_[static_cast<size_t>(index)];
  placed_ -= times.placed;
  times.placed = false;
  place_waiting(now);
}

void PhaseClock::enter(int64_t index, Phase phase, int64_t attempt, BootTime now) {
  const auto at = static_cast<size_t>(index);
  if (at >= times_.size()) times_.resize(at + 1);
  Times& times = times_[at];
  const Phase before = times.phase;
  const double seconds = seconds_of(now - times.since);
  if (before == Phase::kStarting && phase == Phase::kStepping) {
    if (!times.placed) {  // It held a slot although the cluster was believed to be full.
      times.placed = true;
      ++placed_;
    } else if (attempt <= 1) {
      sample(starts_, next_start_, seconds);
      // The first starts of a program are slow; they are dropped once there are enough others.
      constexpr size_t kOthers = 8;
      const auto first = static_cast<size_t>(std::max<int64_t>(slots_, 1));
      if (starts_.size() == first + kOthers)
        starts_.erase(starts_.begin(), starts_.begin() + static_cast<std::ptrdiff_t>(first));
    } else {
      pausing_ += seconds;
    }
  }
  if (before == Phase::kSaving || before == Phase::kCloning) saving_ += seconds;
  if (before == Phase::kStopping && phase == Phase::kDone) sample(stops_, next_stop_, seconds);
  if (before == Phase::kStopping && phase != Phase::kDone) pausing_ += seconds;
  times.phase = phase;
  times.since = now;
  if (phase == Phase::kStarting) ask_for_place(index, now);
  if (is_live(before) && !is_live(phase)) give_place_back(index, now);
}

void PhaseClock::step_done(int64_t index, BootTime now) {
  Times& times = times_[static_cast<size_t>(index)];
  const double seconds = seconds_of(now - times.since);
  ++times.steps.count;
  times.steps.sum += seconds;
  times.steps.squares += seconds * seconds;
  ++steps_;
}

}  // namespace volador::tune
