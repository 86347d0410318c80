#include "tune/searchers/tree_ensemble.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "runtime/random.h"

namespace volador::tune {
namespace {

constexpr std::array kQuantiles = {0.16, 0.5, 0.84};

// The least value that at least the share `quantile` of the values does not exceed. Reorders the values.
double quantile_of(std::vector<double>& values, double quantile) {
  const auto rank = static_cast<std::ptrdiff_t>(std::ceil(quantile * static_cast<double>(values.size()) - 1e-9)) - 1;
  const auto place = values.begin() + std::max<std::ptrdiff_t>(rank, 0);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

}  // namespace

// Builds trees over the same points. For each coordinate a tree has its points in the order of that coordinate; a split
// divides each of these lists and keeps the order.
class TreeBuilder {
 public:
  using Node = TreeEnsemble::Node;
  using Tree = TreeEnsemble::Tree;

  TreeBuilder(const std::vector<Apartness>& apart, const std::vector<Point>& points) : apart_(apart), points_(points) {
    for (size_t d = 0; d < apart.size(); ++d) {
      std::vector<uint32_t>& order = orders_.emplace_back(points.size());
      std::iota(order.begin(), order.end(), 0U);
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return points[a][d] < points[b][d]; });
    }
    goes_left_.resize(points.size());
    parted_.resize(points.size());
  }

  struct Rules {
    size_t leaf_min = 1;
    int depth_max = std::numeric_limits<int>::max();
    Random* thresholds = nullptr;  // Draws them; null: the best ones.
    bool keeps_members = false;    // For leaf_members().
  };

  // `weights`: how often each point counts.
  Tree build(const std::vector<double>& values, const std::vector<uint32_t>& weights, const Rules& rules) {
    values_ = values.data();
    weights_ = weights.data();
    rules_ = rules;
    leaf_members_.clear();
    const auto used = [&](uint32_t i) { return weights[i] > 0; };
    lists_.resize(orders_.size());
    for (size_t d = 0; d < orders_.size(); ++d) {
      lists_[d].clear();
      std::copy_if(orders_[d].begin(), orders_[d].end(), std::back_inserter(lists_[d]), used);
    }
    Tree tree;
    grow(tree, 0, lists_.front().size(), 0);
    return tree;
  }

  // The points of each leaf of the last tree, by node; empty for inner nodes.
  const std::vector<std::vector<uint32_t>>& leaf_members() const { return leaf_members_; }

 private:
  struct Sums {
    double weight = 0, values = 0, squares = 0;
    void add(double by, double value) {
      weight += by;
      values += by * value;
      squares += by * value * value;
    }
  };
  struct Split {
    double gain = 0;
    uint32_t coordinate = 0;
    double low = 0, high = 0;
    size_t left = 0;  // Number of points; 0: there is no split.
  };

  uint32_t grow(Tree& tree, size_t begin, size_t end, int depth) {
    const auto node = static_cast<uint32_t>(tree.nodes.size());
    tree.nodes.push_back({.left = node, .right = node});
    tree.depth = std::max(tree.depth, depth);
    Sums sums;
    for (size_t i = begin; i < end; ++i) add(sums, lists_.front()[i]);
    const double mean = sums.values / sums.weight;
    const double variance = std::max(sums.squares / sums.weight - mean * mean, 0.0);
    tree.means.push_back(mean);
    tree.variances.push_back(variance);
    if (rules_.keeps_members) leaf_members_.emplace_back();
    Split split;
    if (depth < rules_.depth_max && end - begin >= 2 * rules_.leaf_min && variance > 1e-14 * (1 + mean * mean))
      split = best_split(begin, end, sums);
    if (split.left == 0) {
      if (rules_.keeps_members) {
        const auto first = lists_.front().begin();
        leaf_members_[node].assign(first + static_cast<std::ptrdiff_t>(begin),
                                   first + static_cast<std::ptrdiff_t>(end));
      }
      return node;
    }
    part(split, begin, end);
    const size_t middle = begin + split.left;
    const uint32_t left = grow(tree, begin, middle, depth + 1);
    const uint32_t right = grow(tree, middle, end, depth + 1);
    tree.nodes[node] = {split.low, split.high, split.coordinate, left, right};
    return node;
  }

  void add(Sums& sums, uint32_t point) const { sums.add(weights_[point], values_[point]); }

  Split best_split(size_t begin, size_t end, const Sums& all) {
    Split best;
    for (size_t d = 0; d < lists_.size(); ++d) {
      if (coordinate(d, begin) == coordinate(d, end - 1)) continue;
      if (apart_[d] == Apartness::kOptions) {
        try_options(d, begin, end, all, best);
      } else {
        try_thresholds(d, begin, end, all, best);
      }
    }
    return best;
  }

  double coordinate(size_t d, size_t i) const { return points_[lists_[d][i]][d]; }

  // The first of equally good ones is taken.
  void consider(const Split& split, const Sums& left, const Sums& all, size_t count, Split& best) const {
    if (split.left < rules_.leaf_min || count - split.left < rules_.leaf_min) return;
    const double right = all.weight - left.weight;
    const double apart = left.values / left.weight - (all.values - left.values) / right;
    const double gain = left.weight * right / all.weight * apart * apart;
    if (best.left > 0 && gain <= best.gain) return;
    best = split;
    best.gain = gain;
  }

  void try_thresholds(size_t d, size_t begin, size_t end, const Sums& all, Split& best) {
    constexpr double kNoLow = -std::numeric_limits<double>::infinity();
    const auto which = static_cast<uint32_t>(d);
    Sums left;
    if (rules_.thresholds != nullptr) {
      // Between the outermost points that leave enough others on each side.
      const double first = coordinate(d, begin + rules_.leaf_min - 1), last = coordinate(d, end - rules_.leaf_min);
      if (first == last) return;
      const double drawn = first + (last - first) * rules_.thresholds->real();
      const double threshold = drawn < last ? drawn : first;
      size_t i = begin;
      for (; coordinate(d, i) <= threshold; ++i) add(left, lists_[d][i]);
      return consider({0, which, kNoLow, threshold, i - begin}, left, all, end - begin, best);
    }
    for (size_t i = begin; i + rules_.leaf_min < end; ++i) {
      add(left, lists_[d][i]);
      const double here = coordinate(d, i), next = coordinate(d, i + 1);
      if (here == next) continue;
      const double middle = here + (next - here) / 2;
      consider({0, which, kNoLow, middle < next ? middle : here, i + 1 - begin}, left, all, end - begin, best);
    }
  }

  void try_options(size_t d, size_t begin, size_t end, const Sums& all, Split& best) const {
    for (size_t i = begin; i < end;) {
      const double option = coordinate(d, i);
      Sums left;
      const size_t first = i;
      for (; i < end && coordinate(d, i) == option; ++i) add(left, lists_[d][i]);
      consider({0, static_cast<uint32_t>(d), option, option, i - first}, left, all, end - begin, best);
    }
  }

  void part(const Split& split, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const uint32_t point = lists_[split.coordinate][i];
      const double at = points_[point][split.coordinate];
      goes_left_[point] = split.low <= at && at <= split.high;
    }
    for (std::vector<uint32_t>& list : lists_) {
      size_t left = begin, right = 0;
      for (size_t i = begin; i < end; ++i) {
        const uint32_t point = list[i];
        if (goes_left_[point]) {
          list[left++] = point;
        } else {
          parted_[right++] = point;
        }
      }
      std::copy_n(parted_.begin(), right, list.begin() + static_cast<std::ptrdiff_t>(left));
    }
  }

  const std::vector<Apartness>& apart_;
  const std::vector<Point>& points_;
  std::vector<std::vector<uint32_t>> orders_;  // All points in the order of each coordinate.
  std::vector<std::vector<uint32_t>> lists_;   // Those of the present tree; a node has the same range of each.
  std::vector<char> goes_left_;
  std::vector<uint32_t> parted_;
  const double* values_ = nullptr;
  const uint32_t* weights_ = nullptr;
  Rules rules_;
  std::vector<std::vector<uint32_t>> leaf_members_;
};

TreeEnsemble::TreeEnsemble(const std::vector<Apartness>& apart, const std::vector<Point>& points,
                           const std::vector<double>& values, const TreeOptions& options, uint64_t seed)
    : options_(options), coordinates_(apart.size()) {
  TreeBuilder builder(apart, points);
  const size_t count = points.size();
  std::vector<uint32_t> weights(count, 1);
  if (options.kind != TreeKind::kBoosted) {
    SeededRandom random(seed);
    TreeBuilder::Rules rules{.leaf_min = options.leaf_min};
    if (options.kind == TreeKind::kExtraTrees) rules.thresholds = &random;
    for (int i = 0; i < options.trees; ++i) {
      if (options.kind == TreeKind::kRandomForest) {
        std::fill(weights.begin(), weights.end(), 0U);
        for (size_t drawn = 0; drawn < count; ++drawn) ++weights[random.below(count)];
      }
      trees_.push_back(builder.build(values, weights, rules));
    }
    return;
  }
  std::vector<double> now(count), slopes(count), rest;
  for (const double quantile : kQuantiles) {
    rest = values;
    starts_.push_back(quantile_of(rest, quantile));
    std::fill(now.begin(), now.end(), starts_.back());
    for (int stage = 0; stage < options.stages; ++stage) {
      // Minus the slope of the loss of the quantile.
      for (size_t i = 0; i < count; ++i) slopes[i] = values[i] > now[i] ? quantile : quantile - 1;
      Tree tree = builder.build(slopes, weights, {.depth_max = options.depth, .keeps_members = true});
      for (size_t node = 0; node < tree.nodes.size(); ++node) {
        const std::vector<uint32_t>& members = builder.leaf_members()[node];
        if (members.empty()) continue;
        rest.clear();
        for (const uint32_t i : members) rest.push_back(values[i] - now[i]);
        tree.means[node] = options.learning_rate * quantile_of(rest, quantile);
        for (const uint32_t i : members) now[i] += tree.means[node];
      }
      trees_.push_back(std::move(tree));
    }
  }
}

void TreeEnsemble::descend(const Tree& tree, const Panel& at, uint32_t* nodes) {
  std::fill_n(nodes, kPanel, 0U);
  for (int level = 0; level < tree.depth; ++level) {
    for (size_t c = 0; c < kPanel; ++c) {
      const Node& node = tree.nodes[nodes[c]];
      const double here = at.row(node.coordinate)[c];
      const bool left = (node.low <= here) & (here <= node.high);
      nodes[c] = left ? node.left : node.right;
    }
  }
}

PointBeliefs TreeEnsemble::beliefs(const std::vector<Point>& points) const {
  PointBeliefs out{std::vector<double>(points.size()), std::vector<double>(points.size())};
  Panel at(coordinates_);
  uint32_t nodes[kPanel];
  const bool is_boosted = options_.kind == TreeKind::kBoosted;
  const auto stages = static_cast<size_t>(options_.stages);
  for (size_t first = 0; first < points.size(); first += kPanel) {
    const size_t count = std::min(kPanel, points.size() - first);
    for (size_t c = 0; c < kPanel; ++c)
      for (size_t d = 0; d < coordinates_; ++d) at.row(d)[c] = points[first + (c < count ? c : 0)][d];
    double sums[kQuantiles.size()][kPanel] = {};  // Forests: of the means, their squares, and the variances.
    for (size_t q = 0; q < starts_.size(); ++q) std::fill_n(sums[q], kPanel, starts_[q]);
    for (size_t i = 0; i < trees_.size(); ++i) {
      const Tree& tree = trees_[i];
      descend(tree, at, nodes);
      for (size_t c = 0; c < kPanel; ++c) {
        const double mean = tree.means[nodes[c]];
        if (is_boosted) {
          sums[i / stages][c] += mean;
          continue;
        }
        sums[0][c] += mean;
        sums[1][c] += mean * mean;
        sums[2][c] += std::max(tree.variances[nodes[c]], options_.min_variance);
      }
    }
    const auto trees = static_cast<double>(trees_.size());
    for (size_t c = 0; c < count; ++c) {
      const double mean = is_boosted ? sums[1][c] : sums[0][c] / trees;
      const double deviation = std::max(sums[2][c] - sums[0][c], 0.0) / 2;
      out.means[first + c] = mean;
      out.variances[first + c] =
          is_boosted ? deviation * deviation : std::max((sums[1][c] + sums[2][c]) / trees - mean * mean, 0.0);
    }
  }
  return out;
}

}  // namespace volador::tune
