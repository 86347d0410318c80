#include "dashboard/series_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace volador::dashboard {

bool SeriesSteps::Run::is_step(size_t slot) const { return !std::isnan(values[spread ? 3 * slot : slot]); }

SeriesStep SeriesSteps::Run::at(size_t slot, int64_t step_s) const {
  const int64_t seconds = first_s + static_cast<int64_t>(slot) * step_s;
  if (!spread) return {.seconds = seconds, .min = values[slot], .mean = values[slot], .max = values[slot]};
  const float* three = &values[3 * slot];
  return {.seconds = seconds, .min = three[0], .mean = three[1], .max = three[2]};
}

void SeriesSteps::Run::append(size_t slot, const SeriesStep& step) {
  const size_t a_slot = spread ? 3 : 1, needed = a_slot * (slot + 1);
  // Grown by halves: most series of a trial are short.
  if (needed > values.capacity())
    values.reserve(std::max(needed, std::min(a_slot * kRunSlots, needed + a_slot * std::max<size_t>(3, slot / 2))));
  values.resize(a_slot * slot, std::numeric_limits<float>::quiet_NaN());
  if (spread) {
    values.insert(values.end(), {step.min, step.mean, step.max});
  } else {
    values.push_back(step.mean);
  }
  slots = static_cast<uint16_t>(slot + 1);
  ++steps;
}

int64_t SeriesSteps::oldest_s() const {
  if (first_run_ == runs_.size()) return newest_s();
  return runs_[first_run_].first_s + static_cast<int64_t>(gone_slots_) * step_s_;
}

void SeriesSteps::push(const SeriesStep& step) {
  if (count_ > 0) settle();
  newest_ = step;
  ++count_;
}

// The newest step will not change any more.
void SeriesSteps::settle() {
  const bool spread = newest_.min != newest_.mean || newest_.max != newest_.mean;
  size_t slot = 0;
  bool goes_on = first_run_ < runs_.size() && runs_.back().spread == spread;
  if (goes_on) {
    slot = static_cast<size_t>((newest_.seconds - runs_.back().first_s) / step_s_);
    goes_on = slot < kRunSlots && slot - runs_.back().slots < kGapSlots;
  }
  if (!goes_on) {
    if (runs_.size() == runs_.capacity()) runs_.reserve(runs_.size() + std::max<size_t>(1, runs_.size() / 4));
    runs_.push_back({.first_s = static_cast<uint32_t>(newest_.seconds), .spread = spread, .values = {}});
    bytes_ += static_cast<uint32_t>(runs_.back().bytes());
    slot = 0;
  }
  const size_t before = runs_.back().bytes();
  runs_.back().append(slot, newest_);
  bytes_ += static_cast<uint32_t>(runs_.back().bytes() - before);
}

void SeriesSteps::forget_first_run() {
  Run& run = runs_[first_run_];
  count_ -= static_cast<uint32_t>(run.steps - gone_steps_);
  bytes_ -= static_cast<uint32_t>(run.bytes());
  run = {};
  ++first_run_;
  gone_slots_ = gone_steps_ = 0;
  if (2 * first_run_ < runs_.size()) return;
  runs_.erase(runs_.begin(), runs_.begin() + first_run_);
  first_run_ = 0;
}

void SeriesSteps::keep(size_t count) {
  count = std::max<size_t>(1, count);
  while (count_ > count) {
    const Run& run = runs_[first_run_];
    if (static_cast<size_t>(run.steps - gone_steps_) <= count_ - count) {
      forget_first_run();
      continue;
    }
    for (++gone_slots_; !run.is_step(gone_slots_);) ++gone_slots_;
    ++gone_steps_;
    --count_;
  }
}

std::vector<SeriesStep> SeriesSteps::read(int64_t from_s, int64_t to_s) const {
  std::vector<SeriesStep> found;
  for (size_t at = first_run_; at < runs_.size() && runs_[at].first_s < to_s; ++at) {
    const Run& run = runs_[at];
    if (run.first_s + static_cast<int64_t>(run.slots) * step_s_ <= from_s) continue;
    for (size_t slot = at == first_run_ ? gone_slots_ : 0; slot < run.slots; ++slot) {
      const SeriesStep step = run.at(slot, step_s_);
      if (run.is_step(slot) && step.seconds >= from_s && step.seconds < to_s) found.push_back(step);
    }
  }
  if (!empty() && newest_.seconds >= from_s && newest_.seconds < to_s) found.push_back(newest_);
  return found;
}

}  // namespace volador::dashboard
