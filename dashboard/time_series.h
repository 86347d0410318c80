// Measures over time, kept so that charts need no other program: 1 s for an hour, 10 s for a day, 5 min for 30 days, each step with its
// least, mean and greatest value. A coarser level begins when the finer one has to forget its first step: until then it would hold nothing
// that the finer one has not. Pure: no clock, thread or I/O. One thread.
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

class TimeSeries {
 public:
  struct Level {
    int64_t step_s;
    size_t steps;
  };
  static constexpr std::array<Level, 3> kLevels{{{1, 3600}, {10, 8640}, {300, 8640}}};
  using Room = std::array<size_t, kLevels.size()>;  // Steps of each level at most.
  static constexpr Room kFullRoom{kLevels[0].steps, kLevels[1].steps, kLevels[2].steps};

  // Of what is measured less often than once a second the finest level would hold nothing more: it begins with level `first`.
  explicit TimeSeries(size_t first = 0) : first_(first) { levels_.emplace_back(kLevels[first].step_s); }

  // Time goes on; what lies before the newest step is counted into that one. NaN is left out.
  void add(int64_t unix_ms, float value, const Room& room = kFullRoom);
  // The oldest steps beyond it go.
  void shorten(const Room& room);
  // What got no value for some steps takes less room from now on.
  void rest(int64_t now_s);

  // Steps from `from_s` to before `to_s`: of the finest level that still reaches back to from_s, joined so that there are at most
  // steps_max (at least 1). Steps without a value are left out.
  std::vector<SeriesStep> read(int64_t from_s, int64_t to_s, size_t steps_max) const;
  size_t first() const { return first_; }
  int64_t newest_s() const { return levels_.front().steps.newest_s(); }
  size_t bytes() const;

 private:
  struct Kept {
    explicit Kept(int64_t step_s) : steps(step_s) {}

    SeriesSteps steps;
    uint32_t values = 0;  // Of the newest step.
    bool forgot = false;  // Older steps went.
  };
  static void add_to(Kept& level, int64_t begin_s, const SeriesStep& value);
  // Keeps as many steps of this level as there is room for; where that is to forget its first one, the next level begins. True: it did.
  bool keep(size_t at, const Room& room);

  size_t first_;
  std::vector<Kept> levels_;  // From first_ on.
};

// Of everything that is measured, by what it is a measure of ("node/heron", "actor/3f2a…", "trial/digits/3f2a90c1") and its name
// ("cpu_cores"). Beyond kBytesMax in all the oldest steps of the finest level go, of all series alike, then those of the next level; beyond
// kSeriesMax series those that got no value for longest.
class SeriesStore {
 public:
  static constexpr size_t kSeriesMax = 200'000;
  static constexpr size_t kBytesMax = size_t{2} << 30;
  static constexpr size_t kLeastSteps = 60;  // That a level keeps, whatever there is.

  struct Measure {
    const std::string* name;  // One text for all that have it.
    TimeSeries series;
  };
  using All = std::map<std::string, std::vector<Measure>>;  // Measures by name.

  explicit SeriesStore(size_t bytes_max = kBytesMax, size_t series_max = kSeriesMax) : bytes_max_(bytes_max), series_max_(series_max) {}
  SeriesStore(const SeriesStore&) = delete;
  SeriesStore& operator=(const SeriesStore&) = delete;

  // `first`: as of TimeSeries, where the series is new.
  void add(const std::string& of, std::string_view measure, int64_t unix_ms, float value, size_t first = 0);
  // What was measured of the one belongs to the other from now on; where that has measures already they are continued, as by add().
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
  All::iterator resting_ = series_.end();  // Whose turn it is to be looked at.
  TimeSeries::Room room_ = TimeSeries::kFullRoom;
  size_t count_ = 0;
  size_t bytes_ = 0;
};

}  // namespace volador::dashboard
