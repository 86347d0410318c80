#include "tune/loop/metric_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace volador::tune {
namespace {

constexpr int64_t kNobody = -1;

}  // namespace

bool MetricBoard::add(int64_t index, const Metrics& result, bool counts) {
  if (Metrics::Names names = result.names(); !(names == last_names_)) {
    for (const auto& [name, value] : result) names_.insert(name);
    last_names_ = std::move(names);
  }
  const std::optional<double> value = metric_.empty() ? std::nullopt : result.get(metric_);
  if (!value) return true;
  seen_ = true;
  if (!counts) return is_result(*value);
  const auto at = static_cast<size_t>(index);
  if (at >= leaves_) grow(at + 1);
  keys_[at] = mode_ == Mode::kMax ? -*value : *value;
  rank(index);
  if (!is_result(*value)) return false;
  const bool leads = !best_so_far_ || better(*value, best_so_far_->value, mode_) ||
                     (*value == best_so_far_->value && index < best_so_far_->index);
  if (leads) best_so_far_ = {index, *value};
  return true;
}

std::optional<int64_t> MetricBoard::best(Scope scope) const {
  VOLADOR_CHECK(scope != Scope::kAverage);
  if (scope == Scope::kAll) return best_so_far_ ? std::optional(best_so_far_->index) : std::nullopt;
  if (leaves_ == 0 || winners_[1] == kNobody) return std::nullopt;
  return winners_[1];
}

int64_t MetricBoard::winner(int64_t one, int64_t other) const {
  if (one == kNobody || other == kNobody) return std::max(one, other);
  const double a = keys_[static_cast<size_t>(one)], b = keys_[static_cast<size_t>(other)];
  return b < a ? other : one;  // Ties go to the first.
}

void MetricBoard::rank(int64_t index) {
  size_t node = leaves_ + static_cast<size_t>(index);
  winners_[node] = is_result(keys_[static_cast<size_t>(index)]) ? index : kNobody;
  bool changed = true;
  while (changed && node > 1) {
    node /= 2;
    const int64_t before = std::exchange(winners_[node], winner(winners_[2 * node], winners_[2 * node + 1]));
    changed = before == index || winners_[node] == index;
  }
}

void MetricBoard::grow(size_t trials) {
  leaves_ = std::max<size_t>(leaves_, 64);
  while (leaves_ < trials) leaves_ *= 2;
  keys_.resize(leaves_, std::numeric_limits<double>::quiet_NaN());
  winners_.assign(2 * leaves_, kNobody);
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (is_result(keys_[i])) winners_[leaves_ + i] = static_cast<int64_t>(i);
  }
  for (size_t node = leaves_; node-- > 1;) winners_[node] = winner(winners_[2 * node], winners_[2 * node + 1]);
}

Error MetricBoard::missing_error(const std::string& metric) const {
  std::string names;
  for (const std::string& name : names_) {
    if (name == "time_this_iter_s" || name == "time_total_s") continue;  // Added by the runtime to every result.
    names += (names.empty() ? "" : ", ") + name;
  }
  return {ErrorCode::kInvalidArgument, fmt::format("metric \"{}\" was never reported; trials report: {}.", metric,
                                                   names.empty() ? "nothing" : names)};
}

void MetricBoard::check_invariants() const {
  int64_t lead = kNobody;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const bool ranked = is_result(keys_[i]);
    VOLADOR_CHECK(winners_[leaves_ + i] == (ranked ? static_cast<int64_t>(i) : kNobody), std::to_string(i));
    if (ranked) lead = winner(lead, static_cast<int64_t>(i));
  }
  VOLADOR_CHECK(best().value_or(kNobody) == lead,
                fmt::format("trial {} leads, not {}", lead, best().value_or(kNobody)));
}

}  // namespace volador::tune
