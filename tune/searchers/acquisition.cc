#include "tune/searchers/acquisition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace volador::tune {
namespace {

constexpr double kDeviationVarianceLeast = 1e-12;
constexpr double kXi = 0.01;
constexpr double kNormalTail = -4;  // Below it, terms of the closed forms cancel or vanish.
constexpr int kTailTerms = 40;

const double kRootOfTwoPi = std::sqrt(2 * std::numbers::pi);

double density_of(double u) { return std::exp(-u * u / 2) / kRootOfTwoPi; }
double probability_below(double u) { return std::erfc(-u / std::numbers::sqrt2) / 2; }
// Laplace's continued fraction for u < 0: Φ = φ / (x + k), x = -u, k = 1 / (x + 2 / (x + 3 / …)). Returns k.
double tail_fraction(double u) {
  double k = 0;
  for (int i = kTailTerms; i > 0; --i) k = i / (k - u);
  return k;
}

// h(u) = u Φ(u) + φ(u), the expected improvement per unit of deviation, with its derivatives.
struct UnitImprovement {
  double logarithm;
  double below, density;  // Φ / h and φ / h: the slope of the logarithm, and the factor of the deviation's slope.
};
UnitImprovement unit_improvement(double u) {
  if (u > kNormalTail) {
    const double density = density_of(u), below = probability_below(u);
    const double h = density + u * below;
    return {std::log(h), below / h, density / h};
  }
  const double k = tail_fraction(u);
  const double ratio = (k - u) / k;
  return {-u * u / 2 - std::log(kRootOfTwoPi * ratio), 1 / k, ratio};
}

// log Φ(u), with its slope φ / Φ.
struct UnitProbability {
  double logarithm, slope;
};
UnitProbability unit_probability(double u) {
  if (u > kNormalTail) {
    const double below = probability_below(u);
    return {std::log(below), density_of(u) / below};
  }
  const double slope = tail_fraction(u) - u;
  return {-u * u / 2 - std::log(kRootOfTwoPi * slope), slope};
}

double deviation_of(double variance) { return std::sqrt(std::max(variance, kDeviationVarianceLeast)); }

}  // namespace

Result<void> validate(const AcquisitionOptions& options, std::string_view searcher) {
  const auto check = [&](std::string_view option, double value) -> Result<void> {
    if (value >= 0 && std::isfinite(value)) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}.{}: expected a number of at least 0, got {}", searcher, option, value));
  };
  VOLADOR_TRY(check("xi", options.xi.value_or(0)));
  return check("kappa", options.kappa);
}

Criterion::Criterion(const AcquisitionOptions& options, Acquisition function, double best)
    : function_(function), kappa_(options.kappa) {
  VOLADOR_CHECK(function != Acquisition::kHedge);
  target_ = best - options.xi.value_or(options.function == Acquisition::kEi ? 0 : kXi);
}

double Criterion::score(double mean, double variance) const {
  const double deviation = deviation_of(variance);
  if (function_ == Acquisition::kLcb) return kappa_ * deviation - mean;
  const double u = (target_ - mean) / deviation;
  if (function_ == Acquisition::kPi) return unit_probability(u).logarithm;
  return std::log(deviation) + unit_improvement(u).logarithm;
}

double Criterion::bound(double mean, double variance_max) const {
  // An improvement that is expected anyway is the more probable the less the value deviates.
  if (function_ == Acquisition::kPi && mean < target_) return 0;
  return score(mean, variance_max);
}

Criterion::Slope Criterion::slope(double mean, double variance) const {
  const double deviation = deviation_of(variance);
  const bool deviates = variance > kDeviationVarianceLeast;
  if (function_ == Acquisition::kLcb) return {kappa_ * deviation - mean, -1, deviates ? kappa_ / (2 * deviation) : 0};
  const double u = (target_ - mean) / deviation;
  if (function_ == Acquisition::kPi) {
    const UnitProbability unit = unit_probability(u);
    return {unit.logarithm, -unit.slope / deviation, deviates ? -unit.slope * u / (2 * deviation * deviation) : 0};
  }
  // Derivatives of σ h(u), h' = Φ: (h - u Φ) / (σ h) by σ, -Φ / (σ h) by the mean; h - u Φ is the density.
  const UnitImprovement unit = unit_improvement(u);
  return {std::log(deviation) + unit.logarithm, -unit.below / deviation,
          deviates ? unit.density / (2 * deviation * deviation) : 0};
}

void AcquisitionHedge::reward(const PointBeliefs& before, double best, const PointBeliefs& after, double trials) {
  for (size_t function = 0; function < kFunctions.size(); ++function) {
    const Criterion criterion(options_, kFunctions[function], best);
    size_t nominee = 0;
    double most = -std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < before.means.size(); ++i) {
      const double score = criterion.score(before.means[i], before.variances[i]);
      if (score <= most) continue;
      most = score;
      nominee = i;
    }
    gains_[function] -= trials * after.means[nominee];
  }
}

AcquisitionHedge::Numbers AcquisitionHedge::probabilities() const {
  const double most = *std::max_element(gains_.begin(), gains_.end());
  Numbers out{};
  double total = 0;
  for (size_t i = 0; i < out.size(); ++i) total += out[i] = std::exp(gains_[i] - most);
  for (double& one : out) one /= total;
  return out;
}

Acquisition AcquisitionHedge::draw(Random& random) const {
  const Numbers chances = probabilities();
  double left = random.real();
  size_t i = 0;
  while (i + 1 < chances.size() && (left -= chances[i]) >= 0) ++i;
  return kFunctions[i];
}

}  // namespace volador::tune
