#include "tune/decision_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "tune/progress_table.h"

namespace volador::tune {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

std::string rank_text(const DecisionRecord& record) {
  std::string text;
  if (record.rank > 0) text = fmt::format("rank {} of {} ", record.rank, record.of);
  text +=
      fmt::format("at step {}", record.milestone > 0 ? format_value(record.milestone) : std::to_string(record.step));
  if (record.bracket > 0) text += fmt::format(" of bracket {}", record.bracket);
  return text + fmt::format(" with {}", format_value(record.value));
}

std::string cutoff_text(const DecisionRecord& record) {
  if (record.pass > 0 && !std::isnan(record.cutoff)) {
    return record.pass == 1 ? fmt::format("; the best goes on, with {}", format_value(record.cutoff))
                            : fmt::format("; the best {} go on, from {}", record.pass, format_value(record.cutoff));
  }
  if (!std::isnan(record.cutoff)) return fmt::format("; the cut-off is {}", format_value(record.cutoff));
  return "";
}

}  // namespace

std::string_view to_string(Act act) {
  constexpr std::array<std::string_view, 7> kNames{"passed", "stopped", "finished", "paused", "resumed", "cloned", "resized"};
  return kNames[static_cast<size_t>(act)];
}

bool DecisionRecord::operator==(const DecisionRecord& b) const {
  const auto plain = [](const DecisionRecord& one) {
    return std::tie(one.trial, one.step, one.act, one.rule, one.bracket, one.rank, one.of, one.pass, one.other,
                    one.detail);
  };
  return plain(*this) == plain(b) && same(milestone, b.milestone) && same(value, b.value) && same(cutoff, b.cutoff);
}

std::string to_text(const DecisionRecord& record) {
  const std::string by = record.rule.empty() ? "" : fmt::format(" ({})", record.rule);
  if (!record.detail.empty()) return record.detail + by;
  if (record.act == Act::kFinished) return fmt::format("{} steps done{}", record.step, by);
  if (record.act == Act::kCloned)
    return fmt::format("{}; it goes on as a copy of trial {}{}", rank_text(record), to_string(record.other), by);
  return rank_text(record) + cutoff_text(record) + by;
}

void keep_best(std::vector<RungMember>& members, size_t count, Mode mode) {
  std::ranges::stable_sort(members,
                           [mode](const RungMember& a, const RungMember& b) { return better(a.value, b.value, mode); });
  if (members.size() > count) members.resize(count);
}

}  // namespace volador::tune
