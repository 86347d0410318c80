// Which nodes somebody asks for, besides their resources: by labels, by name, apart from others.
#pragma once

#include <compare>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "runtime/result.h"

namespace volador {

using Labels = std::map<std::string, std::string>;

// What a label's value must be: label("zone", "a"), label("zone", label_in({"a", "b"})), label("spot", label_absent()).
struct LabelValue {
  enum class Op : uint8_t { kIn, kNotIn, kExists, kAbsent };

  LabelValue(std::string value) : values{std::move(value)} {}  // Not explicit: a value stands for itself.
  LabelValue(const char* value) : values{value} {}
  LabelValue(Op which, std::vector<std::string> of) : op(which), values(std::move(of)) {}

  auto operator<=>(const LabelValue&) const = default;

  Op op = Op::kIn;
  std::vector<std::string> values;  // Of kIn and kNotIn.
};

inline LabelValue label_in(std::vector<std::string> values) { return {LabelValue::Op::kIn, std::move(values)}; }
// Also of nodes that do not have the label.
inline LabelValue label_not_in(std::vector<std::string> values) { return {LabelValue::Op::kNotIn, std::move(values)}; }
inline LabelValue label_exists() { return {LabelValue::Op::kExists, {}}; }
inline LabelValue label_absent() { return {LabelValue::Op::kAbsent, {}}; }

struct LabelRule {
  std::string key;
  LabelValue value;

  bool matches(const Labels& labels) const;
  auto operator<=>(const LabelRule&) const = default;
};

struct NodeWishes {
  std::vector<LabelRule> labels;  // All of them.
  std::string node;               // Name; empty: any.
  bool node_preferred = false;    // The node is tried first; another one serves too.
  std::string apart;              // No two that say the same word share a node; empty: they may.

  bool empty() const { return labels.empty() && node.empty() && apart.empty(); }
  auto operator<=>(const NodeWishes&) const = default;
};

// kInvalidArgument: a rule without a key, label_in without values; names it.
Result<void> check(const NodeWishes& wishes);

// "zone=a", "zone in (a, b)", "zone not in (a)", "gpu", "!gpu".
std::string to_string(const LabelRule& rule);
// The same of all, joined by ", ".
std::string to_string(const std::vector<LabelRule>& rules);

}  // namespace volador
