// Acquisition functions: how promising a point is whose value a model believes to be normally distributed, and the choice
// among the functions by their gains. Lower values are better, higher scores are. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::tune {

enum class Acquisition : uint8_t {
  kEi,     // Expected improvement over the best value (Jones, Schonlau, Welch, 1998).
  kPi,     // Probability of an improvement (Kushner, 1964).
  kLcb,    // Lower confidence bound (Cox and John, 1992).
  kHedge,  // One of the above, drawn by their gains: see AcquisitionHedge.
};

struct AcquisitionOptions {
  Acquisition function = Acquisition::kEi;
  // Improvements up to this count as none, in standard deviations of the values; at least 0. No value: 0 for kEi, 0.01
  // for the others. kLcb does not use it.
  std::optional<double> xi = std::nullopt;
  double kappa = 1.96;  // Weight of the deviation in kLcb; at least 0.
};

// kInvalidArgument: an option is out of range; `searcher` begins the message.
[[nodiscard]] Result<void> validate(const AcquisitionOptions& options, std::string_view searcher);

// One of the functions with its constants.
class Criterion {
 public:
  // `best` is the lowest value so far. `function` is not kHedge.
  Criterion(const AcquisitionOptions& options, Acquisition function, double best);

  // kEi and kPi: the logarithm (Ament et al., NeurIPS 2023), which has a slope where the improvement is unlikely. kLcb:
  // the bound with its sign changed.
  double score(double mean, double variance) const;
  // Upper bound of the score for variances up to `variance_max`.
  double bound(double mean, double variance_max) const;

  struct Slope {
    double score, by_mean, by_variance;
  };
  Slope slope(double mean, double variance) const;

 private:
  Acquisition function_;
  double target_, kappa_;
};

// What a model believes about a list of points.
struct PointBeliefs {
  std::vector<double> means, variances;
};

// Draws one of kEi, kLcb and kPi with probabilities that grow with their gains: for each past trial, minus the value that
// the model predicts, when it has seen the trial, at the point that the function nominated before (Brochu, Hoffman, de
// Freitas, 2010; eta is 1). The gains follow from the trials alone, and not from earlier proposals: a searcher that has
// seen the same trials draws with the same probabilities.
class AcquisitionHedge {
 public:
  static constexpr std::array kFunctions = {Acquisition::kEi, Acquisition::kLcb, Acquisition::kPi};
  using Numbers = std::array<double, kFunctions.size()>;

  explicit AcquisitionHedge(const AcquisitionOptions& options) : options_(options) {}

  // Each function nominates one of the points by the beliefs `before`, with `best` as the lowest value until then, and
  // is rewarded by the means `after`. `trials` is the number of trials between the two.
  void reward(const PointBeliefs& before, double best, const PointBeliefs& after, double trials = 1);

  const Numbers& gains() const { return gains_; }
  Numbers probabilities() const;
  Acquisition draw(Random& random) const;

 private:
  AcquisitionOptions options_;
  Numbers gains_{};
};

}  // namespace volador::tune
