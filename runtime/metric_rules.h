// What an actor's own measures may be called, and how many there may be: kept by who makes them, and checked again by
// who shows them. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

using MetricLabels = std::map<std::string, std::string>;

struct MetricLimits {
  static constexpr size_t kSeries = 100;  // Of one actor: names with each set of labels. Further ones are not reported.
  static constexpr size_t kNameBytes = 100;  // Of a measure, a label, or a label's value.
  static constexpr size_t kHelpBytes = 200;  // Cut there.
  static constexpr size_t kLabels = 8;       // Of one series.
  static constexpr size_t kBounds = 40;      // Of a histogram's buckets.
};

// kInvalidArgument: a name that Prometheus would not take (letters, digits and '_', no digit first), too long, or one
// of the labels that every series has (actor, name, namespace, class, node, le).
[[nodiscard]] Result<void> check_metric(std::string_view name, const MetricLabels& labels);

}  // namespace volador
