// Node affinity of a request, in addition to its resources: by labels, by node name, and anti-affinity.
#pragma once

#include <compare>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

using Labels = std::map<std::string, std::string>;

// Condition on a label's value: label("zone", "a"), label("zone", label_in({"a", "b"})), label("spot", label_absent()).
struct LabelValue {
  enum class Op : uint8_t { kIn, kNotIn, kExists, kAbsent };

  LabelValue(std::string value) : values{std::move(value)} {}  // Implicit: a plain value means equality.
  LabelValue(const char* value) : values{value} {}
  LabelValue(Op which, std::vector<std::string> of) : op(which), values(std::move(of)) {}

  auto operator<=>(const LabelValue&) const = default;

  Op op = Op::kIn;
  std::vector<std::string> values;  // For kIn and kNotIn.
};

inline LabelValue label_in(std::vector<std::string> values) { return {LabelValue::Op::kIn, std::move(values)}; }
// Also matches nodes without the label.
inline LabelValue label_not_in(std::vector<std::string> values) { return {LabelValue::Op::kNotIn, std::move(values)}; }
inline LabelValue label_exists() { return {LabelValue::Op::kExists, {}}; }
inline LabelValue label_absent() { return {LabelValue::Op::kAbsent, {}}; }

// Condition on one label of a node.
struct LabelRule {
  std::string key;
  LabelValue value;

  bool matches(const Labels& labels) const;
  auto operator<=>(const LabelRule&) const = default;
};

// Node affinity of an actor, task or placement group.
struct NodeAffinity {
  std::vector<LabelRule> labels;  // All must match.
  std::string node;               // Name; empty: any.
  bool node_preferred = false;    // The node is preferred, but any other one is allowed.
  std::string apart;              // Anti-affinity key: equal keys never share a node; empty: no restriction.

  bool empty() const { return labels.empty() && node.empty() && apart.empty(); }
  auto operator<=>(const NodeAffinity&) const = default;
};

// kInvalidArgument: a rule without a key, or label_in without values; names it.
Result<void> check(const NodeAffinity& wishes);

// "zone=a", "zone in (a, b)", "zone not in (a)", "gpu", "!gpu".
std::string to_string(const LabelRule& rule);
// All rules, joined by ", ".
std::string to_string(const std::vector<LabelRule>& rules);

}  // namespace volador
