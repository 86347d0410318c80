#include "train/group/power_sgd.h"

#include <ATen/ScalarOps.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace volador::train {
namespace {

// Splitmix64: the same numbers on every machine.
class RandomNumbers {
 public:
  explicit RandomNumbers(uint64_t seed) : state_(seed) {}
  // In [-1, 1).
  double next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t value = state_;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<double>(static_cast<int64_t>(value ^ (value >> 31)) >> 11) * 0x1p-52;
  }

 private:
  uint64_t state_;
};

// In a fixed order of additions that the compiler turns into vector instructions.
double dot(const double* a, const double* b, size_t size) {
  std::array<double, 8> sums{};
  size_t i = 0;
  for (; i + sums.size() <= size; i += sums.size()) {
    for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < size; ++i) sums[0] += a[i] * b[i];
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

}  // namespace

std::optional<FactorShape> factor_shape(const torch::Tensor& parameter, const PowerSgdOptions& options) {
  const auto type = parameter.scalar_type();
  if (parameter.dim() < 2 || parameter.numel() == 0 || (type != torch::kFloat && type != torch::kDouble)) return {};
  FactorShape shape{.rows = parameter.size(0), .columns = parameter.numel() / parameter.size(0), .rank = options.rank};
  shape.rank = std::min({shape.rank, shape.rows, shape.columns});
  const auto factors = static_cast<double>(shape.left_elements() + shape.right_elements());
  if (factors * options.min_compression_rate >= static_cast<double>(parameter.numel())) return {};
  return shape;
}

bool orthonormalize(const torch::Tensor& rows, uint64_t seed) {
  const int64_t rank = rows.size(0);
  const auto length = static_cast<size_t>(rows.size(1));
  // A row whose part outside the space of those before is smaller than this, relative to the row, is rounding error.
  const double smallest = rows.scalar_type() == torch::kFloat ? 1e-5 : 1e-12;
  const torch::Tensor copy = torch::empty({rank, rows.size(1)}, torch::kDouble);
  copy.copy_(rows);
  double* data = copy.mutable_data_ptr<double>();
  RandomNumbers random(seed);
  for (int64_t row = 0; row < rank; ++row) {
    double* const own = data + row * rows.size(1);
    double before = std::sqrt(dot(own, own, length));
    if (!std::isfinite(before)) return false;
    while (true) {
      for (int pass = 0; pass < 2; ++pass) {  // One pass leaves rounding errors of nearly dependent rows.
        for (const double* other = data; other != own; other += length) {
          const double shared = dot(own, other, length);
          for (size_t i = 0; i < length; ++i) own[i] -= shared * other[i];
        }
      }
      const double norm = std::sqrt(dot(own, own, length));
      if (norm > smallest * before) {
        for (size_t i = 0; i < length; ++i) own[i] /= norm;
        break;
      }
      for (size_t i = 0; i < length; ++i) own[i] = random.next();
      before = std::sqrt(dot(own, own, length));
    }
  }
  rows.copy_(copy);
  return true;
}

PowerSgdMatrix::PowerSgdMatrix(const torch::Tensor& parameter, const FactorShape& shape, const PowerSgdOptions& options,
                               uint64_t number)
    : shape_(shape),
      sizes_(parameter.sizes().vec()),
      type_(torch::dtype(parameter.dtype()).device(parameter.device())),
      error_feedback_(options.error_feedback),
      warm_start_(options.warm_start),
      seed_(options.seed * 0x9e3779b97f4a7c15ULL + number * 0xd1b54a32d192ed03ULL) {}

void PowerSgdMatrix::reset() {
  error_.reset();
  steps_ = 0;
  // Rows of zeros are replaced by random ones.
  right_basis_ = torch::zeros({shape_.rank, shape_.columns}, type_);
  orthonormalize(right_basis_, seed(0));
  begin();
}

void PowerSgdMatrix::open() {
  is_open_ = is_finite_ = true;
  if (!matrix_.defined()) matrix_ = torch::empty({shape_.rows, shape_.columns}, type_);
}

void PowerSgdMatrix::add(const torch::Tensor& gradient, double weight) {
  const torch::Tensor flat = gradient.reshape({shape_.rows, shape_.columns});
  if (is_open_) {
    matrix_.add_(flat, weight);
    return;
  }
  open();
  if (error_.defined()) {
    at::add_out(matrix_, error_, flat, weight);
  } else {
    at::mul_out(matrix_, flat, at::native::wrapped_scalar_tensor(weight));
  }
}

void PowerSgdMatrix::write_left(const torch::Tensor& out) {
  if (!is_open_) {
    open();
    if (error_.defined()) {
      matrix_.copy_(error_);
    } else {
      matrix_.zero_();
    }
  }
  // Factors of few long rows: products of few long columns take six times as long.
  torch::Tensor left = out.view({shape_.rank, shape_.rows});
  at::mm_out(left, right_basis_, matrix_.t());
}

bool PowerSgdMatrix::write_right(const torch::Tensor& left_sum, const torch::Tensor& out) {
  left_basis_ = left_sum.view({shape_.rank, shape_.rows}).clone();
  is_finite_ = orthonormalize(left_basis_, seed(1));
  torch::Tensor right = out.view({shape_.rank, shape_.columns});
  at::mm_out(right, left_basis_, matrix_);
  if (error_feedback_) matrix_.addmm_(left_basis_.t(), right, /*beta=*/1, /*alpha=*/-1);
  return is_finite_;
}

torch::Tensor PowerSgdMatrix::finish(const torch::Tensor& right_sum, bool keep) {
  const torch::Tensor right = right_sum.view({shape_.rank, shape_.columns});
  torch::Tensor next_basis = right.clone();
  is_finite_ = is_finite_ && orthonormalize(next_basis, seed(2));
  begin();
  if (is_finite_ && keep) {
    if (!warm_start_) orthonormalize(next_basis.zero_(), seed(3));
    if (error_feedback_) {
      if (!error_.defined()) error_ = torch::empty_like(matrix_);
      std::swap(error_, matrix_);
    }
    right_basis_ = std::move(next_basis);
    ++steps_;
  }
  if (is_finite_) {
    at::mm_out(matrix_, left_basis_.t(), right);
  } else {
    matrix_.fill_(std::numeric_limits<double>::quiet_NaN());
  }
  // Autograd does not know this as a view, so that Optimizer::zero_grad() can detach it.
  const at::AutoDispatchBelowADInplaceOrView untracked;
  return matrix_.view(sizes_);
}

}  // namespace volador::train
