#include "tune/searchers/gaussian_process.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tune/searchers/box_ascent.h"

namespace volador::tune {
namespace {

constexpr double kNugget = 1e-8;  // Added to the noise for numerical stability.
constexpr int kFitSteps = 60;

void put_column(const std::vector<double>& from, size_t column, Panel& to) {
  for (size_t i = 0; i < from.size(); ++i) to.row(i)[column] = from[i];
}

// Returns values × the inverse of the factored matrix.
std::vector<double> solved_by(const PanelFactor& factor, const std::vector<double>& values) {
  Panel panel(values.size());
  put_column(values, 0, panel);
  factor.solve_lower(panel);
  factor.solve_upper(panel);
  std::vector<double> out(values.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = panel.row(i)[0];
  return out;
}

// Returns points as columns; missing columns repeat the first point.
Panel columns_of(const Point* const* points, size_t count) {
  Panel panel(points[0]->size());
  for (size_t c = 0; c < kPanel; ++c) put_column(*points[c < count ? c : 0], c, panel);
  return panel;
}

// Whether the coordinate is compared by its difference; otherwise its slope is 0.
bool is_number(Apartness apart, double a, double b) {
  return apart == Apartness::kNumbers || (apart == Apartness::kConditional && a != kInactive && b != kInactive);
}

std::vector<double> weights_of(const GpLengths& lengths) {
  std::vector<double> out;
  for (const double one : lengths.inverse_squares) out.push_back(std::exp(one));
  return out;
}

}  // namespace

std::vector<Apartness> apartness_of(const SearchDimensions& dimensions) {
  std::vector<Apartness> out;
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const auto& one = dimensions[d];
    out.push_back(one.kind == SearchDimensions::Kind::kCategorical ? Apartness::kOptions
                  : one.parent                                     ? Apartness::kConditional
                                                                   : Apartness::kNumbers);
  }
  return out;
}

void GaussianProcess::learn(const GpData& data, const GpLengths& lengths) {
  size_t known = 0;
  if (lengths.inverse_squares == lengths_.inverse_squares && lengths.signal == lengths_.signal &&
      lengths.noise == lengths_.noise) {
    const size_t both = std::min(noisy_, data.points.size() - data.certain);
    while (known < both && points_[known] == data.points[known]) ++known;
  }
  lengths_ = lengths;
  weights_ = weights_of(lengths);
  signal_ = std::exp(lengths.signal);
  const double noise = std::exp(lengths.noise);
  noisy_ = data.points.size() - data.certain;
  points_.resize(known);
  points_.insert(points_.end(), data.points.begin() + static_cast<std::ptrdiff_t>(known), data.points.end());
  factor_.truncate(known);
  factor_.extend(points_.size(), [&](size_t first, Panel& panel) {
    std::vector<const Point*> own;
    for (size_t i = first; i < std::min(first + kPanel, points_.size()); ++i) own.push_back(&points_[i]);
    const Panel at = columns_of(own.data(), own.size());
    double squared[kPanel], slope[kPanel];
    for (size_t i = 0; i < first + own.size(); ++i) {
      squared_distances(at, points_[i].data(), apart_, weights_, squared);
      matern_kernel(squared, signal_, panel.row(i), slope);
      if (i >= first) panel.row(i)[i - first] += (i < noisy_ ? noise : 0) + kNugget;
    }
  });
  values_ = data.values;
  solved_ = solved_by(factor_, data.values);
}

Panel GaussianProcess::kernel_of(const Panel& at, Panel* slopes) const {
  Panel out(points_.size());
  if (slopes != nullptr) slopes->resize(points_.size());
  double squared[kPanel], unused[kPanel];
  for (size_t i = 0; i < points_.size(); ++i) {
    squared_distances(at, points_[i].data(), apart_, weights_, squared);
    matern_kernel(squared, signal_, out.row(i), slopes != nullptr ? slopes->row(i) : unused);
  }
  return out;
}

GaussianProcess::Beliefs GaussianProcess::means_of(const Panel& kernel) const {
  Beliefs out{};
  for (size_t i = 0; i < points_.size(); ++i)
    for (size_t c = 0; c < kPanel; ++c) out[c] += solved_[i] * kernel.row(i)[c];
  return out;
}

GaussianProcess::Beliefs GaussianProcess::variances_of(Panel& kernel) const {
  factor_.solve_lower(kernel);
  Beliefs out;
  out.fill(signal_);
  for (size_t i = 0; i < points_.size(); ++i)
    for (size_t c = 0; c < kPanel; ++c) out[c] -= kernel.row(i)[c] * kernel.row(i)[c];
  return out;
}

double GaussianProcess::mean(const Point& at) const {
  const Point* one = &at;
  return means_of(kernel_of(columns_of(&one, 1), nullptr))[0];
}

std::vector<double> GaussianProcess::scores(const std::vector<Point>& points, const Criterion& criterion) const {
  std::vector<double> out(points.size());
  for (const auto& [score, index] : most_promising(points, criterion, points.size())) out[index] = score;
  return out;
}

std::vector<std::pair<double, size_t>> GaussianProcess::most_promising(const std::vector<Point>& points,
                                                                       const Criterion& criterion, size_t count) const {
  // Upper bound for each point: its score if nothing were known near it.
  std::vector<std::pair<double, size_t>> hopes;
  std::vector<const Point*> group;
  for (size_t first = 0; first < points.size(); first += kPanel) {
    group.clear();
    for (size_t i = first; i < std::min(first + kPanel, points.size()); ++i) group.push_back(&points[i]);
    const Beliefs mean = means_of(kernel_of(columns_of(group.data(), group.size()), nullptr));
    for (size_t c = 0; c < group.size(); ++c) hopes.emplace_back(criterion.bound(mean[c], signal_), first + c);
  }
  const auto more = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  std::sort(hopes.begin(), hopes.end(), more);
  std::vector<std::pair<double, size_t>> out;
  for (size_t first = 0; first < hopes.size(); first += kPanel) {
    if (out.size() >= count && count > 0) {
      std::nth_element(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count - 1), out.end(), more);
      if (hopes[first].first <= out[count - 1].first) break;
    }
    group.clear();
    for (size_t i = first; i < std::min(first + kPanel, hopes.size()); ++i) group.push_back(&points[hopes[i].second]);
    Panel kernel = kernel_of(columns_of(group.data(), group.size()), nullptr);
    const Beliefs mean = means_of(kernel);
    const Beliefs variance = variances_of(kernel);
    for (size_t c = 0; c < group.size(); ++c)
      out.emplace_back(criterion.score(mean[c], variance[c]), hopes[first + c].second);
  }
  std::sort(out.begin(), out.end(), more);
  return out;
}

std::vector<PointBeliefs> GaussianProcess::beliefs_so_far(const std::vector<Point>& points) const {
  // The factor of the first data points is the upper left part of the whole one.
  Panel values(points_.size());
  put_column(values_, 0, values);
  factor_.solve_lower(values);
  std::vector<PointBeliefs> out(noisy_);
  for (PointBeliefs& one : out) one = {std::vector<double>(points.size()), std::vector<double>(points.size())};
  std::vector<const Point*> group;
  for (size_t first = 0; first < points.size(); first += kPanel) {
    group.clear();
    for (size_t i = first; i < std::min(first + kPanel, points.size()); ++i) group.push_back(&points[i]);
    Panel kernel = kernel_of(columns_of(group.data(), group.size()), nullptr);
    factor_.solve_lower(kernel);
    Beliefs mean{}, variance;
    variance.fill(signal_);
    for (size_t i = 0; i < noisy_; ++i) {
      for (size_t c = 0; c < kPanel; ++c) {
        mean[c] += values.row(i)[0] * kernel.row(i)[c];
        variance[c] -= kernel.row(i)[c] * kernel.row(i)[c];
      }
      std::copy_n(mean.begin(), group.size(), out[i].means.begin() + static_cast<std::ptrdiff_t>(first));
      std::copy_n(variance.begin(), group.size(), out[i].variances.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  return out;
}

std::vector<GaussianProcess::Slope> GaussianProcess::slopes(const std::vector<const Point*>& points,
                                                            const Criterion& criterion) const {
  const Panel at = columns_of(points.data(), points.size());
  Panel steep;
  Panel inner = kernel_of(at, &steep);
  const Beliefs mean = means_of(inner);
  const Beliefs variance = variances_of(inner);
  factor_.solve_upper(inner);
  std::vector<Slope> out(points.size());
  double by_mean[kPanel] = {}, by_variance[kPanel] = {};
  for (size_t c = 0; c < points.size(); ++c) {
    const Criterion::Slope slope = criterion.slope(mean[c], variance[c]);
    by_mean[c] = slope.by_mean;
    by_variance[c] = slope.by_variance;
    out[c].value = slope.score;
  }
  const size_t dimensions = apart_.size();
  Panel sums(dimensions);
  for (size_t i = 0; i < points_.size(); ++i) {
    double pull[kPanel];
    for (size_t c = 0; c < kPanel; ++c)
      pull[c] = (by_mean[c] * solved_[i] - 2 * by_variance[c] * inner.row(i)[c]) * 2 * steep.row(i)[c];
    for (size_t d = 0; d < dimensions; ++d) {
      const double other = points_[i][d];
      if (apart_[d] == Apartness::kOptions || (apart_[d] == Apartness::kConditional && other == kInactive)) continue;
      for (size_t c = 0; c < kPanel; ++c) sums.row(d)[c] += pull[c] * (at.row(d)[c] - other);
    }
  }
  for (size_t c = 0; c < points.size(); ++c) {
    for (size_t d = 0; d < dimensions; ++d) {
      const double here = (*points[c])[d];
      out[c].by.push_back(is_number(apart_[d], here, here) ? weights_[d] * sums.row(d)[c] : 0);
    }
  }
  return out;
}

// ---- Length scales.

namespace {

// Data shared by all steps of a fit.
class Likelihood {
 public:
  Likelihood(const std::vector<Apartness>& apart, const GpData& data)
      : apart_(apart), data_(data), n_(data.points.size()) {
    for (size_t first = 0; first < n_; first += kPanel) {
      std::vector<const Point*> own;
      for (size_t i = first; i < std::min(first + kPanel, n_); ++i) own.push_back(&data.points[i]);
      groups_.push_back({columns_of(own.data(), own.size()), Panel(n_), Panel(n_), own.size()});
    }
  }

  double operator()(const GpLengths& lengths, std::vector<double>& slope) {
    const std::vector<double> weights = weights_of(lengths);
    const double signal = std::exp(lengths.signal), noise = std::exp(lengths.noise);
    double squared[kPanel];
    for (Group& group : groups_) {
      for (size_t i = 0; i < n_; ++i) {
        squared_distances(group.at, data_.points[i].data(), apart_, weights, squared);
        matern_kernel(squared, signal, group.kernel.row(i), group.steep.row(i));
      }
    }
    PanelFactor factor;
    factor.extend(n_, [&](size_t first, Panel& panel) {
      const Group& group = groups_[first / kPanel];
      for (size_t i = 0; i < first + group.count; ++i) std::copy_n(group.kernel.row(i), kPanel, panel.row(i));
      for (size_t c = 0; c < group.count; ++c) panel.row(first + c)[c] += noise + kNugget;
    });
    const std::vector<double> solved = solved_by(factor, data_.values);
    double fit = 0;
    for (size_t i = 0; i < n_; ++i) fit += data_.values[i] * solved[i];
    double out = -0.5 * fit - 0.5 * factor.log_determinant();

    // Half the trace of (solved solvedᵀ - inverse) × the derivative of the matrix.
    const size_t dimensions = apart_.size();
    slope.assign(dimensions + 2, 0);
    for (size_t g = 0; g < groups_.size(); ++g) {
      const Group& group = groups_[g];
      const size_t first = g * kPanel;
      Panel pull(n_);
      for (size_t c = 0; c < group.count; ++c) pull.row(first + c)[c] = 1;
      factor.solve_lower(pull);
      factor.solve_upper(pull);
      for (size_t i = 0; i < n_; ++i) {
        double* own = pull.row(i);
        for (size_t c = 0; c < kPanel; ++c) own[c] = c < group.count ? solved[i] * solved[first + c] - own[c] : 0;
        for (size_t c = 0; c < kPanel; ++c) slope[dimensions] += 0.5 * own[c] * group.kernel.row(i)[c];
        if (i >= first && i < first + group.count) slope[dimensions + 1] += 0.5 * noise * own[i - first];
        for (size_t c = 0; c < kPanel; ++c) own[c] *= group.steep.row(i)[c];
      }
      add_slopes(group, pull, slope);
    }
    for (size_t d = 0; d < dimensions; ++d) {
      slope[d] = weights[d] * slope[d] - 0.1 * weights[d] + 0.1 / weights[d];
      out -= 0.1 / weights[d] + 0.1 * weights[d];
    }
    slope[dimensions] += 1 - signal;
    slope[dimensions + 1] += 0.1 - 30 * noise;
    return out + lengths.signal - signal + 0.1 * lengths.noise - 30 * noise;
  }

 private:
  struct Group {  // kPanel points beside all others.
    Panel at, kernel, steep;
    size_t count;
  };

  void add_slopes(const Group& group, const Panel& pull, std::vector<double>& slope) const {
    for (size_t d = 0; d < apart_.size(); ++d) {
      const std::vector<Apartness> own = {apart_[d]};
      const double* at = group.at.row(d);
      double sums[kPanel] = {};
      for (size_t i = 0; i < n_; ++i) {
        const double other = data_.points[i][d];
        const double* by = pull.row(i);
        if (own[0] == Apartness::kNumbers) {
          for (size_t c = 0; c < kPanel; ++c) sums[c] += by[c] * ((at[c] - other) * (at[c] - other));
        } else {
          for (size_t c = 0; c < kPanel; ++c) {
            const double apart = is_number(own[0], at[c], other) ? (at[c] - other) * (at[c] - other) : 1;
            sums[c] += at[c] == other ? 0 : by[c] * apart;
          }
        }
      }
      for (const double one : sums) slope[d] += 0.5 * one;
    }
  }

  const std::vector<Apartness>& apart_;
  const GpData& data_;
  const size_t n_;
  std::vector<Group> groups_;
};

}  // namespace

double log_likelihood(const std::vector<Apartness>& apart, const GpData& data, const GpLengths& lengths,
                      std::vector<double>& slope) {
  return Likelihood(apart, data)(lengths, slope);
}

GpLengths likeliest_lengths(const std::vector<Apartness>& apart, const GpData& data,
                            const std::vector<GpLengths>& starts) {
  const size_t dimensions = apart.size();
  BoxAscentOptions options{.judged_max = kFitSteps, .first_step = 0.3, .gain_least = 1e-4};
  options.low.assign(dimensions + 2, -9);
  options.high.assign(dimensions + 2, 9);
  options.low[dimensions + 1] = std::log(1e-6);
  options.high[dimensions + 1] = 0;
  Likelihood likelihood(apart, data);
  GpLengths best = starts.front();
  double most = -std::numeric_limits<double>::infinity();
  for (const GpLengths& start : starts) {
    std::vector<double> numbers = start.inverse_squares;
    numbers.push_back(start.signal);
    numbers.push_back(start.noise);
    BoxAscent ascent(options, std::move(numbers));
    const auto lengths_at = [dimensions](const std::vector<double>& all) {
      return GpLengths{
          {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(dimensions)}, all[dimensions], all[dimensions + 1]};
    };
    std::vector<double> slope;
    while (!ascent.done()) {
      const double value = likelihood(lengths_at(ascent.at()), slope);
      ascent.told(value, slope);
    }
    if (ascent.best_value() > most) {
      most = ascent.best_value();
      best = lengths_at(ascent.best());
    }
  }
  return best;
}

}  // namespace volador::tune
