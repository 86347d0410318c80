#include "tune/loop/decision_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "tune/display/progress_table.h"

namespace volador::tune {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Reason rank_of(const DecisionRecord& record) {
  std::string step = record.milestone > 0 ? format_value(record.milestone) : std::to_string(record.step);
  std::string value = format_value(record.value);
  if (record.bracket > 0) {
    if (record.rank == 0) return reason("decision.at_in", std::move(step), record.bracket, std::move(value));
    return reason("decision.rank_in", record.rank, record.of, std::move(step), record.bracket, std::move(value));
  }
  if (record.rank == 0) return reason("decision.at", std::move(step), std::move(value));
  return reason("decision.rank", record.rank, record.of, std::move(step), std::move(value));
}

Reason cutoff_of(const DecisionRecord& record) {
  if (std::isnan(record.cutoff)) return {};
  std::string cutoff = format_value(record.cutoff);
  if (record.pass == 1) return reason("decision.best", std::move(cutoff));
  if (record.pass > 1) return reason("decision.best_of", record.pass, std::move(cutoff));
  return reason("decision.cutoff", std::move(cutoff));
}

Reason detail_of(const DecisionRecord& record) {
  if (!record.detail.empty()) return record.detail;
  if (record.act == Act::kFinished) return reason("decision.steps_done", record.step);
  return and_also(rank_of(record),
                  record.act == Act::kCloned ? reason("decision.copy", to_string(record.other)) : cutoff_of(record));
}

}  // namespace

std::string_view to_string(Act act) {
  constexpr std::array<std::string_view, 7> kNames{"passed",  "stopped", "finished", "paused",
                                                   "resumed", "cloned",  "resized"};
  return kNames[static_cast<size_t>(act)];
}

bool DecisionRecord::operator==(const DecisionRecord& b) const {
  const auto plain = [](const DecisionRecord& one) {
    return std::tie(one.trial, one.step, one.act, one.rule, one.bracket, one.rank, one.of, one.pass, one.other,
                    one.detail);
  };
  return plain(*this) == plain(b) && same(milestone, b.milestone) && same(value, b.value) && same(cutoff, b.cutoff);
}

Reason reason_of(const DecisionRecord& record) {
  Reason detail = detail_of(record);
  return record.rule.empty() ? detail : reason("decision.by", std::move(detail), record.rule);
}

void keep_best(std::vector<RungMember>& members, size_t count, Mode mode) {
  std::ranges::stable_sort(members,
                           [mode](const RungMember& a, const RungMember& b) { return better(a.value, b.value, mode); });
  if (members.size() > count) members.resize(count);
}

}  // namespace volador::tune
