#include "tune/metric_board.h"

#include <fmt/format.h>

#include <cmath>

namespace volador::tune {

bool MetricBoard::add(int64_t index, const Metrics& result) {
  for (const auto& [name, value] : result) {
    if (names_.find(name) == names_.end()) names_.insert(name);
  }
  const std::optional<double> value = metric_.empty() ? std::nullopt : result.get(metric_);
  if (!value) return true;
  seen_ = true;
  const auto at = static_cast<size_t>(index);
  if (keys_.size() <= at) keys_.resize(at + 1);
  std::optional<double>& key = keys_[at];
  if (key) ranking_.erase({*key, index});
  key.reset();
  if (std::isnan(*value)) return false;
  key = mode_ == Mode::kMax ? -*value : *value;
  ranking_.insert({*key, index});
  return true;
}

std::optional<int64_t> MetricBoard::best() const {
  if (ranking_.empty()) return std::nullopt;
  return ranking_.begin()->second;
}

Error MetricBoard::missing_error(const std::string& metric) const {
  std::string names;
  for (const std::string& name : names_) {
    if (name == "time_this_iter_s" || name == "time_total_s") continue;  // Ours, on every result.
    names += (names.empty() ? "" : ", ") + name;
  }
  return {ErrorCode::kInvalidArgument, fmt::format("metric \"{}\" was never reported; trials report: {}.", metric,
                                                   names.empty() ? "nothing" : names)};
}

void MetricBoard::check_invariants() const {
  size_t ranked = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (!keys_[i]) continue;
    ++ranked;
    VOLADOR_CHECK(ranking_.contains({*keys_[i], static_cast<int64_t>(i)}), std::to_string(i));
  }
  VOLADOR_CHECK(ranked == ranking_.size());
}

}  // namespace volador::tune
