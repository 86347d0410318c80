// Limits for names and numbers of an actor's metrics; checked by the sender and again by the receiver. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

using MetricLabels = std::map<std::string, std::string>;

// Limits of metrics, shared by sender and receiver.
struct MetricLimits {
  static constexpr size_t kSeries = 100;  // Per actor: combinations of name and labels. Further ones are not reported.
  static constexpr size_t kNameBytes = 100;  // For a metric name, a label name or a label value.
  static constexpr size_t kHelpBytes = 200;  // Longer help texts are truncated.
  static constexpr size_t kLabels = 8;       // Per series.
  static constexpr size_t kBounds = 40;      // Per histogram.
};

// kInvalidArgument: a name that Prometheus does not accept (letters, digits and '_', not starting with a digit), too
// long, or one of the labels that every series has (actor, name, namespace, class, node, le).
[[nodiscard]] Result<void> check_metric(std::string_view name, const MetricLabels& labels);

}  // namespace volador
