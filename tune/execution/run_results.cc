#include "tune/execution/run_results.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/quantities.h"
#include "tune/execution/checkpoint_store.h"
#include "tune/results/result_files.h"

namespace volador::tune {

void RunResults::restore(const std::deque<Trial>& trials, bool retries_failed, WallTime now) {
  CheckpointStore store(directory_.path());
  for (const Trial& trial : trials) {
    std::vector<ResultRow>& rows = replayed_[trial.id];
    const bool goes_on = trial.status == TrialStatus::kFailed && retries_failed;
    const bool ended = has_ended(trial.status) && !goes_on;
    const ResultFiles files(directory_.path() / folder_of(trial));
    store.remove_partial(folder_of(trial));
    if (!ended) remove_unknown_checkpoints(store, trial);
    if (ended && files.rows() == static_cast<int64_t>(rows.size())) continue;
    const std::string media = options_.tensorboard ? files.media() : std::string();
    files.remove();
    start(trial, rows.empty() ? now : rows.front().reported);
    logger_.keep_events(trial.id, now, media);
    for (ResultRow& row : rows) logger_.log(std::move(row));
    if (ended) end(trial, now);
  }
  replayed_.clear();
}

void RunResults::remove_unknown_checkpoints(CheckpointStore& store, const Trial& trial) {
  for (const StoredCheckpoint& stored : store.list(folder_of(trial)).valid) {
    const bool known = std::any_of(trial.checkpoints.begin(), trial.checkpoints.end(),
                                   [&](const Checkpoint& one) { return one.step == stored.step; });
    if (!known) (void)store.remove(stored);
  }
}

void RunResults::add(const Trial& trial, const RecordResult& result, WallTime reported) {
  ResultRow row;
  row.trial = result.trial;
  row.metrics = result.result;
  row.step = result.step;
  row.time_this_iter_s = result.result.get("time_this_iter_s").value_or(0);
  row.time_total_s = result.result.get("time_total_s").value_or(0);
  row.reported = reported;
  row.node = trial.node;
  if (const auto former = former_places_.find({result.trial.value(), result.attempt}); former != former_places_.end()) {
    row.hostname = former->second.hostname;
    row.pid = former->second.pid;
  } else if (const auto place = places_.find(result.trial); place != places_.end()) {
    row.hostname = place->second.hostname;
    row.pid = place->second.pid;
  }
  held_[result.trial] = std::move(row);
}

void RunResults::release(TrialId trial, bool done) {
  const auto found = held_.find(trial);
  if (found == held_.end()) return;
  found->second.done = done;
  if (is_live_) {
    logger_.log(std::move(found->second));
  } else {
    replayed_[trial].push_back(std::move(found->second));
  }
  held_.erase(found);
}

void RunResults::end(const Trial& trial, WallTime now) {
  logger_.end_trial(trial.id, now, trial.status == TrialStatus::kFinished || trial.status == TrialStatus::kStopped);
}

void RunResults::log_failure(const Trial& trial, const TrialFailed& failure, WallTime now) {
  const auto place = places_.find(trial.id);
  logger_.log_error(
      trial.id, now,
      fmt::format("attempt {}{}, after step {}: {}", failure.attempt,
                  place == places_.end() ? "" : " on node " + place->second.node, trial.step, failure.error));
}

std::vector<std::string> RunResults::take_disk_notices() {
  std::vector<std::string> notices;
  const ResultLoggerStatus status = logger_.status();
  if (status.error && !disk_trouble_)
    notices.push_back(
        fmt::format("results cannot be written: {}; they are kept in memory and tried again, the run goes on",
                    status.error->message));
  if (!status.error && disk_trouble_)
    notices.push_back("results are written again; nothing was lost so far but what was said");
  if (status.rows_lost > rows_lost_) {
    if (rows_lost_ == 0)
      notices.push_back(
          "results cannot be written and memory for them is full: new ones are lost until the disk takes them again");
    rows_lost_ = status.rows_lost;
  }
  disk_trouble_ = status.error.has_value();
  return notices;
}

std::string RunResults::finish() {
  const ResultLoggerStatus written = logger_.flush();
  const int64_t lost = written.rows_lost + written.rows_unwritten;
  if (lost == 0) return {};
  return fmt::format("{} lost, {} written: {}", counted(lost, "result is", "results are"),
                     counted(written.rows_written, "was", "were"),
                     written.error ? written.error->message : "the disk refused them for too long");
}

}  // namespace volador::tune
