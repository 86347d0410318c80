#include "runtime/metric_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace volador {
namespace {

bool is_metric_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && name.size() <= MetricLimits::kNameBytes && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || digit(c); });
}

}  // namespace

Result<void> check_metric(std::string_view name, const MetricLabels& labels) {
  constexpr std::array<std::string_view, 6> kTaken{"actor", "name", "namespace", "class", "node", "le"};
  const auto refuse = [](std::string why) { return make_error(ErrorCode::kInvalidArgument, std::move(why)); };
  if (!is_metric_name(name)) {
    return refuse(fmt::format("metric \"{}\": expected 1 to {} letters, digits and '_', no digit first",
                              name.substr(0, MetricLimits::kNameBytes), MetricLimits::kNameBytes));
  }
  if (labels.size() > MetricLimits::kLabels) {
    return refuse(
        fmt::format("metric {}: expected at most {} labels, got {}; each set of values is a series of its own", name,
                    MetricLimits::kLabels, labels.size()));
  }
  for (const auto& [label, value] : labels) {
    if (!is_metric_name(label) || label.starts_with("__")) {
      return refuse(fmt::format("metric {}, label \"{}\": expected 1 to {} letters, digits and '_', no digit first",
                                name, label.substr(0, MetricLimits::kNameBytes), MetricLimits::kNameBytes));
    }
    if (std::find(kTaken.begin(), kTaken.end(), label) != kTaken.end()) {
      return refuse(fmt::format(
          "metric {}, label \"{}\": every series has this one from its actor; choose another name", name, label));
    }
    if (value.size() > MetricLimits::kNameBytes) {
      return refuse(fmt::format("metric {}, label {}: expected a value of at most {} bytes, got {}", name, label,
                                MetricLimits::kNameBytes, value.size()));
    }
  }
  return {};
}

}  // namespace volador
