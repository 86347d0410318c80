// Batch normalisation over the samples of all ranks: in training, mean and variance are those of the whole batch,
// whatever its division among the ranks. Options, parameters, buffers and names in state_dict are those of
// torch::nn::BatchNorm1d, 2d and 3d.
//
//   torch::nn::Sequential layers(torch::nn::Conv2d(3, 64, 3), train::SyncBatchNorm2d(64), torch::nn::ReLU());
//
// A training operator connects the modules of its registered models with its group when the group is formed. Without a
// group, in a group of one rank and in evaluation mode they do what torch::nn::BatchNorm does, without a collective
// operation. If a rank's share is processed in parts (DataOptions::micro_batch), the statistics are those of the parts
// that the ranks process at the same time.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <vector>

namespace volador::train {

class Group;

// What the modules of a rank share with the loop that runs them. One thread at a time.
struct BatchNormSync {
  std::shared_ptr<Group> group;  // Null: statistics of this process's samples only.
  bool counts = true;            // False: the samples are placeholders, which count as zero samples.
  // Factor by which this rank's gradients are multiplied after the backward pass: its samples / the samples of all
  // ranks, for a loss that is the mean over the rank's samples. With 0 the rank's samples get no gradient.
  double weight = 1;
  // True: running statistics change in commit() and not in forward(), so that a batch that is given up changes nothing.
  bool is_deferring = false;
  std::vector<std::function<void()>> updates = {};

  void commit();
};

class SyncBatchNormBase {
 public:
  virtual ~SyncBatchNormBase() = default;
  void share(std::shared_ptr<BatchNormSync> sync) { sync_ = std::move(sync); }

 protected:
  std::shared_ptr<BatchNormSync> sync_;
};

// Collective in training mode, forward and backward: all ranks call it in the same order. Throws GroupAborted, and
// kInvalidArgument: the input has another number of dimensions or channels; the ranks together have a single value for
// each channel; a second derivative is asked for.
template <size_t D, class Derived>
class SyncBatchNormImplBase : public torch::nn::BatchNormImplBase<D, Derived>, public SyncBatchNormBase {
 public:
  using torch::nn::BatchNormImplBase<D, Derived>::BatchNormImplBase;
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;
  // Takes over parameters and buffers of a module with equal options; the parameters stay the same tensors.
  template <class Plain>
  void adopt(const Plain& plain) {
    if (plain.weight.defined()) {
      this->parameters_["weight"] = this->weight = plain.weight;
      this->parameters_["bias"] = this->bias = plain.bias;
    }
    if (plain.running_mean.defined()) {
      this->running_mean.set_data(plain.running_mean);
      this->running_var.set_data(plain.running_var);
      this->num_batches_tracked.set_data(plain.num_batches_tracked);
    }
    this->train(plain.is_training());
  }

 protected:
  void _check_input_dim(const torch::Tensor& input) override;
};

class SyncBatchNorm1dImpl : public SyncBatchNormImplBase<1, SyncBatchNorm1dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
};
class SyncBatchNorm2dImpl : public SyncBatchNormImplBase<2, SyncBatchNorm2dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
};
class SyncBatchNorm3dImpl : public SyncBatchNormImplBase<3, SyncBatchNorm3dImpl> {
 public:
  using SyncBatchNormImplBase::SyncBatchNormImplBase;
};
TORCH_MODULE(SyncBatchNorm1d);  // Input [n, channels] or [n, channels, length].
TORCH_MODULE(SyncBatchNorm2d);  // Input [n, channels, height, width].
TORCH_MODULE(SyncBatchNorm3d);  // Input [n, channels, depth, height, width].

extern template class SyncBatchNormImplBase<1, SyncBatchNorm1dImpl>;
extern template class SyncBatchNormImplBase<2, SyncBatchNorm2dImpl>;
extern template class SyncBatchNormImplBase<3, SyncBatchNorm3dImpl>;

// Connects all SyncBatchNorm modules of the tree. Returns their number.
int64_t share_batch_norms(torch::nn::Module& module, const std::shared_ptr<BatchNormSync>& sync);

// Replaces the BatchNorm1d, 2d and 3d modules in the tree by SyncBatchNorm and returns their number. Parameters stay
// the same tensors, so that an optimizer of them remains valid. Replaces elements of Sequential, and children that are
// reached by their registered name only. A BatchNorm that is also a member of its parent cannot be replaced, since
// LibTorch's forward() is no virtual function.
// kInvalidArgument: names the modules that cannot be replaced; nothing has changed.
int64_t convert_sync_batch_norm(torch::nn::Module& module);
// The same for a holder (TORCH_MODULE) or a std::shared_ptr.
template <class M>
requires requires(M model) { *model; }
int64_t convert_sync_batch_norm(M model) { return convert_sync_batch_norm(*model); }

}  // namespace volador::train
