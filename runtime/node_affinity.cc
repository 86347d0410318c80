#include "runtime/node_affinity.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador {

bool LabelRule::matches(const Labels& labels) const {
  const auto found = labels.find(key);
  const bool has = found != labels.end();
  const auto listed = [&] {
    return std::find(value.values.begin(), value.values.end(), found->second) != value.values.end();
  };
  switch (value.op) {
    case LabelValue::Op::kIn:
      return has && listed();
    case LabelValue::Op::kNotIn:
      return !has || !listed();
    case LabelValue::Op::kExists:
      return has;
    case LabelValue::Op::kAbsent:
      return !has;
  }
  return false;
}

Result<void> check(const NodeAffinity& wishes) {
  for (const LabelRule& rule : wishes.labels) {
    const bool lists = rule.value.op == LabelValue::Op::kIn || rule.value.op == LabelValue::Op::kNotIn;
    if (rule.key.empty()) return make_error(ErrorCode::kInvalidArgument, "label: expected a name, got an empty one");
    if (lists && rule.value.values.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("label {}: expected at least one value, got none; for any value use "
                                    "label_exists(), for none label_absent()",
                                    rule.key));
    }
  }
  if (wishes.node_preferred && wishes.node.empty())
    return make_error(ErrorCode::kInvalidArgument, "prefer_node: expected the name of a node, got an empty one");
  return {};
}

std::string to_string(const LabelRule& rule) {
  const auto& values = rule.value.values;
  switch (rule.value.op) {
    case LabelValue::Op::kIn:
      return values.size() == 1 ? fmt::format("{}={}", rule.key, values.front())
                                : fmt::format("{} in ({})", rule.key, fmt::join(values, ", "));
    case LabelValue::Op::kNotIn:
      return fmt::format("{} not in ({})", rule.key, fmt::join(values, ", "));
    case LabelValue::Op::kExists:
      return rule.key;
    case LabelValue::Op::kAbsent:
      return "!" + rule.key;
  }
  return rule.key;
}

std::string to_string(const std::vector<LabelRule>& rules) {
  std::string text;
  for (const LabelRule& rule : rules) text += (text.empty() ? "" : ", ") + to_string(rule);
  return text;
}

}  // namespace volador
