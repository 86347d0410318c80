#include "train/operator/training_operator.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "train/operator/operator_impl.h"
#include "train/optim/clip.h"
#include "train/optim/optimizers.h"
#include "train/optim/state_dict.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;
namespace F = torch::nn::functional;

// Adds the time until its end to a sum.
class Timer {
 public:
  explicit Timer(double& sum) : sum_(sum), begin_(Clock::now()) {}
  ~Timer() { sum_ += std::chrono::duration<double>(Clock::now() - begin_).count(); }
  Timer(const Timer&) = delete;

 private:
  double& sum_;
  const Clock::time_point begin_;
};

void check_rate(const char* optimizer, double lr) {
  if (!(lr > 0)) tune::throw_refusal(fmt::format("{}: lr is {}; it must be above 0", optimizer, lr));
}

// As many rows of each tensor of a batch, from `from`.
Batch part_of(const Batch& batch, int64_t from, int64_t rows) {
  Batch part;
  for (const torch::Tensor& tensor : batch.tensors) part.tensors.push_back(tensor.narrow(0, from, rows));
  for (const auto& [name, tensor] : batch.named) part.named.emplace(name, tensor.narrow(0, from, rows));
  return part;
}

}  // namespace

OptimizerFactory sgd(const SgdSettings& settings) {
  check_rate("sgd", settings.lr);
  return [settings](std::vector<torch::Tensor> parameters) -> OptimizerPtr {
    return std::make_shared<SGD>(std::move(parameters), SGDOptions(settings.lr)
                                                            .momentum(settings.momentum)
                                                            .weight_decay(settings.weight_decay)
                                                            .dampening(settings.dampening)
                                                            .nesterov(settings.nesterov));
  };
}

OptimizerFactory adam(const AdamSettings& settings) {
  check_rate("adam", settings.lr);
  return [settings](std::vector<torch::Tensor> parameters) -> OptimizerPtr {
    return std::make_shared<Adam>(std::move(parameters), AdamOptions(settings.lr)
                                                             .betas({settings.beta1, settings.beta2})
                                                             .eps(settings.eps)
                                                             .weight_decay(settings.weight_decay)
                                                             .amsgrad(settings.amsgrad));
  };
}

OptimizerFactory adamw(const AdamSettings& settings) {
  check_rate("adamw", settings.lr);
  return [settings](std::vector<torch::Tensor> parameters) -> OptimizerPtr {
    return std::make_shared<AdamW>(std::move(parameters), AdamWOptions(settings.lr)
                                                              .betas({settings.beta1, settings.beta2})
                                                              .eps(settings.eps)
                                                              .weight_decay(settings.weight_decay)
                                                              .amsgrad(settings.amsgrad));
  };
}

Criterion cross_entropy(double label_smoothing) {
  return [label_smoothing](const torch::Tensor& output, const torch::Tensor& target) {
    return F::cross_entropy(output, target, F::CrossEntropyFuncOptions().label_smoothing(label_smoothing));
  };
}
Criterion nll_loss() {
  return [](const torch::Tensor& output, const torch::Tensor& target) { return F::nll_loss(output, target); };
}
Criterion mse_loss() {
  return [](const torch::Tensor& output, const torch::Tensor& target) { return F::mse_loss(output, target); };
}
Criterion bce_with_logits() {
  return [](const torch::Tensor& output, const torch::Tensor& target) {
    return F::binary_cross_entropy_with_logits(output, target);
  };
}

OperatorRegistry& OperatorRegistry::instance() {
  static OperatorRegistry registry;
  return registry;
}

std::string OperatorRegistry::add(std::string_view name, Factory factory) {
  factories_.emplace_back(std::string(name), std::move(factory));
  return std::string(name);
}

std::unique_ptr<TrainingOperator> OperatorRegistry::make(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [known, factory] : factories_) {
    if (known == name) return factory();
    names.push_back(known);
  }
  throw Exception(Error{ErrorCode::kNotFound,
                        fmt::format("training operator {} is not registered in this program; put "
                                    "VOLADOR_TRAINING_OPERATOR(…) beside the class. Registered: {}",
                                    name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")))});
}

OperatorImpl::Optimizer& OperatorImpl::find(const OptimizerPtr& optimizer, const char* function) {
  if (optimizer == nullptr && optimizers.size() == 1) return optimizers.front();
  for (Optimizer& entry : optimizers) {
    if (entry.optimizer == optimizer) return entry;
  }
  if (optimizer != nullptr) {
    tune::throw_refusal(
        fmt::format("{}: this optimizer is not registered; call register_optimizer() in setup()", function));
  }
  tune::throw_refusal(
      fmt::format("{}: {} optimizers are registered; name the one that is meant", function, optimizers.size()));
}

const OperatorImpl::Model& OperatorImpl::only_model(const char* function) const {
  if (models.size() != 1) {
    tune::throw_refusal(
        fmt::format("{} of the training operator: {} models are registered, and the default method works for "
                    "one; override train_batch() and validate_batch()",
                    function, models.size()));
  }
  if (!models.front().forward) {
    tune::throw_refusal(
        fmt::format("{}: forward() of model {} takes neither 1, 2 nor 3 tensors; override train_batch() and "
                    "validate_batch()",
                    function, models.front().name));
  }
  return models.front();
}

int64_t OperatorImpl::passes_of(int64_t rows) const {
  if (data.micro_batch == 0) return 1;
  // With SyncBatchNorm all ranks need as many passes as the one with the largest share.
  const auto world = static_cast<int64_t>(group == nullptr ? 1 : group->world());
  if (sync_layers > 0) rows = std::max(rows, (batch.batch_rows + world - 1) / world);
  return (rows + data.micro_batch - 1) / data.micro_batch;
}

void OperatorImpl::apply_schedule(Optimizer& entry) const {
  if (entry.schedule == nullptr) return;
  auto& groups = entry.optimizer->param_groups();
  const std::optional<double> momentum = entry.schedule->momentum(entry.schedule_steps);
  for (size_t i = 0; i < groups.size(); ++i) {
    auto& group = groups[i].options();
    group.set_lr(entry.schedule->rate(entry.base_rates.at(i), entry.schedule_steps));
    if (!momentum) continue;
    if (auto* with_momentum = dynamic_cast<torch::optim::SGDOptions*>(&group)) {
      with_momentum->momentum(*momentum);
    } else if (auto* of_adam = dynamic_cast<torch::optim::AdamOptions*>(&group)) {
      of_adam->betas({*momentum, std::get<1>(of_adam->betas())});
    } else if (auto* of_adamw = dynamic_cast<torch::optim::AdamWOptions*>(&group)) {
      of_adamw->betas({*momentum, std::get<1>(of_adamw->betas())});
    }
  }
}

std::string OperatorImpl::describe_compression() const {
  switch (compression) {
    case Compression::kNone:
      return "none";
    case Compression::kHalf:
      return "float16";
    case Compression::kBFloat16:
      return "bfloat16";
    case Compression::kPowerSgd:
      break;
  }
  return fmt::format(
      "PowerSGD {{.rank = {}, .start_step = {}, .min_compression_rate = {}, .error_feedback = {}, .warm_start = {}, "
      ".seed = {}}}",
      power_sgd.rank, power_sgd.start_step, power_sgd.min_compression_rate, power_sgd.error_feedback,
      power_sgd.warm_start, power_sgd.seed);
}

TrainingOperator::TrainingOperator() : impl_(std::make_unique<OperatorImpl>()) {}
TrainingOperator::~TrainingOperator() = default;

Metrics TrainingOperator::train_epoch(BatchIterator& batches, const EpochInfo&) {
  impl_->has_sums = true;
  while (auto loaded = batches.next()) {
    impl_->sums.add(train_batch(loaded->batch, loaded->info), static_cast<double>(loaded->info.rows));
  }
  return {};
}

Metrics TrainingOperator::train_batch(const Batch& batch, const BatchInfo& info) {
  OperatorImpl& impl = *impl_;
  impl.only_model("train_batch()");
  if (!impl.criterion) {
    tune::throw_refusal(
        "train_batch() of the training operator: no criterion is registered; call register_all() or "
        "register_criterion() in setup(), or override train_batch()");
  }
  const int64_t rows = batch.size();
  const int64_t passes = impl.passes_of(rows);
  double loss_sum = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const int64_t from = rows * pass / passes, count = rows * (pass + 1) / passes - from;
    // A pass without a sample of this rank is one with a sample that does not count.
    const Batch part = count == rows ? batch : part_of(batch, from, std::max<int64_t>(1, count));
    impl.sync->counts = info.rows > 0 && count > 0;
    const torch::Tensor output = forward(part);
    const torch::Tensor loss = impl.criterion(output, part.target());
    backward(loss, nullptr, count, pass + 1 == passes);
    if (count > 0) loss_sum += loss.item<double>() * static_cast<double>(count);
  }
  // A step that was left out for a loss that is no number counts no samples.
  if (!step(nullptr, impl.clipping) && !std::isfinite(loss_sum)) return {{"num_samples", 0.0}};
  return {{"train_loss", loss_sum / static_cast<double>(rows)}, {"num_samples", static_cast<double>(info.rows)}};
}

Metrics TrainingOperator::validate(BatchIterator& batches, const EpochInfo&) {
  const torch::NoGradGuard no_grad;
  impl_->has_sums = true;
  while (auto loaded = batches.next()) {
    impl_->sums.add(validate_batch(loaded->batch, loaded->info), static_cast<double>(loaded->info.rows));
  }
  return {};
}

Metrics TrainingOperator::validate_batch(const Batch& batch, const BatchInfo& info) {
  impl_->only_model("validate_batch()");
  if (!impl_->criterion) {
    tune::throw_refusal(
        "validate_batch() of the training operator: no criterion is registered; call register_criterion() in "
        "setup(), or override validate_batch()");
  }
  const torch::Tensor output = forward(batch);
  const torch::Tensor& target = batch.target();
  Metrics metrics{{"val_loss", impl_->criterion(output, target).item<double>()}};
  if (output.dim() == 2 && target.dim() == 1 && target.scalar_type() == torch::kLong)
    metrics.set("val_accuracy", output.argmax(1).eq(target).to(torch::kDouble).mean().item<double>());
  metrics.set("num_samples", static_cast<double>(info.rows));
  return metrics;
}

c10::IValue TrainingOperator::state_dict() { return {}; }
void TrainingOperator::load_state_dict(const c10::IValue&) {}

Metrics TrainingOperator::on_call(const std::string& name, const Config&) {
  tune::throw_refusal(
      fmt::format("on_call(): operator {} has no function \"{}\"; override on_call() and handle this name",
                  impl_->options.operator_name, name));
}

void TrainingOperator::place(torch::nn::Module& module) const { module.to(impl_->device); }

void TrainingOperator::add_model(std::shared_ptr<torch::nn::Module> module, Forward forward, std::string name) {
  if (impl_->is_set_up) tune::throw_refusal("register_model(): models are registered in setup() only");
  if (name.empty()) name = impl_->models.empty() ? "model" : fmt::format("model_{}", impl_->models.size() + 1);
  for (const auto& model : impl_->models) {
    if (model.name == name)
      tune::throw_refusal(fmt::format("register_model(): the name {} is taken; give another one", name));
  }
  impl_->models.push_back({std::move(name), std::move(module), std::move(forward)});
}

OptimizerPtr TrainingOperator::register_optimizer(OptimizerPtr optimizer, const OptimizerSettings& settings) {
  if (impl_->is_set_up) tune::throw_refusal("register_optimizer(): optimizers are registered in setup() only");
  if (optimizer == nullptr) tune::throw_refusal("register_optimizer(): the optimizer is null");
  OperatorImpl::Optimizer entry;
  entry.optimizer = optimizer;
  if (settings.shard) entry.shard = std::make_unique<ShardedOptimizer>(optimizer);
  for (const auto& group : optimizer->param_groups()) entry.base_rates.push_back(group.options().get_lr());
  impl_->optimizers.push_back(std::move(entry));
  return optimizer;
}

void TrainingOperator::register_criterion(Criterion criterion) { impl_->criterion = std::move(criterion); }

void TrainingOperator::register_schedule(const OptimizerPtr& optimizer, SchedulePtr schedule, ScheduleStep when) {
  auto& entry = impl_->find(optimizer, "register_schedule()");
  entry.schedule = std::move(schedule);
  entry.when = when;
  impl_->apply_schedule(entry);
}

void TrainingOperator::register_data(DataOptions data) {
  if (data.train == nullptr) tune::throw_refusal("register_data(): train is missing");
  const auto at_least = [](const char* name, int64_t value, int64_t least) {
    if (value < least)
      tune::throw_refusal(fmt::format("register_data(): {} is {}; it must be at least {}", name, value, least));
  };
  at_least("batch_size", data.batch_size, 1);
  at_least("validation_batch_size", data.validation_batch_size, 0);
  at_least("micro_batch", data.micro_batch, 0);
  at_least("loader_threads", data.loader_threads, 0);
  at_least("prefetch", data.prefetch, 1);
  if (data.train->size() < 1) tune::throw_refusal("register_data(): the training data set is empty");
  if (data.drop_last && data.train->size() < data.batch_size) {
    tune::throw_refusal(fmt::format("register_data(): drop_last with {} samples and batch_size {} leaves no batch",
                                    data.train->size(), data.batch_size));
  }
  if (data.validation_batch_size == 0) data.validation_batch_size = data.batch_size;
  impl_->data = std::move(data);
  impl_->has_data = true;
}

void TrainingOperator::on_nan(NanPolicy policy) { impl_->nan_policy = policy; }
void TrainingOperator::clip_gradients(const StepOptions& options) { impl_->clipping = options; }

void TrainingOperator::compress_gradients(Compression compression, const PowerSgdOptions& power_sgd) {
  if (impl_->is_set_up) {
    tune::throw_refusal(
        "compress_gradients(): setup() is over, and all ranks must agree how gradients travel; call it in setup()");
  }
  check_options(ReducerOptions{.compression = compression, .power_sgd = power_sgd});
  impl_->compression = compression;
  impl_->power_sgd = power_sgd;
}

void TrainingOperator::use_autocast(torch::ScalarType type) {
  if (type != torch::kBFloat16 && (type != torch::kHalf || !impl_->device.is_cuda())) {
    tune::throw_refusal(fmt::format("use_autocast(): {} on {}; use torch::kBFloat16, or torch::kHalf on a GPU",
                                    c10::toString(type), impl_->device.str()));
  }
  impl_->autocast = type;
  impl_->scaler = type == torch::kHalf ? std::make_unique<GradScaler>() : nullptr;
}

torch::Tensor TrainingOperator::forward(const Batch& batch) {
  const auto& model = impl_->only_model("forward()");
  impl_->set_activity("forward pass");
  const Timer timer(impl_->times.forward);
  const AutocastGuard autocast(impl_->device.type(), impl_->autocast.value_or(torch::kBFloat16),
                               impl_->autocast.has_value());
  torch::Tensor output = model.forward(batch);
  return impl_->autocast ? output.to(torch::kFloat) : output;
}

void TrainingOperator::backward(const torch::Tensor& loss, const OptimizerPtr& optimizer, int64_t rows, bool last) {
  OperatorImpl& impl = *impl_;
  auto& entry = impl.find(optimizer, "backward()");
  impl.set_activity("backward pass");
  const Timer timer(impl.times.backward);
  if (loss.numel() != 1) tune::throw_refusal("backward(): the loss must be a scalar; take its mean over the samples");
  if (!impl.device.is_cpu()) {
    impl.losses.push_back(loss.detach());
  } else if (!std::isfinite(loss.item<double>())) {
    impl.is_batch_finite = false;
  }
  const double samples = impl.batch.rows == 0 ? 0 : static_cast<double>(rows < 0 ? impl.batch.rows : rows);
  const double all = static_cast<double>(std::max<int64_t>(1, impl.batch.batch_rows));
  impl.sync->weight = samples / all;
  entry.reducer->begin_backward(samples / all, last && !impl.exchanges_late);
  // The pass also reaches parameters of other optimizers, which must not keep its gradients.
  const auto set_others_dropping = [&](bool is_dropping) {
    for (auto& other : impl.optimizers) {
      if (&other != &entry) other.reducer->set_dropping(is_dropping);
    }
  };
  set_others_dropping(true);
  const auto end = [&] {
    set_others_dropping(false);
    entry.reducer->end_backward();
  };
  try {
    if (impl.scaler != nullptr) {
      impl.scaler->scale(loss).backward();
    } else {
      loss.backward();
    }
  } catch (...) {
    end();
    throw;
  }
  end();
}

bool TrainingOperator::step(const OptimizerPtr& optimizer, const StepOptions& options) {
  OperatorImpl& impl = *impl_;
  auto& entry = impl.find(optimizer, "step()");
  const bool clips = options.clip_norm > 0 || options.clip_value > 0;
  impl.set_activity("sum of the gradients");
  for (const torch::Tensor& loss : impl.losses) {
    if (!std::isfinite(loss.item<double>())) impl.is_batch_finite = false;
  }
  impl.losses.clear();
  const StepFlags flags{.pause = impl.pause_requested.load() ? 1.0 : 0.0,
                        .not_finite = impl.is_batch_finite ? 0.0 : 1.0,
                        .user = impl.stop_requested ? 1.0 : 0.0};
  const StepFlags sums = entry.reducer->finish(flags, clips || impl.scaler != nullptr);
  impl.times.communication += entry.reducer->take_communication_seconds();
  if (sums.pause > 0) impl.pause_seen = true;
  if (sums.user > 0) impl.stop_seen = true;
  if (!impl.copies.empty()) {
    impl.set_activity("copy of the state");
    const Timer timer(impl.times.optimizer);
    impl.finish_copies();
  }
  if (++impl.optimizer_steps <= impl.steps_applied) {  // The batch was given up after this step and is repeated.
    entry.reducer->clear();
    return true;
  }
  if (sums.not_finite > 0 && impl.scaler == nullptr) {
    entry.reducer->clear();
    if (impl.nan_policy == NanPolicy::kSkip) return false;
    if (impl.nan_policy == NanPolicy::kStop) {
      impl.stop_seen = impl.nan_stop = true;
      return false;
    }
    throw Exception(
        Error{ErrorCode::kApplication,
              fmt::format("the loss of {:.0f} of {} ranks is NaN or infinite in step {} (epoch {}); lower the learning "
                          "rate, clip gradients, or choose on_nan(train::NanPolicy::kSkip)",
                          sums.not_finite, world(), impl.batch.step, impl.batch.epoch)});
  }
  bool is_done = true;
  {
    impl.set_activity("optimizer step");
    const Timer timer(impl.times.optimizer);
    if (impl.scaler != nullptr) impl.scaler->unscale_(*entry.optimizer);
    if (options.clip_value > 0) clip_grad_value_(entry.reducer->parameters(), options.clip_value);
    if (options.clip_norm > 0) clip_grad_norm_(entry.reducer->parameters(), options.clip_norm);
    if (entry.shard != nullptr) entry.shard->take_own_gradients();
    if (impl.scaler != nullptr) {
      is_done = impl.scaler->step(*entry.optimizer);
      impl.scaler->update();
    } else {
      entry.optimizer->step();
    }
  }
  if (entry.shard != nullptr && is_done) {
    impl.set_activity("exchange of the parameters");
    const Timer timer(impl.times.communication);
    entry.shard->send_parameters(*impl.group);
  }
  entry.reducer->clear();
  if (is_done && entry.when == ScheduleStep::kBatch && entry.schedule != nullptr) step_schedule(entry.optimizer);
  return is_done;
}

void TrainingOperator::synchronize_gradients(const OptimizerPtr& optimizer) {
  OperatorImpl& impl = *impl_;
  auto& entry = impl.find(optimizer, "synchronize_gradients()");
  if (entry.shard != nullptr) {
    tune::throw_refusal(
        "synchronize_gradients(): the optimizer is sharded, and only step() exchanges its parameters; call step(), or "
        "register the optimizer without shard");
  }
  impl.set_activity("sum of the gradients");
  const StepFlags sums = entry.reducer->finish(
      {.pause = impl.pause_requested.load() ? 1.0 : 0.0, .not_finite = 0.0, .user = impl.stop_requested ? 1.0 : 0.0},
      true);
  impl.times.communication += entry.reducer->take_communication_seconds();
  if (sums.pause > 0) impl.pause_seen = true;
  if (sums.user > 0) impl.stop_seen = true;
  impl.finish_copies();
  ++impl.optimizer_steps;
}

void TrainingOperator::clear_gradients(const OptimizerPtr& optimizer) {
  impl_->find(optimizer, "clear_gradients()").reducer->clear();
}

void TrainingOperator::step_schedule(const OptimizerPtr& optimizer) {
  auto& entry = impl_->find(optimizer, "step_schedule()");
  if (entry.schedule == nullptr) tune::throw_refusal("step_schedule(): no schedule is registered for this optimizer");
  ++entry.schedule_steps;
  impl_->apply_schedule(entry);
}

void TrainingOperator::request_stop() { impl_->stop_requested = true; }

torch::Device TrainingOperator::device() const { return impl_->device; }
int TrainingOperator::rank() const { return impl_->group == nullptr ? 0 : impl_->group->rank(); }
int TrainingOperator::world() const { return impl_->group == nullptr ? 1 : impl_->group->world(); }
const Config& TrainingOperator::config() const { return impl_->config; }

int64_t TrainingOperator::optimizer_state_bytes() const {
  int64_t bytes = 0;
  for (const auto& entry : impl_->optimizers)
    bytes += entry.shard != nullptr ? entry.shard->state_bytes() : tensor_bytes(optimizer_state(*entry.optimizer));
  return bytes;
}
void TrainingOperator::all_reduce(torch::Tensor tensor) {
  if (impl_->group == nullptr) tune::throw_refusal("all_reduce(): the group is not formed in setup() yet");
  impl_->group->all_reduce(std::move(tensor));
}
void TrainingOperator::broadcast(torch::Tensor tensor, int root) {
  if (impl_->group == nullptr) tune::throw_refusal("broadcast(): the group is not formed in setup() yet");
  impl_->group->broadcast(std::move(tensor), root);
}

}  // namespace volador::train
