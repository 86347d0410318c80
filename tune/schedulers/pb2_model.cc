#include "tune/schedulers/pb2_model.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kPointsTried = 500;
constexpr int kLocalSteps = 200;
constexpr double kLengths[] = {0.1, 0.2, 0.4, 0.8, 1.6};
constexpr double kForgetting[] = {0, 0.05, 0.15, 0.3};
constexpr double kNoises[] = {1e-3, 1e-2, 1e-1};

struct Kernel {
  double length = 0.4, forgetting = 0, noise = 1e-2;
};

struct Input {
  double time = 0;
  std::vector<double> place;  // The previous metric, standardised, then the values.
};

double covariance(const Kernel& kernel, const Input& a, const Input& b) {
  double squares = 0;
  for (size_t i = 0; i < a.place.size(); ++i) squares += (a.place[i] - b.place[i]) * (a.place[i] - b.place[i]);
  return std::exp(-0.5 * squares / (kernel.length * kernel.length)) *
         std::pow(1 - kernel.forgetting, std::abs(a.time - b.time) / 2);
}

Eigen::LLT<MatrixXd> factor(const Kernel& kernel, const std::vector<Input>& inputs) {
  const auto n = static_cast<Eigen::Index>(inputs.size());
  MatrixXd matrix(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j)
      matrix(i, j) = matrix(j, i) = covariance(kernel, inputs[static_cast<size_t>(i)], inputs[static_cast<size_t>(j)]);
    matrix(i, i) += kernel.noise;
  }
  return Eigen::LLT<MatrixXd>(matrix);
}

// Returns the kernel with the highest likelihood of the observations.
Kernel fit(const std::vector<Input>& inputs, const VectorXd& gains) {
  Kernel best;
  double most = -std::numeric_limits<double>::infinity();
  for (const double length : kLengths) {
    for (const double forgetting : kForgetting) {
      for (const double noise : kNoises) {
        const Kernel kernel{length, forgetting, noise};
        const auto chol = factor(kernel, inputs);
        if (chol.info() != Eigen::Success) continue;
        const VectorXd half = chol.matrixL().solve(gains);
        const double likelihood =
            -0.5 * half.squaredNorm() - chol.matrixL().toDenseMatrix().diagonal().array().log().sum();
        if (likelihood > most) {
          most = likelihood;
          best = kernel;
        }
      }
    }
  }
  return best;
}

// Standardises to mean 0 and deviation 1; 0 if all are equal.
struct Scale {
  double mean = 0, deviation = 1;
  double operator()(double value) const { return (value - mean) / deviation; }
};
template <class F>
Scale scale_of(const std::vector<Pb2Change>& changes, F value) {
  Scale scale;
  double squares = 0;
  for (const Pb2Change& one : changes) scale.mean += value(one) / static_cast<double>(changes.size());
  for (const Pb2Change& one : changes)
    squares += std::pow(value(one) - scale.mean, 2) / static_cast<double>(changes.size());
  if (squares > 0 && std::isfinite(squares)) scale.deviation = std::sqrt(squares);
  return scale;
}

class Bandit {
 public:
  Bandit(const std::vector<Pb2Change>& changes, const std::vector<Point>& running, double time, double before)
      : time_(time) {
    const Scale metric = scale_of(changes, [](const Pb2Change& one) { return one.before; });
    const Scale gain = scale_of(changes, [](const Pb2Change& one) { return one.gain; });
    before_ = metric(before);
    VectorXd gains(static_cast<Eigen::Index>(changes.size()));
    for (size_t i = 0; i < changes.size(); ++i) {
      known_.push_back(input(changes[i].time, metric(changes[i].before), changes[i].point));
      gains(static_cast<Eigen::Index>(i)) = gain(changes[i].gain);
    }
    kernel_ = fit(known_, gains);
    weights_ = factor(kernel_, known_).solve(gains);
    all_ = known_;
    for (const Point& point : running) all_.push_back(input(time, before_, point));
    chol_ = factor(kernel_, all_);
    const auto dimensions = static_cast<double>(known_[0].place.size());
    explore_ = std::sqrt(0.2 + std::log(0.4 * std::max(time, 1.0) * dimensions + 1));
  }

  double bound(const Point& point) const {
    const Input at = input(time_, before_, point);
    VectorXd known(static_cast<Eigen::Index>(known_.size())), all(static_cast<Eigen::Index>(all_.size()));
    for (size_t i = 0; i < all_.size(); ++i) all(static_cast<Eigen::Index>(i)) = covariance(kernel_, at, all_[i]);
    known = all.head(known.size());
    const VectorXd half = chol_.matrixL().solve(all);
    return known.dot(weights_) + explore_ * std::sqrt(std::max(1 - half.squaredNorm(), 0.0));
  }

 private:
  static Input input(double time, double before, const Point& point) {
    Input out{time, {before}};
    out.place.insert(out.place.end(), point.begin(), point.end());
    return out;
  }

  double time_, before_ = 0, explore_ = 1;
  Kernel kernel_;
  std::vector<Input> known_, all_;  // all_ includes running trials.
  VectorXd weights_;
  Eigen::LLT<MatrixXd> chol_;
};

Point random_point(size_t dimensions, Random& random) {
  Point point;
  for (size_t i = 0; i < dimensions; ++i) point.push_back(random.real());
  return point;
}

}  // namespace

Point pb2_suggest(const std::vector<Pb2Change>& changes, const std::vector<Point>& running, double time, double before,
                  size_t dimensions, Random& random) {
  if (changes.size() < 2) return random_point(dimensions, random);
  const Bandit bandit(changes, running, time, before);
  Point best = random_point(dimensions, random);
  double most = bandit.bound(best);
  const auto consider = [&](Point point) {
    const double bound = bandit.bound(point);
    if (!(bound > most)) return;
    most = bound;
    best = std::move(point);
  };
  for (int i = 1; i < kPointsTried; ++i) consider(random_point(dimensions, random));
  for (int i = 0; i < kLocalSteps; ++i) {
    Point near = best;
    const double width = 0.2 * std::pow(0.01, static_cast<double>(i) / kLocalSteps);
    for (double& one : near) one = std::clamp(one + width * (2 * random.real() - 1), 0.0, kBelowOne);
    consider(std::move(near));
  }
  return best;
}

}  // namespace volador::tune
