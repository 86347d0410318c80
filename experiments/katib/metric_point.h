// One value of a metric that a trial reported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace volador::experiments::katib {

struct MetricPoint {
  std::string metric;
  std::string value;               // As it was written: "0.924463", "nan".
  std::optional<int64_t> time_ns;  // Unix time; none: the source had none.

  bool operator==(const MetricPoint&) const = default;
};

// "0.5", "-1.5e-3", ".5", "1.", "nan", "+Inf" as numbers. None: another text.
std::optional<double> number_of(std::string_view value);

}  // namespace volador::experiments::katib
