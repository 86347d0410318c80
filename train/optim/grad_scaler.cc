#include "train/optim/grad_scaler.h"

#include <ATen/autocast_mode.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador::train {
namespace {

using at::Tensor;

[[noreturn]] void fail(std::string message) { throw Exception({ErrorCode::kInvalidArgument, std::move(message)}); }

void check(const GradScalerOptions& options) {
  const auto require = [](bool good, const char* name, double value, const char* rule) {
    if (!good) fail(fmt::format("GradScaler: {}: expected {}, got {}", name, rule, value));
  };
  require(options.init_scale > 0 && std::isfinite(options.init_scale), "init_scale", options.init_scale,
          "a finite number above 0");
  require(options.growth_factor > 1, "growth_factor", options.growth_factor, "a number above 1");
  require(options.backoff_factor > 0 && options.backoff_factor < 1, "backoff_factor", options.backoff_factor,
          "a number above 0 and below 1");
  require(options.growth_interval >= 1, "growth_interval", static_cast<double>(options.growth_interval),
          "an integer of at least 1");
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options) : options_(options) { check(options_); }

void GradScaler::create_scale(const at::Device& device) {
  scale_ = at::full({}, options_.init_scale, at::TensorOptions(device).dtype(at::kFloat));
  growth_tracker_ = at::full({}, growth_tracker_value_, at::TensorOptions(device).dtype(at::kInt));
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!options_.enabled) return loss;
  if (!scale_.defined()) create_scale(loss.device());
  return loss * scale_.to(loss.device(), /*non_blocking=*/true);
}

void GradScaler::unscale_(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (!scale_.defined()) fail("GradScaler::unscale_: call scale(loss).backward() before");
  PerOptimizer& own = optimizers_[&optimizer];
  if (own.stage == Stage::kUnscaled)
    fail("GradScaler::unscale_: called twice for one optimizer; call update() between");
  if (own.stage == Stage::kStepped) fail("GradScaler::unscale_: called after step(); call update() between");

  const at::NoGradGuard no_grad;
  std::vector<std::vector<Tensor>> batches;  // One device and type each.
  for (const auto& group : optimizer.param_groups()) {
    for (const Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      const Tensor gradient = parameter.grad().is_sparse() ? parameter.grad()._values() : parameter.grad();
      if (gradient.scalar_type() == at::kHalf) {
        fail(
            fmt::format("GradScaler::unscale_: the gradient of a parameter of shape [{}] is float16; keep the "
                        "parameters in float32 and run the forward pass under AutocastGuard",
                        fmt::join(parameter.sizes(), ", ")));
      }
      auto batch = batches.begin();
      while (batch != batches.end() &&
             (batch->front().device() != gradient.device() || batch->front().scalar_type() != gradient.scalar_type())) {
        ++batch;
      }
      if (batch == batches.end()) batch = batches.emplace(batch);
      batch->push_back(gradient);
    }
  }
  const Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat);
  own.found_inf.clear();
  for (auto& batch : batches) {
    const at::Device device = batch.front().device();
    Tensor& found = own.found_inf[device.index()];
    if (!found.defined()) found = at::zeros({}, at::TensorOptions(device).dtype(at::kFloat));
    at::_amp_foreach_non_finite_check_and_unscale_(batch, found, inverse.to(device, /*non_blocking=*/true));
  }
  own.stage = Stage::kUnscaled;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (!scale_.defined()) fail("GradScaler::step: call scale(loss).backward() before");
  if (optimizers_[&optimizer].stage == Stage::kStepped) {
    fail("GradScaler::step: called twice for one optimizer; call update() between");
  }
  if (optimizers_[&optimizer].stage == Stage::kReady) unscale_(optimizer);
  PerOptimizer& own = optimizers_[&optimizer];
  if (own.found_inf.empty()) fail("GradScaler::step: no parameter of the optimizer has a gradient; call backward()");
  bool finite = true;
  for (const auto& [device, found] : own.found_inf) finite = finite && found.item<float>() == 0;
  if (finite) optimizer.step();
  own.stage = Stage::kStepped;
  return finite;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (!scale_.defined()) fail("GradScaler::update: call scale(loss).backward() and step(optimizer) before");
  const at::NoGradGuard no_grad;
  Tensor found;
  for (const auto& [optimizer, own] : optimizers_) {
    for (const auto& [device, one] : own.found_inf) {
      const Tensor here = one.to(scale_.device());
      found = found.defined() ? found + here : here;
    }
  }
  if (!found.defined())
    fail("GradScaler::update: no gradient was checked since the last update(); call step(optimizer)");
  at::_amp_update_scale_(scale_, growth_tracker_, found, options_.growth_factor, options_.backoff_factor,
                         options_.growth_interval);
  optimizers_.clear();
}

double GradScaler::current_scale() const {
  if (!options_.enabled) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}

c10::IValue GradScaler::state() const {
  c10::impl::GenericDict state(c10::AnyType::get(), c10::AnyType::get());
  if (!options_.enabled) return state;
  state.insert("scale", current_scale());
  state.insert("growth_factor", options_.growth_factor);
  state.insert("backoff_factor", options_.backoff_factor);
  state.insert("growth_interval", options_.growth_interval);
  state.insert("_growth_tracker", growth_tracker_.defined() ? growth_tracker_.item<int64_t>() : growth_tracker_value_);
  return state;
}

void GradScaler::load_state(const c10::IValue& state) {
  if (!options_.enabled) return;
  if (!state.isGenericDict()) fail(fmt::format("state of GradScaler: expected a dictionary, got {}", state.tagKind()));
  const auto dict = state.toGenericDict();
  if (dict.empty()) fail("state of GradScaler: it is empty, so a disabled scaler saved it");
  const auto number = [&](const char* name) {
    const auto found = dict.find(name);
    if (found == dict.end()) fail(fmt::format("state of GradScaler: \"{}\" is missing", name));
    const c10::IValue value = found->value();
    if (!value.isDouble() && !value.isInt()) fail(fmt::format("state of GradScaler: \"{}\" is not a number", name));
    return value.isDouble() ? value.toDouble() : static_cast<double>(value.toInt());
  };
  GradScalerOptions options = options_;
  options.init_scale = number("scale");
  options.growth_factor = number("growth_factor");
  options.backoff_factor = number("backoff_factor");
  options.growth_interval = static_cast<int64_t>(number("growth_interval"));
  const auto tracker = static_cast<int64_t>(number("_growth_tracker"));
  check(options);
  options_ = options;
  growth_tracker_value_ = tracker;
  if (scale_.defined()) create_scale(scale_.device());
}

AutocastGuard::AutocastGuard(c10::DeviceType device, at::ScalarType dtype, bool enabled) : device_(device) {
  if (dtype != at::kBFloat16 && dtype != at::kHalf) {
    fail(fmt::format("AutocastGuard: dtype: expected kBFloat16 or kHalf, got {}", c10::toString(dtype)));
  }
  enabled_before_ = at::autocast::is_autocast_enabled(device);
  dtype_before_ = at::autocast::get_autocast_dtype(device);
  at::autocast::set_autocast_enabled(device, enabled);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::increment_nesting();
}

AutocastGuard::~AutocastGuard() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, enabled_before_);
  at::autocast::set_autocast_dtype(device_, dtype_before_);
}

}  // namespace volador::train
