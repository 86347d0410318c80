#include "tune/searchers/parzen_estimator.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tune/searchers/fast_math.h"
#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

// For an ordered dimension with more cells the density approximates the probability of a cell.
constexpr uint64_t kCellsMax = 500;
constexpr float kMassMin = 1e-37F;
constexpr float kGuessShare = 0.5F;  // Fraction of the prior on an expected option; all options share the rest.

// sums[k] -= ((at - middle[k]) / width[k])² / 2
void add_densities(float at, const float* __restrict middle, const float* __restrict inverse, size_t count,
                   float* __restrict sums) {
  for (size_t k = 0; k < count; ++k) {
    const float z = (at - middle[k]) * inverse[k];
    sums[k] -= 0.5F * z * z;
  }
}

void cell_logarithms(float low, float high, const float* __restrict middle, const float* __restrict inverse,
                     size_t count, float* __restrict out) {
  for (size_t k = 0; k < count; ++k) {
    const float mass = fast_normal_mass((low - middle[k]) * inverse[k], (high - middle[k]) * inverse[k]);
    out[k] = fast_log(std::max(mass, kMassMin));
  }
}

// For a middle within the range, so that the mass is never near 0.
void masses_inside(float low, float high, const float* __restrict middle, const float* __restrict inverse, size_t count,
                   float* __restrict out) {
  for (size_t k = 0; k < count; ++k)
    out[k] = fast_normal_mass((low - middle[k]) * inverse[k], (high - middle[k]) * inverse[k]);
}

float log_sum(const float* __restrict sums, size_t count) {
  float most = sums[0];
  for (size_t k = 1; k < count; ++k) most = std::max(most, sums[k]);
  float total = 0;
  for (size_t k = 0; k < count; ++k) total += fast_exp(sums[k] - most);
  return most + fast_log(total);
}

}  // namespace

std::vector<double> kernel_widths(const std::vector<double>& sorted, const ParzenOptions& options,
                                  const SearchDimensions::Cell& range) {
  const size_t count = sorted.size();
  std::vector<double> widths(count);
  const double whole = range.high - range.low;
  const double narrowest = options.magic_clip ? whole / std::min(100.0, 2.0 + static_cast<double>(count)) : 1e-12;
  for (size_t i = 0; i < count; ++i) {
    double below = sorted[i] - (i > 0 ? sorted[i - 1] : range.low);
    double above = (i + 1 < count ? sorted[i + 1] : range.high) - sorted[i];
    if (!options.endpoints && count > 1 && i == 0) below = 0;
    if (!options.endpoints && count > 1 && i + 1 == count) above = 0;
    widths[i] = std::clamp(std::max(below, above), narrowest, whole);
  }
  return widths;
}

ParzenEstimator::ParzenEstimator(const SearchDimensions& dimensions, const std::vector<size_t>& which,
                                 const ParzenData& data, const ParzenOptions& options)
    : dimensions_(dimensions), which_(which), data_(data), options_(options), count_(data.weights.size() + 1) {
  cumulated_ = data.weights;
  cumulated_.push_back(data.weights.empty() ? 1 : options.prior_weight);
  double total = 0;
  for (const double weight : cumulated_) total += weight;
  double sum = 0;
  base_.reserve(count_);
  for (double& weight : cumulated_) {
    base_.push_back(fast_log(static_cast<float>(weight / total)));
    weight = sum += weight / total;
  }
  for (size_t column = 0; column < which.size(); ++column) {
    kernels_.push_back(make_kernels(which[column], column));
    const Kernels& made = kernels_.back();
    if (!made.option.empty()) continue;
    const bool density = dimensions[which[column]].cells == 0 || dimensions[which[column]].cells > kCellsMax;
    for (size_t k = 0; k < count_; ++k) {
      base_[k] += fast_log((density ? made.inverse_width[k] : 1) / made.mass[k]);
    }
  }
}

ParzenEstimator::Kernels ParzenEstimator::make_kernels(size_t dimension, size_t column) const {
  Kernels out;
  const std::vector<double>& observed = data_.columns[column];
  const auto cells = static_cast<float>(dimensions_[dimension].cells);
  const double guess = options_.guess.empty() ? kInactive : options_.guess[dimension];
  if (dimensions_[dimension].kind == SearchDimensions::Kind::kCategorical) {
    for (const double coordinate : observed)
      out.option.push_back(static_cast<uint32_t>(dimensions_.cell_of(dimension, coordinate)));
    out.option.push_back(UINT32_MAX);
    const float share = static_cast<float>(options_.prior_weight) / static_cast<float>(count_);
    out.hit = fast_log((1 + share) / (1 + cells * share));
    out.miss = fast_log(share / (1 + cells * share));
    out.prior = fast_log(1 / cells);
    if (guess != kInactive && cells > 1) {
      out.guess = static_cast<uint32_t>(dimensions_.cell_of(dimension, guess));
      out.guessed = fast_log(kGuessShare + (1 - kGuessShare) / cells);
      out.prior = fast_log((1 - kGuessShare) / cells);
    }
    return out;
  }
  std::vector<double> sorted;
  sorted.reserve(observed.size());
  for (const uint32_t k : data_.orders[column]) sorted.push_back(observed[k]);
  const SearchDimensions::Cell range = dimensions_.range(dimension);
  const std::vector<double> widths = kernel_widths(sorted, options_, range);
  const double prior_middle = guess == kInactive ? (range.low + range.high) / 2 : guess;
  const double prior_width = guess == kInactive ? range.high - range.low : options_.guess_width;
  out.middle.resize(count_, static_cast<float>(prior_middle));
  out.inverse_width.resize(count_, static_cast<float>(1 / prior_width));
  out.mass.resize(count_);
  for (size_t k = 0; k < observed.size(); ++k) out.middle[k] = static_cast<float>(observed[k]);
  for (size_t i = 0; i < sorted.size(); ++i)
    out.inverse_width[data_.orders[column][i]] = static_cast<float>(1 / widths[i]);
  masses_inside(static_cast<float>(range.low), static_cast<float>(range.high), out.middle.data(),
                out.inverse_width.data(), count_, out.mass.data());
  return out;
}

std::vector<double> ParzenEstimator::sample(Random& random) const {
  const auto found = std::upper_bound(cumulated_.begin(), cumulated_.end(), random.real());
  const size_t kernel = std::min(static_cast<size_t>(found - cumulated_.begin()), count_ - 1);
  std::vector<double> out(which_.size());
  for (size_t column = 0; column < which_.size(); ++column)
    out[column] = sample_coordinate(which_[column], kernels_[column], kernel, random);
  return out;
}

double ParzenEstimator::sample_coordinate(size_t dimension, const Kernels& kernels, size_t kernel,
                                          Random& random) const {
  const uint64_t cells = dimensions_[dimension].cells;
  if (!kernels.option.empty()) {
    // Either the uniform share of the options, or the observed option.
    const double share = options_.prior_weight / static_cast<double>(count_);
    if (kernel + 1 == count_ && kernels.guess && random.real() < kGuessShare)
      return dimensions_.middle(dimension, *kernels.guess);
    const bool observed = kernel + 1 < count_ && random.real() * (1 + static_cast<double>(cells) * share) < 1;
    return dimensions_.middle(dimension, observed ? kernels.option[kernel] : random.below(cells));
  }
  const double middle = kernels.middle[kernel];
  const double width = 1 / static_cast<double>(kernels.inverse_width[kernel]);
  double value = middle + width * normal_deviate(random);
  const SearchDimensions::Cell range = dimensions_.range(dimension);
  while (!(value >= range.low && value < range.high)) value = middle + width * normal_deviate(random);
  return cells > 0 ? dimensions_.middle(dimension, dimensions_.cell_of(dimension, value)) : value;
}

std::vector<float> ParzenEstimator::log_densities(const std::vector<std::vector<double>>& columns) const {
  const size_t candidates = columns.empty() ? 0 : columns[0].size();
  std::vector<float> sums(candidates * count_);
  for (size_t c = 0; c < candidates; ++c)
    std::copy(base_.begin(), base_.end(), sums.begin() + static_cast<ptrdiff_t>(c * count_));
  for (size_t column = 0; column < which_.size(); ++column)
    add_column(which_[column], kernels_[column], columns[column], sums);
  std::vector<float> out(candidates);
  for (size_t c = 0; c < candidates; ++c) out[c] = log_sum(sums.data() + c * count_, count_);
  return out;
}

void ParzenEstimator::add_column(size_t dimension, const Kernels& kernels, const std::vector<double>& candidates,
                                 std::vector<float>& sums) const {
  const uint64_t cells = dimensions_[dimension].cells;
  const bool by_cell = kernels.option.empty() && cells > 0 && cells <= kCellsMax;
  std::vector<std::pair<uint64_t, std::vector<float>>> known;  // Logarithms by cell: many candidates share a cell.
  for (size_t c = 0; c < candidates.size(); ++c) {
    float* own = sums.data() + c * count_;
    if (!kernels.option.empty()) {
      const auto option = static_cast<uint32_t>(dimensions_.cell_of(dimension, candidates[c]));
      for (size_t k = 0; k + 1 < count_; ++k) own[k] += kernels.option[k] == option ? kernels.hit : kernels.miss;
      own[count_ - 1] += kernels.guess == option ? kernels.guessed : kernels.prior;
    } else if (by_cell) {
      const uint64_t index = dimensions_.cell_of(dimension, candidates[c]);
      auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.first == index; });
      if (found == known.end()) {
        const SearchDimensions::Cell cell = dimensions_.cell(dimension, index);
        found = known.emplace(known.end(), index, std::vector<float>(count_));
        cell_logarithms(static_cast<float>(cell.low), static_cast<float>(cell.high), kernels.middle.data(),
                        kernels.inverse_width.data(), count_, found->second.data());
      }
      for (size_t k = 0; k < count_; ++k) own[k] += found->second[k];
    } else {
      add_densities(static_cast<float>(candidates[c]), kernels.middle.data(), kernels.inverse_width.data(), count_,
                    own);
    }
  }
}

}  // namespace volador::tune
