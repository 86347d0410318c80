#include "dashboard/series_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace volador::dashboard {
namespace {

constexpr float kGreatest = 1e38F;  // Leaves room for rounding the base down.
constexpr uint16_t kNoStep = 0xFFFF;
constexpr double kCodes = 65'533;  // Steps from the base, which may be rounded down by one, to the maximum.

}  // namespace

void SeriesSteps::Open::append(size_t slot, const SeriesStep& step) {
  const size_t a_slot = spread ? 3 : 1, needed = a_slot * (slot + 1);
  // Grows by half: most series of a trial are short.
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

// A power of two keeps multiples of it exact.
SeriesSteps::Packed::Packed(const Open& run) : Slots(run) {
  float least = std::numeric_limits<float>::max(), greatest = std::numeric_limits<float>::lowest();
  for (const float value : run.values) {
    if (std::isnan(value)) continue;
    least = std::min(least, value);
    greatest = std::max(greatest, value);
  }
  base = least;
  if (least == greatest && steps == slots) return;
  int power = 0;
  std::frexp((double{greatest} - double{least}) / kCodes, &power);
  exponent = static_cast<int8_t>(std::clamp(power, -100, 127));
  base = static_cast<float>(std::ldexp(std::floor(std::ldexp(double{least}, -exponent)), exponent));
  codes = std::make_unique_for_overwrite<uint16_t[]>(run.values.size());
  for (size_t at = 0; at < run.values.size(); ++at) {
    const float value = run.values[at];
    codes[at] = std::isnan(value)
                    ? kNoStep
                    : static_cast<uint16_t>(std::lround(std::ldexp(double{value} - double{base}, -exponent)));
  }
}

float SeriesSteps::Packed::value(size_t at) const {
  if (!codes) return base;
  if (codes[at] == kNoStep) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(double{base} + std::ldexp(static_cast<double>(codes[at]), exponent));
}

int64_t SeriesSteps::oldest_s() const {
  const bool is_open = first_run_ == runs_.size();
  if (is_open && !open_) return newest_s();
  const Slots& first = is_open ? static_cast<const Slots&>(*open_) : runs_[first_run_];
  return first.first_s + static_cast<int64_t>(gone_slots_) * step_s_;
}

void SeriesSteps::push(const SeriesStep& step) {
  if (count_ > 0) settle();
  newest_ = step;
  for (float* value : {&newest_.min, &newest_.mean, &newest_.max}) *value = std::clamp(*value, -kGreatest, kGreatest);
  ++count_;
}

// Called when the newest step is final.
void SeriesSteps::settle() {
  const bool spread = newest_.min != newest_.mean || newest_.max != newest_.mean;
  size_t slot = 0;
  bool goes_on = open_ && open_->spread == spread;
  if (goes_on) {
    slot = static_cast<size_t>((newest_.seconds - open_->first_s) / step_s_);
    goes_on = slot < kRunSlots && slot - open_->slots < kGapSlots;
  }
  if (!goes_on) {
    seal();
    open_ = std::make_unique<Open>();
    open_->first_s = static_cast<uint32_t>(newest_.seconds);
    open_->spread = spread;
    bytes_ += static_cast<uint32_t>(open_->bytes());
    slot = 0;
  }
  const size_t before = open_->bytes();
  open_->append(slot, newest_);
  bytes_ += static_cast<uint32_t>(open_->bytes() - before);
}

void SeriesSteps::seal() {
  if (!open_) return;
  if (runs_.size() == runs_.capacity()) runs_.reserve(runs_.size() + std::max<size_t>(1, runs_.size() / 4));
  bytes_ -= static_cast<uint32_t>(open_->bytes());
  runs_.emplace_back(*open_);
  bytes_ += static_cast<uint32_t>(runs_.back().bytes());
  open_.reset();
}

void SeriesSteps::rest(int64_t now_s) {
  if (!open_ || (now_s - newest_.seconds) / step_s_ <= static_cast<int64_t>(kGapSlots)) return;
  seal();
  runs_.shrink_to_fit();
}

void SeriesSteps::forget_first_run() {
  const bool is_open = first_run_ == runs_.size();
  count_ -= static_cast<uint32_t>((is_open ? open_->steps : runs_[first_run_].steps) - gone_steps_);
  gone_slots_ = gone_steps_ = 0;
  if (is_open) {
    bytes_ -= static_cast<uint32_t>(open_->bytes());
    open_.reset();
    return;
  }
  bytes_ -= static_cast<uint32_t>(runs_[first_run_].bytes());
  runs_[first_run_++] = {};
  if (2 * first_run_ < runs_.size()) return;
  runs_.erase(runs_.begin(), runs_.begin() + first_run_);
  first_run_ = 0;
}

void SeriesSteps::keep(size_t count) {
  count = std::max<size_t>(1, count);
  const auto forget_slots = [this](const auto& run) {
    const size_t a_slot = run.spread ? 3 : 1;
    for (++gone_slots_; std::isnan(run.value(a_slot * gone_slots_));) ++gone_slots_;
  };
  while (count_ > count) {
    const bool is_open = first_run_ == runs_.size();
    const size_t steps = is_open ? open_->steps : runs_[first_run_].steps;
    if (steps - gone_steps_ <= count_ - count) {
      forget_first_run();
      continue;
    }
    if (is_open) {
      forget_slots(*open_);
    } else {
      forget_slots(runs_[first_run_]);
    }
    ++gone_steps_;
    --count_;
  }
}

template <class Run>
void SeriesSteps::read(const Run& run, size_t from_slot, int64_t from_s, int64_t to_s,
                       std::vector<SeriesStep>& found) const {
  if (run.first_s + static_cast<int64_t>(run.slots) * step_s_ <= from_s) return;
  for (size_t slot = from_slot; slot < run.slots; ++slot) {
    const int64_t seconds = run.first_s + static_cast<int64_t>(slot) * step_s_;
    const float first = run.value(run.spread ? 3 * slot : slot);
    if (std::isnan(first) || seconds < from_s || seconds >= to_s) continue;
    found.push_back({.seconds = seconds, .min = first, .mean = first, .max = first});
    if (!run.spread) continue;
    found.back().mean = run.value(3 * slot + 1);
    found.back().max = run.value(3 * slot + 2);
  }
}

std::vector<SeriesStep> SeriesSteps::read(int64_t from_s, int64_t to_s) const {
  std::vector<SeriesStep> found;
  for (size_t at = first_run_; at < runs_.size() && runs_[at].first_s < to_s; ++at)
    read(runs_[at], at == first_run_ ? gone_slots_ : 0, from_s, to_s, found);
  if (open_) read(*open_, first_run_ == runs_.size() ? gone_slots_ : 0, from_s, to_s, found);
  if (!empty() && newest_.seconds >= from_s && newest_.seconds < to_s) found.push_back(newest_);
  return found;
}

}  // namespace volador::dashboard
