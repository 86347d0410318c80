// Measures over time, kept so that charts need no other program: 1 s for an hour, 10 s for a day, 5 min for 30 days, each step with its
// least, mean and greatest value. Pure: no clock, thread or I/O. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace volador::dashboard {

struct SeriesStep {
  int64_t seconds = 0;  // Of Unix time: the beginning of the step.
  float min = 0, mean = 0, max = 0;
};

class TimeSeries {
 public:
  struct Level {
    int64_t step_s;
    size_t steps;
  };
  static constexpr std::array<Level, 3> kLevels{{{1, 3600}, {10, 8640}, {300, 8640}}};

  // Time goes on; what lies before the newest step is counted into that one.
  void add(int64_t unix_ms, float value);

  // Steps from `from_s` to before `to_s`: of the finest level that still reaches back to from_s, joined so that there are at most
  // steps_max (at least 1). Steps without a value are left out.
  std::vector<SeriesStep> read(int64_t from_s, int64_t to_s, size_t steps_max) const;
  int64_t newest_s() const { return levels_[0].empty() ? 0 : levels_[0].back().step.seconds; }
  size_t bytes() const;

 private:
  struct Open {
    SeriesStep step;
    uint32_t values = 0;
  };
  std::array<std::deque<Open>, kLevels.size()> levels_;
};

// Of everything that is measured, by "node/heron/cpu_cores_used". Beyond the limit the one that got no value for longest goes.
class SeriesStore {
 public:
  static constexpr size_t kSeriesMax = 10'000;  // Of up to 350 kB each after a month.

  void add(const std::string& key, int64_t unix_ms, float value);
  const TimeSeries* find(const std::string& key) const;
  const std::map<std::string, TimeSeries>& all() const { return series_; }

 private:
  std::map<std::string, TimeSeries> series_;
};

}  // namespace volador::dashboard
