// Measures over time for charts: 1 s steps for an hour, 10 s for a day, 5 min for 30 days, each with minimum, mean and
// maximum. A coarser level starts when the finer one drops its first step; before that it would contain nothing new.
// Pure: no clock, thread or I/O. Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/series_steps.h"

namespace volador::dashboard {

// One measure over time, in up to three levels.
class TimeSeries {
 public:
  struct Level {
    int64_t step_s;
    size_t steps;
  };
  static constexpr std::array<Level, 3> kLevels{{{1, 3600}, {10, 8640}, {300, 8640}}};
  using Room = std::array<size_t, kLevels.size()>;  // Maximum number of steps per level.
  static constexpr Room kFullRoom{kLevels[0].steps, kLevels[1].steps, kLevels[2].steps};

  // For measures taken less often than once a second the finest level is useless: the series starts with level `first`.
  explicit TimeSeries(size_t first = 0) : first_(first) { levels_.emplace_back(kLevels[first].step_s); }

  // Values older than the newest step count into that step. NaN is dropped.
  void add(int64_t unix_ms, float value, const Room& room = kFullRoom);
  // Drops the oldest steps beyond `room`.
  void shorten(const Room& room);
  // Compacts a series that got no value for some steps.
  void rest(int64_t now_s);

  // Returns the steps from `from_s` to before `to_s` of the finest level that reaches back to from_s, merged to at most
  // steps_max (at least 1). Steps without a value are skipped.
  std::vector<SeriesStep> read(int64_t from_s, int64_t to_s, size_t steps_max) const;
  size_t first() const { return first_; }
  int64_t newest_s() const { return levels_.front().steps.newest_s(); }
  size_t bytes() const;

 private:
  struct Kept {
    explicit Kept(int64_t step_s) : steps(step_s) {}

    SeriesSteps steps;
    uint32_t values = 0;  // Number of values in the newest step.
    bool forgot = false;  // Older steps were dropped.
  };
  static void add_to(Kept& level, int64_t begin_s, const SeriesStep& value);
  // Keeps as many steps of this level as there is room for; when it drops its first one, starts the next level and
  // returns true.
  bool keep(size_t at, const Room& room);

  size_t first_;
  std::vector<Kept> levels_;  // From first_ on.
};

// All measured series, by object ("node/heron", "actor/3f2a…", "trial/digits/3f2a90c1") and measure ("cpu_cores").
// Beyond kBytesMax in total the oldest steps of the finest level of all series are dropped, then those of the next
// level; beyond kSeriesMax the series without a value for longest are dropped.
class SeriesStore {
 public:
  static constexpr size_t kSeriesMax = 200'000;
  static constexpr size_t kBytesMax = size_t{2} << 30;
  static constexpr size_t kLeastSteps = 60;  // Minimum steps per level, regardless of limits.

  struct Measure {
    const std::string* name;  // Shared by all series of the measure.
    TimeSeries series;
  };
  using All = std::map<std::string, std::vector<Measure>>;  // Measures sorted by name.

  explicit SeriesStore(size_t bytes_max = kBytesMax, size_t series_max = kSeriesMax)
      : bytes_max_(bytes_max), series_max_(series_max) {}
  SeriesStore(const SeriesStore&) = delete;
  SeriesStore& operator=(const SeriesStore&) = delete;

  // `first`: as for TimeSeries, if the series is new.
  void add(const std::string& of, std::string_view measure, int64_t unix_ms, float value, size_t first = 0);
  // Moves the series of one object to another; existing series of the target are continued as by add().
  void move(const std::string& from, const std::string& to);
  const TimeSeries* find(const std::string& of, std::string_view measure) const;
  const All& all() const { return series_; }
  size_t size() const { return count_; }
  size_t bytes() const { return bytes_; }
  const TimeSeries::Room& room() const { return room_; }

 private:
  TimeSeries& series_of(const std::string& of, std::string_view measure, size_t first);
  void rest_one(int64_t now_s);
  void make_room();
  void forget_idlest();

  const size_t bytes_max_, series_max_;
  std::set<std::string, std::less<>> names_;
  All series_;
  All::iterator resting_ = series_.end();  // Next entry for rest().
  TimeSeries::Room room_ = TimeSeries::kFullRoom;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace volador::dashboard
