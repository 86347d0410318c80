// Regression tree over numbers and categories, stored as the boxes of its leaves. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "runtime/random.h"
#include "tune/plots/fanova.h"

namespace volador::tune {

class RegressionTree {
 public:
  // Extent of a leaf in one parameter: numbers in [lo, hi), or the set of categories as bits.
  struct Side {
    double lo = 0, hi = 1;
    uint64_t categories = 0;
  };
  struct Leaf {
    std::vector<Side> box;
    double value = 0;   // Mean of its points.
    double volume = 1;  // Fraction of the whole space.
  };

  // Fits the tree to the points with these indices, which may repeat. Splits minimise the squared error; with three
  // parameters or more each split considers 5/6 of them.
  RegressionTree(const FanovaData& data, std::vector<uint32_t> sample, int leaf_min, Random& random);

  const std::vector<Leaf>& leaves() const { return leaves_; }
  double predict(const std::vector<double>& point) const;

 private:
  struct Node {
    size_t parameter = 0;
    double threshold = 0;     // Numbers below it go left.
    uint64_t categories = 0;  // These categories go left.
    int left = -1, right = -1;
    size_t leaf = 0;  // Set if the node has no children.
  };
  struct Split {
    double gain = 0;
    size_t parameter = 0;
    double threshold = 0;
    uint64_t categories = 0;
    bool found = false;
  };

  int grow(size_t begin, size_t end, std::vector<Side>& box);
  int add_leaf(size_t begin, size_t end, const std::vector<Side>& box);
  Split best_split(size_t begin, size_t end);
  void try_number(size_t parameter, size_t begin, size_t end, Split& best);
  void try_categories(size_t parameter, size_t begin, size_t end, Split& best);
  bool goes_left(const Split& split, uint32_t point) const;
  double volume_of(const std::vector<Side>& box) const;

  const FanovaData& data_;
  std::vector<uint32_t> sample_;
  std::vector<uint32_t> sorted_;
  const int leaf_min_;
  Random& random_;
  std::vector<Node> nodes_;
  std::vector<Leaf> leaves_;
};

}  // namespace volador::tune
