#include "head/experiments/experiment_history.h"

#include <algorithm>
#include <utility>

#include "runtime/protocol/trial_points.h"

namespace volador::head {
namespace {

constexpr size_t kTrialPointsLeast = 8;

}  // namespace

void ExperimentHistory::begin_anew() {
  head_.Clear();
  trials_.clear();
  machine_id_.clear();
  started_ms_ = updated_ms_ = 0;
  rows_bytes_ = points_bytes_ = 0;
  trial_points_ = limits_.trial_points;
}

bool ExperimentHistory::add(std::string_view bytes) {
  protocol::ExperimentRecord record;
  protocol::ExperimentUpdate update;
  if (!record.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || !update.ParseFromString(record.update()))
    return false;
  const auto driver = id_from_raw<DriverId>(record.driver_id());
  if (update.experiment().empty() || driver.is_nil()) return false;
  if (driver != driver_ || update.experiment() != head_.experiment()) begin_anew();
  driver_ = driver;
  if (!record.machine_id().empty()) machine_id_ = record.machine_id();
  const int64_t started = record.started_ms() != 0 ? record.started_ms() : record.wall_ms();
  if (started_ms_ == 0) started_ms_ = started;
  updated_ms_ = std::max(updated_ms_, record.wall_ms());
  for (const protocol::TrialRow& row : update.trials()) add_trial(row);
  update.clear_trials();
  head_.set_experiment(update.experiment());
  if (!update.state().empty()) head_.set_state(update.state());
  if (!update.metric().empty()) head_.set_metric(update.metric());
  if (!update.mode().empty()) head_.set_mode(update.mode());
  if (!update.directory().empty()) head_.set_directory(update.directory());
  if (!update.scheduler().empty()) head_.set_scheduler(update.scheduler());
  if (!update.space().empty()) head_.set_space(update.space());
  if (!update.rungs().empty()) head_.mutable_rungs()->Swap(update.mutable_rungs());
  head_.set_number(std::max(head_.number(), update.number()));
  if (update.trials_total() > 0) head_.set_trials_total(update.trials_total());
  if (update.trials_planned() > 0) head_.set_trials_planned(update.trials_planned());
  if (update.has_best()) head_.mutable_best()->Swap(update.mutable_best());
  if (update.has_best_so_far()) head_.mutable_best_so_far()->Swap(update.mutable_best_so_far());
  return true;
}

void ExperimentHistory::add_trial(const protocol::TrialRow& row) {
  if (row.trial_id().empty()) return;
  auto found = trials_.find(row.trial_id());
  if (found == trials_.end()) {
    if (trials_.size() >= limits_.trials || rows_bytes_ >= limits_.rows_bytes) return;
    found = trials_.try_emplace(row.trial_id()).first;
  }
  Trial& trial = found->second;
  rows_bytes_ -= trial.row.ByteSizeLong();
  add_points(trial, row);
  trial.row = row;
  protocol::release_points(trial.row);
  rows_bytes_ += trial.row.ByteSizeLong();
}

void ExperimentHistory::add_points(Trial& trial, const protocol::TrialRow& row) {
  for (const protocol::TrialPoint& point : row.points()) {
    if (!trial.points.empty() && point.step() <= trial.last_step)
      continue;  // The trial resumed from a checkpoint, or the point is a repeat.
    trial.last_step = point.step();
    points_bytes_ += trial.points.emplace_back(point.SerializeAsString()).size();
  }
  thin(trial);
  while (points_bytes_ > limits_.points_bytes && trial_points_ > kTrialPointsLeast) {
    trial_points_ /= 2;
    for (auto& [id, one] : trials_) thin(one);
  }
}

// The newest half is kept unchanged.
void ExperimentHistory::thin(Trial& trial) {
  while (trial.points.size() > trial_points_ && trial.points.size() > kTrialPointsLeast / 2) {
    const size_t half = trial.points.size() / 2;
    std::vector<std::string> kept;
    for (size_t at = 0; at < trial.points.size(); ++at) {
      if (at >= half || at % 2 == 0) {
        kept.push_back(std::move(trial.points[at]));
      } else {
        points_bytes_ -= trial.points[at].size();
      }
    }
    trial.points = std::move(kept);
  }
}

void ExperimentHistory::for_each_part(size_t bytes_max, bool with_points,
                                      const std::function<void(const protocol::ExperimentUpdate&)>& take) const {
  if (name().empty()) return;
  protocol::ExperimentUpdate part = head_;
  size_t bytes = 0;
  const auto give = [&] {
    take(part);
    part.Clear();
    part.set_experiment(name());
    bytes = 0;
  };
  for (const auto& [id, trial] : trials_) {
    if (bytes >= bytes_max) give();
    protocol::TrialRow& row = *part.add_trials();
    row = trial.row;
    bytes += row.ByteSizeLong();
    if (!with_points) continue;
    for (const std::string& point : trial.points) {
      bytes += point.size();
      row.add_points()->ParseFromString(point);
    }
  }
  give();
}

void ExperimentHistory::for_each_record(size_t bytes_max, const std::function<void(std::string)>& take) const {
  for_each_part(bytes_max, true, [&](const protocol::ExperimentUpdate& part) {
    protocol::ExperimentRecord record;
    record.set_driver_id(raw(driver_));
    record.set_machine_id(machine_id_);
    record.set_wall_ms(updated_ms_);
    record.set_started_ms(started_ms_);
    record.set_update(part.SerializeAsString());
    take(record.SerializeAsString());
  });
}

}  // namespace volador::head
