#include "tune/plots/fanova.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "runtime/random.h"
#include "tune/plots/regression_tree.h"

namespace volador::tune {
namespace {

using Leaf = RegressionTree::Leaf;

// Mean and standard deviation of fractions over the trees.
struct Spread {
  double sum = 0, squares = 0;
  int count = 0;
  void add(double share) {
    sum += share;
    squares += share * share;
    ++count;
  }
  double mean() const { return count == 0 ? 0 : sum / count; }
  double deviation() const { return count == 0 ? 0 : std::sqrt(std::max(0.0, squares / count - mean() * mean())); }
};

// Intervals of a parameter on which a tree is constant, with their fraction of its range.
struct Pieces {
  std::vector<double> edges;  // For a number, ascending; piece i lies between edges i and i + 1.
  std::vector<double> weights;
  bool categories = false;

  template <class F>
  void each_of(const RegressionTree::Side& side, F visit) const {
    if (categories) {
      for (uint64_t left = side.categories; left != 0; left &= left - 1)
        visit(static_cast<size_t>(std::countr_zero(left)));
      return;
    }
    auto piece = static_cast<size_t>(std::lower_bound(edges.begin(), edges.end(), side.lo) - edges.begin());
    for (; piece < weights.size() && edges[piece] < side.hi; ++piece) visit(piece);
  }
  // Fraction of the range covered by the side.
  double part(const RegressionTree::Side& side) const {
    if (categories) return std::popcount(side.categories) / static_cast<double>(weights.size());
    return (side.hi - side.lo) / (edges.back() - edges.front());
  }
};

class TreeVariance {
 public:
  TreeVariance(const FanovaData& data, const RegressionTree& tree) : tree_(tree) {
    for (const Leaf& leaf : tree.leaves()) mean_ += leaf.volume * leaf.value;
    for (const Leaf& leaf : tree.leaves()) total_ += leaf.volume * (leaf.value - mean_) * (leaf.value - mean_);
    for (size_t i = 0; i < data.parameters.size(); ++i) pieces_.push_back(pieces_of(data.parameters[i], i));
  }

  double total() const { return total_; }

  // Variance of the mean over all other parameters.
  double of(size_t parameter) const {
    const Pieces& pieces = pieces_[parameter];
    std::vector<double> means(pieces.weights.size());
    for (const Leaf& leaf : tree_.leaves()) {
      const double share = leaf.value * leaf.volume / pieces.part(leaf.box[parameter]);
      pieces.each_of(leaf.box[parameter], [&](size_t piece) { means[piece] += share; });
    }
    double variance = 0;
    for (size_t i = 0; i < means.size(); ++i) variance += pieces.weights[i] * (means[i] - mean_) * (means[i] - mean_);
    return variance;
  }

  // Variance of the mean over all but these two, including their individual contributions.
  double of(size_t a, size_t b) const {
    const Pieces& first = pieces_[a];
    const Pieces& second = pieces_[b];
    const size_t columns = second.weights.size();
    std::vector<double> means(first.weights.size() * columns);
    for (const Leaf& leaf : tree_.leaves()) {
      const double share = leaf.value * leaf.volume / first.part(leaf.box[a]) / second.part(leaf.box[b]);
      first.each_of(leaf.box[a], [&](size_t row) {
        second.each_of(leaf.box[b], [&](size_t column) { means[row * columns + column] += share; });
      });
    }
    double variance = 0;
    for (size_t i = 0; i < means.size(); ++i)
      variance += first.weights[i / columns] * second.weights[i % columns] * (means[i] - mean_) * (means[i] - mean_);
    return variance;
  }

 private:
  Pieces pieces_of(const FanovaParameter& parameter, size_t index) const {
    Pieces pieces;
    if (parameter.categories > 0) {
      pieces.categories = true;
      pieces.weights.assign(parameter.categories, 1.0 / static_cast<double>(parameter.categories));
      return pieces;
    }
    pieces.edges = {parameter.lo, parameter.hi};
    for (const Leaf& leaf : tree_.leaves()) pieces.edges.push_back(leaf.box[index].lo);
    std::sort(pieces.edges.begin(), pieces.edges.end());
    pieces.edges.erase(std::unique(pieces.edges.begin(), pieces.edges.end()), pieces.edges.end());
    for (size_t i = 1; i < pieces.edges.size(); ++i)
      pieces.weights.push_back((pieces.edges[i] - pieces.edges[i - 1]) / (parameter.hi - parameter.lo));
    return pieces;
  }

  const RegressionTree& tree_;
  double mean_ = 0, total_ = 0;
  std::vector<Pieces> pieces_;
};

Result<void> check(const FanovaData& data, const FanovaOptions& options) {
  const auto refuse = [](std::string why) {
    return make_error(ErrorCode::kInvalidArgument, "importance: " + std::move(why));
  };
  if (options.trees < 1) return refuse(fmt::format("trees must be at least 1, got {}", options.trees));
  if (data.parameters.empty()) return refuse("there is no parameter that varies");
  if (data.points.size() != data.values.size()) return refuse("there must be a value for each point");
  if (data.points.size() < 4) return refuse(fmt::format("4 points are the least, got {}", data.points.size()));
  for (size_t i = 0; i < data.parameters.size(); ++i) {
    const FanovaParameter& parameter = data.parameters[i];
    if (parameter.categories > 64)
      return refuse(fmt::format("parameter {} has {} categories; at most 64 are told apart", i, parameter.categories));
    if (parameter.categories == 0 && !(parameter.lo < parameter.hi))
      return refuse(fmt::format("parameter {} has an empty range", i));
  }
  for (const auto& point : data.points) {
    if (point.size() != data.parameters.size()) return refuse("each point needs a value for each parameter");
    for (size_t i = 0; i < point.size(); ++i) {
      const FanovaParameter& parameter = data.parameters[i];
      const double hi = parameter.categories > 0 ? static_cast<double>(parameter.categories) - 1 : parameter.hi;
      const double lo = parameter.categories > 0 ? 0 : parameter.lo;
      if (!(point[i] >= lo && point[i] <= hi))
        return refuse(fmt::format("{} of parameter {} is outside {} to {}", point[i], i, lo, hi));
    }
  }
  if (!std::all_of(data.values.begin(), data.values.end(), [](double value) { return std::isfinite(value); }))
    return refuse("values must be finite");
  if (std::all_of(data.values.begin(), data.values.end(), [&](double value) { return value == data.values.front(); }))
    return refuse("all values are equal");
  return {};
}

// Accuracy of predictions for points that their trees were not fitted to.
class OutOfBag {
 public:
  explicit OutOfBag(const FanovaData& data) : data_(data), sums_(data.values.size()), counts_(data.values.size()) {}
  void add(const RegressionTree& tree, const std::vector<bool>& seen) {
    for (size_t i = 0; i < seen.size(); ++i) {
      if (seen[i]) continue;
      sums_[i] += tree.predict(data_.points[i]);
      ++counts_[i];
    }
  }
  double fit() const {
    double mean = 0, error = 0, variance = 0;
    int count = 0;
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (counts_[i] == 0) continue;
      mean += data_.values[i];
      ++count;
    }
    mean /= std::max(count, 1);
    for (size_t i = 0; i < sums_.size(); ++i) {
      if (counts_[i] == 0) continue;
      const double missed = data_.values[i] - sums_[i] / counts_[i];
      error += missed * missed;
      variance += (data_.values[i] - mean) * (data_.values[i] - mean);
    }
    return variance > 0 ? 1 - error / variance : std::numeric_limits<double>::quiet_NaN();
  }

 private:
  const FanovaData& data_;
  std::vector<double> sums_;
  std::vector<int> counts_;
};

// Scales the values to [0, 1], so that nothing overflows.
FanovaData scaled(const FanovaData& data) {
  FanovaData out = data;
  const auto [lo, hi] = std::minmax_element(data.values.begin(), data.values.end());
  const double base = *lo / 2, range = *hi / 2 - base;
  for (double& value : out.values) value = (value / 2 - base) / range;
  return out;
}

}  // namespace

Result<Fanova> fanova(const FanovaData& given, const FanovaOptions& options) {
  VOLADOR_TRY(check(given, options));
  const FanovaData data = scaled(given);
  SeededRandom random(options.seed);
  const size_t count = data.points.size(), dimensions = data.parameters.size();
  std::vector<RegressionTree> trees;
  trees.reserve(static_cast<size_t>(options.trees));
  std::vector<TreeVariance> variances;
  OutOfBag unseen(data);
  std::vector<Spread> alone(dimensions);
  std::vector<std::vector<double>> explained;  // One row per tree, one value per parameter.
  for (int i = 0; i < options.trees; ++i) {
    std::vector<uint32_t> sample(std::min(count, std::max<size_t>(options.sample_max, 4)));
    std::vector<bool> seen(count, false);
    for (uint32_t& one : sample) {
      one = static_cast<uint32_t>(random.below(count));
      seen[one] = true;
    }
    RegressionTree& tree = trees.emplace_back(data, std::move(sample), options.leaf_min, random);
    unseen.add(tree, seen);
    const TreeVariance& variance = variances.emplace_back(data, tree);
    std::vector<double>& of = explained.emplace_back(dimensions);
    if (variance.total() <= 0) continue;
    for (size_t j = 0; j < dimensions; ++j) alone[j].add((of[j] = variance.of(j)) / variance.total());
  }
  Fanova result{.fit = unseen.fit(), .points = count};
  for (size_t j = 0; j < dimensions; ++j) result.parameters.push_back({j, alone[j].mean(), alone[j].deviation()});
  std::stable_sort(result.parameters.begin(), result.parameters.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  const size_t paired = std::min(options.pairs_of, dimensions);
  for (size_t a = 0; a < paired; ++a) {
    for (size_t b = a + 1; b < paired; ++b) {
      const auto [first, second] = std::minmax(result.parameters[a].parameter, result.parameters[b].parameter);
      Spread together;
      for (size_t i = 0; i < variances.size(); ++i) {
        if (variances[i].total() <= 0) continue;
        const double both = variances[i].of(first, second);
        together.add(std::max(0.0, both - explained[i][first] - explained[i][second]) / variances[i].total());
      }
      result.pairs.push_back({first, second, together.mean(), together.deviation()});
    }
  }
  std::stable_sort(result.pairs.begin(), result.pairs.end(),
                   [](const auto& a, const auto& b) { return a.share > b.share; });
  return result;
}

}  // namespace volador::tune
