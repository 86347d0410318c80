#include "tune/decision_record.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "tune/progress_table.h"

namespace volador::tune {
namespace {

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// One is made for each trial that stops, so it is put together piece by piece.
void add(std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) text += part;
}

void add_rank(std::string& text, const DecisionRecord& record) {
  if (record.rank > 0) add(text, {"rank ", std::to_string(record.rank), " of ", std::to_string(record.of), " "});
  add(text, {"at step ", record.milestone > 0 ? format_value(record.milestone) : std::to_string(record.step)});
  if (record.bracket > 0) add(text, {" of bracket ", std::to_string(record.bracket)});
  add(text, {" with ", format_value(record.value)});
}

void add_cutoff(std::string& text, const DecisionRecord& record) {
  if (std::isnan(record.cutoff)) return;
  const std::string cutoff = format_value(record.cutoff);
  if (record.pass == 1) {
    add(text, {"; the best goes on, with ", cutoff});
  } else if (record.pass > 1) {
    add(text, {"; the best ", std::to_string(record.pass), " go on, from ", cutoff});
  } else {
    add(text, {"; the cut-off is ", cutoff});
  }
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
  std::string text = record.detail;
  if (!record.detail.empty()) {
    // In the words of its scheduler.
  } else if (record.act == Act::kFinished) {
    add(text, {std::to_string(record.step), " steps done"});
  } else {
    text.reserve(96);
    add_rank(text, record);
    if (record.act == Act::kCloned) {
      add(text, {"; it goes on as a copy of trial ", to_string(record.other)});
    } else {
      add_cutoff(text, record);
    }
  }
  if (!record.rule.empty()) add(text, {" (", record.rule, ")"});
  return text;
}

void keep_best(std::vector<RungMember>& members, size_t count, Mode mode) {
  std::ranges::stable_sort(members,
                           [mode](const RungMember& a, const RungMember& b) { return better(a.value, b.value, mode); });
  if (members.size() > count) members.resize(count);
}

}  // namespace volador::tune
