// Axes: values to pixels, and where their marks stand. Pure.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace volador::tune {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();  // Is not drawn.

// What values are: how their marks are chosen and written.
enum class Unit {
  kNumber,
  kCount,    // Whole numbers only.
  kSeconds,  // "90 s", "5 min", "2 h".
};

// The finite values of a set. Logarithms take only those above 0.
struct Extent {
  double lo = 0, hi = 0;
  bool empty = true;
  void add(double value, bool log);
};

struct AxisTick {
  double value = 0;
  std::string label;  // Empty: a mark between two that have one.
};

class Scale {
 public:
  // From pixel `from` to `to`, which may be the smaller one. An empty extent becomes 0 to 1, a single value gets room
  // around it; `pad`: that part of the extent is added at both ends.
  Scale(const Extent& extent, bool log, double from, double to, double pad = 0);

  // NaN for what the scale does not hold: NaN, infinities, and what is not above 0 where it is logarithmic.
  double at(double value) const;
  bool log() const { return log_; }
  double lo() const { return lo_; }
  double hi() const { return hi_; }

  // About so many, inside the scale, rising. A logarithmic scale marks powers of ten, and 2 and 5 between them where
  // there is room.
  std::vector<AxisTick> ticks(int about, Unit unit = Unit::kNumber) const;

 private:
  std::vector<AxisTick> linear_ticks(int about, Unit unit) const;
  std::vector<AxisTick> log_ticks(int about, Unit unit) const;

  double lo_ = 0, hi_ = 1, from_, to_;
  bool log_;
};

// A value for people, at most four digits: "0.0003", "1e-05", "12.5k", "90 s".
std::string value_text(double value, Unit unit = Unit::kNumber);

}  // namespace volador::tune
