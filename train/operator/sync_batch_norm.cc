#include "train/operator/sync_batch_norm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <ostream>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>

#include "train/group/group.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Mean and biased variance of each channel over all ranks, float64.
struct Statistics {
  Tensor mean, variance;
  double count = 0;  // Values of each channel.
};

std::tuple<Tensor, Tensor> own_statistics(const Tensor& input) {
  if (input.is_cpu()) return at::batch_norm_update_stats(input, {}, {}, 0);  // A third of the time of var_mean().
  std::vector<int64_t> dimensions{0};
  for (int64_t i = 2; i < input.dim(); ++i) dimensions.push_back(i);
  const auto [variance, mean] = at::var_mean(input, dimensions, /*unbiased=*/false);
  return {mean, variance};
}

// Each rank writes its row of a table, whose sum over the ranks is the table of all: one collective operation, and the
// combination of the rows (Chan et al. 1979) does not lose digits as sums of squares would.
Statistics statistics_of_all(const Tensor& input, Group& group, bool counts) {
  const int64_t channels = input.size(1);
  const Tensor table = torch::zeros({group.world(), 1 + 2 * channels}, input.options().dtype(torch::kDouble));
  const int64_t count = input.numel() / std::max<int64_t>(1, channels);
  if (counts && count > 0) {
    const auto [mean, variance] = own_statistics(input);
    const Tensor row = table[group.rank()];
    row[0].fill_(static_cast<double>(count));
    row.narrow(0, 1, channels).copy_(mean);
    row.narrow(0, 1 + channels, channels).copy_(variance);
  }
  group.all_reduce(table);
  const Tensor counted = table.narrow(1, 0, 1), means = table.narrow(1, 1, channels);
  const Tensor total = counted.sum();
  Statistics all;
  all.count = total.item<double>();
  all.mean = (counted * means).sum(0) / total;
  all.variance = (counted * (table.narrow(1, 1 + channels, channels) + (means - all.mean).square())).sum(0) / total;
  return all;
}

// What the backward pass needs beside tensors.
struct Pass final : torch::CustomClassHolder {
  std::shared_ptr<BatchNormSync> sync;
  std::shared_ptr<Group> group;  // Those of the forward pass.
  bool counts = true;
  double count = 0;
  double eps = 0;
};

// (input - mean) / sqrt(variance + eps) * weight + bias for each channel.
Tensor normalized(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                  const Tensor& variance, double eps) {
  return std::get<0>(at::native_batch_norm(input, weight, bias, mean, variance, /*training=*/false, 0, eps));
}

class Normalization : public torch::autograd::Function<Normalization> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const Tensor& mean, const Tensor& variance, const c10::intrusive_ptr<Pass>& pass) {
    context->save_for_backward({input, weight, mean, variance});
    context->saved_data["pass"] = c10::IValue::make_capsule(pass);
    return normalized(input, weight, bias, mean, variance, pass->eps);
  }

  // With the weights w of the ranks' losses, g the gradient of this rank's loss for its output, x the normalised input
  // and n the values of all ranks, the gradient of the sum of w times loss for this rank's input is
  //   weight / sqrt(variance + eps) * (w g - (sum of w g + x * sum of w g x) / n), sums over all values of all ranks.
  // It is returned divided by this rank's w, which multiplies all gradients of the rank afterwards.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (torch::GradMode::is_enabled()) {
      tune::throw_refusal(
          "SyncBatchNorm: backward pass with create_graph: it has no second derivative; take BatchNorm");
    }
    const auto saved = context->get_saved_variables();
    const Tensor &input = saved[0], &scale = saved[1], &mean = saved[2], &variance = saved[3];
    const auto pass = c10::static_intrusive_pointer_cast<Pass>(context->saved_data["pass"].toCapsule());
    auto [for_input, for_weight, for_bias] = at::native_batch_norm_backward(
        gradients[0], input, scale, mean, variance, {}, {}, /*train=*/false, pass->eps, {true, true, true});
    if (context->needs_input_grad(0)) {
      const double weight = pass->counts ? pass->sync->weight : 0;
      const Tensor sums = weight != 0 ? torch::stack({for_bias, for_weight}).to(torch::kDouble).mul_(weight)
                                      : torch::zeros({2, mean.size(0)}, input.options().dtype(torch::kDouble));
      pass->group->all_reduce(sums);
      if (weight != 0) {
        const Tensor factors = (sums / (pass->count * weight)).to(mean.scalar_type()) *
                               (scale * (variance + pass->eps).rsqrt()).unsqueeze(0);
        for_input.sub_(normalized(input, factors[1], factors[0], mean, variance, pass->eps));
      } else {
        for_input.zero_();  // Placeholders are part of no rank's loss.
      }
    }
    return {for_input, for_weight, for_bias, Tensor(), Tensor(), Tensor()};
  }
};

// A BatchNorm that a conversion replaces.
struct Replacement {
  torch::nn::Module* parent = nullptr;
  std::string name;  // In the parent.
  std::shared_ptr<torch::nn::Module> plain;
};

bool is_batch_norm(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::BatchNorm1dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm2dImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::BatchNorm3dImpl*>(&module) != nullptr;
}

std::string printed(const torch::nn::Module& module) {
  std::ostringstream stream;
  module.pretty_print(stream);
  return stream.str();
}

// Adds the replacements below a module, and the names of those that are impossible.
void collect_replacements(torch::nn::Module& module, const std::string& prefix, std::set<torch::nn::Module*>& visited,
                          std::vector<Replacement>& replacements, std::vector<std::string>& impossible) {
  if (!visited.insert(&module).second) return;
  const auto children = module.named_children();
  for (const auto& child : children) {
    const auto& plain = child.value();
    if (plain == nullptr) continue;
    if (!is_batch_norm(*plain)) {
      collect_replacements(*plain, prefix + child.key() + ".", visited, replacements, impossible);
      continue;
    }
    // The parent's list of children and this copy of it own the module, and Sequential once more.
    const long owners = dynamic_cast<torch::nn::SequentialImpl*>(&module) != nullptr ? 3 : 2;
    if (plain.use_count() > owners) {
      impossible.push_back(fmt::format("{}{} ({})", prefix, child.key(), printed(*plain)));
    } else {
      replacements.push_back({&module, child.key(), plain});
    }
  }
}

template <class Plain, class Synced>
bool replace(const Replacement& replacement) {
  const auto plain = std::dynamic_pointer_cast<Plain>(replacement.plain);
  if (plain == nullptr) return false;
  const auto synced = std::make_shared<Synced>(plain->options);
  synced->adopt(*plain);
  replacement.parent->replace_module(replacement.name, synced);
  if (auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(replacement.parent)) {
    for (torch::nn::AnyModule& element : *sequential) {
      if (element.ptr() == replacement.plain) element = torch::nn::AnyModule(synced);
    }
  }
  return true;
}

}  // namespace

void BatchNormSync::commit() {
  for (const auto& update : std::exchange(updates, {})) update();
}

template <size_t D, class Derived>
void SyncBatchNormImplBase<D, Derived>::_check_input_dim(const Tensor& input) {
  const bool fits = input.dim() == static_cast<int64_t>(D) + 2 || (D == 1 && input.dim() == 2);
  if (fits && input.size(1) == this->options.num_features()) return;
  tune::throw_refusal(fmt::format(
      "SyncBatchNorm{}d: the input has shape [{}]; expected {} dimensions, the second of {} channels", D,
      fmt::join(input.sizes(), ", "), D == 1 ? "2 or 3" : std::to_string(D + 2), this->options.num_features()));
}

template <size_t D, class Derived>
Tensor SyncBatchNormImplBase<D, Derived>::forward(const Tensor& input) {
  if (!this->is_training() || sync_ == nullptr || sync_->group == nullptr || sync_->group->world() == 1)
    return torch::nn::BatchNormImplBase<D, Derived>::forward(input);
  this->_check_input_dim(input);
  // Types of 16 bits are normalised in float32.
  const bool is_half = input.scalar_type() == torch::kHalf || input.scalar_type() == torch::kBFloat16;
  const Tensor wide = is_half ? input.to(torch::kFloat) : input;
  const auto as_input = [&](const Tensor& tensor) { return tensor.to(wide.scalar_type()); };

  const auto pass = c10::make_intrusive<Pass>();
  pass->sync = sync_;
  pass->group = sync_->group;
  pass->counts = sync_->counts;
  pass->eps = this->options.eps();
  Statistics all;
  {
    const torch::NoGradGuard no_grad;
    all = statistics_of_all(wide.detach(), *pass->group, pass->counts);
  }
  pass->count = all.count;
  if (all.count <= 1) {
    tune::throw_refusal(
        fmt::format("SyncBatchNorm{}d: the ranks together have {:.0f} values for each channel, and a variance needs "
                    "more than one; raise batch_size, or set drop_last",
                    D, all.count));
  }
  if (this->options.track_running_stats()) {
    auto update = [mean = this->running_mean, variance = this->running_var, batches = this->num_batches_tracked,
                   momentum = this->options.momentum(), all]() mutable {
      const torch::NoGradGuard no_grad;
      batches += 1;
      const double factor = momentum ? *momentum : 1 / batches.template item<double>();
      mean.mul_(1 - factor).add_(all.mean.to(mean.scalar_type()), factor);
      variance.mul_(1 - factor).add_((all.variance * (all.count / (all.count - 1))).to(variance.scalar_type()), factor);
    };
    if (sync_->is_deferring) {
      sync_->updates.emplace_back(update);
    } else {
      update();
    }
  }
  const bool is_affine = this->weight.defined();
  const Tensor mean = as_input(all.mean);
  const Tensor output = Normalization::apply(wide, is_affine ? as_input(this->weight) : torch::ones_like(mean),
                                             is_affine ? as_input(this->bias) : torch::zeros_like(mean), mean,
                                             as_input(all.variance), pass);
  return is_half ? output.to(input.scalar_type()) : output;
}

template <size_t D, class Derived>
void SyncBatchNormImplBase<D, Derived>::pretty_print(std::ostream& stream) const {
  stream << fmt::format("volador::train::SyncBatchNorm{}d({}, eps={}, momentum={}, affine={}, track_running_stats={})",
                        D, this->options.num_features(), this->options.eps(),
                        this->options.momentum() ? fmt::format("{}", *this->options.momentum()) : "None",
                        this->options.affine(), this->options.track_running_stats());
}

template class SyncBatchNormImplBase<1, SyncBatchNorm1dImpl>;
template class SyncBatchNormImplBase<2, SyncBatchNorm2dImpl>;
template class SyncBatchNormImplBase<3, SyncBatchNorm3dImpl>;

int64_t share_batch_norms(torch::nn::Module& module, const std::shared_ptr<BatchNormSync>& sync) {
  int64_t count = 0;
  module.apply([&](torch::nn::Module& one) {
    auto* synced = dynamic_cast<SyncBatchNormBase*>(&one);
    if (synced == nullptr) return;
    synced->share(sync);
    ++count;
  });
  return count;
}

int64_t convert_sync_batch_norm(torch::nn::Module& module) {
  std::set<torch::nn::Module*> visited;
  std::vector<Replacement> replacements;
  std::vector<std::string> impossible;
  if (is_batch_norm(module)) impossible.push_back(fmt::format("the module itself ({})", printed(module)));
  collect_replacements(module, "", visited, replacements, impossible);
  if (!impossible.empty()) {
    tune::throw_refusal(fmt::format(
        "convert_sync_batch_norm(): {} cannot be replaced: it is held outside its container too, for example "
        "by a member that forward() calls directly; use train::SyncBatchNorm1d, 2d or 3d in the model",
        fmt::join(impossible, ", ")));
  }
  for (const Replacement& replacement : replacements) {
    [[maybe_unused]] const bool is_replaced = replace<torch::nn::BatchNorm1dImpl, SyncBatchNorm1dImpl>(replacement) ||
                                              replace<torch::nn::BatchNorm2dImpl, SyncBatchNorm2dImpl>(replacement) ||
                                              replace<torch::nn::BatchNorm3dImpl, SyncBatchNorm3dImpl>(replacement);
  }
  return static_cast<int64_t>(replacements.size());
}

}  // namespace volador::train
