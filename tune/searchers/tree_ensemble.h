// Ensembles of regression trees over the points of a search space, with an estimate of their uncertainty: random forests
// (Breiman, 2001), extremely randomised trees (Geurts, Ernst, Wehenkel, 2006) and gradient boosting of quantiles
// (Friedman, 2001). Pure; the randomness comes from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tune/searchers/acquisition.h"
#include "tune/searchers/panel_factor.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

enum class TreeKind : uint8_t {
  kRandomForest,  // Each tree learns from a bootstrap sample and takes the best thresholds.
  kExtraTrees,    // Each tree learns from all points and takes the best of one random threshold for each coordinate.
  kBoosted,       // Trees for the quantiles 0.16, 0.5 and 0.84, each correcting the sum of those before; not random.
};

// The defaults are scikit-optimize's, but for leaf_min (3): a search needs the best trials apart from their neighbours.
struct TreeOptions {
  TreeKind kind = TreeKind::kRandomForest;
  int trees = 100;             // Number in a forest.
  size_t leaf_min = 1;         // Points of a leaf of a forest.
  double min_variance = 0;     // The variance within a leaf of a forest counts as at least this.
  int stages = 30;             // Boosted trees for each quantile,
  int depth = 3;               // their depth,
  double learning_rate = 0.1;  // and the share of each.
};

class TreeEnsemble {
 public:
  // `apart` says which coordinates are options: a tree separates one option from the others, and numbers by a threshold.
  // At least one point, and options of at least 1. O(trees × coordinates × points × depth).
  TreeEnsemble(const std::vector<Apartness>& apart, const std::vector<Point>& points, const std::vector<double>& values,
               const TreeOptions& options, uint64_t seed);

  // Mean and variance at each point. Forests: by the law of total variance, the variance of the trees' means and the
  // mean of the variances within their leaves. Boosted: the median, and half the range between the outer quantiles as
  // the deviation.
  PointBeliefs beliefs(const std::vector<Point>& points) const;

 private:
  friend class TreeBuilder;
  // A point goes to the left if its coordinate lies in [low, high]. A leaf is its own successor.
  struct Node {
    double low = 0, high = 0;
    uint32_t coordinate = 0;
    uint32_t left = 0, right = 0;
  };
  struct Tree {
    std::vector<Node> nodes;
    std::vector<double> means, variances;  // Values of the leaves, by node.
    int depth = 0;
  };
  static void descend(const Tree& tree, const Panel& at, uint32_t* nodes);

  const TreeOptions options_;
  const size_t coordinates_;
  std::vector<Tree> trees_;     // Boosted: by quantile, each with its stages.
  std::vector<double> starts_;  // Boosted: the values before the first tree, by quantile.
};

}  // namespace volador::tune
