#include "head/shell/experiment_restore.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "head/experiments/experiment_rows.h"
#include "head/shell/core_runner.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

constexpr size_t kCorePieceBytes = 128 << 10;  // Some hundred rows: less than a millisecond on the core's loop.
constexpr size_t kShownPieceBytes = 1 << 20;

}  // namespace

struct ExperimentRestore::Turn {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, cancelled = false;
};

void restore_rows(HeadCore& core, const ExperimentKeeper::Kept& kept) {
  const ExperimentHistory& history = kept.history;
  history.for_each_part(SIZE_MAX, false, [&](const protocol::ExperimentUpdate& part) {
    core.restore_experiment(history.driver(), history.machine_id(), part, kept.rank);
  });
}

ExperimentRestore::ExperimentRestore(CoreRunner& runner, const Limits& limits)
    : runner_(runner), limits_(limits), turn_(std::make_shared<Turn>()) {}
ExperimentRestore::~ExperimentRestore() { cancel(); }

void ExperimentRestore::cancel() {
  const std::lock_guard hold(turn_->mutex);
  turn_->cancelled = true;
  turn_->changed.notify_all();
}

bool ExperimentRestore::wait_for(const std::function<void(std::function<void()>)>& begin) {
  {
    const std::lock_guard hold(turn_->mutex);
    if (turn_->cancelled) return false;
    turn_->done = false;
  }
  begin([turn = turn_] {
    const std::lock_guard hold(turn->mutex);
    turn->done = true;
    turn->changed.notify_all();
  });
  std::unique_lock hold(turn_->mutex);
  turn_->changed.wait(hold, [this] { return turn_->done || turn_->cancelled; });
  return !turn_->cancelled;
}

bool ExperimentRestore::restore(const ExperimentKeeper::Kept& kept) {
  bool goes_on = true;
  const auto taken = std::make_shared<std::atomic<bool>>(true);
  kept.history.for_each_part(kCorePieceBytes, false, [&](const protocol::ExperimentUpdate& part) {
    if (!goes_on || !*taken) return;
    const auto update = std::make_shared<const protocol::ExperimentUpdate>(part);
    goes_on = wait_for([&](std::function<void()> done) {
      runner_.tell([update, taken, done = std::move(done), driver = kept.history.driver(),
                    machine = kept.history.machine_id(), rank = kept.rank](HeadCore& core) {
        if (!core.restore_experiment(driver, machine, *update, rank)) *taken = false;
        done();
      });
    });
  });
  if (!goes_on) return false;
  return !*taken || show(kept);
}

bool ExperimentRestore::show(const ExperimentKeeper::Kept& kept) { return show(kept, nullptr); }

void ExperimentRestore::show_known(const std::vector<ExperimentKeeper::Kept>& all) {
  if (all.empty() || !show_) return;
  const auto status = std::make_shared<v1::StatusReply>();
  const bool told = wait_for([&](std::function<void()> done) {
    runner_.ask([status, done = std::move(done)](const HeadCore& core, BootTime now) {
      *status = core.lists().status(now);
      done();
    });
  });
  if (!told) return;
  for (const ExperimentKeeper::Kept& kept : all) {
    const auto& rows = status->experiments();
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const v1::Experiment& one) { return one.name() == kept.history.name(); });
    if (!show(kept, row == rows.end() ? nullptr : &*row)) return;
  }
}

bool ExperimentRestore::show(const ExperimentKeeper::Kept& kept, const v1::Experiment* known) {
  if (!show_) return true;
  const ExperimentHistory& history = kept.history;
  ExperimentTable table(limits_);
  history.for_each_part(kShownPieceBytes, false,
                        [&](const auto& part) { table.update(history.driver(), part, history.machine_id()); });
  const auto found = table.all().find(history.name());
  if (found == table.all().end()) return true;
  bool first = true, goes_on = true;
  history.for_each_part(kShownPieceBytes, true, [&](const protocol::ExperimentUpdate& part) {
    if (!goes_on) return;
    auto rows = std::make_shared<v1::Changes>();
    PastExperiment piece{
        .name = history.name(), .rows = rows, .started_ms = history.started_ms(), .updated_ms = history.updated_ms()};
    if (std::exchange(first, false)) {
      v1::Experiment& row = *rows->add_experiments();
      fill_experiment_row(found->second, row);
      if (known != nullptr) row = *known;
    }
    for (const protocol::TrialRow& points : part.trials()) {
      const auto row = found->second.trials.find(points.trial_id());
      if (row == found->second.trials.end()) continue;
      fill_trial_row(history.name(), row->second, *rows->add_trials());
      v1::TrialPoints& to = *rows->add_points();
      to.set_experiment(history.name());
      to.set_trial(points.trial_id());
      for (const protocol::TrialPoint& point : points.points()) fill_point(point, *to.add_points());
    }
    goes_on = wait_for([&](std::function<void()> done) { show_(std::move(piece), std::move(done)); });
  });
  return goes_on;
}

}  // namespace volador::head
