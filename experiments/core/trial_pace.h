// How fast a trial trains, measured from its reports. Pure.
#pragma once

#include <cstdint>
#include <optional>

namespace volador::experiments {

// Units are those of the search (SearcherSettings::unit).
class TrialPace {
 public:
  // A run begins. `units`: trained before it; none: its first report says so.
  void begin(std::optional<double> units, int64_t now_ms) {
    units_ = units;
    at_ms_ = now_ms;
  }
  // It has trained so many units. Without effect unless they are more than at the last report.
  void reached(double units, int64_t now_ms) {
    if (units_ && units <= *units_) return;
    if (units_) {
      const double more = units - *units_, seconds = static_cast<double>(now_ms - at_ms_) / 1000;
      timed_ += more;
      seconds_ += seconds;
      squares_ += seconds * seconds / more;
    }
    units_ = units;
    at_ms_ = now_ms;
  }

  double units() const { return units_.value_or(0); }
  double timed() const { return timed_; }  // Number of units whose duration is known.
  double mean_s() const { return timed_ > 0 ? seconds_ / timed_ : 0; }
  double mean_square_s() const { return timed_ > 0 ? squares_ / timed_ : 0; }
  // Time since the last report, or since the run began.
  double since_s(int64_t now_ms) const { return at_ms_ == 0 ? 0 : static_cast<double>(now_ms - at_ms_) / 1000; }

 private:
  std::optional<double> units_ = 0;
  int64_t at_ms_ = 0;
  double timed_ = 0, seconds_ = 0, squares_ = 0;
};

}  // namespace volador::experiments
