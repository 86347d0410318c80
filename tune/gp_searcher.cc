#include "tune/gp_searcher.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>

#include "tune/ask_ahead.h"
#include "tune/model_searcher.h"
#include "tune/snapshot.h"
#include "tune/sobol_searcher.h"

namespace volador::tune {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kRootOfFive = 2.23606797749979;
constexpr size_t kFitMax = 200;    // Trials that lengths are fitted to.
constexpr int64_t kRefitMax = 20;  // Results between fits.
constexpr int kFitSteps = 60;
constexpr size_t kManyPoints = 1'000;  // Points where the search for the largest improvement begins …
constexpr size_t kFewPoints = 500;     // … and with more than kFitMax trials.
constexpr size_t kStarts = 6;
constexpr int kClimbs = 40;
constexpr uint64_t kCellsTried = 16;  // Values of an ordered parameter that are all tried, beside steps.

struct Lengths {  // Logarithms.
  VectorXd inverse_squares;
  double signal = 0;
  double noise = std::log(1e-3);
};

double matern(double squared) {
  const double r = kRootOfFive * std::sqrt(squared);
  return (1 + r + r * r / 3) * std::exp(-r);
}
// By the squared distance.
double matern_slope(double squared) {
  const double r = kRootOfFive * std::sqrt(squared);
  return -5.0 / 6 * (1 + r) * std::exp(-r);
}

// How far apart two values are: options differ or not; one that is not active differs from all that are.
struct Metric {
  explicit Metric(const SearchDimensions& dimensions) {
    for (size_t i = 0; i < dimensions.size(); ++i)
      categorical.push_back(dimensions[i].kind == SearchDimensions::Kind::kCategorical);
  }
  double squared(size_t dimension, double a, double b) const {
    if (a == b) return 0;
    if (categorical[dimension] || a == kInactive || b == kInactive) return 1;
    return (a - b) * (a - b);
  }
  std::vector<bool> categorical;
};

struct Data {
  std::vector<Point> points;
  VectorXd values;  // Of mean 0 and deviation 1.
};

// ---- The process.

class Process {
 public:
  Process(const Metric& metric, const Data& data, const Lengths& lengths)
      : metric_(metric),
        data_(data),
        weights_(lengths.inverse_squares.array().exp()),
        signal_(std::exp(lengths.signal)) {
    const auto n = static_cast<Eigen::Index>(data.points.size());
    MatrixXd covariance(n, n);
    for (Eigen::Index j = 0; j < n; ++j) {
      for (Eigen::Index i = j; i < n; ++i) covariance(i, j) = signal_ * matern(distance(point(i), point(j)));
      covariance(j, j) += std::exp(lengths.noise) + 1e-8;
    }
    root_.compute(covariance);
    solved_ = root_.solve(data.values);
  }

  double mean(const Point& at) const { return covariances(at).dot(solved_); }

  // The logarithm of the improvement over `best` that is expected at each point.
  VectorXd log_improvements(const std::vector<Point>& points, double best) const {
    const auto count = static_cast<Eigen::Index>(points.size());
    MatrixXd cross(solved_.size(), count);
    for (Eigen::Index c = 0; c < count; ++c) cross.col(c) = covariances(points[static_cast<size_t>(c)]);
    const VectorXd means = cross.transpose() * solved_;
    root_.matrixL().solveInPlace(cross);
    VectorXd out(count);
    for (Eigen::Index c = 0; c < count; ++c)
      out[c] = log_improvement(means[c], signal_ - cross.col(c).squaredNorm(), best);
    return out;
  }

  // And its slope by each coordinate that is a number and active.
  double log_improvement(const Point& at, double best, VectorXd& slope) const {
    const VectorXd k = covariances(at);
    const VectorXd inner = root_.solve(k);
    const double mean = k.dot(solved_);
    const double variance = std::max(signal_ - k.dot(inner), 1e-12);
    const double deviation = std::sqrt(variance);
    const double u = (best - mean) / deviation;
    VectorXd mean_slope = VectorXd::Zero(slope.size());
    VectorXd variance_slope = VectorXd::Zero(slope.size());
    for (Eigen::Index i = 0; i < k.size(); ++i) {
      const Point& other = point(i);
      const double steep = signal_ * matern_slope(distance(at, other)) * 2;
      for (size_t d = 0; d < at.size(); ++d) {
        if (metric_.categorical[d] || at[d] == kInactive || other[d] == kInactive) continue;
        const auto column = static_cast<Eigen::Index>(d);
        const double one = steep * weights_[column] * (at[d] - other[d]);
        mean_slope[column] += solved_[i] * one;
        variance_slope[column] -= 2 * inner[i] * one;
      }
    }
    const double logarithm = log_unit_improvement(u);
    // Of σ h(u), h' = Φ: (h - u Φ) / (σ h) by σ, -Φ / (σ h) by the mean; h - u Φ is the density.
    const double h = std::exp(logarithm);
    const double below = h > 1e-280 ? std::erfc(-u / std::numbers::sqrt2) / 2 / h : -u;
    const double density = h > 1e-280 ? std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi) / h : u * u;
    slope = -below / deviation * mean_slope + density / deviation * (variance_slope / (2 * deviation));
    return std::log(deviation) + logarithm;
  }

 private:
  const Point& point(Eigen::Index i) const { return data_.points[static_cast<size_t>(i)]; }
  double distance(const Point& a, const Point& b) const {
    double sum = 0;
    for (size_t d = 0; d < a.size(); ++d)
      sum += weights_[static_cast<Eigen::Index>(d)] * metric_.squared(d, a[d], b[d]);
    return sum;
  }
  VectorXd covariances(const Point& at) const {
    VectorXd out(static_cast<Eigen::Index>(data_.points.size()));
    for (Eigen::Index i = 0; i < out.size(); ++i) out[i] = signal_ * matern(distance(at, point(i)));
    return out;
  }
  // log(u Φ(u) + φ(u)): of small u by its asymptote, where the terms cancel each other.
  static double log_unit_improvement(double u) {
    if (u < -6)
      return -u * u / 2 - std::log(std::sqrt(2 * std::numbers::pi)) - 2 * std::log(-u) + std::log1p(-3 / (u * u));
    const double density = std::exp(-u * u / 2) / std::sqrt(2 * std::numbers::pi);
    return std::log(density + u * std::erfc(-u / std::numbers::sqrt2) / 2);
  }
  static double log_improvement(double mean, double variance, double best) {
    const double deviation = std::sqrt(std::max(variance, 1e-12));
    return std::log(deviation) + log_unit_improvement((best - mean) / deviation);
  }

  const Metric& metric_;
  const Data& data_;
  const VectorXd weights_;
  const double signal_;
  Eigen::LLT<MatrixXd> root_;
  VectorXd solved_;
};

// ---- The lengths.

// Finds those that make data and priors most likely, by steps whose size follows the signs of the slopes (Igel and
// Hüsken, iRprop, 2003).
class Fitter {
 public:
  Fitter(const Metric& metric, const Data& data) : data_(data), n_(data.values.size()) {
    const size_t dimensions = metric.categorical.size();
    for (size_t d = 0; d < dimensions; ++d) {
      MatrixXd squares(n_, n_);
      for (Eigen::Index j = 0; j < n_; ++j) {
        for (Eigen::Index i = 0; i < n_; ++i)
          squares(i, j) =
              metric.squared(d, data.points[static_cast<size_t>(i)][d], data.points[static_cast<size_t>(j)][d]);
      }
      squares_.push_back(std::move(squares));
    }
  }

  // Starts from each, and gives the best.
  Lengths fit(const std::vector<Lengths>& starts) const {
    Lengths best = starts.front();
    double least = std::numeric_limits<double>::infinity();
    for (const Lengths& start : starts) {
      const auto [lengths, loss] = descend(start);
      if (loss < least) {
        least = loss;
        best = lengths;
      }
    }
    return best;
  }

 private:
  std::pair<Lengths, double> descend(Lengths at) const {
    const Eigen::Index count = at.inverse_squares.size() + 2;
    VectorXd steps = VectorXd::Constant(count, 0.3);
    VectorXd before = VectorXd::Zero(count);
    std::pair<Lengths, double> best{at, std::numeric_limits<double>::infinity()};
    for (int step = 0; step < kFitSteps; ++step) {
      VectorXd slope(count);
      const double loss = loss_of(at, slope);
      if (!std::isfinite(loss) || !slope.allFinite()) break;
      if (loss < best.second) best = {at, loss};
      for (Eigen::Index i = 0; i < count; ++i) {
        const double sign = before[i] * slope[i];
        if (sign > 0) steps[i] = std::min(steps[i] * 1.3, 1.0);
        if (sign < 0) {
          steps[i] = std::max(steps[i] * 0.5, 1e-3);
          slope[i] = 0;
        }
        const double move = slope[i] > 0 ? -steps[i] : (slope[i] < 0 ? steps[i] : 0);
        double& value = i < count - 2 ? at.inverse_squares[i] : (i == count - 2 ? at.signal : at.noise);
        const double low = i == count - 1 ? std::log(1e-6) : -9;
        value = std::clamp(value + move, low, i == count - 1 ? 0.0 : 9.0);
      }
      before = slope;
      if (steps.maxCoeff() < 2e-3) break;
    }
    return best;
  }

  // Less is likelier. Priors are those of Optuna: few parameters matter much, little noise.
  double loss_of(const Lengths& at, VectorXd& slope) const {
    const VectorXd weights = at.inverse_squares.array().exp();
    const double signal = std::exp(at.signal);
    const double noise = std::exp(at.noise);
    MatrixXd distances = MatrixXd::Zero(n_, n_);
    for (size_t d = 0; d < squares_.size(); ++d) distances += weights[static_cast<Eigen::Index>(d)] * squares_[d];
    const MatrixXd unit = distances.unaryExpr([](double r) { return matern(r); });
    MatrixXd covariance = signal * unit;
    covariance.diagonal().array() += noise + 1e-8;
    const Eigen::LLT<MatrixXd> root(covariance);
    if (root.info() != Eigen::Success) return std::numeric_limits<double>::infinity();
    const VectorXd solved = root.solve(data_.values);
    const MatrixXd inverse = root.solve(MatrixXd::Identity(n_, n_));
    const MatrixXd pull = inverse - solved * solved.transpose();
    const MatrixXd by_distance =
        (signal * distances.unaryExpr([](double r) { return matern_slope(r); })).cwiseProduct(pull);
    double loss = 0.5 * data_.values.dot(solved) + root.matrixLLT().diagonal().array().log().sum();
    for (size_t d = 0; d < squares_.size(); ++d) {
      const auto i = static_cast<Eigen::Index>(d);
      slope[i] = 0.5 * weights[i] * by_distance.cwiseProduct(squares_[d]).sum() + 0.1 * weights[i] - 0.1 / weights[i];
      loss += 0.1 / weights[i] + 0.1 * weights[i];
    }
    const auto last = static_cast<Eigen::Index>(squares_.size());
    slope[last] = 0.5 * signal * pull.cwiseProduct(unit).sum() + signal - 1;
    slope[last + 1] = 0.5 * noise * pull.trace() + 30 * noise - 0.1;
    return loss + signal - at.signal + 30 * noise - 0.1 * at.noise;
  }

  const Data& data_;
  const Eigen::Index n_;
  std::vector<MatrixXd> squares_;
};

// ---- The model.

class GpModel final : public SearchModel {
 public:
  GpModel(const ModelContext& context, const GpOptions& options)
      : dimensions_(context.dimensions),
        seed_(context.seed),
        options_(options),
        metric_(dimensions_),
        startup_(std::min(dimensions_.size(), kSobolDimensionsMax), seed_) {
    lengths_.inverse_squares = VectorXd::Zero(static_cast<Eigen::Index>(dimensions_.size()));
  }

  std::vector<Point> propose(int64_t index, int attempt) override {
    SeededRandom random = model_random(seed_, index, attempt);
    if (ended_ < options_.n_startup_trials || dimensions_.size() == 0) return {startup_point(index, attempt, random)};
    Data data = data_of(kept(static_cast<size_t>(options_.history_max)));
    const double best = data.values.minCoeff();
    refit();
    const Process real(metric_, data, lengths_);
    if (running_.empty()) return climb(real, data, best, random);
    // What runs will give what the model expects.
    std::vector<double> expected(data.values.begin(), data.values.end());
    for (const auto& [other, point] : running_) expected.push_back(real.mean(point));
    for (const auto& [other, point] : running_) data.points.push_back(point);
    data.values = Eigen::Map<const VectorXd>(expected.data(), static_cast<Eigen::Index>(expected.size()));
    return climb(Process(metric_, data, lengths_), data, best, random);
  }

  void taken(int64_t index, const Point& point) override { running_.insert_or_assign(index, point); }

  void ended(int64_t index, double value) override {
    const auto found = running_.find(index);
    if (found == running_.end()) return;
    trials_.push_back({index, std::move(found->second), value});
    running_.erase(found);
    ++ended_;
    if (static_cast<int64_t>(trials_.size()) > options_.history_max) forget_one();
  }

  std::string describe() const override { return "Gaussian process"; }

  Config state() const override {
    const auto list = [](const auto& all, const auto& entry) {
      Config out = Config::list({});
      for (const auto& one : all) out.push_back(entry(one));
      return out;
    };
    Config trials = list(trials_, [](const Trial& one) {
      return Config{{"index", one.index}, {"point", SearchDimensions::to_text(one.point)}, {"value", one.value}};
    });
    Config running = list(running_, [](const auto& one) {
      return Config{{"index", one.first}, {"point", SearchDimensions::to_text(one.second)}};
    });
    const VectorXd& all = lengths_.inverse_squares;
    return {{"trials", std::move(trials)},
            {"running", std::move(running)},
            {"ended", ended_},
            {"fitted", fitted_},
            {"inverse_squares", SearchDimensions::to_text({all.data(), all.data() + all.size()})},
            {"signal", lengths_.signal},
            {"noise", lengths_.noise}};
  }

  Result<std::function<void()>> read(const Config& state) override {
    const auto refuse = [&] {
      return snapshot_does_not_fit(describe(), "a point of another space, or impossible numbers");
    };
    std::vector<Trial> trials;
    std::map<int64_t, Point> running;
    const Config ended = state["trials"];
    for (const Config& entry : ended.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return refuse();
      trials.push_back({entry.integer("index"), std::move(*point), entry.real("value")});
    }
    const Config others = state["running"];
    for (const Config& entry : others.items()) {
      auto point = dimensions_.from_text(entry.text("point"));
      if (!point) return refuse();
      running.emplace(entry.integer("index"), std::move(*point));
    }
    Lengths lengths{.inverse_squares = {}, .signal = state.real("signal"), .noise = state.real("noise")};
    const auto reals = SearchDimensions::reals_from_text(state.text("inverse_squares"));
    const int64_t count = state.integer("ended");
    const auto sane = [](double logarithm) { return std::abs(logarithm) <= 14; };
    if (!reals || reals->size() != dimensions_.size() || !std::all_of(reals->begin(), reals->end(), sane))
      return refuse();
    if (!sane(lengths.signal) || !sane(lengths.noise)) return refuse();
    if (count < static_cast<int64_t>(trials.size()) || (count > 0 && trials.empty())) return refuse();
    lengths.inverse_squares = Eigen::Map<const VectorXd>(reals->data(), static_cast<Eigen::Index>(reals->size()));
    return [this, trials = std::move(trials), running = std::move(running), lengths, count,
            fitted = state.integer("fitted")]() mutable {
      trials_ = std::move(trials);
      running_ = std::move(running);
      lengths_ = lengths;
      ended_ = count;
      fitted_ = fitted;
    };
  }

 private:
  struct Trial {
    int64_t index;
    Point point;
    double value;  // NaN: failed.
  };

  Point startup_point(int64_t index, int attempt, Random& random) const {
    if (attempt > 0 || index > UINT32_MAX) return dimensions_.random_point(random);
    Point point(dimensions_.size());
    for (size_t d = 0; d < point.size(); ++d)
      point[d] = d < kSobolDimensionsMax ? startup_.coordinate(index, d) : random.real();
    return dimensions_.settled(std::move(point));
  }

  // ---- Data.

  static double rank_of(const Trial& trial) {
    return std::isnan(trial.value) ? std::numeric_limits<double>::infinity() : trial.value;
  }
  // Of the kept trials, half the best and half the newest, in the order they ended.
  std::vector<size_t> kept(size_t count) const {
    std::vector<size_t> order(trials_.size());
    std::iota(order.begin(), order.end(), 0);
    if (order.size() <= count) return order;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank_of(trials_[a]) < rank_of(trials_[b]); });
    const auto half = static_cast<ptrdiff_t>(count / 2);
    std::sort(order.begin() + half, order.end(), std::greater<>());
    order.resize(count);
    std::sort(order.begin(), order.end());
    return order;
  }
  void forget_one() {
    std::vector<double> values;
    for (const Trial& trial : trials_) values.push_back(rank_of(trial));
    const auto half = static_cast<ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), values.begin() + half, values.end());
    const double median = values[static_cast<size_t>(half)];
    const auto oldest =
        std::find_if(trials_.begin(), trials_.end(), [&](const Trial& one) { return rank_of(one) >= median; });
    trials_.erase(oldest == trials_.end() ? trials_.begin() : oldest);
  }

  Data data_of(const std::vector<size_t>& which) const {
    Data data;
    std::vector<double> finite;
    for (const size_t i : which) {
      if (std::isfinite(trials_[i].value)) finite.push_back(trials_[i].value);
    }
    std::sort(finite.begin(), finite.end());
    if (finite.empty()) finite = {0};
    // Values far beyond what is usual would hide all differences among the good ones.
    const double median = finite[finite.size() / 2];
    const double low = finite.front();
    const double high = std::min(finite.back(), median + kTail * (median - low) + 1e-300);
    double sum = 0, squares = 0;
    std::vector<double> values;
    for (const size_t i : which) {
      const double value = std::isnan(trials_[i].value) ? high : std::clamp(trials_[i].value, low, high);
      values.push_back(value);
      data.points.push_back(trials_[i].point);
      sum += value / static_cast<double>(which.size());
    }
    for (const double value : values) squares += (value - sum) * (value - sum) / static_cast<double>(which.size());
    const double deviation = squares > 0 && std::isfinite(squares) ? std::sqrt(squares) : 1;
    data.values.resize(static_cast<Eigen::Index>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) {
      const double scaled = (values[i] - sum) / deviation;
      data.values[static_cast<Eigen::Index>(i)] = std::isfinite(scaled) ? std::clamp(scaled, -1e3, 1e3) : 0;
    }
    return data;
  }

  void refit() {
    const int64_t wait = std::clamp<int64_t>(ended_ / 20, 1, kRefitMax);
    if (fitted_ > 0 && fitted_ <= ended_ && ended_ - fitted_ < wait) return;
    const Data data = data_of(kept(kFitMax));
    Lengths plain;
    plain.inverse_squares = VectorXd::Zero(static_cast<Eigen::Index>(dimensions_.size()));
    std::vector<Lengths> starts = {lengths_};
    if (trials_.size() < 100) starts.push_back(plain);
    lengths_ = Fitter(metric_, data).fit(starts);
    fitted_ = ended_;
  }

  // ---- The point of the largest improvement.

  std::vector<Point> climb(const Process& process, const Data& data, double best, Random& random) const {
    const auto count = dimensions_.count();
    const bool all = count && *count <= kManyPoints;
    const std::vector<Point> points = all ? all_points(*count) : beginnings(data, random);
    const VectorXd promise = process.log_improvements(points, best);
    std::vector<size_t> order(points.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return promise[static_cast<Eigen::Index>(a)] > promise[static_cast<Eigen::Index>(b)];
    });
    if (all) {
      std::vector<Point> out;
      for (const size_t i : order) out.push_back(points[i]);
      return out;
    }
    std::vector<std::pair<double, Point>> found;
    for (size_t i = 0; i < std::min(order.size(), kStarts * 4); ++i) {
      const Point& start = points[order[i]];
      if (i < kStarts) {
        found.push_back(climb_from(process, start, best));
      } else {
        found.emplace_back(promise[static_cast<Eigen::Index>(order[i])], start);
      }
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<Point> out;
    for (auto& [promised, point] : found) out.push_back(std::move(point));
    return out;
  }

  std::vector<Point> all_points(uint64_t count) const {
    std::vector<Point> out;
    for (uint64_t number = 0; number < count; ++number) out.push_back(dimensions_.numbered(number));
    return out;
  }

  // Random points, and neighbours of the best ones.
  std::vector<Point> beginnings(const Data& data, Random& random) const {
    const size_t count = data.points.size() > kFitMax ? kFewPoints : kManyPoints;
    std::vector<Point> out;
    const SobolSequence sequence(std::min(dimensions_.size(), kSobolDimensionsMax), random.next());
    for (size_t i = 0; i < count; ++i) {
      Point point(dimensions_.size());
      for (size_t d = 0; d < point.size(); ++d)
        point[d] = d < kSobolDimensionsMax ? sequence.coordinate(static_cast<int64_t>(i), d) : random.real();
      out.push_back(dimensions_.settled(std::move(point)));
    }
    std::vector<size_t> order(data.points.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return data.values[static_cast<Eigen::Index>(a)] < data.values[static_cast<Eigen::Index>(b)];
    });
    for (size_t i = 0; i < count / 5; ++i) {
      Point point = data.points[order[i % std::min<size_t>(5, order.size())]];
      const double reach = std::pow(10, -0.5 - 2.5 * random.real());
      for (double& coordinate : point) {
        if (coordinate == kInactive || random.below(3) == 0) {
          coordinate = random.below(8) == 0 || coordinate == kInactive ? random.real() : coordinate;
          continue;
        }
        coordinate = std::clamp(coordinate + reach * (2 * random.real() - 1), 0.0, 1.0);
      }
      out.push_back(dimensions_.settled(std::move(point)));
    }
    return out;
  }

  // Numbers uphill along the slope, then options and small ranges one by one.
  std::pair<double, Point> climb_from(const Process& process, Point at, double best) const {
    double promise = -std::numeric_limits<double>::infinity();
    for (int round = 0; round < 2; ++round) {
      climb_numbers(process, at, best, promise);
      at = dimensions_.settled(std::move(at));
      promise = process.log_improvements({at}, best)[0];
      bool changed = false;
      for (size_t d = 0; d < at.size(); ++d) changed = try_values(process, d, at, best, promise) || changed;
      if (!changed) break;
    }
    return {promise, std::move(at)};
  }

  void climb_numbers(const Process& process, Point& at, double best, double& promise) const {
    VectorXd slope = VectorXd::Zero(static_cast<Eigen::Index>(at.size()));
    promise = process.log_improvement(at, best, slope);
    double step = 0.05;
    for (int i = 0; i < kClimbs && step > 1e-7; ++i) {
      // Where an edge stops a number, the others go on.
      VectorXd way = slope;
      for (size_t d = 0; d < at.size(); ++d) {
        double& one = way[static_cast<Eigen::Index>(d)];
        if (at[d] == kInactive || (at[d] <= 0 && one < 0) || (at[d] >= 1 && one > 0)) one = 0;
      }
      const double norm = way.norm();
      if (!(norm > 0) || !std::isfinite(norm)) return;
      Point next = at;
      for (size_t d = 0; d < at.size(); ++d) {
        if (at[d] != kInactive) next[d] = std::clamp(at[d] + step * way[static_cast<Eigen::Index>(d)] / norm, 0.0, 1.0);
      }
      VectorXd next_slope = VectorXd::Zero(slope.size());
      const double next_promise = process.log_improvement(next, best, next_slope);
      if (next_promise > promise) {
        at = std::move(next);
        slope = next_slope;
        promise = next_promise;
        step *= 1.6;
      } else {
        step *= 0.3;
      }
    }
  }

  bool try_values(const Process& process, size_t dimension, Point& at, double best, double& promise) const {
    const uint64_t cells = dimensions_[dimension].cells;
    if (at[dimension] == kInactive || cells < 2) return false;
    const bool all = dimensions_[dimension].kind == SearchDimensions::Kind::kCategorical || cells <= kCellsTried;
    const uint64_t here = dimensions_.cell_of(dimension, at[dimension]);
    std::vector<Point> others;
    for (uint64_t cell = all || here == 0 ? 0 : here - 1; cell < cells && (all || cell <= here + 1); ++cell) {
      if (cell == here) continue;
      Point other = at;
      other[dimension] = dimensions_.middle(dimension, cell);
      for (double& coordinate : other) coordinate = coordinate == kInactive ? 0.5 : coordinate;
      others.push_back(dimensions_.settled(std::move(other)));
    }
    const VectorXd promises = process.log_improvements(others, best);
    Eigen::Index most = 0;
    if (promises.maxCoeff(&most) <= promise) return false;
    promise = promises[most];
    at = std::move(others[static_cast<size_t>(most)]);
    return true;
  }

  static constexpr double kTail = 4;  // Values worse than the median by so many times its distance to the best are cut.

  const SearchDimensions& dimensions_;
  const uint64_t seed_;
  const GpOptions options_;
  const Metric metric_;
  const SobolSequence startup_;
  std::vector<Trial> trials_;  // Ended ones, in that order.
  std::map<int64_t, Point> running_;
  int64_t ended_ = 0, fitted_ = 0;  // Ended trials in all, and at the last fit.
  Lengths lengths_;
};

Result<void> validate(const GpOptions& options) {
  const auto refuse = [](std::string_view option, int64_t least, int64_t got) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("gp.{}: expected at least {}, got {}", option, least, got));
  };
  if (options.n_startup_trials < 2) return refuse("n_startup_trials", 2, options.n_startup_trials);
  if (options.history_max < 20) return refuse("history_max", 20, options.history_max);
  return {};
}

}  // namespace

SearcherFactory gp(const GpOptions& options) {
  return [options](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(validate(options));
    auto made = ModelSearcher::create(
        context, options.seed.value_or(context.seed),
        [options](const ModelContext& model) { return std::make_unique<GpModel>(model, options); });
    return made && context.ahead ? ask_ahead(std::move(*made)) : std::move(made);
  };
}

}  // namespace volador::tune
