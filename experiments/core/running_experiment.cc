#include "experiments/core/running_experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/config/complete.h"
#include "runtime/number_key.h"
#include "runtime/yaml/reader.h"

namespace volador::experiments {
namespace {

constexpr int64_t kStepsMin = 64;  // Steps of a search after which its snapshot is written again, at least.

// A configuration that an earlier version has stored lacks the keys that are new.
ExperimentConfig read_complete(const protocol::ExperimentDefinition& definition) {
  const auto document = yaml::read(definition.config(), "experiment");
  VOLADOR_CHECK(document.has_value(), "experiment " + std::to_string(definition.id()));
  return config_from(with_defaults(document->root));
}

// The program of a custom search asks for lengths, although its configuration has none.
SearcherSettings settings_of(const ExperimentConfig& config) {
  SearcherSettings settings = searcher_settings(config.searcher);
  if (settings.options.name == "custom") settings.options.timed = false;
  return settings;
}

TrialStanding standing_of(const protocol::TrialRecord& record) {
  TrialStanding standing{.state = static_cast<RunState>(record.state()),
                         .restarts = record.info().restarts(),
                         .has_processes = record.has_processes(),
                         .asked = record.asked(),
                         .closed = record.closed()};
  if (record.has_invalid()) standing.invalid = static_cast<TrialExit>(record.invalid());
  return standing;
}

}  // namespace

RunningExperiment::Trial::Trial(protocol::TrialRecord record_in, int64_t max_restarts)
    : record(std::move(record_in)), machine(max_restarts, standing_of(record)) {}

RunningExperiment::RunningExperiment(ExperimentContext& context, protocol::ExperimentDefinition definition,
                                     std::optional<ExperimentConfig> config)
    : context_(context),
      definition_(std::move(definition)),
      config_(std::move(config)),
      machine_(run_state_from(definition_.info().state()).value_or(RunState::kError), definition_.info().archived()) {
  if (config_) settings_ = settings_of(*config_);
  if (!definition_.warm_start_checkpoint().empty()) ++context_.warm_starts[definition_.warm_start_checkpoint()];
}

RunningExperiment::RunningExperiment(ExperimentContext& context, ExperimentRows rows)
    : RunningExperiment(context, *rows.definition, std::nullopt) {
  if (is_active()) settings_ = settings_of(this->config());
  for (auto& [number, record] : rows.trials) {
    const auto [found, added] =
        trials_.emplace(std::piecewise_construct, std::forward_as_tuple(number),
                        std::forward_as_tuple(std::move(record), is_active() ? config().max_restarts : 0));
    Trial& trial = found->second;
    by_request_[trial.record.info().request_id()] = number;
    context_.experiment_of[number] = id();
    context_.last_trial = std::max(context_.last_trial, number);
    count(trial, 1);
    if (trial.record.info().has_best_metric() &&
        (best_trial_ == 0 || is_better(trial.record.info().best_metric(), best_metric())))
      best_trial_ = number;
    if (trial.is_over()) continue;
    open_.insert(number);
    if (trial.waits_for_slots()) waiting_.insert(number);
    if (trial.record.job_requested()) running_.insert(number);
    if (const int64_t at = trial.record.preempt_deadline_ms(); at != 0) deadlines_.emplace(at, number);
  }
  std::sort(rows.checkpoints.begin(), rows.checkpoints.end(),
            [](const auto& one, const auto& other) { return one.number() < other.number(); });
  for (protocol::CheckpointRecord& record : rows.checkpoints) {
    const v1::CheckpointInfo& shown = record.info();
    last_checkpoint_ = std::max(last_checkpoint_, record.number());
    context_.checkpoint_of[shown.id()] = id();
    if (const auto trial = trials_.find(shown.trial()); trial != trials_.end())
      trial->second.checkpoints.push_back(shown.id());
    if (shown.state() == "DELETING") garbage_.insert(shown.id());
    if (shown.state() != "DELETED") {
      ++kept_checkpoints_;
      kept_bytes_ += shown.bytes();
    }
    const std::string key = shown.id();
    checkpoints_.emplace(key, std::move(record));
  }
  programs_ = std::move(rows.programs);
  if (is_active()) restore_search(rows);
}

// ---- rows ----

const ExperimentConfig& RunningExperiment::config() const {
  if (!config_) config_ = read_complete(definition_);
  return *config_;
}

void RunningExperiment::touch() {
  changed_ = true;
  context_.touched.insert(id());
}
void RunningExperiment::touch(Trial& trial) {
  changed_trials_.insert(trial.id());
  context_.touched.insert(id());
}
void RunningExperiment::touch_checkpoint(const std::string& checkpoint) {
  changed_checkpoints_.insert(checkpoint);
  context_.touched.insert(id());
}

void RunningExperiment::event(std::string text, std::vector<std::pair<std::string, std::string>> fields) {
  std::vector<std::pair<std::string, std::string>> all = {{"experiment", std::to_string(id())},
                                                          {"name", definition_.info().name()}};
  std::ranges::move(fields, std::back_inserter(all));
  context_.actions.events.push_back({std::move(text), std::move(all)});
}

void RunningExperiment::flush() {
  ExperimentActions& actions = context_.actions;
  const auto put = [&](std::string_view table, std::string key, std::optional<std::string> value) {
    actions.rows.push_back({std::string(table), std::move(key), std::move(value)});
  };
  const auto drop_steps = [&] {
    for (int64_t step = snapshot_step_ + 1; step <= stored_step_; ++step)
      put(kSearchStepsTable, number_key(id()) + number_key(step), std::nullopt);
  };
  if (search_ == nullptr && step_ > 0) {
    drop_steps();
    if (snapshot_step_ > 0) put(kSearchesTable, number_key(id()), std::nullopt);
    step_ = snapshot_step_ = stored_step_ = 0;
    new_steps_.clear();
  }
  // A snapshot has a part for each trial: it is written after as many steps that a step costs the same.
  if (!new_steps_.empty() && step_ - snapshot_step_ > std::max(kStepsMin, static_cast<int64_t>(trials_.size()) / 4)) {
    protocol::SearchRecord record;
    record.set_snapshot(search_->snapshot());
    record.set_step(step_);
    drop_steps();
    put(kSearchesTable, number_key(id()), record.SerializeAsString());
    snapshot_step_ = stored_step_ = step_;
    new_steps_.clear();
  }
  for (const Step& step : new_steps_)
    put(kSearchStepsTable, number_key(id()) + number_key(++stored_step_), step.SerializeAsString());
  new_steps_.clear();
  if (changed_) {
    definition_.mutable_info()->set_state(std::string(to_string(machine_.state())));
    definition_.mutable_info()->set_archived(machine_.is_archived());
  }
  for (const int64_t number : changed_trials_) {
    put(kTrialsTable, number_key(number),
        is_deleted() ? std::nullopt : std::optional(at(number).record.SerializeAsString()));
    actions.trials.push_back(number);
  }
  for (const int64_t number : changed_programs_) {
    const auto program = programs_.find(number);
    put(kTrialProgramsTable, number_key(number),
        program == programs_.end() ? std::nullopt : std::optional(program->second.SerializeAsString()));
  }
  changed_programs_.clear();
  for (const std::string& checkpoint : changed_checkpoints_)
    put(kCheckpointsTable, checkpoint,
        is_deleted() ? std::nullopt : std::optional(checkpoints_.at(checkpoint).SerializeAsString()));
  if (changed_)
    put(kExperimentsTable, number_key(id()),
        is_deleted() ? std::nullopt : std::optional(definition_.SerializeAsString()));
  actions.experiments.push_back(id());
  changed_ = false;
  changed_trials_.clear();
  changed_checkpoints_.clear();
  if (!is_active() && config_) config_.reset();
}

void RunningExperiment::resume(int64_t now_ms) {
  if (has_garbage()) {
    touch();
    context_.actions.garbage.push_back(id());
  }
  if (!is_active()) return;
  if (search_ == nullptr && !is_stopping(state())) {
    set_reason(*definition_.mutable_info(), reason("experiment.search_lost"));
    touch();
    obey(machine_.fail(), now_ms);
  }
  for (const int64_t number : std::vector<int64_t>(running_.begin(), running_.end())) {
    Trial& trial = at(number);
    if (trial.record.killed() && !trial.record.info().job().empty()) send_stop(trial, true);
  }
  submit_waiting();
  finish_if_over(now_ms);
}

// ---- states ----

void RunningExperiment::count(const Trial& trial, int change) {
  int64_t& number = states_[trial.record.info().state()];
  number += change;
  if (number == 0) states_.erase(trial.record.info().state());
}

void RunningExperiment::obey(TrialOrder order, int64_t now_ms) {
  if (order == TrialOrder::kNone) return;
  const RunState wanted = order == TrialOrder::kActivate ? RunState::kActive
                          : order == TrialOrder::kPause  ? RunState::kPaused
                          : order == TrialOrder::kCancel ? RunState::kStoppingCanceled
                                                         : RunState::kStoppingKilled;
  for (const int64_t number : std::vector<int64_t>(open_.begin(), open_.end())) {
    Trial& trial = at(number);
    if (!trial.is_over()) act(trial, trial.machine.become(wanted), now_ms);
  }
}

void RunningExperiment::act(Trial& trial, const TrialActions& actions, int64_t now_ms) {
  protocol::TrialRecord& record = trial.record;
  const TrialStanding& standing = trial.machine.standing();
  count(trial, -1);
  record.mutable_info()->set_state(std::string(to_string(standing.state)));
  count(trial, 1);
  record.set_state(static_cast<int32_t>(standing.state));
  record.mutable_info()->set_restarts(standing.restarts);
  record.set_has_processes(standing.has_processes);
  record.set_asked(standing.asked);
  record.set_closed(standing.closed);
  if (standing.invalid) record.set_invalid(static_cast<int32_t>(*standing.invalid));
  touch(trial);
  if (actions.allocate) request_run(trial);
  if (actions.preempt) ask_to_end(trial, now_ms);
  if (actions.kill) kill(trial, now_ms);
  if (actions.exit) {
    Step step;
    step.set_kind(Step::EXITED);
    step.set_request(record.info().request_id());
    step.set_number(static_cast<int64_t>(*actions.exit));
    tell(std::move(step), now_ms);
  }
  if (actions.ended) end_trial(trial, now_ms);
}

void RunningExperiment::end_trial(Trial& trial, int64_t now_ms) {
  v1::TrialInfo& shown = *trial.record.mutable_info();
  open_.erase(trial.id());
  waiting_.erase(trial.id());
  set_deadline(trial, 0);
  shown.set_ended_ms(now_ms);
  shown.set_searched_length(0);
  if (trial.machine.state() == RunState::kCanceled && is_stopping(state()))
    set_reason(shown, reason_of(definition_.info()));
  const auto exit = trial.machine.standing().invalid;
  if (exit && trial.machine.state() == RunState::kCompleted) {
    set_reason(shown, *exit == TrialExit::kEarlyStopped         ? reason("trial.early_stopped")
                      : *exit == TrialExit::kMetricsUnavailable ? reason("trial.metrics_unavailable", settings_.metric)
                                                                : reason("trial.invalid_hp"));
  }
  drop_program(trial);
  touch(trial);
  event("trial of an experiment ended",
        {{"trial", std::to_string(trial.id())}, {"state", shown.state()}, {"why", shown.reason()}});
  Step step;
  step.set_kind(Step::CLOSED);
  step.set_request(shown.request_id());
  tell(std::move(step), now_ms);
  finish_if_over(now_ms);
}

// An experiment that is stopping is over as soon as its trials are.
void RunningExperiment::finish_if_over(int64_t now_ms) {
  if (!is_stopping(state()) || !open_.empty() || performing_) return;
  v1::ExperimentInfo& shown = *definition_.mutable_info();
  shown.set_progress(info().progress());
  machine_.trials_ended();
  shown.set_ended_ms(now_ms);
  if (state() == RunState::kCompleted) {
    shown.set_progress(1);
    set_reason(shown, {});
  }
  if (state() == RunState::kError && search_ != nullptr) {
    const v1::TrialInfo* last = nullptr;  // The one that failed last.
    for (const auto& [number, trial] : trials_) {
      const v1::TrialInfo& one = trial.record.info();
      if (trial.machine.state() == RunState::kError && (last == nullptr || one.ended_ms() >= last->ended_ms()))
        last = &one;
    }
    if (last != nullptr) set_reason(shown, reason("experiment.failed", last->id(), reason_of(*last)));
  }
  keep_rungs();
  search_.reset();
  by_request_.clear();
  if (!definition_.token_id().empty()) context_.actions.revoke.push_back(definition_.token_id());
  definition_.clear_token();
  touch();
  event("experiment ended", {{"state", std::string(to_string(state()))}, {"why", shown.reason()}});
  retain(now_ms);
}

Result<void> RunningExperiment::command(ExperimentCommand command, const std::string& who, int64_t now_ms) {
  const RunState before = state();
  const bool was_archived = machine_.is_archived();
  const auto order = machine_.command(command);
  if (!order) return make_error(order.error().code, fmt::format("experiment {}: {}", id(), order.error().message));
  if (state() == before && machine_.is_archived() == was_archived && *order == TrialOrder::kNone) return {};
  touch();
  v1::ExperimentInfo& shown = *definition_.mutable_info();
  if (command == ExperimentCommand::kCancel) set_reason(shown, reason("experiment.canceled_by", who));
  if (command == ExperimentCommand::kKill) set_reason(shown, reason("experiment.killed_by", who));
  if (command == ExperimentCommand::kPause) set_reason(shown, reason("experiment.paused_by", who));
  if (command == ExperimentCommand::kActivate) set_reason(shown, {});
  event("experiment was changed", {{"command", std::string(to_string(command))}, {"by", who}});
  obey(*order, now_ms);
  if (state() == RunState::kDeleting) {
    if (checkpoints_.empty()) {
      machine_.deletion_ended(true);
      remove();
    } else {
      context_.actions.garbage.push_back(id());
    }
  }
  finish_if_over(now_ms);
  return {};
}

Result<void> RunningExperiment::kill_trial(int64_t number, const std::string& who, int64_t now_ms) {
  Trial& trial = at(number);
  if (trial.is_over()) return {};
  set_reason(*trial.record.mutable_info(), reason("trial.killed_by", who));
  act(trial, trial.machine.become(RunState::kStoppingKilled), now_ms);
  return {};
}

// Everything of a deleted experiment leaves the tables; flush() removes the rows.
void RunningExperiment::remove() {
  for (auto& [number, trial] : trials_) {
    touch(trial);
    drop_program(trial);
    context_.experiment_of.erase(number);
  }
  for (const auto& [checkpoint, record] : checkpoints_) {
    touch_checkpoint(checkpoint);
    context_.checkpoint_of.erase(checkpoint);
  }
  touch();
  if (const auto found = context_.warm_starts.find(definition_.warm_start_checkpoint());
      found != context_.warm_starts.end() && --found->second == 0)
    context_.warm_starts.erase(found);
  context_.actions.rows.push_back({std::string(kExperimentsHeadTable), "last",
                                   fmt::format("{} {}", context_.last_experiment, context_.last_trial)});
  context_.actions.deleted_experiments.push_back(id());
  event("experiment was deleted", {});
}

}  // namespace volador::experiments
