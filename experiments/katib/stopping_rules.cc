#include "experiments/katib/stopping_rules.h"

#include <cmath>
#include <utility>

namespace volador::experiments::katib {
namespace {

bool is_rule_met(const StoppingRule& rule, double value) {
  switch (rule.comparison) {
    case Comparison::kEqual:
      return value == rule.value;
    case Comparison::kLess:
      return value < rule.value;
    case Comparison::kGreater:
      break;
  }
  return value > rule.value;
}

}  // namespace

StoppingRules::StoppingRules(const Objective& objective, std::vector<StoppingRule> rules)
    : objective_(objective.metric), maximize_(objective.maximize), any_(!rules.empty()), waiting_(std::move(rules)) {}

bool StoppingRules::on_report(const MetricPoint& point) {
  const auto value = number_of(point.value);
  if (!any_ || !value) return false;
  const int64_t count = ++reports_[point.metric];
  std::optional<double> compared = *value;
  if (point.metric == objective_) {
    const bool is_better = !std::isnan(*value) && (!best_ || (maximize_ ? *value > *best_ : *value < *best_));
    if (is_better) best_ = *value;
    compared = best_;
  }
  if (compared) {
    std::erase_if(waiting_, [&](const StoppingRule& rule) {
      return rule.metric == point.metric && count >= rule.start_step && is_rule_met(rule, *compared);
    });
  }
  return waiting_.empty();
}

}  // namespace volador::experiments::katib
