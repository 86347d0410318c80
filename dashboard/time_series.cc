#include "dashboard/time_series.h"

#include <algorithm>
#include <cmath>

namespace volador::dashboard {
namespace {

constexpr size_t kSeriesBytes = 512;  // Of a series without its steps: key, nodes of the map, queues.

}  // namespace

void TimeSeries::add(int64_t unix_ms, float value, const Room& room) {
  if (std::isnan(value)) return;
  for (size_t at = first_; at < kLevels.size(); ++at) {
    Kept& level = levels_[at];
    const int64_t begin = unix_ms / 1000 / kLevels[at].step_s * kLevels[at].step_s;
    if (level.steps.empty() || begin > level.steps.newest_s()) {
      level.steps.push({.seconds = begin, .min = value, .mean = value, .max = value});
      level.values = 1;
      if (level.steps.size() > room[at]) {
        level.steps.keep(room[at]);
        level.forgot = true;
      }
      continue;
    }
    SeriesStep& open = level.steps.newest();
    ++level.values;
    open.min = std::min(open.min, value);
    open.max = std::max(open.max, value);
    open.mean += (value - open.mean) / static_cast<float>(level.values);
  }
}

void TimeSeries::shorten(const Room& room) {
  for (size_t at = first_; at < kLevels.size(); ++at) {
    Kept& level = levels_[at];
    if (level.steps.size() <= room[at]) continue;
    level.steps.keep(room[at]);
    level.forgot = true;
  }
}

std::vector<SeriesStep> TimeSeries::read(int64_t from_s, int64_t to_s, size_t steps_max) const {
  size_t at_level = first_;
  const auto reaches_back = [&](const Kept& level) { return !level.forgot || (!level.steps.empty() && level.steps.oldest_s() <= from_s); };
  while (at_level + 1 < kLevels.size() && !reaches_back(levels_[at_level])) ++at_level;
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
  size_t steps = 0;
  for (const Kept& level : levels_) steps += level.steps.bytes();
  return kSeriesBytes + steps;
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
