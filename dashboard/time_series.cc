#include "dashboard/time_series.h"

#include <algorithm>
#include <cmath>

namespace volador::dashboard {
namespace {

constexpr size_t kSeriesBytes = 320;  // Of a series without its levels: key, node of the map.

}  // namespace

void TimeSeries::add_to(Kept& level, int64_t begin_s, const SeriesStep& value) {
  if (level.steps.empty() || begin_s > level.steps.newest_s()) {
    level.steps.push({.seconds = begin_s, .min = value.min, .mean = value.mean, .max = value.max});
    level.values = 1;
    return;
  }
  SeriesStep& open = level.steps.newest();
  ++level.values;
  open.min = std::min(open.min, value.min);
  open.max = std::max(open.max, value.max);
  open.mean += (value.mean - open.mean) / static_cast<float>(level.values);
}

bool TimeSeries::keep(size_t at, const Room& room) {
  const size_t most = room[first_ + at];
  if (levels_[at].steps.size() <= most) return false;
  const bool begins = at + 1 == levels_.size() && first_ + at + 1 < kLevels.size();
  if (begins) {
    const int64_t step_s = kLevels[first_ + at + 1].step_s;
    Kept& next = levels_.emplace_back(step_s);
    const SeriesSteps& finer = levels_[at].steps;
    for (const SeriesStep& step : finer.read(finer.oldest_s(), finer.newest_s() + 1)) add_to(next, step.seconds / step_s * step_s, step);
  }
  levels_[at].steps.keep(most);
  levels_[at].forgot = true;
  return begins;
}

void TimeSeries::add(int64_t unix_ms, float value, const Room& room) {
  if (std::isnan(value)) return;
  for (size_t at = 0; at < levels_.size(); ++at) {
    const int64_t step_s = kLevels[first_ + at].step_s;
    add_to(levels_[at], unix_ms / 1000 / step_s * step_s, {.min = value, .mean = value, .max = value});
    if (keep(at, room)) return;  // The level that begins has the value.
  }
}

void TimeSeries::shorten(const Room& room) {
  for (size_t at = 0; at < levels_.size(); ++at) keep(at, room);
}

std::vector<SeriesStep> TimeSeries::read(int64_t from_s, int64_t to_s, size_t steps_max) const {
  size_t at_level = 0;
  const auto reaches_back = [&](const Kept& level) { return !level.forgot || (!level.steps.empty() && level.steps.oldest_s() <= from_s); };
  while (at_level + 1 < levels_.size() && !reaches_back(levels_[at_level])) ++at_level;
  const std::vector<SeriesStep> steps = levels_[at_level].steps.read(from_s, to_s);
  const size_t most = std::max<size_t>(1, steps_max);
  const size_t join = std::max<size_t>(1, (steps.size() + most - 1) / most);
  std::vector<SeriesStep> out;
  for (size_t at = 0; at < steps.size(); at += join) {
    SeriesStep joined = steps[at];
    float values = 1;
    for (size_t next = at + 1; next < std::min(at + join, steps.size()); ++next) {
      joined.min = std::min(joined.min, steps[next].min);
      joined.max = std::max(joined.max, steps[next].max);
      joined.mean += (steps[next].mean - joined.mean) / ++values;
    }
    out.push_back(joined);
  }
  return out;
}

size_t TimeSeries::bytes() const {
  size_t bytes = kSeriesBytes;
  for (const Kept& level : levels_) bytes += sizeof(Kept) + level.steps.bytes();
  return bytes;
}

void SeriesStore::add(const std::string& key, int64_t unix_ms, float value, size_t first) {
  auto found = series_.find(key);
  if (found == series_.end()) {
    if (series_.size() >= series_max_) forget_idlest();
    found = series_.try_emplace(key, first).first;
    bytes_ += found->second.bytes();
  }
  const size_t before = found->second.bytes();
  found->second.add(unix_ms, value, room_);
  bytes_ += found->second.bytes() - before;
  if (bytes_ > bytes_max_) make_room();
}

// An eighth of a level's steps at a time: each time looks at every series.
void SeriesStore::make_room() {
  for (size_t& steps : room_) {
    while (bytes_ > bytes_max_ && steps > kLeastSteps) {
      steps = std::max(kLeastSteps, steps - std::max<size_t>(1, steps / 8));
      bytes_ = 0;
      for (auto& [key, series] : series_) {
        series.shorten(room_);
        bytes_ += series.bytes();
      }
    }
  }
  while (bytes_ > bytes_max_ && series_.size() > 1) forget_idlest();
}

// A hundredth of them at a time, at least one.
void SeriesStore::forget_idlest() {
  std::vector<std::pair<int64_t, const std::string*>> by_age;
  for (const auto& [key, series] : series_) by_age.emplace_back(series.newest_s(), &key);
  const size_t going = std::max<size_t>(1, by_age.size() / 100);
  std::partial_sort(by_age.begin(), by_age.begin() + static_cast<std::ptrdiff_t>(going), by_age.end());
  for (size_t at = 0; at < going; ++at) {
    const auto found = series_.find(*by_age[at].second);
    bytes_ -= found->second.bytes();
    series_.erase(found);
  }
}

const TimeSeries* SeriesStore::find(const std::string& key) const {
  const auto found = series_.find(key);
  return found == series_.end() ? nullptr : &found->second;
}

}  // namespace volador::dashboard
