// Sentences of health problems.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/language/reason.h"

namespace volador {

// Sentence of a problem with this code (runtime/node_health.h), such as "GPU 1: its driver does not reach it (GPU is
// lost)". A code of a newer version: subject and detail as they are.
Reason health_reason(std::string_view code, std::optional<int> gpu, std::string_view subject, std::string_view detail);

// The same for a message HealthProblem of the control or of the public protocol.
template <class Problem>
Reason health_reason(const Problem& problem) {
  return health_reason(problem.code(), problem.has_gpu() ? std::optional<int>(problem.gpu()) : std::nullopt,
                       problem.subject(), problem.detail());
}

}  // namespace volador
