#include "dashboard/time_series.h"

#include <algorithm>

namespace volador::dashboard {

void TimeSeries::add(int64_t unix_ms, float value) {
  for (size_t at = 0; at < kLevels.size(); ++at) {
    auto& steps = levels_[at];
    const int64_t begin = unix_ms / 1000 / kLevels[at].step_s * kLevels[at].step_s;
    if (steps.empty() || begin > steps.back().step.seconds) {
      steps.push_back({.step = {.seconds = begin, .min = value, .mean = value, .max = value}, .values = 1});
      if (steps.size() > kLevels[at].steps) steps.pop_front();
      continue;
    }
    Open& open = steps.back();
    ++open.values;
    open.step.min = std::min(open.step.min, value);
    open.step.max = std::max(open.step.max, value);
    open.step.mean += (value - open.step.mean) / static_cast<float>(open.values);
  }
}

std::vector<SeriesStep> TimeSeries::read(int64_t from_s, int64_t to_s, size_t steps_max) const {
  size_t level = 0;
  // A finer level that is full has forgotten what came before.
  while (level + 1 < kLevels.size() && levels_[level].size() == kLevels[level].steps && levels_[level].front().step.seconds > from_s) ++level;
  const auto& steps = levels_[level];
  const auto before = [](const Open& open, int64_t seconds) { return open.step.seconds < seconds; };
  const auto first = std::lower_bound(steps.begin(), steps.end(), from_s, before);
  const auto last = std::lower_bound(first, steps.end(), to_s, before);
  const auto count = static_cast<size_t>(last - first);
  const size_t join = std::max<size_t>(1, (count + std::max<size_t>(1, steps_max) - 1) / std::max<size_t>(1, steps_max));
  std::vector<SeriesStep> out;
  for (size_t at = 0; at < count; at += join) {
    SeriesStep joined = (first + static_cast<std::ptrdiff_t>(at))->step;
    float values = 1;
    for (size_t next = at + 1; next < std::min(at + join, count); ++next) {
      const SeriesStep& step = (first + static_cast<std::ptrdiff_t>(next))->step;
      joined.min = std::min(joined.min, step.min);
      joined.max = std::max(joined.max, step.max);
      joined.mean += (step.mean - joined.mean) / ++values;
    }
    out.push_back(joined);
  }
  return out;
}

size_t TimeSeries::bytes() const {
  size_t steps = 0;
  for (const auto& level : levels_) steps += level.size();
  return steps * sizeof(Open);
}

void SeriesStore::add(const std::string& key, int64_t unix_ms, float value) {
  if (!series_.contains(key) && series_.size() >= kSeriesMax) {
    const auto idlest = std::min_element(series_.begin(), series_.end(),
                                         [](const auto& a, const auto& b) { return a.second.newest_s() < b.second.newest_s(); });
    series_.erase(idlest);
  }
  series_[key].add(unix_ms, value);
}

const TimeSeries* SeriesStore::find(const std::string& key) const {
  const auto found = series_.find(key);
  return found == series_.end() ? nullptr : &found->second;
}

}  // namespace volador::dashboard
