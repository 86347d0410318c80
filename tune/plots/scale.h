// Axis scales: map values to pixels and choose ticks. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace volador::tune {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();  // Not drawn.

// Kind of value, which determines the choice and format of ticks.
enum class Unit {
  kNumber,
  kCount,    // Whole numbers only.
  kSeconds,  // "90 s", "5 min", "2 h".
};

// Range of the finite values of a set. With `log` only values above 0 count.
struct Extent {
  double lo = 0, hi = 0;
  bool empty = true;
  void add(double value, bool log);
};

struct AxisTick {
  double value = 0;
  std::string label;  // Empty: a minor tick.
};

class Scale {
 public:
  // Maps to pixels `from` to `to`, which may be descending. An empty extent becomes 0 to 1, a single value is widened;
  // `pad`: fraction of the extent added at both ends.
  Scale(const Extent& extent, bool log, double from, double to, double pad = 0);

  // Returns NaN for values outside the scale's domain: NaN, infinities, and values that are not above 0 on a
  // logarithmic scale.
  double at(double value) const;
  bool log() const { return log_; }
  double lo() const { return lo_; }
  double hi() const { return hi_; }

  // Returns about `about` ascending ticks inside the scale. A logarithmic scale has ticks at powers of ten, and at 2
  // and 5 between them if there is room.
  std::vector<AxisTick> ticks(int about, Unit unit = Unit::kNumber) const;

 private:
  std::vector<AxisTick> linear_ticks(int about, Unit unit) const;
  std::vector<AxisTick> log_ticks(int about, Unit unit) const;

  double lo_ = 0, hi_ = 1, from_, to_;
  bool log_;
};

// Formats a value with at most four digits: "0.0003", "1e-05", "12.5k", "90 s".
std::string value_text(double value, Unit unit = Unit::kNumber);

}  // namespace volador::tune
