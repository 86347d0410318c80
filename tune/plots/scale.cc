#include "tune/plots/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace volador::tune {
namespace {

constexpr int kTicksMax = 100;

// Returns the step, 1, 2 or 5 times a power of ten, that divides `range` into about `about` parts.
double nice_step(double range, int about) {
  const double raw = range / std::max(about, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) return factor * power;
  }
  return 10 * power;
}

double nice_seconds(double range, int about) {
  const double raw = range / std::max(about, 1);
  if (raw < 1) return nice_step(range, about);
  for (const double step : {1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
                            10800.0, 21600.0, 43200.0}) {
    if (step >= raw * 0.999) return step;
  }
  return 86400 * nice_step(range / 86400, about);
}

std::string seconds_text(double value) {
  const double size = std::abs(value);
  if (size < 1e-12) return "0";
  if (size < 1) return fmt::format("{:.3g} ms", value * 1e3);
  if (size < 120) return fmt::format("{:.3g} s", value);
  if (size < 7200) return fmt::format("{:.4g} min", value / 60);
  if (size < 172800) return fmt::format("{:.4g} h", value / 3600);
  return fmt::format("{:.4g} d", value / 86400);
}

}  // namespace

void Extent::add(double value, bool log) {
  if (!std::isfinite(value) || (log && value <= 0)) return;
  lo = empty ? value : std::min(lo, value);
  hi = empty ? value : std::max(hi, value);
  empty = false;
}

Scale::Scale(const Extent& extent, bool log, double from, double to, double pad) : from_(from), to_(to), log_(log) {
  lo_ = extent.empty ? (log ? 0.1 : 0) : extent.lo;
  hi_ = extent.empty ? 1 : extent.hi;
  if (log) {
    lo_ = std::log10(std::max(lo_, std::numeric_limits<double>::min()));
    hi_ = std::log10(std::max(hi_, std::numeric_limits<double>::min()));
  }
  // Avoids equal ends and a range that overflows.
  lo_ = std::clamp(lo_, -1e300, 1e300);
  hi_ = std::clamp(hi_, -1e300, 1e300);
  if (hi_ - lo_ <= 1e-12 * std::max(std::abs(lo_), std::abs(hi_))) {
    const double room = lo_ == 0 || log ? 0.5 : std::abs(lo_) * 0.1;
    lo_ -= room;
    hi_ += room;
  }
  const double room = (hi_ - lo_) * pad;
  lo_ -= room;
  hi_ += room;
}

double Scale::at(double value) const {
  if (!std::isfinite(value) || (log_ && value <= 0)) return std::numeric_limits<double>::quiet_NaN();
  const double place = log_ ? std::log10(value) : value;
  return from_ + (place - lo_) / (hi_ - lo_) * (to_ - from_);
}

std::vector<AxisTick> Scale::ticks(int about, Unit unit) const {
  return log_ ? log_ticks(about, unit) : linear_ticks(about, unit);
}

std::vector<AxisTick> Scale::linear_ticks(int about, Unit unit) const {
  double step = unit == Unit::kSeconds ? nice_seconds(hi_ - lo_, about) : nice_step(hi_ - lo_, about);
  if (unit == Unit::kCount) step = std::max(1.0, step);
  std::vector<AxisTick> ticks;
  const double first = std::ceil(lo_ / step - 1e-9);
  for (int i = 0; i < kTicksMax; ++i) {
    double value = (first + i) * step;
    if (value > hi_ + step * 1e-9) break;
    if (std::abs(value) < step * 1e-9) value = 0;
    ticks.push_back({value, value_text(value, unit)});
  }
  // Drops ticks that are too close for four digits.
  for (size_t i = 1; i < ticks.size(); ++i) {
    if (ticks[i].label != ticks[i - 1].label) continue;
    for (AxisTick& tick : ticks) tick.label = fmt::format("{:.10g}", tick.value);
    break;
  }
  return ticks;
}

std::vector<AxisTick> Scale::log_ticks(int about, Unit unit) const {
  std::vector<AxisTick> ticks;
  const auto first = static_cast<int>(std::floor(lo_)), last = static_cast<int>(std::ceil(hi_));
  const double decades = hi_ - lo_;
  if (decades < 0.7) {  // Less than a factor of five: as on a linear axis.
    Extent extent;
    extent.add(std::pow(10.0, lo_), true);
    extent.add(std::pow(10.0, hi_), true);
    return Scale(extent, false, from_, to_).ticks(about, unit);
  }
  const int every = std::max(1, static_cast<int>(std::ceil(decades / std::max(about, 1))));
  const bool between = decades * 3 <= about + 1;
  for (int power = first; power <= last; ++power) {
    const double decade = std::pow(10.0, power);
    for (int factor = 1; factor < 10 && (every == 1 || factor == 1); ++factor) {
      const double value = factor * decade;
      if (std::log10(value) < lo_ - 1e-9 || std::log10(value) > hi_ + 1e-9) continue;
      const bool labelled = (factor == 1 && power % every == 0) || (between && (factor == 2 || factor == 5));
      if (labelled || every == 1) ticks.push_back({value, labelled ? value_text(value, unit) : ""});
    }
  }
  return ticks;
}

std::string value_text(double value, Unit unit) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (unit == Unit::kSeconds) return seconds_text(value);
  const double size = std::abs(value);
  if (size >= 1e4 && size < 1e6) return fmt::format("{:.4g}k", value / 1e3);
  if (size >= 1e6 && size < 1e9) return fmt::format("{:.4g}M", value / 1e6);
  return fmt::format("{:.4g}", value);
}

}  // namespace volador::tune
