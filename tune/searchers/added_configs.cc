#include "tune/searchers/added_configs.h"

#include <algorithm>

#include "tune/loop/trial.h"
#include "tune/snapshot.h"

namespace volador::tune {

bool AddedConfigs::add(const Config& config) {
  if (waiting_.size() >= kWaitingMax) return false;
  waiting_.push_back(config);
  return true;
}

Result<Suggestion> AddedConfigs::suggest(int64_t index) {
  if (waiting_.empty()) return inner_->suggest(inner_index(index));
  Suggestion suggestion{Suggestion::Kind::kConfig, std::move(waiting_.front())};
  waiting_.pop_front();
  added_.push_back(index);
  inner_->on_start(inner_index(index), suggestion.config);
  return suggestion;
}

int64_t AddedConfigs::inner_index(int64_t index) const {
  const auto behind = std::lower_bound(added_.begin(), added_.end(), index);
  const auto before = behind - added_.begin();
  const bool is_added = behind != added_.end() && *behind == index;
  return is_added ? kTrialsMax + before : index - before;
}

void AddedConfigs::on_start(int64_t index, const Config& config) { inner_->on_start(inner_index(index), config); }

void AddedConfigs::on_result(const Observation& observation) {
  if (added_.empty()) return inner_->on_result(observation);
  Observation shifted = observation;
  shifted.index = inner_index(observation.index);
  inner_->on_result(shifted);
}

void AddedConfigs::on_complete(int64_t index, const std::optional<Observation>& last) {
  if (added_.empty()) return inner_->on_complete(index, last);
  std::optional<Observation> shifted = last;
  if (shifted) shifted->index = inner_index(shifted->index);
  inner_->on_complete(inner_index(index), shifted);
}

std::optional<int64_t> AddedConfigs::total() const {
  auto total = inner_->total();
  if (total) *total += static_cast<int64_t>(added_.size() + waiting_.size());
  return total;
}

std::string AddedConfigs::snapshot() const {
  Config waiting = Config::list({});
  for (const Config& config : waiting_) waiting.push_back(config);
  return Config{{"version", 1}, {"inner", inner_->snapshot()}, {"waiting", std::move(waiting)}, {"added", added_}}
      .to_json();
}

Result<void> AddedConfigs::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [this](const Config& state) -> Result<void> {
    std::deque<Config> waiting;
    std::vector<int64_t> added;
    if (const Config* all = state.find("waiting")) waiting.assign(all->items().begin(), all->items().end());
    const Config indices = state["added"];
    for (const Config& index : indices.items()) {
      if (index.integer() < 0 || (!added.empty() && index.integer() <= added.back()))
        return snapshot_does_not_fit(describe(), "added trials out of order");
      added.push_back(index.integer());
    }
    VOLADOR_TRY(inner_->restore(state.text("inner")));
    waiting_ = std::move(waiting);
    added_ = std::move(added);
    return {};
  });
}

}  // namespace volador::tune
