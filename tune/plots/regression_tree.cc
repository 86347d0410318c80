#include "tune/plots/regression_tree.h"

#include <algorithm>
#include <bit>

namespace volador::tune {
namespace {

constexpr double kGainMin = 1e-12;  // Reduction of the squared error, relative to the scale of the values.

uint64_t bit(double category) { return uint64_t{1} << static_cast<unsigned>(category); }

}  // namespace

RegressionTree::RegressionTree(const FanovaData& data, std::vector<uint32_t> sample, int leaf_min, Random& random)
    : data_(data), sample_(std::move(sample)), leaf_min_(std::max(leaf_min, 1)), random_(random) {
  std::vector<Side> box;
  for (const FanovaParameter& parameter : data.parameters) {
    const uint64_t all = parameter.categories >= 64 ? ~uint64_t{0} : (uint64_t{1} << parameter.categories) - 1;
    box.push_back({parameter.lo, parameter.hi, all});
  }
  grow(0, sample_.size(), box);
}

double RegressionTree::predict(const std::vector<double>& point) const {
  size_t at = 0;
  while (nodes_[at].left >= 0) {
    const Node& node = nodes_[at];
    const double value = point[node.parameter];
    const bool left =
        data_.parameters[node.parameter].categories > 0 ? (node.categories & bit(value)) != 0 : value < node.threshold;
    at = static_cast<size_t>(left ? node.left : node.right);
  }
  return leaves_[nodes_[at].leaf].value;
}

double RegressionTree::volume_of(const std::vector<Side>& box) const {
  double volume = 1;
  for (size_t i = 0; i < box.size(); ++i) {
    const FanovaParameter& parameter = data_.parameters[i];
    volume *= parameter.categories > 0 ? std::popcount(box[i].categories) / static_cast<double>(parameter.categories)
                                       : (box[i].hi - box[i].lo) / (parameter.hi - parameter.lo);
  }
  return volume;
}

int RegressionTree::add_leaf(size_t begin, size_t end, const std::vector<Side>& box) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += data_.values[sample_[i]];
  leaves_.push_back({box, sum / static_cast<double>(end - begin), volume_of(box)});
  nodes_.push_back({.leaf = leaves_.size() - 1});
  return static_cast<int>(nodes_.size()) - 1;
}

int RegressionTree::grow(size_t begin, size_t end, std::vector<Side>& box) {
  const Split split = end - begin < 2 * static_cast<size_t>(leaf_min_) ? Split() : best_split(begin, end);
  if (!split.found) return add_leaf(begin, end, box);
  const auto middle = std::partition(sample_.begin() + static_cast<std::ptrdiff_t>(begin),
                                     sample_.begin() + static_cast<std::ptrdiff_t>(end),
                                     [&](uint32_t point) { return goes_left(split, point); });
  const auto cut = static_cast<size_t>(middle - sample_.begin());
  const size_t at = nodes_.size();
  nodes_.push_back({.parameter = split.parameter, .threshold = split.threshold, .categories = split.categories});
  Side& side = box[split.parameter];
  const Side whole = side;
  side.hi = split.threshold;
  side.categories = whole.categories & split.categories;
  const int left = grow(begin, cut, box);
  side = {split.threshold, whole.hi, whole.categories & ~split.categories};
  const int right = grow(cut, end, box);
  side = whole;
  nodes_[at].left = left;
  nodes_[at].right = right;
  return static_cast<int>(at);
}

bool RegressionTree::goes_left(const Split& split, uint32_t point) const {
  const double value = data_.points[point][split.parameter];
  return data_.parameters[split.parameter].categories > 0 ? (split.categories & bit(value)) != 0
                                                          : value < split.threshold;
}

RegressionTree::Split RegressionTree::best_split(size_t begin, size_t end) {
  double size = 0;
  for (size_t i = begin; i < end; ++i) size += data_.values[sample_[i]] * data_.values[sample_[i]];
  Split best{.gain = kGainMin * size};
  std::vector<size_t> order(data_.parameters.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const size_t looked_at = order.size() < 3 ? order.size() : (order.size() * 5 + 5) / 6;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i >= looked_at && best.found) break;
    std::swap(order[i], order[i + random_.below(order.size() - i)]);
    if (data_.parameters[order[i]].categories > 0) {
      try_categories(order[i], begin, end, best);
    } else {
      try_number(order[i], begin, end, best);
    }
  }
  return best;
}

void RegressionTree::try_number(size_t parameter, size_t begin, size_t end, Split& best) {
  sorted_.assign(sample_.begin() + static_cast<std::ptrdiff_t>(begin),
                 sample_.begin() + static_cast<std::ptrdiff_t>(end));
  const auto value = [&](uint32_t point) { return data_.points[point][parameter]; };
  std::sort(sorted_.begin(), sorted_.end(),
            [&](uint32_t a, uint32_t b) { return value(a) != value(b) ? value(a) < value(b) : a < b; });
  double total = 0;
  for (const uint32_t point : sorted_) total += data_.values[point];
  const auto count = static_cast<double>(sorted_.size());
  const auto least = static_cast<size_t>(leaf_min_);
  double sum = 0;
  for (size_t i = 1; i < sorted_.size(); ++i) {
    sum += data_.values[sorted_[i - 1]];
    const double before = value(sorted_[i - 1]), after = value(sorted_[i]);
    if (i < least || sorted_.size() - i < least || before == after) continue;
    const auto left = static_cast<double>(i);
    const double gain = sum * sum / left + (total - sum) * (total - sum) / (count - left) - total * total / count;
    const double threshold = before + (after - before) / 2;
    if (gain > best.gain && threshold > before) best = {gain, parameter, threshold, 0, true};
  }
}

// With categories sorted by their means, one cut is the best of all subsets (Breiman et al., 1984).
void RegressionTree::try_categories(size_t parameter, size_t begin, size_t end, Split& best) {
  struct Group {
    double sum = 0;
    size_t count = 0;
    uint64_t mask = 0;
  };
  std::vector<Group> groups(data_.parameters[parameter].categories);
  double total = 0;
  for (size_t i = begin; i < end; ++i) {
    const double category = data_.points[sample_[i]][parameter];
    Group& group = groups[static_cast<size_t>(category)];
    group.sum += data_.values[sample_[i]];
    ++group.count;
    group.mask = bit(category);
    total += data_.values[sample_[i]];
  }
  std::erase_if(groups, [](const Group& group) { return group.count == 0; });
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.sum / static_cast<double>(a.count) < b.sum / static_cast<double>(b.count);
  });
  const size_t count = end - begin;
  const auto least = static_cast<size_t>(leaf_min_);
  double sum = 0;
  size_t left = 0;
  uint64_t mask = 0;
  for (size_t i = 0; i + 1 < groups.size(); ++i) {
    sum += groups[i].sum;
    left += groups[i].count;
    mask |= groups[i].mask;
    if (left < least || count - left < least) continue;
    const double gain = sum * sum / static_cast<double>(left) +
                        (total - sum) * (total - sum) / static_cast<double>(count - left) -
                        total * total / static_cast<double>(count);
    if (gain > best.gain) best = {gain, parameter, 0, mask, true};
  }
}

}  // namespace volador::tune
