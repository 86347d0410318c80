// Data sets: numbered rows that are read in batches of tensors.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace volador::train {

// Rows of a data set as tensors whose first dimension is the row. By convention the last tensor is the target and the
// others are the features; a data set without target has features only.
struct Batch {
  std::vector<torch::Tensor> tensors;
  std::map<std::string, torch::Tensor> named = {};  // Tensors that are looked up by name, beside or instead of those.

  // Number of rows; 0 for a batch without tensors.
  int64_t size() const;
  // The first tensor. kInvalidArgument: there is none.
  const torch::Tensor& features() const;
  // The last tensor. kInvalidArgument: there are fewer than two.
  const torch::Tensor& target() const;
  // All tensors except the last, for models with several inputs.
  std::span<const torch::Tensor> inputs() const;
  // kInvalidArgument: there is no such tensor.
  const torch::Tensor& operator[](size_t index) const;
  const torch::Tensor& operator[](const std::string& name) const;
  // Copies what is not yet there. non_blocking: the copy of pinned memory runs on the device's stream.
  Batch to(torch::Device device, bool non_blocking = false) const;
  // Copies into page-locked memory; requires CUDA.
  Batch pin_memory() const;
};

// Interface of a data set. Immutable: the loader's threads read it at the same time.
class Dataset {
 public:
  virtual ~Dataset() = default;
  // Number of rows.
  virtual int64_t size() const = 0;
  // Reads rows in the given order. No rows: a batch whose tensors have 0 rows and their usual further dimensions, since
  // a rank may have no row of a short last batch. kInvalidArgument: a row is not in [0, size()). Thread safe.
  virtual Batch rows(std::span<const int64_t> rows) const = 0;
  // Names of the classes in the order of their numbers; empty: not known.
  virtual std::vector<std::string> classes() const { return {}; }
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// Changes a batch after it was read, for instance its type. Called by the loader's threads at the same time. The
// tensors are copies of the data set's rows and may be changed in place.
using Transform = std::function<Batch(Batch)>;

// Data set in memory: row i is row i of each tensor, for example tensor_dataset({images, labels}). Does not copy the
// tensors; they must not change any more.
// kInvalidArgument: no tensor, a tensor without dimension, or first dimensions that differ.
DatasetPtr tensor_dataset(std::vector<torch::Tensor> tensors, Transform transform = {});

// Data set whose rows are computed: `function` returns the tensors of one row, without a row dimension, and is called
// by several threads at the same time. An empty batch calls it for row 0 to learn the shapes.
// kInvalidArgument (when read): rows of a batch differ in number of tensors, shape or type; the message names both.
DatasetPtr map_dataset(int64_t size, std::function<std::vector<torch::Tensor>(int64_t row)> function);

// Row i is row rows[i] of `dataset`; rows may repeat. kInvalidArgument: a row is not in [0, dataset->size()).
DatasetPtr subset(DatasetPtr dataset, std::vector<int64_t> rows);

// Divides a data set at random into parts that share no row and together hold all rows. Equal for equal arguments.
// Part i has fractions[i] of the rows, rounded; for example split(dataset, {0.8, 0.2}).
// kInvalidArgument: a fraction is not positive, or they do not add up to 1.
std::vector<DatasetPtr> split(DatasetPtr dataset, const std::vector<double>& fractions, uint64_t seed = 0);

// Applies `transform` to the batches of a data set.
DatasetPtr transformed(DatasetPtr dataset, Transform transform);

// Gives names to the classes of a data set.
DatasetPtr with_classes(DatasetPtr dataset, std::vector<std::string> classes);

// Makes a tensor over existing memory without a copy; `owner` keeps the memory as long as the tensor or a view of it
// exists. The memory may be mapped read-only: do not write to the tensor. `elements`: elements that the memory holds;
// one of `sizes` may be -1, which stands for the rest. kInvalidArgument: sizes and elements differ.
torch::Tensor tensor_of(const void* memory, int64_t elements, torch::ScalarType type, torch::IntArrayRef sizes,
                        std::shared_ptr<const void> owner);

}  // namespace volador::train
