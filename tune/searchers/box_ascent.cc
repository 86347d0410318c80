#include "tune/searchers/box_ascent.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace volador::tune {
namespace {

constexpr size_t kPairsMax = 8;
constexpr double kLengthLeast = 1e-8;
constexpr double kEnough = 1e-4;  // Fraction of the predicted increase that suffices (Armijo, 1966).

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
void add(double factor, const std::vector<double>& from, std::vector<double>& to) {
  for (size_t i = 0; i < to.size(); ++i) to[i] += factor * from[i];
}

}  // namespace

BoxAscent::BoxAscent(const BoxAscentOptions& options, std::vector<double> start)
    : options_(options), at_(start), next_(std::move(start)) {}

void BoxAscent::told(double value, const std::vector<double>& slope) {
  ++judged_;
  const bool usable =
      std::isfinite(value) && std::all_of(slope.begin(), slope.end(), [](double one) { return std::isfinite(one); });
  if (judged_ == 1) {
    value_ = value;
    slope_ = slope;
    done_ = !usable;
    if (!done_) aim();
    return;
  }
  double promised = 0;
  for (size_t i = 0; i < at_.size(); ++i) promised += slope_[i] * (next_[i] - at_[i]);
  if (usable && value > value_ && value >= value_ + kEnough * promised) {
    accept(value, slope);
  } else {
    // Go to the maximum of the parabola through both values and the slope.
    const double bend = value_ + promised - value;
    const double share = usable && bend > 0 ? promised / (2 * bend) : 0;
    length_ *= std::clamp(share, 0.1, 0.5);
    if (length_ < kLengthLeast && !pairs_.empty()) {
      pairs_.clear();
      return aim();
    }
    done_ = length_ < kLengthLeast;
    move();
  }
  done_ = done_ || judged_ >= options_.judged_max;
}

void BoxAscent::accept(double value, const std::vector<double>& slope) {
  idle_ = value - value_ < options_.gain_least ? idle_ + 1 : 0;
  Pair pair{next_, slope_, 0};
  add(-1, at_, pair.step);
  add(-1, slope, pair.change);
  pair.product = dot(pair.step, pair.change);
  if (pair.product > 1e-12 * dot(pair.change, pair.change)) {
    pairs_.push_back(std::move(pair));
    if (pairs_.size() > kPairsMax) pairs_.pop_front();
  }
  at_ = next_;
  value_ = value;
  slope_ = slope;
  done_ = idle_ >= 2;
  if (!done_) aim();
}

// Search direction from at_: the gradient, corrected by the learned curvature; a bound stops only its own coordinate.
void BoxAscent::aim() {
  std::vector<double> free(at_.size());
  for (size_t i = 0; i < at_.size(); ++i) {
    const bool stopped = (at_[i] <= options_.low[i] && slope_[i] < 0) || (at_[i] >= options_.high[i] && slope_[i] > 0);
    free[i] = stopped ? 0 : slope_[i];
  }
  const double norm = std::sqrt(dot(free, free));
  if (!(norm > 1e-12)) {
    done_ = true;
    return;
  }
  way_ = free;
  length_ = options_.first_step / norm;
  if (!pairs_.empty()) {
    std::vector<double> shares(pairs_.size());
    for (size_t k = pairs_.size(); k-- > 0;) {
      shares[k] = dot(pairs_[k].step, way_) / pairs_[k].product;
      add(-shares[k], pairs_[k].change, way_);
    }
    const double scale = pairs_.back().product / dot(pairs_.back().change, pairs_.back().change);
    for (double& one : way_) one *= scale;
    for (size_t k = 0; k < pairs_.size(); ++k)
      add(shares[k] - dot(pairs_[k].change, way_) / pairs_[k].product, pairs_[k].step, way_);
    for (size_t i = 0; i < way_.size(); ++i) way_[i] = free[i] == 0 ? 0 : way_[i];
    length_ = 1;
    if (!(dot(way_, free) > 0)) {
      pairs_.clear();
      way_ = free;
      length_ = options_.first_step / norm;
    }
  }
  move();
}

void BoxAscent::move() {
  next_ = at_;
  for (size_t i = 0; i < at_.size(); ++i) {
    if (way_[i] != 0) next_[i] = std::clamp(at_[i] + length_ * way_[i], options_.low[i], options_.high[i]);
  }
  if (next_ == at_) done_ = true;
}

}  // namespace volador::tune
