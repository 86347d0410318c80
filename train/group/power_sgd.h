// PowerSGD: the sum of the ranks' gradients of a matrix, approximated by two factors that are summed instead of it
// (Vogels et al., arXiv:1905.13727). What the factors leave out is added to the rank's next gradient (error feedback).
//
// A gradient M of n x m travels as left and right factors of `rank` rows, in two sums over the ranks:
//   left = right basis * M^T   [rank, n], summed; its rows are then made orthonormal: the left basis
//   right = left basis * M     [rank, m], summed
// The gradient is then left basis^T * right, and orthonormal rows of `right` are the right basis of the next step.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "train/group/compression.h"

namespace volador::train {

// A parameter as a matrix: the first dimension by all others.
struct FactorShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t rank = 0;  // At most rows and columns.
  int64_t left_elements() const { return rank * rows; }
  int64_t right_elements() const { return rank * columns; }
};

// nullopt: the parameter travels whole, since it has fewer than two dimensions, is neither float32 nor float64, or
// would not shrink enough.
std::optional<FactorShape> factor_shape(const torch::Tensor& parameter, const PowerSgdOptions& options);

// Replaces the rows [rank, n] by orthonormal ones that span them, rank <= n; for rows that depend on those before, by
// ones made of random numbers that depend on `seed` only. Runs on the CPU without LibTorch's kernels: equal input gives
// equal bits. Returns false, and changes nothing, if a number is infinite or NaN.
bool orthonormalize(const torch::Tensor& rows, uint64_t seed);

// Error and right basis of one parameter on one rank, and the matrix of the present step:
//
//   add() … → write_left() → sum over the ranks → write_right() → sum over the ranks → finish()
//
// Error and basis change in finish() only; begin() gives up a step in any place.
class PowerSgdMatrix {
 public:
  // `number`: distinguishes the parameters' random numbers.
  PowerSgdMatrix(const torch::Tensor& parameter, const FactorShape& shape, const PowerSgdOptions& options,
                 uint64_t number);

  // No error and the first right basis, which is equal on all ranks.
  void reset();
  // A new step, without gradient.
  void begin() { is_open_ = false; }

  // Adds a gradient of the parameter's shape, times `weight`, to the matrix of the step. Overwrites the result of
  // finish() of the step before.
  void add(const torch::Tensor& gradient, double weight);
  // Writes [rank * rows].
  void write_left(const torch::Tensor& out);
  // Takes the sum of the left factors and writes [rank * columns]. Returns false if the sum is not finite.
  bool write_right(const torch::Tensor& left_sum, const torch::Tensor& out);
  // Takes the sum of the right factors. Returns the gradient, in the parameter's shape and memory of its own; NaN if a
  // sum was not finite. `keep` false, or a sum that was not finite: error and basis stay those before the step.
  torch::Tensor finish(const torch::Tensor& right_sum, bool keep);

 private:
  void open();
  // Seed of the random numbers for one purpose in one step.
  uint64_t seed(uint64_t purpose) const { return seed_ ^ ((steps_ * 4 + purpose) * 0xd6e8feb86659fd93ULL); }

  FactorShape shape_;
  std::vector<int64_t> sizes_;  // Sizes of the parameter.
  torch::TensorOptions type_;
  bool error_feedback_, warm_start_;
  uint64_t seed_;
  uint64_t steps_ = 0;         // Steps since reset().
  torch::Tensor error_;        // [rows, columns]; undefined: zero.
  torch::Tensor right_basis_;  // [rank, columns]
  // State of the present step.
  bool is_open_ = false;
  bool is_finite_ = true;
  // [rows, columns]: gradient and error; after write_right() what this rank has not contributed; after finish() the
  // result.
  torch::Tensor matrix_;
  torch::Tensor left_basis_;  // [rank, rows]
};

}  // namespace volador::train
