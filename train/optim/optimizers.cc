#include "train/optim/optimizers.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/result.h"

namespace volador::train {
namespace {

using at::Scalar;
using at::Tensor;
using torch::optim::Optimizer;
using torch::optim::OptimizerParamGroup;
using Tensors = std::vector<Tensor>;
using Scalars = std::vector<Scalar>;

Tensor loss_of(const Optimizer::LossClosure& closure) {
  if (!closure) return {};
  const at::AutoGradMode enable(true);
  return closure();
}

// A fused kernel: which devices have it.
class FusedKernel {
 public:
  explicit FusedKernel(const char* name) {
    const auto found = c10::Dispatcher::singleton().findSchema({name, ""});
    cuda_ = found && found->hasKernelForDispatchKey(c10::DispatchKey::CUDA);
  }
  // The kernels read parameter, gradient and state as flat memory: their layouts must agree.
  bool takes(const Tensor& parameter, const Tensor& gradient) const {
    const auto type = parameter.scalar_type();
    const bool floating = type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
    return floating && (parameter.is_cpu() || (cuda_ && parameter.is_cuda())) && parameter.layout() == at::kStrided &&
           parameter.is_non_overlapping_and_dense() && same(parameter, gradient);
  }
  static bool same(const Tensor& parameter, const Tensor& other) {
    return other.layout() == at::kStrided && other.scalar_type() == parameter.scalar_type() &&
           other.device() == parameter.device() && other.sizes() == parameter.sizes() &&
           ((other.is_contiguous() && parameter.is_contiguous()) || other.strides() == parameter.strides());
  }

 private:
  bool cuda_ = false;
};

// Tensors for one call of a kernel: one device and type.
template <class State>
struct Batch {
  c10::Device device;
  at::ScalarType type;
  bool first;  // SGD: the momentum buffers have no contents yet.
  Tensors parameters;
  Tensors gradients;
  std::vector<State*> states;
  std::array<Tensors, 3> moments;  // State tensors, in the order of the optimizer.
  Tensors steps;                   // float32, for the fused kernels.
  int64_t last_step = -1;          // Value of steps.back().
};

template <class State>
class Batches {
 public:
  explicit Batches(size_t parameters) : parameters_(parameters) {}

  Batch<State>& add(const Tensor& parameter, const Tensor& gradient, State* state, bool first = false) {
    Batch<State>& batch = find(parameter, first);
    batch.parameters.push_back(parameter);
    batch.gradients.push_back(gradient);
    batch.states.push_back(state);
    return batch;
  }
  auto begin() { return batches_.begin(); }
  auto end() { return batches_.end(); }

 private:
  Batch<State>& find(const Tensor& parameter, bool first) {
    const auto device = parameter.device();
    const auto type = parameter.scalar_type();
    for (auto& batch : batches_) {
      if (batch.device == device && batch.type == type && batch.first == first) return batch;
    }
    batches_.push_back({device, type, first, {}, {}, {}, {}, {}});
    Batch<State>& batch = batches_.back();
    batch.parameters.reserve(parameters_);
    batch.gradients.reserve(parameters_);
    batch.states.reserve(parameters_);
    batch.steps.reserve(parameters_);
    for (auto& moments : batch.moments) moments.reserve(parameters_);
    return batch;
  }

  size_t parameters_;
  std::vector<Batch<State>> batches_;
};

// Appends the step as the tensor that the fused kernels read. Parameters with equal steps share one.
template <class State>
void push_step(Batch<State>& batch, int64_t step) {
  if (step == batch.last_step) {
    batch.steps.push_back(batch.steps.back());
    return;
  }
  batch.steps.push_back(at::full({}, static_cast<double>(step), at::TensorOptions(batch.device).dtype(at::kFloat)));
  batch.last_step = step;
}

// Replaces the parameters of all groups while LibTorch's step runs for a part of them.
class ParameterSwap {
 public:
  ParameterSwap(std::vector<OptimizerParamGroup>& groups, std::vector<Tensors>& others)
      : groups_(groups), others_(others) {
    swap();
  }
  ~ParameterSwap() { swap(); }
  ParameterSwap(const ParameterSwap&) = delete;
  ParameterSwap& operator=(const ParameterSwap&) = delete;

 private:
  void swap() {
    for (size_t i = 0; i < groups_.size(); ++i) groups_[i].params().swap(others_[i]);
  }

  std::vector<OptimizerParamGroup>& groups_;
  std::vector<Tensors>& others_;
};

// Calls fused(group, rest) for each group, which moves what the kernel cannot take to `rest`, then fallback() with only
// these as parameters.
template <class Fused, class Fallback>
Tensor fused_step(Optimizer& optimizer, const Optimizer::LossClosure& closure, Fused fused, Fallback fallback) {
  Tensor loss = loss_of(closure);
  const at::NoGradGuard no_grad;
  auto& groups = optimizer.param_groups();
  std::vector<Tensors> rest(groups.size());
  bool any = false;
  for (size_t i = 0; i < groups.size(); ++i) {
    fused(groups[i], rest[i]);
    any = any || !rest[i].empty();
  }
  if (any) {
    const ParameterSwap swap(groups, rest);
    fallback();
  }
  return loss;
}

// Returns the state of a parameter, which `make` creates on first use.
template <class State, class Make>
State& state_of(Optimizer& optimizer, const Tensor& parameter, Make make) {
  auto& slot = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!slot) {
    auto state = std::make_unique<State>();
    make(*state);
    slot = std::move(state);
  }
  return static_cast<State&>(*slot);
}

Tensor zeros_for(const Tensor& parameter) { return at::zeros_like(parameter, at::MemoryFormat::Preserve); }

template <class Options, class State, class Kernel, class Fallback>
Tensor adam_step(Optimizer& optimizer, const Optimizer::LossClosure& closure, const FusedKernel& kernel, Kernel run,
                 Fallback fallback) {
  const auto fused = [&](OptimizerParamGroup& group, Tensors& rest) {
    const auto& options = static_cast<const Options&>(group.options());
    Batches<State> batches(group.params().size());
    for (const Tensor& parameter : group.params()) {
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (!kernel.takes(parameter, gradient)) {
        rest.push_back(parameter);
        continue;
      }
      auto& state = state_of<State>(optimizer, parameter, [&](State& made) {
        made.exp_avg(zeros_for(parameter));
        made.exp_avg_sq(zeros_for(parameter));
      });
      if (options.amsgrad() && !state.max_exp_avg_sq().defined()) state.max_exp_avg_sq(zeros_for(parameter));
      if (!FusedKernel::same(parameter, state.exp_avg()) || !FusedKernel::same(parameter, state.exp_avg_sq()) ||
          (options.amsgrad() && !FusedKernel::same(parameter, state.max_exp_avg_sq()))) {
        rest.push_back(parameter);
        continue;
      }
      auto& batch = batches.add(parameter, gradient, &state);
      batch.moments[0].push_back(state.exp_avg());
      batch.moments[1].push_back(state.exp_avg_sq());
      if (options.amsgrad()) batch.moments[2].push_back(state.max_exp_avg_sq());
      push_step(batch, ++state.step());
    }
    for (auto& batch : batches) {
      run(batch.parameters, batch.gradients, batch.moments[0], batch.moments[1], batch.moments[2], batch.steps,
          options.lr(), std::get<0>(options.betas()), std::get<1>(options.betas()), options.weight_decay(),
          options.eps(), options.amsgrad(), false, std::optional<Tensor>(), std::optional<Tensor>());
    }
  };
  return fused_step(optimizer, closure, fused, fallback);
}

// Multi-tensor part: gradients with weight decay and sign applied. Returns copies where something changes.
Tensors prepared(const Tensors& gradients, const Tensors& parameters, double weight_decay, bool maximize) {
  if (!maximize) return weight_decay == 0 ? gradients : at::_foreach_add(gradients, parameters, weight_decay);
  Tensors negative = at::_foreach_neg(gradients);
  if (weight_decay != 0) at::_foreach_add_(negative, parameters, weight_decay);
  return negative;
}

// As prepared(), with AdamW's decay of the parameters themselves.
template <class Options>
Tensors prepared_or_decoupled(const Options& options, const Tensors& gradients, Tensors& parameters) {
  const double decay = options.weight_decay();
  if (options.decoupled_weight_decay() && decay != 0) at::_foreach_mul_(parameters, 1 - options.lr() * decay);
  return prepared(gradients, parameters, options.decoupled_weight_decay() ? 0 : decay, options.maximize());
}

template <class State, class Function>
Scalars scalars(const std::vector<State*>& states, Function function) {
  Scalars values;
  values.reserve(states.size());
  for (State* state : states) values.emplace_back(function(*state));
  return values;
}

void create(AdadeltaParamState& state, const AdadeltaOptions&, const Tensor& parameter) {
  state.square_avg(zeros_for(parameter));
  state.acc_delta(zeros_for(parameter));
}
std::array<Tensor, 3> moments_of(const AdadeltaParamState& state) { return {state.square_avg(), state.acc_delta()}; }

void update(const AdadeltaOptions& options, Batch<AdadeltaParamState>& batch) {
  const Tensors gradients = prepared(batch.gradients, batch.parameters, options.weight_decay(), options.maximize());
  const auto& [square_avgs, acc_deltas, unused] = batch.moments;
  at::_foreach_mul_(square_avgs, options.rho());
  at::_foreach_addcmul_(square_avgs, gradients, gradients, 1 - options.rho());
  Tensors std = at::_foreach_add(square_avgs, options.eps());
  at::_foreach_sqrt_(std);
  Tensors deltas = at::_foreach_add(acc_deltas, options.eps());
  at::_foreach_sqrt_(deltas);
  at::_foreach_div_(deltas, std);
  at::_foreach_mul_(deltas, gradients);
  at::_foreach_mul_(acc_deltas, options.rho());
  at::_foreach_addcmul_(acc_deltas, deltas, deltas, 1 - options.rho());
  at::_foreach_add_(batch.parameters, deltas, -options.lr());
}

void create(AdamaxParamState& state, const AdamaxOptions&, const Tensor& parameter) {
  state.exp_avg(zeros_for(parameter));
  state.exp_inf(zeros_for(parameter));
}
std::array<Tensor, 3> moments_of(const AdamaxParamState& state) { return {state.exp_avg(), state.exp_inf()}; }

void update(const AdamaxOptions& options, Batch<AdamaxParamState>& batch) {
  const auto [beta1, beta2] = options.betas();
  const Tensors gradients = prepared(batch.gradients, batch.parameters, options.weight_decay(), options.maximize());
  const auto& [exp_avgs, exp_infs, unused] = batch.moments;
  at::_foreach_lerp_(exp_avgs, gradients, 1 - beta1);
  at::_foreach_mul_(exp_infs, beta2);
  Tensors sizes = at::_foreach_abs(gradients);
  at::_foreach_add_(sizes, options.eps());
  at::_foreach_maximum_(exp_infs, sizes);
  const auto step_size = [&, beta1 = beta1](const AdamaxParamState& state) {
    return -options.lr() / (1 - std::pow(beta1, static_cast<double>(state.step())));
  };
  at::_foreach_addcdiv_(batch.parameters, exp_avgs, exp_infs, scalars(batch.states, step_size));
}

void create(NAdamParamState& state, const NAdamOptions&, const Tensor& parameter) {
  state.exp_avg(zeros_for(parameter));
  state.exp_avg_sq(zeros_for(parameter));
}
std::array<Tensor, 3> moments_of(const NAdamParamState& state) { return {state.exp_avg(), state.exp_avg_sq()}; }

void update(const NAdamOptions& options, Batch<NAdamParamState>& batch) {
  const auto [beta1, beta2] = options.betas();
  const Tensors gradients = prepared_or_decoupled(options, batch.gradients, batch.parameters);
  const auto& [exp_avgs, exp_avg_sqs, unused] = batch.moments;
  at::_foreach_lerp_(exp_avgs, gradients, 1 - beta1);
  at::_foreach_mul_(exp_avg_sqs, beta2);
  at::_foreach_addcmul_(exp_avg_sqs, gradients, gradients, 1 - beta2);

  const double lr = options.lr();
  const double decay = options.momentum_decay();
  Scalars corrections, gradient_steps, average_steps;
  for (NAdamParamState* state : batch.states) {
    const auto step = static_cast<double>(state->step());
    const auto mu_at = [&, beta1 = beta1](double t) { return beta1 * (1.0 - 0.5 * std::pow(0.96, t * decay)); };
    const double mu = mu_at(step);
    const double mu_next = mu_at(step + 1);
    state->mu_product(static_cast<float>(state->mu_product()) * static_cast<float>(mu));
    corrections.emplace_back(std::sqrt(1 - std::pow(beta2, step)));
    gradient_steps.emplace_back(-lr * (1.0 - mu) / (1.0 - state->mu_product()));
    average_steps.emplace_back(-lr * mu_next / (1.0 - state->mu_product() * mu_next));
  }
  Tensors denominators = at::_foreach_sqrt(exp_avg_sqs);
  at::_foreach_div_(denominators, corrections);
  at::_foreach_add_(denominators, options.eps());
  at::_foreach_addcdiv_(batch.parameters, gradients, denominators, gradient_steps);
  at::_foreach_addcdiv_(batch.parameters, exp_avgs, denominators, average_steps);
}

void create(RAdamParamState& state, const RAdamOptions&, const Tensor& parameter) {
  state.exp_avg(zeros_for(parameter));
  state.exp_avg_sq(zeros_for(parameter));
}
std::array<Tensor, 3> moments_of(const RAdamParamState& state) { return {state.exp_avg(), state.exp_avg_sq()}; }

void update(const RAdamOptions& options, Batch<RAdamParamState>& batch) {
  const auto [beta1, beta2] = options.betas();
  const Tensors gradients = prepared_or_decoupled(options, batch.gradients, batch.parameters);
  const auto& [exp_avgs, exp_avg_sqs, unused] = batch.moments;
  at::_foreach_lerp_(exp_avgs, gradients, 1 - beta1);
  at::_foreach_mul_(exp_avg_sqs, beta2);
  at::_foreach_addcmul_(exp_avg_sqs, gradients, gradients, 1 - beta2);

  // The variance is tractable where the length rho of the approximated moving average exceeds 5; before, the step is
  // that of momentum.
  const double lr = options.lr();
  const double rho_max = 2 / (1 - beta2) - 1;
  Scalars rectified, plain;
  for (const RAdamParamState* state : batch.states) {
    const auto step = static_cast<double>(state->step());
    const double power = std::pow(beta2, step);
    const double rho = rho_max - 2 * step * power / (1 - power);
    const double correction = 1 - std::pow(beta1, step);
    double rect = 0;
    if (rho > 5) rect = std::sqrt((rho - 4) * (rho - 2) * rho_max / ((rho_max - 4) * (rho_max - 2) * rho));
    rectified.emplace_back(-std::sqrt(1 - power) * (lr * rect / correction));
    plain.emplace_back(rect > 0 ? -0.0 : -lr / correction);
  }
  // -step size: sqrt(1 - beta2^t) * rectified / (sqrt(v) + eps) + plain. A division by -0 gives -inf, then -0.
  Tensors factors = at::_foreach_sqrt(exp_avg_sqs);
  at::_foreach_add_(factors, options.eps());
  at::_foreach_div_(factors, rectified);
  at::_foreach_reciprocal_(factors);
  at::_foreach_add_(factors, plain);
  at::_foreach_addcmul_(batch.parameters, exp_avgs, factors);
}

using RMSpropState = torch::optim::RMSpropParamState;

void create(RMSpropState& state, const RMSpropOptions&, const Tensor& parameter) {
  state.square_avg(zeros_for(parameter));
}
std::array<Tensor, 3> moments_of(const RMSpropState& state) {
  return {state.square_avg(), state.momentum_buffer(), state.grad_avg()};
}

void update(const RMSpropOptions& options, Batch<RMSpropState>& batch) {
  const Tensors gradients = prepared(batch.gradients, batch.parameters, options.weight_decay(), false);
  const auto& [square_avgs, momentum_buffers, grad_avgs] = batch.moments;
  at::_foreach_mul_(square_avgs, options.alpha());
  at::_foreach_addcmul_(square_avgs, gradients, gradients, 1 - options.alpha());
  Tensors averages;
  if (options.centered()) {
    at::_foreach_lerp_(grad_avgs, gradients, 1 - options.alpha());
    averages = at::_foreach_addcmul(square_avgs, grad_avgs, grad_avgs, -1);
    at::_foreach_sqrt_(averages);
  } else {
    averages = at::_foreach_sqrt(square_avgs);
  }
  at::_foreach_add_(averages, options.eps());
  if (options.momentum() > 0) {
    at::_foreach_mul_(momentum_buffers, options.momentum());
    at::_foreach_addcdiv_(momentum_buffers, gradients, averages);
    at::_foreach_add_(batch.parameters, momentum_buffers, -options.lr());
  } else {
    at::_foreach_addcdiv_(batch.parameters, gradients, averages, -options.lr());
  }
}

// Creates the state tensors that options changed after the first step require.
template <class State, class Options>
void complete(State& state, const Options& options, const Tensor& parameter) {
  if constexpr (std::is_same_v<State, RMSpropState>) {
    if (options.momentum() > 0 && !state.momentum_buffer().defined()) state.momentum_buffer(zeros_for(parameter));
    if (options.centered() && !state.grad_avg().defined()) state.grad_avg(zeros_for(parameter));
  }
}

template <class Options, class State>
Tensor multi_tensor_step(Optimizer& optimizer, const Optimizer::LossClosure& closure) {
  Tensor loss = loss_of(closure);
  const at::NoGradGuard no_grad;
  for (OptimizerParamGroup& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined() || parameter.grad().layout() == at::kStrided) continue;
      throw Exception({ErrorCode::kInvalidArgument,
                       fmt::format("{}: a parameter of shape [{}] has a sparse gradient, which this optimizer cannot "
                                   "use; take SGD or Adagrad, or make the gradient dense",
                                   c10::demangle(typeid(optimizer).name()), fmt::join(parameter.sizes(), ", "))});
    }
    Batches<State> batches(group.params().size());
    for (const Tensor& parameter : group.params()) {
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      auto& state = state_of<State>(optimizer, parameter, [&](State& made) { create(made, options, parameter); });
      complete(state, options, parameter);
      ++state.step();
      // Complex numbers count as pairs of real ones, as in PyTorch.
      const auto real = [](const Tensor& tensor) { return tensor.is_complex() ? at::view_as_real(tensor) : tensor; };
      auto& batch = batches.add(real(parameter), real(gradient), &state);
      const auto moments = moments_of(state);
      for (size_t i = 0; i < moments.size(); ++i) {
        if (moments[i].defined()) batch.moments[i].push_back(real(moments[i]));
      }
    }
    for (auto& batch : batches) update(options, batch);
  }
  return loss;
}

struct OptionsCheck {
  std::string_view owner;
  void require(bool good, const char* name, double value, const char* rule) const {
    if (good) return;
    throw Exception(
        {ErrorCode::kInvalidArgument, fmt::format("{}: {}: expected {}, got {}", owner, name, rule, value)});
  }
  void operator()(const char* name, double value) const {
    if (std::string_view(name) == "rho") {
      require(value >= 0 && value <= 1, name, value, "a number from 0 to 1");
    } else {
      require(value >= 0, name, value, "a number of at least 0");
    }
  }
  void operator()(const char* name, const std::tuple<double, double>& betas) const {
    for (const double beta : {std::get<0>(betas), std::get<1>(betas)}) {
      require(beta >= 0 && beta < 1, name, beta, "numbers of at least 0 and below 1");
    }
  }
  void operator()(const char*, bool) const {}
};

template <class Options>
constexpr std::string_view kOwner = "";
template <>
constexpr std::string_view kOwner<AdadeltaOptions> = "Adadelta";
template <>
constexpr std::string_view kOwner<AdamaxOptions> = "Adamax";
template <>
constexpr std::string_view kOwner<NAdamOptions> = "NAdam";
template <>
constexpr std::string_view kOwner<RAdamOptions> = "RAdam";

// Fields of a group that equal the built-in default take the optimizer's default.
template <class Options>
Options merged(Options group, Options defaults) {
  Options built_in;
  std::vector<void*> fields, built_in_fields;
  defaults.visit([&](const char*, auto& field) { fields.push_back(&field); });
  built_in.visit([&](const char*, auto& field) { built_in_fields.push_back(&field); });
  size_t index = 0;
  group.visit([&](const char*, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if (field == *static_cast<Field*>(built_in_fields[index])) field = *static_cast<Field*>(fields[index]);
    ++index;
  });
  return group;
}

template <class Visited>
void write_fields(const Visited& visited, torch::serialize::OutputArchive& archive) {
  const_cast<Visited&>(visited).visit([&](const char* name, auto& field) {  // visit() does not change it here.
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Tensor>) {
      if (!field.defined()) return;
    }
    archive.write(name, c10::IValue(field));
  });
}

template <class Visited>
void read_fields(Visited& visited, torch::serialize::InputArchive& archive) {
  visited.visit([&](const char* name, auto& field) {
    c10::IValue value;
    using Field = std::remove_reference_t<decltype(field)>;
    if (archive.try_read(name, value)) field = value.to<Field>();
  });
}

}  // namespace

Tensor SGD::step(LossClosure closure) {
  static const FusedKernel kernel("aten::_fused_sgd_");
  using State = torch::optim::SGDParamState;
  const auto fused = [this](OptimizerParamGroup& group, Tensors& rest) {
    const auto& options = static_cast<const SGDOptions&>(group.options());
    const bool momentum = options.momentum() != 0;
    Batches<State> batches(group.params().size());
    for (const Tensor& parameter : group.params()) {
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      if (!kernel.takes(parameter, gradient)) {
        rest.push_back(parameter);
        continue;
      }
      if (!momentum) {
        batches.add(parameter, gradient, nullptr);
        continue;
      }
      bool first = false;
      auto& state = state_of<State>(*this, parameter, [&](State& made) {
        made.momentum_buffer(at::empty_like(parameter, at::MemoryFormat::Preserve));
        first = true;
      });
      if (!first && !FusedKernel::same(parameter, state.momentum_buffer())) {
        rest.push_back(parameter);
        continue;
      }
      batches.add(parameter, gradient, &state, first).moments[0].push_back(state.momentum_buffer());
    }
    for (auto& batch : batches) {
      at::_fused_sgd_(batch.parameters, batch.gradients, batch.moments[0], options.weight_decay(), options.momentum(),
                      options.lr(), options.dampening(), options.nesterov(), /*maximize=*/false, batch.first);
    }
  };
  return fused_step(*this, closure, fused, [this] { torch::optim::SGD::step(); });
}

Tensor Adam::step(LossClosure closure) {
  static const FusedKernel kernel("aten::_fused_adam_");
  return adam_step<AdamOptions, torch::optim::AdamParamState>(
      *this, closure, kernel, [](auto&&... arguments) { at::_fused_adam_(arguments...); },
      [this] { torch::optim::Adam::step(); });
}

Tensor AdamW::step(LossClosure closure) {
  static const FusedKernel kernel("aten::_fused_adamw_");
  return adam_step<AdamWOptions, torch::optim::AdamWParamState>(
      *this, closure, kernel, [](auto&&... arguments) { at::_fused_adamw_(arguments...); },
      [this] { torch::optim::AdamW::step(); });
}

Tensor Adagrad::step(LossClosure closure) {
  static const FusedKernel kernel("aten::_fused_adagrad_");
  using State = torch::optim::AdagradParamState;
  const auto fused = [this](OptimizerParamGroup& group, Tensors& rest) {
    const auto& options = static_cast<const AdagradOptions&>(group.options());
    Batches<State> batches(group.params().size());
    for (const Tensor& parameter : group.params()) {
      const Tensor& gradient = parameter.grad();
      if (!gradient.defined()) continue;
      // LibTorch creates the state of the constructor's parameters only, not of groups that are added later.
      auto& state = state_of<State>(*this, parameter, [&](State& made) {
        made.sum(at::full_like(parameter, options.initial_accumulator_value(), at::MemoryFormat::Preserve));
      });
      if (!kernel.takes(parameter, gradient) || !FusedKernel::same(parameter, state.sum())) {
        rest.push_back(parameter);
        continue;
      }
      auto& batch = batches.add(parameter, gradient, &state);
      batch.moments[0].push_back(state.sum());
      push_step(batch, ++state.step());
    }
    for (auto& batch : batches) {
      at::_fused_adagrad_(batch.parameters, batch.gradients, batch.moments[0], batch.steps, options.lr(),
                          options.lr_decay(), options.weight_decay(), options.eps(), /*maximize=*/false);
    }
  };
  return fused_step(*this, closure, fused, [this] { torch::optim::Adagrad::step(); });
}

Tensor RMSprop::step(LossClosure closure) { return multi_tensor_step<RMSpropOptions, RMSpropState>(*this, closure); }

template <class Derived>
void OptionsByFields<Derived>::serialize(torch::serialize::InputArchive& archive) {
  read_fields(static_cast<Derived&>(*this), archive);
}
template <class Derived>
void OptionsByFields<Derived>::serialize(torch::serialize::OutputArchive& archive) const {
  write_fields(static_cast<const Derived&>(*this), archive);
}
template <class Derived>
double OptionsByFields<Derived>::get_lr() const {
  return static_cast<const Derived&>(*this).lr();
}
template <class Derived>
void OptionsByFields<Derived>::set_lr(double lr) {
  static_cast<Derived&>(*this).lr(lr);
}
template <class Derived>
void StateByFields<Derived>::serialize(torch::serialize::InputArchive& archive) {
  read_fields(static_cast<Derived&>(*this), archive);
}
template <class Derived>
void StateByFields<Derived>::serialize(torch::serialize::OutputArchive& archive) const {
  write_fields(static_cast<const Derived&>(*this), archive);
}

template <class Options, class State>
MultiTensorOptimizer<Options, State>::MultiTensorOptimizer(const std::vector<OptimizerParamGroup>& groups,
                                                           Options defaults)
    : Optimizer(std::vector<OptimizerParamGroup>(), std::make_unique<Options>(defaults)) {
  defaults.visit(OptionsCheck{kOwner<Options>});
  for (const auto& group : groups) add_param_group(group);
}

template <class Options, class State>
MultiTensorOptimizer<Options, State>::MultiTensorOptimizer(std::vector<Tensor> parameters, Options defaults)
    : MultiTensorOptimizer(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))},
                           std::move(defaults)) {}

template <class Options, class State>
void MultiTensorOptimizer<Options, State>::add_param_group(const OptimizerParamGroup& group) {
  auto options = std::make_unique<Options>(static_cast<const Options&>(*defaults_));
  if (group.has_options()) {
    const auto* given = dynamic_cast<const Options*>(&group.options());
    if (given == nullptr) {
      throw Exception({ErrorCode::kInvalidArgument,
                       fmt::format("{}: a parameter group has options of another optimizer; give it {}Options",
                                   kOwner<Options>, kOwner<Options>)});
    }
    *options = merged(*given, *options);
    options->visit(OptionsCheck{kOwner<Options>});
  }
  Optimizer::add_param_group(OptimizerParamGroup(group.params()));  // Checks the parameters.
  param_groups_.back().set_options(std::move(options));
}

template <class Options, class State>
Tensor MultiTensorOptimizer<Options, State>::step(LossClosure closure) {
  return multi_tensor_step<Options, State>(*this, closure);
}

template <class Options, class State>
void MultiTensorOptimizer<Options, State>::save(torch::serialize::OutputArchive& archive) const {
  torch::optim::serialize<State, Options>(archive, *this);
}

template <class Options, class State>
void MultiTensorOptimizer<Options, State>::load(torch::serialize::InputArchive& archive) {
  torch::optim::serialize<State, Options>(archive, *this);
}

template struct OptionsByFields<AdadeltaOptions>;
template struct OptionsByFields<AdamaxOptions>;
template struct OptionsByFields<NAdamOptions>;
template struct OptionsByFields<RAdamOptions>;
template struct StateByFields<AdadeltaParamState>;
template struct StateByFields<AdamaxParamState>;
template struct StateByFields<NAdamParamState>;
template struct StateByFields<RAdamParamState>;
template class MultiTensorOptimizer<AdadeltaOptions, AdadeltaParamState>;
template class MultiTensorOptimizer<AdamaxOptions, AdamaxParamState>;
template class MultiTensorOptimizer<NAdamOptions, NAdamParamState>;
template class MultiTensorOptimizer<RAdamOptions, RAdamParamState>;

}  // namespace volador::train
