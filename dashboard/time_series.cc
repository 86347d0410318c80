#include "dashboard/time_series.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace volador::dashboard {
namespace {

constexpr size_t kSeriesBytes = 64;     // Per series without its levels.
constexpr size_t kMeasuredBytes = 160;  // Per measured object: key and map node.

// The position of the measure, or its insertion point.
auto place_of(auto& measures, std::string_view name) {
  return std::lower_bound(measures.begin(), measures.end(), name,
                          [](const auto& measure, std::string_view of) { return *measure.name < of; });
}

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
    for (const SeriesStep& step : finer.read(finer.oldest_s(), finer.newest_s() + 1))
      add_to(next, step.seconds / step_s * step_s, step);
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
    if (keep(at, room)) return;  // The level that starts contains the value.
  }
}

void TimeSeries::shorten(const Room& room) {
  for (size_t at = 0; at < levels_.size(); ++at) keep(at, room);
}

void TimeSeries::rest(int64_t now_s) {
  for (Kept& level : levels_) level.steps.rest(now_s);
}

std::vector<SeriesStep> TimeSeries::read(int64_t from_s, int64_t to_s, size_t steps_max) const {
  size_t at_level = 0;
  const auto reaches_back = [&](const Kept& level) {
    return !level.forgot || (!level.steps.empty() && level.steps.oldest_s() <= from_s);
  };
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

TimeSeries& SeriesStore::series_of(const std::string& of, std::string_view measure, size_t first) {
  if (const auto known = series_.find(of); known != series_.end()) {
    const auto at = place_of(known->second, measure);
    if (at != known->second.end() && *at->name == measure) return at->series;
  }
  if (count_ >= series_max_) forget_idlest();
  auto name = names_.find(measure);
  if (name == names_.end()) name = names_.emplace(measure).first;
  const auto [entry, added] = series_.try_emplace(of);
  TimeSeries& series = entry->second.insert(place_of(entry->second, measure), {&*name, TimeSeries(first)})->series;
  ++count_;
  bytes_ += series.bytes() + (added ? kMeasuredBytes : 0);
  return series;
}

void SeriesStore::add(const std::string& of, std::string_view measure, int64_t unix_ms, float value, size_t first) {
  TimeSeries& series = series_of(of, measure, first);
  const size_t before = series.bytes();
  series.add(unix_ms, value, room_);
  bytes_ += series.bytes() - before;
  rest_one(unix_ms / 1000);
  if (bytes_ > bytes_max_) make_room();
}

void SeriesStore::move(const std::string& from, const std::string& to) {
  if (from == to) return;
  auto moved = series_.extract(from);
  if (moved.empty()) return;
  resting_ = series_.end();
  if (!series_.contains(to)) {
    moved.key() = to;
    series_.insert(std::move(moved));
    return;
  }
  bytes_ -= kMeasuredBytes;
  count_ -= moved.mapped().size();
  for (const Measure& measure : moved.mapped()) {
    bytes_ -= measure.series.bytes();
    const auto all = measure.series.read(0, std::numeric_limits<int64_t>::max(), std::numeric_limits<size_t>::max());
    for (const SeriesStep& step : all) add(to, *measure.name, step.seconds * 1000, step.mean, measure.series.first());
  }
}

// Compacts one series per call to spread the cost.
void SeriesStore::rest_one(int64_t now_s) {
  if (resting_ == series_.end()) resting_ = series_.begin();
  for (Measure& measure : resting_->second) {
    bytes_ -= measure.series.bytes();
    measure.series.rest(now_s);
    bytes_ += measure.series.bytes();
  }
  ++resting_;
}

// Drops an eighth of a level's steps at a time, since each pass visits every series.
void SeriesStore::make_room() {
  for (size_t& steps : room_) {
    while (bytes_ > bytes_max_ && steps > kLeastSteps) {
      steps = std::max(kLeastSteps, steps - std::max<size_t>(1, steps / 8));
      bytes_ = kMeasuredBytes * series_.size();
      for (auto& [of, measures] : series_) {
        for (Measure& measure : measures) {
          measure.series.shorten(room_);
          bytes_ += measure.series.bytes();
        }
      }
    }
  }
  while (bytes_ > bytes_max_ && count_ > 1) forget_idlest();
}

// Drops a hundredth of the series at a time, at least one.
void SeriesStore::forget_idlest() {
  std::vector<int64_t> ages;
  for (const auto& [of, measures] : series_) {
    for (const Measure& measure : measures) ages.push_back(measure.series.newest_s());
  }
  size_t going = std::max<size_t>(1, ages.size() / 100);
  std::nth_element(ages.begin(), ages.begin() + static_cast<std::ptrdiff_t>(going - 1), ages.end());
  const int64_t youngest = ages[going - 1];
  for (auto entry = series_.begin(); entry != series_.end() && going > 0;) {
    const size_t gone = std::erase_if(entry->second, [&](const Measure& measure) {
      if (going == 0 || measure.series.newest_s() > youngest) return false;
      bytes_ -= measure.series.bytes();
      --going;
      return true;
    });
    count_ -= gone;
    if (!entry->second.empty()) {
      ++entry;
      continue;
    }
    bytes_ -= kMeasuredBytes;
    entry = series_.erase(entry);
  }
  resting_ = series_.end();
}

const TimeSeries* SeriesStore::find(const std::string& of, std::string_view measure) const {
  const auto found = series_.find(of);
  if (found == series_.end()) return nullptr;
  const auto at = place_of(found->second, measure);
  return at == found->second.end() || *at->name != measure ? nullptr : &at->series;
}

}  // namespace volador::dashboard
