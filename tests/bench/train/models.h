// The models that train_bench trains. Shapes, names and order of the parameters equal those of peer_ddp.py: with the
// same seed both start from the same weights.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::train::bench {

inline constexpr int64_t kBatch = 32;  // Samples a rank.
inline constexpr std::array<std::string_view, 4> kModelNames = {"mlp", "mlp_large", "small_tensors", "cnn"};

class Model : public torch::nn::Module {
 public:
  // input: [batch, …]; returns the logits [batch, classes].
  virtual torch::Tensor forward(torch::Tensor input) = 0;
};

// Linear layers with ReLU between them: 784 → hidden → hidden → hidden → 10.
class Mlp final : public Model {
 public:
  explicit Mlp(int64_t hidden) {
    register_module("layers", layers_);
    int64_t width = 784;
    for (int layer = 0; layer < 3; ++layer) layers_->push_back(torch::nn::Linear(std::exchange(width, hidden), hidden));
    layers_->push_back(torch::nn::Linear(hidden, 10));
  }
  torch::Tensor forward(torch::Tensor input) override {
    const size_t last = layers_->size() - 1;
    for (size_t layer = 0; layer < last; ++layer)
      input = torch::relu(layers_->at<torch::nn::LinearImpl>(layer).forward(input));
    return layers_->at<torch::nn::LinearImpl>(last).forward(input);
  }

 private:
  torch::nn::ModuleList layers_;
};

// A linear layer 784 → 64, 99 residual blocks x + tanh(linear(x)) and a linear layer 64 → 64: 202 tensors.
// A chain without residuals has gradients so small that they are denormal numbers, which a CPU computes slowly.
class SmallTensors final : public Model {
 public:
  SmallTensors() {
    register_module("layers", layers_);
    layers_->push_back(torch::nn::Linear(784, 64));
    for (int layer = 0; layer < 100; ++layer) layers_->push_back(torch::nn::Linear(64, 64));
  }
  torch::Tensor forward(torch::Tensor input) override {
    const size_t last = layers_->size() - 1;
    input = layers_->at<torch::nn::LinearImpl>(0).forward(input);
    for (size_t layer = 1; layer < last; ++layer)
      input = input + torch::tanh(layers_->at<torch::nn::LinearImpl>(layer).forward(input));
    return layers_->at<torch::nn::LinearImpl>(last).forward(input);
  }

 private:
  torch::nn::ModuleList layers_;
};

// Two convolutions with batch norm, ReLU and pooling by 2, then two linear layers; for images [batch, 1, 28, 28].
class Cnn final : public Model {
 public:
  Cnn() {
    register_module("conv1", conv1_);
    register_module("norm1", norm1_);
    register_module("conv2", conv2_);
    register_module("norm2", norm2_);
    register_module("linear1", linear1_);
    register_module("linear2", linear2_);
  }
  torch::Tensor forward(torch::Tensor input) override {
    input = torch::max_pool2d(torch::relu(norm1_(conv1_(input))), 2);
    input = torch::max_pool2d(torch::relu(norm2_(conv2_(input))), 2);
    return linear2_(torch::relu(linear1_(input.flatten(1))));
  }

 private:
  // The order of the members is the order in which the weights are drawn.
  torch::nn::Conv2d conv1_{torch::nn::Conv2dOptions(1, 32, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm1_{32};
  torch::nn::Conv2d conv2_{torch::nn::Conv2dOptions(32, 64, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm2_{64};
  torch::nn::Linear linear1_{64 * 7 * 7, 64};
  torch::nn::Linear linear2_{64, 10};
};

struct BenchModel {
  std::shared_ptr<Model> module;
  std::vector<int64_t> input_shape;  // Without the batch.
  int64_t classes = 0;
  std::string label;  // For tables.
};

struct Batch {
  torch::Tensor input;    // [batch, input_shape…], standard normal.
  torch::Tensor targets;  // [batch], int64 in [0, classes).
};

// Draws the weights from the default generator; a caller seeds it first (peer_ddp.py: torch.manual_seed(0) on all
// ranks).
// Throws kNotFound for a name that is not one of kModelNames.
inline BenchModel make(std::string_view name) {
  if (name == "mlp") return {std::make_shared<Mlp>(1024), {784}, 10, "MLP, 2.9 M parameters in 8 tensors"};
  if (name == "mlp_large") return {std::make_shared<Mlp>(3344), {784}, 10, "MLP, 25 M parameters in 8 tensors"};
  if (name == "small_tensors")
    return {std::make_shared<SmallTensors>(), {784}, 64, "202 small tensors, 0.47 M parameters"};
  if (name == "cnn") return {std::make_shared<Cnn>(), {1, 28, 28}, 10, "CNN with batch norm, 0.22 M parameters"};
  std::string names;
  for (const auto known : kModelNames) names.append(names.empty() ? "" : ", ").append(known);
  throw Exception(
      Error{ErrorCode::kNotFound, "model: there is no \"" + std::string(name) + "\"; name one of " + names});
}

// Seeds the default generator with 1 + rank and draws the one batch that the rank trains on, as peer_ddp.py does.
inline Batch make_batch(const BenchModel& model, int64_t rank, int64_t size = kBatch) {
  torch::manual_seed(static_cast<uint64_t>(1 + rank));
  std::vector<int64_t> shape = {size};
  shape.insert(shape.end(), model.input_shape.begin(), model.input_shape.end());
  auto input = torch::randn(shape);
  return {std::move(input), torch::randint(model.classes, {size}, torch::kInt64)};
}

}  // namespace volador::train::bench
