// Metrics in the text format of Prometheus, as an HTTP server of a program answers it.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/metric_point.h"

namespace volador::experiments::katib {

// The samples of these metrics, in their order in the text: lines such as `accuracy{split="test"} 0.93 1700000000000`.
// Prometheus has only letters, digits, "_" and ":" in names: "Validation-accuracy" is "Validation_accuracy" there. Lines
// that are no samples are left out.
std::vector<MetricPoint> read_prometheus_text(std::string_view text, const std::vector<std::string>& metrics);

}  // namespace volador::experiments::katib
