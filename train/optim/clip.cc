#include "train/optim/clip.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "runtime/result.h"

namespace volador::train {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters.size());
  for (const auto& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

void require_limit(const char* name, double value) {
  if (value >= 0) return;
  throw Exception(
      {ErrorCode::kInvalidArgument, fmt::format("{}: expected a number of at least 0, got {}", name, value)});
}

}  // namespace

double clip_grad_norm_(const std::vector<at::Tensor>& parameters, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  require_limit("max_norm", max_norm);
  const at::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (gradients.empty()) return 0;
  auto norms = at::_foreach_norm(gradients, norm_type);
  for (auto& norm : norms) norm = norm.to(norms.front().device());
  const at::Tensor total = at::linalg_vector_norm(at::stack(norms), norm_type);
  const auto value = total.item<double>();
  if (error_if_nonfinite && !std::isfinite(value)) {
    throw Exception({ErrorCode::kInvalidArgument,
                     fmt::format("the norm of order {} of {} gradients is {} and cannot be clipped; lower the learning "
                                 "rate or skip this step",
                                 norm_type, gradients.size(), value)});
  }
  const at::Tensor factor = max_norm / (total + 1e-6);
  if (factor.item<double>() >= 1) return value;
  for (const auto& gradient : gradients) {
    if (gradient.device() != factor.device()) {
      at::_foreach_mul_(gradients, factor.item<double>());
      return value;
    }
  }
  at::_foreach_mul_(gradients, factor);
  return value;
}

void clip_grad_value_(const std::vector<at::Tensor>& parameters, double clip_value) {
  require_limit("clip_value", clip_value);
  const at::NoGradGuard no_grad;
  const auto gradients = gradients_of(parameters);
  if (gradients.empty()) return;
  at::_foreach_clamp_min_(gradients, -clip_value);
  at::_foreach_clamp_max_(gradients, clip_value);
}

}  // namespace volador::train
