// Density of points as a mixture of kernels around observations, as used by the tree-structured Parzen estimator
// (Bergstra et al., Algorithms for Hyper-Parameter Optimization, NIPS 2011).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/space/search_dimensions.h"

namespace volador::tune {

struct ParzenOptions {
  double prior_weight = 1;  // Weight of the prior's kernel, where an observation has weight 1; above 0.
  bool magic_clip = true;   // No kernel is narrower than 1 / min(100, 1 + kernels).
  bool endpoints = false;   // The outermost kernels extend to the ends of the range.
  // Coordinates that the user expects to be good, by dimension: the prior's kernel is centred there with width
  // guess_width; other dimensions have the uniform prior. kInactive: none for this dimension; empty: none at all.
  std::vector<double> guess = {};
  double guess_width = 1;
};

// Returns the standard deviations of the kernels around these ascending observations in `range`: the larger gap to a
// neighbour.
std::vector<double> kernel_widths(const std::vector<double>& sorted, const ParzenOptions& options,
                                  const SearchDimensions::Cell& range = {});

// Observations of some dimensions, all active, by column.
struct ParzenData {
  std::vector<double> weights;                // One per observation.
  std::vector<std::vector<double>> columns;   // One per dimension, in order.
  std::vector<std::vector<uint32_t>> orders;  // Indices of the observations by ascending coordinate; unused for
                                              // choices.
};

// A mixture of products of truncated normal distributions, of cell probabilities for ordered dimensions, of option
// probabilities for choices, and of the wide kernel of the prior. Uses single precision, since it only ranks
// candidates.
class ParzenEstimator {
 public:
  // Keeps references to its arguments.
  ParzenEstimator(const SearchDimensions& dimensions, const std::vector<size_t>& which, const ParzenData& data,
                  const ParzenOptions& options);

  // Draws coordinates of `which`.
  std::vector<double> sample(Random& random) const;
  // Returns the log densities, up to a constant per dimension, of candidates given by column.
  std::vector<float> log_densities(const std::vector<std::vector<double>>& columns) const;

 private:
  struct Kernels {  // Kernels of one dimension: those of the observations, then the prior's.
    std::vector<float> middle, inverse_width;
    std::vector<float> mass;  // Probability mass of the normal distribution within the dimension's range.
    std::vector<uint32_t> option;
    float hit = 0, miss = 0, prior = 0;  // Logarithms.
    std::optional<uint32_t> guess;       // The option that the prior expects …
    float guessed = 0;                   // … and the logarithm of its probability.
  };
  Kernels make_kernels(size_t dimension, size_t column) const;
  double sample_coordinate(size_t dimension, const Kernels& kernels, size_t kernel, Random& random) const;
  void add_column(size_t dimension, const Kernels& kernels, const std::vector<double>& candidates,
                  std::vector<float>& sums) const;

  const SearchDimensions& dimensions_;
  const std::vector<size_t>& which_;
  const ParzenData& data_;
  const ParzenOptions& options_;
  const size_t count_;             // Number of kernels.
  std::vector<double> cumulated_;  // Cumulative weights, up to 1.
  std::vector<Kernels> kernels_;   // By column.
  std::vector<float> base_;        // For each kernel: the logarithm of weight and norms.
};

}  // namespace volador::tune
