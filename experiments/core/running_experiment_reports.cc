// What trials report, and the checkpoints of an experiment: metrics, best ones, retention, deletion.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "experiments/config/forms.h"
#include "experiments/core/checkpoint_retention.h"
#include "experiments/core/running_experiment.h"
#include "runtime/quantities.h"

namespace volador::experiments {
namespace {

constexpr size_t kMetricsBytesMax = 256 << 10;
constexpr size_t kCheckpointIdBytesMax = 128;
constexpr size_t kCheckpointBytesMax = 1 << 20;

// JSON has no NaN and no infinities; Python's reports write them as texts.
std::optional<double> number_in(const tune::Config& value) {
  if (value.kind() == tune::Config::Kind::kText) {
    if (value.text() == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (value.text() == "Infinity") return std::numeric_limits<double>::infinity();
    if (value.text() == "-Infinity") return -std::numeric_limits<double>::infinity();
    return std::nullopt;
  }
  if (value.kind() != tune::Config::Kind::kInteger && value.kind() != tune::Config::Kind::kReal) return std::nullopt;
  return value.real();
}

std::string names_of(const std::vector<std::pair<std::string, double>>& values) {
  std::string names;
  for (const auto& [name, value] : values) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

}  // namespace

// ---- metrics ----

bool RunningExperiment::is_better(double metric, const std::optional<double>& than) const {
  if (std::isnan(metric)) return false;
  if (!than || std::isnan(*than)) return true;
  return definition_.info().smaller_is_better() ? metric < *than : metric > *than;
}

std::optional<double> RunningExperiment::best_metric() const {
  return best_trial_ == 0 ? std::nullopt : std::optional(at(best_trial_).record.info().best_metric());
}

Result<v1::ReportMetricsReply> RunningExperiment::report_metrics(const v1::ReportMetricsRequest& request,
                                                                 int64_t now_ms) {
  Trial& trial = at(request.trial());
  const auto refuse = [&](std::string message) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("trial {}: {}", trial.id(), message));
  };
  if (request.group().empty() || request.group().size() > 128)
    return refuse(fmt::format("group: expected training, validation or another name of at most 128 bytes, got \"{}\"",
                              request.group()));
  if (request.batches() < 0) return refuse(fmt::format("batches: expected at least 0, got {}", request.batches()));
  if (request.metrics().size() > kMetricsBytesMax)
    return refuse(
        fmt::format("metrics: expected at most {} bytes, got {}", kMetricsBytesMax, request.metrics().size()));
  const auto parsed = tune::Config::from_json(request.metrics());
  if (!parsed || !parsed->is_map())
    return refuse("metrics: expected a JSON object" + (parsed ? std::string() : ": " + parsed.error().message));
  MetricReport report{.experiment = id(),
                      .trial = trial.id(),
                      .group = request.group(),
                      .batches = request.batches(),
                      .time_ms = now_ms,
                      .values = {}};
  for (auto& [name, value] : parsed->flatten()) {
    if (const auto number = number_in(value)) report.values.emplace_back(name, *number);
  }
  v1::ReportMetricsReply reply;
  if (const auto best = best_metric()) reply.set_experiment_best(*best);
  if (settings_.unit == "batches") trial.pace.reached(static_cast<double>(request.batches()), now_ms);
  v1::TrialInfo& shown = *trial.record.mutable_info();
  if (request.group() != "validation") {
    // Without a row: a lost report of training decides nothing, and the next row has it.
    shown.set_batches(std::max(shown.batches(), request.batches()));
    if (request.group() == "training") shown.set_training_metrics(parsed->to_json());
    context_.actions.metrics.push_back(std::move(report));
    return reply;
  }
  const auto value_of = [&](const std::string& name) -> std::optional<double> {
    const auto found = std::ranges::find(report.values, name, &std::pair<std::string, double>::first);
    return found == report.values.end() ? std::nullopt : std::optional(found->second);
  };
  const auto metric = value_of(settings_.metric);
  if (!metric)
    return refuse(fmt::format("the validation metrics lack \"{}\", the searcher's metric; they have: {}",
                              settings_.metric, names_of(report.values)));
  std::optional<double> units;
  if (settings_.options.timed && !settings_.time_metric.empty()) {
    units = value_of(settings_.time_metric);
    if (!units && settings_.time_metric == "batches") units = static_cast<double>(request.batches());
    if (!units || !std::isfinite(*units) || std::abs(*units) > 9e15)
      return refuse(fmt::format("the validation metrics lack \"{}\", the searcher's time_metric; they have: {}",
                                settings_.time_metric, names_of(report.values)));
  }
  shown.set_batches(std::max(shown.batches(), request.batches()));
  note_validation(trial, *metric, parsed->to_json(), request.batches());
  touch(trial);
  context_.actions.metrics.push_back(std::move(report));
  if (!units) return reply;
  trial.pace.reached(*units, now_ms);
  Step step;
  step.set_kind(Step::REPORTED);
  step.set_request(shown.request_id());
  step.set_number(static_cast<int64_t>(*units));
  step.set_value(*metric);
  tell(std::move(step), now_ms);
  return reply;
}

void RunningExperiment::note_validation(Trial& trial, double metric, const std::string& metrics, int64_t batches) {
  protocol::TrialRecord& record = trial.record;
  v1::TrialInfo& shown = *record.mutable_info();
  record.set_validated_batches(batches);
  shown.set_metrics(metrics);
  shown.set_latest_metric(metric);
  if (is_better(metric, shown.has_best_metric() ? std::optional(shown.best_metric()) : std::nullopt)) {
    const auto best = best_metric();
    shown.set_best_metric(metric);
    if (is_better(metric, best)) best_trial_ = trial.id();
  }
  for (auto each = trial.checkpoints.rbegin(); each != trial.checkpoints.rend(); ++each) {
    protocol::CheckpointRecord& checkpoint = checkpoints_.at(*each);
    if (checkpoint.info().batches() < batches) break;
    note_metric(trial, checkpoint);
  }
  choose_checkpoints(trial);
}

// A checkpoint has the metrics of the validation at its batches.
void RunningExperiment::note_metric(Trial& trial, protocol::CheckpointRecord& checkpoint) {
  v1::CheckpointInfo& saved = *checkpoint.mutable_info();
  const v1::TrialInfo& shown = trial.record.info();
  if (!shown.has_latest_metric() || trial.record.validated_batches() != saved.batches() || saved.state() != "COMPLETED")
    return;
  saved.set_metric(shown.latest_metric());
  saved.set_metrics(shown.metrics());
  touch_checkpoint(saved.id());
}

void RunningExperiment::choose_checkpoints(Trial& trial) {
  v1::TrialInfo& shown = *trial.record.mutable_info();
  shown.clear_latest_checkpoint();
  shown.clear_best_checkpoint();
  std::optional<double> best;
  for (const std::string& each : trial.checkpoints) {
    const v1::CheckpointInfo& saved = checkpoints_.at(each).info();
    if (saved.state() != "COMPLETED") continue;
    shown.set_latest_checkpoint(each);
    if (!saved.has_metric() || !is_better(saved.metric(), best)) continue;
    best = saved.metric();
    shown.set_best_checkpoint(each);
  }
}

Result<void> RunningExperiment::report_progress(const v1::ReportProgressRequest& request, int64_t now_ms) {
  Trial& trial = at(request.trial());
  if (!std::isfinite(request.progress()) || request.progress() < 0)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("trial {}: progress: expected units of the length, at least 0, "
                                  "got {}",
                                  trial.id(), request.progress()));
  const auto full = static_cast<double>(trial.record.length() > 0 ? trial.record.length()
                                                                  : std::max<int64_t>(settings_.options.max_length, 1));
  trial.record.mutable_info()->set_progress(std::min(1.0, request.progress() / full));
  trial.pace.reached(request.progress(), now_ms);
  if (!has_search()) return {};
  Step step;
  step.set_kind(Step::TRAINED);
  step.set_request(trial.record.info().request_id());
  step.set_value(request.progress());
  // Only a custom search decides by it.
  execute(step);
  if (search_->custom() != nullptr) note(std::move(step));
  context_.touched.insert(id());
  return {};
}

// ---- checkpoints ----

Result<void> RunningExperiment::report_checkpoint(const v1::ReportCheckpointRequest& request, int64_t now_ms) {
  Trial& trial = at(request.trial());
  const v1::CheckpointInfo& given = request.checkpoint();
  const auto refuse = [&](std::string message) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("trial {}: checkpoint: {}", trial.id(), message));
  };
  const bool is_id = !given.id().empty() && given.id().size() <= kCheckpointIdBytesMax &&
                     given.id().find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_") ==
                         std::string::npos;
  if (!is_id) return refuse(fmt::format("id: expected a UUID, got \"{}\"", given.id()));
  if (given.batches() < 0) return refuse(fmt::format("batches: expected at least 0, got {}", given.batches()));
  if (given.ByteSizeLong() > kCheckpointBytesMax)
    return refuse(fmt::format("expected at most {} bytes of resources and metadata, got {}", kCheckpointBytesMax,
                              given.ByteSizeLong()));
  if (!given.metadata().empty() && !tune::Config::from_json(given.metadata()))
    return refuse("metadata: expected JSON, got " + given.metadata().substr(0, 200));
  if (const auto known = context_.checkpoint_of.find(given.id()); known != context_.checkpoint_of.end()) {
    const v1::CheckpointInfo* saved = known->second == id() ? checkpoint(given.id()) : nullptr;
    if (saved == nullptr || saved->trial() != trial.id())
      return refuse(fmt::format("id {}: another trial has a checkpoint with it", given.id()));
    if (saved->state() != "COMPLETED") return refuse(fmt::format("id {}: it was deleted", given.id()));
    if (saved->batches() == given.batches() && saved->run() == request.run()) return {};
  }
  const bool is_new = !checkpoints_.contains(given.id());
  protocol::CheckpointRecord& record = checkpoints_[given.id()];
  kept_bytes_ -= record.info().bytes();
  v1::CheckpointInfo& saved = *record.mutable_info();
  saved.Clear();
  saved.set_id(given.id());
  saved.set_experiment(id());
  saved.set_trial(trial.id());
  saved.set_run(request.run());
  saved.set_batches(given.batches());
  saved.set_created_ms(now_ms);
  saved.set_state("COMPLETED");
  *saved.mutable_resources() = given.resources();
  int64_t bytes = 0;
  for (const auto& [path, size] : given.resources()) bytes += std::max<int64_t>(size, 0);
  saved.set_bytes(bytes);
  saved.set_metadata(given.metadata().empty() ? "{}" : given.metadata());
  saved.set_storage(storage_text(config()) + "/" + given.id());
  if (is_new) ++kept_checkpoints_;
  kept_bytes_ += bytes;
  std::erase(trial.checkpoints, given.id());
  record.set_number(++last_checkpoint_);
  trial.checkpoints.push_back(given.id());
  context_.checkpoint_of[given.id()] = id();
  note_metric(trial, record);
  trial.record.mutable_info()->set_batches(std::max(trial.record.info().batches(), given.batches()));
  choose_checkpoints(trial);
  touch_checkpoint(given.id());
  touch(trial);
  return {};
}

const v1::CheckpointInfo* RunningExperiment::checkpoint(const std::string& checkpoint) const {
  const auto found = checkpoints_.find(checkpoint);
  return found == checkpoints_.end() ? nullptr : &found->second.info();
}

const v1::CheckpointInfo* RunningExperiment::latest_checkpoint(int64_t trial) const {
  const auto found = trials_.find(trial);
  if (found == trials_.end() || found->second.record.info().latest_checkpoint().empty()) return nullptr;
  return checkpoint(found->second.record.info().latest_checkpoint());
}

Result<void> RunningExperiment::may_delete(const std::string& checkpoint) const {
  const v1::CheckpointInfo& saved = checkpoints_.at(checkpoint).info();
  const auto trial = trials_.find(saved.trial());
  if (trial != trials_.end() && !trial->second.is_over() &&
      trial->second.record.info().latest_checkpoint() == checkpoint)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("checkpoint {}: trial {} goes on from it; kill the trial, or wait for a newer one",
                                  checkpoint, saved.trial()));
  if (const std::string keeper = context_.keeper(checkpoint); !keeper.empty())
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("checkpoint {}: it is {}; delete that version first", checkpoint, keeper));
  return {};
}

Result<void> RunningExperiment::may_delete_all() const {
  for (const auto& [checkpoint, record] : checkpoints_) {
    const std::string keeper = context_.keeper(checkpoint);
    if (keeper.empty()) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("delete: checkpoint {} of experiment {} is {}; delete that version first", checkpoint,
                                  id(), keeper));
  }
  return {};
}

void RunningExperiment::delete_checkpoints(const std::vector<std::string>& ids) {
  const size_t before = garbage_.size();
  std::set<int64_t> trials;
  for (const std::string& each : ids) {
    v1::CheckpointInfo& saved = *checkpoints_.at(each).mutable_info();
    if (saved.state() != "COMPLETED" && saved.state() != "ERROR") continue;
    saved.set_state("DELETING");
    garbage_.insert(each);
    trials.insert(saved.trial());
    touch_checkpoint(each);
  }
  for (const int64_t number : trials) {
    const auto found = trials_.find(number);
    if (found == trials_.end()) continue;
    choose_checkpoints(found->second);
    touch(found->second);
  }
  if (garbage_.size() == before) return;
  touch();
  context_.actions.garbage.push_back(id());
}

// Marks what the policy of the storage does not keep.
void RunningExperiment::retain(int64_t) {
  std::vector<const protocol::CheckpointRecord*> saved;
  for (const auto& [key, record] : checkpoints_) {
    if (record.info().state() == "COMPLETED") saved.push_back(&record);
  }
  std::ranges::sort(saved, {}, [](const auto* record) { return record->number(); });
  std::vector<CheckpointEntry> entries;
  for (const protocol::CheckpointRecord* record : saved) {
    const v1::CheckpointInfo& one = record->info();
    entries.push_back({.id = one.id(),
                       .trial = one.trial(),
                       .metric = one.has_metric() ? std::optional(one.metric()) : std::nullopt,
                       .validation = record->number(),
                       .registered = !context_.keeper(one.id()).empty(),
                       .warm_start = context_.warm_starts.contains(one.id())});
  }
  const CheckpointStorage storage = config().checkpoint_storage.value_or(CheckpointStorage());
  CheckpointRetention policy{.save_experiment_best = storage.save_experiment_best,
                             .save_trial_best = storage.save_trial_best,
                             .save_trial_latest = storage.save_trial_latest,
                             .smaller_is_better = definition_.info().smaller_is_better()};
  if (definition_.has_save_experiment_best()) policy.save_experiment_best = definition_.save_experiment_best();
  if (definition_.has_save_trial_best()) policy.save_trial_best = definition_.save_trial_best();
  if (definition_.has_save_trial_latest()) policy.save_trial_latest = definition_.save_trial_latest();
  const std::vector<CheckpointVerdict> verdicts = judge_checkpoints(entries, policy);
  std::vector<std::string> garbage;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!verdicts[i].stays()) garbage.push_back(entries[i].id);
  }
  delete_checkpoints(garbage);
}

// ---- deletion ----

bool RunningExperiment::has_garbage() const { return !garbage_.empty() || state() == RunState::kDeleting; }

v1::GetGarbageReply RunningExperiment::garbage() const {
  v1::GetGarbageReply reply;
  reply.set_storage(storage_json(config()));
  reply.set_whole(state() == RunState::kDeleting);
  for (const auto& [key, record] : checkpoints_) {
    if (reply.whole() ? record.info().state() != "DELETED" : garbage_.contains(key)) reply.add_ids(key);
  }
  return reply;
}

TrialJob RunningExperiment::garbage_job(const std::pair<std::string, std::string>& token) {
  revoke_garbage_token();
  definition_.set_garbage_run(definition_.garbage_run() + 1);
  definition_.set_garbage_token_id(token.first);
  garbage_job_takes_all_ = state() == RunState::kDeleting;
  touch();
  return {.experiment = id(),
          .trial = 0,
          .run = definition_.garbage_run(),
          .as = creator(),
          .spec = job_of_garbage(definition_, config(), token.second)};
}

void RunningExperiment::revoke_garbage_token() {
  if (definition_.garbage_token_id().empty()) return;
  context_.actions.revoke.push_back(definition_.garbage_token_id());
  definition_.clear_garbage_token_id();
  touch();
}

void RunningExperiment::garbage_collected(const v1::ReportGarbageRequest& request, int64_t) {
  revoke_garbage_token();
  touch();
  const auto settle = [&](const std::string& each, const std::string& to) {
    const auto found = checkpoints_.find(each);
    const bool is_garbage = garbage_.erase(each) > 0;
    if (found == checkpoints_.end() || (!is_garbage && state() != RunState::kDeleting)) return;
    v1::CheckpointInfo& saved = *found->second.mutable_info();
    if (to == "DELETED" && saved.state() != "DELETED") {
      --kept_checkpoints_;
      kept_bytes_ -= saved.bytes();
    }
    saved.set_state(to);
    touch_checkpoint(each);
  };
  for (const std::string& each : request.deleted()) settle(each, "DELETED");
  for (const std::string& each : request.failed()) settle(each, "ERROR");
  const bool succeeded = request.failed().empty() && request.error().empty();
  if (state() == RunState::kDeleting && !garbage_job_takes_all_) return context_.actions.garbage.push_back(id());
  if (!succeeded) note_garbage_failure(request.error());
  if (state() == RunState::kDeleting && succeeded) {
    machine_.deletion_ended(true);
    return remove();
  }
  // What was added while the job ran.
  if (!garbage_.empty()) context_.actions.garbage.push_back(id());
}

// Its checkpoints stay to be deleted: another job may succeed.
void RunningExperiment::garbage_failed(const std::string& why, int64_t) {
  if (!has_garbage()) return;
  const bool was_earlier_job = !definition_.garbage_token_id().empty() && !garbage_job_takes_all_;
  revoke_garbage_token();
  if (state() == RunState::kDeleting && was_earlier_job) return context_.actions.garbage.push_back(id());
  note_garbage_failure(why);
}

void RunningExperiment::note_garbage_failure(const std::string& why) {
  event("experiment cannot delete its checkpoints", {{"why", why}});
  if (state() != RunState::kDeleting) return;
  machine_.deletion_ended(false);
  set_reason(*definition_.mutable_info(), reason("experiment.garbage_failed", why));
  touch();
}

void RunningExperiment::on_garbage_job(int64_t run, const v1::Job& job, int64_t now_ms) {
  if (run != definition_.garbage_run() || definition_.garbage_token_id().empty()) return;
  if (job.state() == "queued" || job.state() == "running") return;
  garbage_failed(job.state() == "succeeded" ? job.id() + " ended without a report" : job.id() + ": " + job.reason(),
                 now_ms);
}

}  // namespace volador::experiments
