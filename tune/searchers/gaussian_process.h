// A Gaussian process over the points of a search space: Matérn 5/2 with a length for each dimension and noise
// (Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006), and the improvement that it expects.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "tune/searchers/panel_factor.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

struct GpLengths {  // Logarithms.
  std::vector<double> inverse_squares;
  double signal = 0;
  double noise = std::log(1e-3);
};

struct GpData {
  std::vector<Point> points;
  std::vector<double> values;  // Of mean 0 and deviation 1; lower is better.
  size_t certain =
      0;  // So many of the last are without noise: what is believed of points, so that no more is hoped of them.
};

// How points differ: by their distance, or by whether they are equal.
std::vector<Apartness> apartness_of(const SearchDimensions& dimensions);

class GaussianProcess {
 public:
  explicit GaussianProcess(std::vector<Apartness> apart) : apart_(std::move(apart)) {}

  // Becomes the process of these data, O(n³); O(n²) for each point that is new, where the lengths and all points before
  // are those that it has. The outcome is the same, bit for bit.
  void learn(const GpData& data, const GpLengths& lengths);

  double mean(const Point& at) const;
  // Logarithm of the improvement over `best` that is expected at each (Ament et al., NeurIPS 2023).
  std::vector<double> log_improvements(const std::vector<Point>& points, double best) const;
  // Those of the points among which are the `count` of the most improvement, most first, and their numbers. How
  // uncertain a point is costs much, and is left out where even full uncertainty would not bring it among them.
  std::vector<std::pair<double, size_t>> most_improving(const std::vector<Point>& points, double best,
                                                        size_t count) const;
  // And the slope of the logarithm by each coordinate that is a number and active, of up to kPanel points.
  struct Slope {
    double value = 0;
    std::vector<double> by;
  };
  std::vector<Slope> slopes(const std::vector<const Point*>& points, double best) const;

 private:
  using Beliefs = std::array<double, kPanel>;
  // Of the points in the columns of `at` beside those of the data, a row each.
  Panel kernel_of(const Panel& at, Panel* slopes) const;
  Beliefs means_of(const Panel& kernel) const;
  Beliefs variances_of(Panel& kernel) const;  // Leaves the panel solved by the lower factor.

  const std::vector<Apartness> apart_;
  GpLengths lengths_;
  std::vector<double> weights_;
  double signal_ = 1;
  std::vector<Point> points_;
  size_t noisy_ = 0;  // So many first ones.
  std::vector<double> solved_;
  PanelFactor factor_;
};

// The lengths that make data and priors most likely, by ascent from each of the starts. Priors are those of Optuna: few
// parameters matter much, little noise. O(n³) a step.
GpLengths likeliest_lengths(const std::vector<Apartness>& apart, const GpData& data,
                            const std::vector<GpLengths>& starts);

// Logarithm of data's and priors' likelihood but for constants, and its slope by inverse_squares, signal and noise.
double log_likelihood(const std::vector<Apartness>& apart, const GpData& data, const GpLengths& lengths,
                      std::vector<double>& slope);

}  // namespace volador::tune
