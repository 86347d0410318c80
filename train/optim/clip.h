// Gradient clipping over multi-tensor kernels, with the results of PyTorch's torch.nn.utils.
#pragma once

#include <torch/types.h>

#include <vector>

namespace volador::train {

// Scales the gradients so that the norm of all of them together is at most max_norm, and returns the norm before.
// norm_type: order of the norm, for example 2, 1 or infinity. Parameters without a gradient are skipped; the norm of
// no gradient is 0. Waits for the device.
// kInvalidArgument (Exception): max_norm < 0; with error_if_nonfinite, the norm is infinite or NaN, and the gradients
// are unchanged. Otherwise such a norm makes all gradients 0 or NaN.
double clip_grad_norm_(const std::vector<torch::Tensor>& parameters, double max_norm, double norm_type = 2,
                       bool error_if_nonfinite = false);

// Limits each element of the gradients to [-clip_value, clip_value].
// kInvalidArgument (Exception): clip_value < 0.
void clip_grad_value_(const std::vector<torch::Tensor>& parameters, double clip_value);

}  // namespace volador::train
