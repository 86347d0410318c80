#include "train/group/gradient_reducer.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/torch.h>

#include <chrono>
#include <utility>

namespace volador::train {
namespace {

constexpr int64_t kFlags = 3;

torch::Tensor untracked_view(const torch::Tensor& flat, const BucketSlot& slot, const torch::Tensor& parameter) {
  // Autograd does not know this as a view, so that Optimizer::zero_grad() can detach it.
  const at::AutoDispatchBelowADInplaceOrView untracked;
  return flat.narrow(0, slot.offset, slot.elements).view(parameter.sizes());
}

uint64_t mixed(uint64_t digest, uint64_t value) {
  digest ^= value + 0x9e3779b97f4a7c15ULL + (digest << 6) + (digest >> 2);
  return digest;
}

}  // namespace

struct GradientReducer::Impl {
  struct Slot {
    size_t bucket = 0;
    torch::Tensor parameter;
    torch::Tensor input;      // View of the exchange's input.
    torch::Tensor result;     // View of its result.
    torch::Tensor own;        // Copy of the result; made when asked for.
    bool is_touched = false;  // Has a gradient of this step.
    bool is_filled = false;   // Has it from the last backward pass of the step.
  };

  BucketPlan plan;
  std::vector<torch::TensorOptions> types;
  std::vector<Slot> slots;                    // In the order of the parameters.
  std::vector<std::vector<size_t>> slots_of;  // For each bucket.
  std::vector<size_t> left;                   // Slots of each bucket that are not filled.
  std::unique_ptr<GradientExchange> exchange;
  torch::Tensor control_input, control_result;
  bool is_alone = true;      // A group of one rank.
  bool is_direct = false;    // This step's gradients stay where they are.
  bool is_open = false;      // A step has begun.
  bool is_dropping = false;  // Gradients are another optimizer's.
  bool is_one_of_many = false;
  bool is_armed = false;  // Gradients count.
  bool is_last = false;
  double weight = 1;
  double communication_seconds = 0;

  void on_gradient(size_t index) {
    if (is_dropping) slots[index].parameter.mutable_grad().reset();
    if (!is_armed || is_direct) return;
    const torch::NoGradGuard no_grad;
    Slot& slot = slots[index];
    torch::Tensor gradient = slot.parameter.grad();
    if (!gradient.defined()) return;
    if (gradient.is_sparse()) gradient = gradient.to_dense();
    if (slot.is_touched) {
      slot.input.add_(gradient, weight);
    } else {
      at::mul_out(slot.input, gradient, at::native::wrapped_scalar_tensor(weight));
    }
    slot.parameter.mutable_grad().reset();
    slot.is_touched = true;
    if (!is_last || slot.is_filled) return;
    slot.is_filled = true;
    if (--left[slot.bucket] == 0 && slot.bucket + 1 != plan.buckets.size()) exchange->post(slot.bucket);
  }

  void begin_step() {
    if (is_open) return;
    is_open = true;
    for (size_t i = 0; i < slots_of.size(); ++i) left[i] = slots_of[i].size();
    for (Slot& slot : slots) slot.is_touched = slot.is_filled = false;
  }
};

namespace {

class Hook final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit Hook(std::function<void()> function) : function_(std::move(function)) {}
  void operator()(const torch::autograd::Variable&) override { function_(); }

 private:
  std::function<void()> function_;
};

}  // namespace

GradientReducer::GradientReducer(std::vector<torch::Tensor> parameters, bool is_one_of_many, int64_t bucket_bytes)
    : impl_(std::make_unique<Impl>()) {
  impl_->is_one_of_many = is_one_of_many;
  std::erase_if(parameters, [](const torch::Tensor& parameter) { return !parameter.requires_grad(); });
  std::vector<ParameterShape> shapes;
  std::vector<torch::TensorOptions> kinds;
  for (const torch::Tensor& parameter : parameters) {
    size_t kind = 0;
    const torch::TensorOptions type = torch::dtype(parameter.dtype()).device(parameter.device());
    while (kind < kinds.size() && (kinds[kind].dtype() != type.dtype() || kinds[kind].device() != type.device()))
      ++kind;
    if (kind == kinds.size()) kinds.push_back(type);
    shapes.push_back({.name = {},
                      .elements = parameter.numel(),
                      .element_bytes = static_cast<int64_t>(parameter.element_size()),
                      .kind = static_cast<int>(kind)});
  }
  impl_->plan = plan_buckets(shapes, {.first_bytes = std::min<int64_t>(1 << 20, bucket_bytes),
                                      .bytes = bucket_bytes,
                                      .control_words = kFlags + static_cast<int64_t>(parameters.size())});
  impl_->slots.resize(parameters.size());
  for (size_t i = 0; i < impl_->plan.buckets.size(); ++i) {
    const Bucket& bucket = impl_->plan.buckets[i];
    impl_->types.push_back(kinds.empty() ? torch::TensorOptions(torch::kFloat)
                                         : kinds[static_cast<size_t>(bucket.kind)]);
    impl_->slots_of.emplace_back();
    for (const BucketSlot& slot : bucket.slots) {
      impl_->slots_of.back().push_back(slot.parameter);
      impl_->slots[slot.parameter].bucket = i;
      impl_->slots[slot.parameter].parameter = parameters[slot.parameter];
    }
  }
  impl_->left.resize(impl_->plan.buckets.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    torch::autograd::impl::set_post_acc_grad_hooks(
        parameters[i], std::make_unique<Hook>([impl = impl_.get(), i] { impl->on_gradient(i); }));
  }
}

GradientReducer::~GradientReducer() {
  for (const Impl::Slot& slot : impl_->slots) torch::autograd::impl::set_post_acc_grad_hooks(slot.parameter, nullptr);
}

const BucketPlan& GradientReducer::plan() const { return impl_->plan; }

std::vector<torch::Tensor> GradientReducer::parameters() const {
  std::vector<torch::Tensor> parameters;
  for (const Impl::Slot& slot : impl_->slots) parameters.push_back(slot.parameter);
  return parameters;
}

uint64_t GradientReducer::layout() const {
  uint64_t digest = impl_->slots.size();
  for (const Impl::Slot& slot : impl_->slots) {
    digest = mixed(digest, static_cast<uint64_t>(slot.parameter.scalar_type()));
    for (const int64_t size : slot.parameter.sizes()) digest = mixed(digest, static_cast<uint64_t>(size));
  }
  return digest;
}

void GradientReducer::attach(Group& group) {
  clear();
  impl_->is_alone = group.world() == 1;
  impl_->exchange = group.exchange(impl_->plan, impl_->types);
  for (size_t i = 0; i < impl_->plan.buckets.size(); ++i) {
    for (const BucketSlot& place : impl_->plan.buckets[i].slots) {
      Impl::Slot& slot = impl_->slots[place.parameter];
      slot.input = untracked_view(impl_->exchange->input(i), place, slot.parameter);
      slot.result = untracked_view(impl_->exchange->result(i), place, slot.parameter);
    }
  }
  const size_t last = impl_->plan.buckets.size() - 1;
  const int64_t words = kFlags + static_cast<int64_t>(impl_->slots.size());
  impl_->control_input = impl_->exchange->input(last).narrow(0, impl_->plan.control_offset, words);
  impl_->control_result = impl_->exchange->result(last).narrow(0, impl_->plan.control_offset, words);
}

void GradientReducer::begin_backward(double weight, bool last) {
  Impl& impl = *impl_;
  const bool is_first = !impl.is_open;
  impl.begin_step();
  impl.weight = weight;
  impl.is_last = last;
  impl.is_armed = true;
  impl.is_direct = impl.is_alone && !impl.is_one_of_many && is_first && last && weight == 1;
}

void GradientReducer::end_backward() { impl_->is_armed = false; }
void GradientReducer::set_dropping(bool is_dropping) { impl_->is_dropping = is_dropping; }

StepFlags GradientReducer::finish(const StepFlags& flags, bool owned) {
  Impl& impl = *impl_;
  const torch::NoGradGuard no_grad;
  impl.begin_step();
  impl.is_armed = false;
  if (impl.is_direct) return flags;
  const auto begin = std::chrono::steady_clock::now();
  const size_t last = impl.plan.buckets.size() - 1;
  std::vector<double> words{flags.pause, flags.not_finite, flags.user};
  for (Impl::Slot& slot : impl.slots) {
    if (!slot.is_touched) slot.input.zero_();
    words.push_back(slot.is_touched ? 1 : 0);
  }
  impl.control_input.copy_(torch::tensor(words, torch::kDouble));
  for (size_t i = 0; i < impl.slots_of.size(); ++i) {
    if (i == last || impl.left[i] > 0 || impl.slots_of[i].empty()) impl.exchange->post(i);
  }
  impl.exchange->finish();
  const torch::Tensor sums = impl.control_result.to(torch::kCPU, torch::kDouble);
  const double* sum = sums.const_data_ptr<double>();
  for (size_t i = 0; i < impl.slots.size(); ++i) {
    Impl::Slot& slot = impl.slots[i];
    if (sum[static_cast<size_t>(kFlags) + i] == 0) {
      slot.parameter.mutable_grad().reset();
    } else if (owned) {
      if (slot.own.defined()) {
        slot.own.copy_(slot.result);
      } else {
        slot.own = slot.result.clone();
      }
      slot.parameter.mutable_grad() = slot.own;
    } else {
      slot.parameter.mutable_grad() = slot.result;
    }
  }
  impl.communication_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {.pause = sum[0], .not_finite = sum[1], .user = sum[2]};
}

void GradientReducer::clear() {
  impl_->is_open = impl_->is_armed = impl_->is_direct = false;
  for (Impl::Slot& slot : impl_->slots) slot.parameter.mutable_grad().reset();
}

double GradientReducer::take_communication_seconds() { return std::exchange(impl_->communication_seconds, 0.0); }

}  // namespace volador::train
