// Mixed precision: loss scaling for float16, and autocast.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

namespace torch::optim {
class Optimizer;
}

namespace volador::train {

struct GradScalerOptions {
  double init_scale = 65536;       // Above 0.
  double growth_factor = 2;        // Above 1.
  double backoff_factor = 0.5;     // Above 0, below 1.
  int64_t growth_interval = 2000;  // Steps without infinity or NaN until the scale grows; at least 1.
  bool enabled = true;             // False: all functions pass their arguments on.
};

// Scales the loss so that small float16 gradients do not vanish, and adapts the scale (PyTorch's GradScaler):
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);     // Only if the gradients are read or clipped before the step.
//   scaler.step(optimizer);         // Skips the step if a gradient is infinite or NaN.
//   scaler.update();                // Once, after the steps of all optimizers.
//
// In data-parallel training, unscale after the reduction of the gradients: all ranks then decide alike. One thread.
// Calls out of this order throw Exception (kInvalidArgument).
class GradScaler {
 public:
  // kInvalidArgument (Exception): an option is out of range.
  explicit GradScaler(const GradScalerOptions& options = {});

  // Returns the loss times the scale.
  torch::Tensor scale(const torch::Tensor& loss);
  // Divides the gradients of the optimizer's parameters by the scale. kInvalidArgument also: a gradient is float16;
  // keep the parameters in float32.
  void unscale_(torch::optim::Optimizer& optimizer);
  // Unscales if unscale_() was not called, and runs optimizer.step() if all gradients are finite. Returns whether it
  // ran. Waits for the device. kInvalidArgument also: no parameter has a gradient.
  bool step(torch::optim::Optimizer& optimizer);
  // Multiplies the scale by backoff_factor if a step since the last update() had infinity or NaN, or by growth_factor
  // after growth_interval updates without.
  void update();

  bool enabled() const { return options_.enabled; }
  // 1 if disabled. Waits for the device.
  double current_scale() const;

  // The dictionary of Python's state_dict(): scale, growth_factor, backoff_factor, growth_interval, _growth_tracker;
  // empty if disabled. Between update() and the next scale().
  c10::IValue state() const;
  // No effect if disabled. kInvalidArgument (Exception): names the missing or invalid entry; nothing was loaded.
  void load_state(const c10::IValue& state);

 private:
  enum class Stage : uint8_t { kReady, kUnscaled, kStepped };
  struct PerOptimizer {
    Stage stage = Stage::kReady;
    std::map<c10::DeviceIndex, torch::Tensor> found_inf;  // By device; the CPU is -1. float32, above 0: found.
  };
  void create_scale(const torch::Device& device);

  GradScalerOptions options_;
  int64_t growth_tracker_value_ = 0;  // Value for the creation of growth_tracker_.
  torch::Tensor scale_;               // float32 scalar on the device of the first loss; undefined before.
  torch::Tensor growth_tracker_;      // int32 scalar: updates without infinity or NaN since the scale changed.
  std::unordered_map<const torch::optim::Optimizer*, PerOptimizer> optimizers_;
};

// Runs operations of this thread in a lower precision while it exists, where that is safe (torch.autocast). Guards
// nest; the destructor restores the previous state, and the outermost one frees the cached casts of parameters.
class AutocastGuard {
 public:
  // `dtype`: kBFloat16 or kHalf. enabled false: full precision within an outer guard.
  // kInvalidArgument (Exception): another type.
  explicit AutocastGuard(c10::DeviceType device, at::ScalarType dtype = at::kBFloat16, bool enabled = true);
  ~AutocastGuard();
  AutocastGuard(const AutocastGuard&) = delete;
  AutocastGuard& operator=(const AutocastGuard&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_before_;
  at::ScalarType dtype_before_;
};

}  // namespace volador::train
