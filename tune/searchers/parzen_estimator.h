// A density of points made of kernels around observed ones, as the tree-structured Parzen estimator needs it (Bergstra
// et al., Algorithms for Hyper-Parameter Optimization, NIPS 2011).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tune/space/search_dimensions.h"

namespace volador::tune {

struct ParzenOptions {
  double prior_weight = 1;  // Of the kernel that covers everything, beside 1 of an observation; above 0.
  bool magic_clip = true;   // No kernel is narrower than 1 / min(100, 1 + kernels).
  bool endpoints = false;   // The outermost kernels reach to the ends of the range.
  // Coordinates that are expected to be good, by dimension: the prior's kernel lies around them, so wide, and covers
  // everything elsewhere. kInactive: none is expected; empty: none of any dimension.
  std::vector<double> guess = {};
  double guess_width = 1;
};

// Standard deviations of the kernels around these observations in `range`, ascending: the larger gap to a neighbour.
std::vector<double> kernel_widths(const std::vector<double>& sorted, const ParzenOptions& options,
                                  const SearchDimensions::Cell& range = {});

// Observations of some dimensions, by column, all active.
struct ParzenData {
  std::vector<double> weights;                // Of each observation.
  std::vector<std::vector<double>> columns;   // Of each dimension, in its order.
  std::vector<std::vector<uint32_t>> orders;  // Observations by ascending coordinate; unused for choices.
};

// A mixture of products of truncated normal distributions; of probabilities of cells for ordered dimensions, of options
// for choices; and of the uniform prior's wide kernel. Numbers are single precision: it ranks candidates.
class ParzenEstimator {
 public:
  // Refers to its arguments.
  ParzenEstimator(const SearchDimensions& dimensions, const std::vector<size_t>& which, const ParzenData& data,
                  const ParzenOptions& options);

  // Coordinates of `which`.
  std::vector<double> sample(Random& random) const;
  // Logarithms but for a constant of the dimensions, of candidates by column.
  std::vector<float> log_densities(const std::vector<std::vector<double>>& columns) const;

 private:
  struct Kernels {  // Of one dimension: of the observations, then the prior's.
    std::vector<float> middle, inverse_width;
    std::vector<float> mass;  // Of the normal distribution within the dimension's range.
    std::vector<uint32_t> option;
    float hit = 0, miss = 0, prior = 0;  // Logarithms.
    std::optional<uint32_t> guess;       // The option that the prior expects, …
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
  const size_t count_;             // Of kernels.
  std::vector<double> cumulated_;  // Weights, up to 1.
  std::vector<Kernels> kernels_;   // By column.
  std::vector<float> base_;        // Of each kernel: the logarithm of weight and norms.
};

}  // namespace volador::tune
