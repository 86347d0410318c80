// Gaussian process over the points of a search space: Matérn 5/2 kernel with a length scale per dimension and noise
// (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006), and its most promising points.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "tune/searchers/acquisition.h"
#include "tune/searchers/panel_factor.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

struct GpLengths {  // Hyperparameters, as logarithms.
  std::vector<double> inverse_squares;
  double signal = 0;
  double noise = std::log(1e-3);
};

struct GpData {
  std::vector<Point> points;
  std::vector<double> values;  // Standardised to mean 0 and deviation 1; lower is better.
  size_t certain =
      0;  // The last `certain` points have no noise: predicted values of pending points, which remove the expected gain
          // there.
};

// Returns how each dimension compares points: by distance, or by equality.
std::vector<Apartness> apartness_of(const SearchDimensions& dimensions);

class GaussianProcess {
 public:
  explicit GaussianProcess(std::vector<Apartness> apart) : apart_(std::move(apart)) {}

  // Fits the process to these data, O(n³); O(n²) per new point if lengths and all earlier points are unchanged. The
  // result is bit-identical in both cases.
  void learn(const GpData& data, const GpLengths& lengths);

  double mean(const Point& at) const;
  // Returns the score of each point.
  std::vector<double> scores(const std::vector<Point>& points, const Criterion& criterion) const;
  // Returns the `count` points with the highest score, highest first, with their indices. The variance of a point is
  // expensive and is not computed where no variance would bring the point among them.
  std::vector<std::pair<double, size_t>> most_promising(const std::vector<Point>& points, const Criterion& criterion,
                                                        size_t count) const;
  // Returns what the process believed of the points after each of its data points that have noise, with the lengths of
  // now. O(n²) per point.
  std::vector<PointBeliefs> beliefs_so_far(const std::vector<Point>& points) const;
  // Scores with their gradient by each numeric, active coordinate, for up to kPanel points.
  struct Slope {
    double value = 0;
    std::vector<double> by;
  };
  std::vector<Slope> slopes(const std::vector<const Point*>& points, const Criterion& criterion) const;

 private:
  using Beliefs = std::array<double, kPanel>;
  // Kernel between the points in the columns of `at` and the data, one row per data point.
  Panel kernel_of(const Panel& at, Panel* slopes) const;
  Beliefs means_of(const Panel& kernel) const;
  Beliefs variances_of(Panel& kernel) const;  // Overwrites the panel with its solution by the lower factor.

  const std::vector<Apartness> apart_;
  GpLengths lengths_;
  std::vector<double> weights_;
  double signal_ = 1;
  std::vector<Point> points_;
  size_t noisy_ = 0;  // Number of leading points that have noise.
  std::vector<double> values_, solved_;
  PanelFactor factor_;
};

// Returns the lengths that maximise the posterior of the data, by ascent from each of the starts. The priors are
// Optuna's: few parameters matter much, little noise. O(n³) per step.
GpLengths likeliest_lengths(const std::vector<Apartness>& apart, const GpData& data,
                            const std::vector<GpLengths>& starts);

// Returns the log posterior up to constants, and its gradient by inverse_squares, signal and noise.
double log_likelihood(const std::vector<Apartness>& apart, const GpData& data, const GpLengths& lengths,
                      std::vector<double>& slope);

}  // namespace volador::tune
