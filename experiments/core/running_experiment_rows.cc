// How an experiment and its trials are shown, and what may be edited.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/config/config_reader.h"
#include "experiments/config/sanity.h"
#include "experiments/config/secrets.h"
#include "experiments/core/running_experiment.h"
#include "experiments/core/shared_rules.h"
#include "runtime/quantities.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments {
namespace {

constexpr int kTrialsDefault = 1000, kTrialsMost = 10'000;

// The configuration as it was given, with its comments unless it has secrets.
std::string shown_original(const std::string& text) {
  const auto document = yaml::read(text, "config");
  if (!document) return {};
  Findings findings;
  const yaml::Value canonical = sane(document->root, findings);
  const yaml::Value hidden = without_secrets(canonical);
  return hidden == canonical ? text : yaml::yaml_text(hidden);
}

}  // namespace

v1::ExperimentInfo RunningExperiment::info() const {
  v1::ExperimentInfo shown = definition_.info();
  shown.set_state(std::string(to_string(state())));
  shown.set_archived(machine_.is_archived());
  if (search_ != nullptr) shown.set_progress(std::max(shown.progress(), search_->progress()));
  shown.set_trials(static_cast<int64_t>(trials_.size()));
  for (const auto& [name, number] : states_) (*shown.mutable_trials_by_state())[name] = number;
  shown.set_best_trial(best_trial_);
  if (const auto best = best_metric()) shown.set_best_metric(*best);
  shown.set_checkpoints(kept_checkpoints_);
  shown.set_checkpoint_bytes(kept_bytes_);
  if (state() != RunState::kActive) return shown;
  ActivePhase phase = ActivePhase::kQueued;
  const v1::TrialInfo* waits = nullptr;
  for (const int64_t number : running_) {
    const protocol::TrialRecord& record = at(number).record;
    if (record.job_state() != "running") {
      if (waits == nullptr) waits = &record.info();
      continue;
    }
    phase = std::max(phase, record.begun_run() == record.info().run() ? ActivePhase::kRunning : ActivePhase::kStarting);
  }
  shown.set_phase(std::string(to_string(phase)));
  if (phase == ActivePhase::kQueued && waits != nullptr) {
    shown.set_reason(waits->reason());
    shown.set_why(waits->why());
  }
  return shown;
}

v1::ExperimentInfo RunningExperiment::info_with_config() const {
  v1::ExperimentInfo shown = info();
  shown.set_config(json_of(config(), Secrets::kHidden));
  shown.set_original_config(shown_original(definition_.original_config()));
  if (!is_active()) config_.reset();
  return shown;
}

v1::TrialInfo RunningExperiment::trial_info(int64_t trial) const { return at(trial).record.info(); }

v1::ListTrialInfosReply RunningExperiment::trials(const v1::ListTrialInfosRequest& request) const {
  v1::ListTrialInfosReply reply;
  const int limit = request.limit() <= 0 ? kTrialsDefault : std::min(request.limit(), kTrialsMost);
  int64_t total = 0;
  for (const auto& [number, trial] : trials_) {
    const v1::TrialInfo& shown = trial.record.info();
    if (!request.states().empty() && std::ranges::find(request.states(), shown.state()) == request.states().end())
      continue;
    ++total;
    if (number > request.after() && reply.trials_size() < limit) *reply.add_trials() = shown;
  }
  reply.set_total(total);
  return reply;
}

Result<void> RunningExperiment::edit(const v1::EditExperimentRequest& request, const ExperimentRequester& by,
                                     int64_t now_ms) {
  const auto refuse = [&](std::string message) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("experiment {}: {}", id(), message));
  };
  if (!is_active() && !is_terminal(state()))
    return refuse(fmt::format("it is {}: only one that is not deleted can be edited", to_string(state())));
  if (request.has_name()) VOLADOR_TRY(check_words("name", request.name(), 1, kNameMax));
  if (request.has_workspace() != request.has_project()) return refuse("workspace and project are given together");
  if (request.has_workspace()) {
    VOLADOR_TRY(check_words("workspace", request.workspace(), 0, kNameMax));
    VOLADOR_TRY(check_words("project", request.project(), 0, kNameMax));
    if (request.workspace().empty() != request.project().empty())
      return refuse("workspace and project: expected two names, or two empty ones");
  }
  for (const auto* text : {&request.description(), &request.notes()}) {
    if (text->size() > kTextMax)
      return refuse(fmt::format("description and notes: expected at most {} bytes", kTextMax));
  }
  const auto labels = changed_labels(definition_.info().labels(), request.add_labels(), request.remove_labels());
  if (!labels) return refuse(labels.error().message);
  for (const auto& [field, given, value] :
       {std::tuple("save_experiment_best", request.has_save_experiment_best(), request.save_experiment_best()),
        std::tuple("save_trial_best", request.has_save_trial_best(), request.save_trial_best()),
        std::tuple("save_trial_latest", request.has_save_trial_latest(), request.save_trial_latest())}) {
    if (given && value < 0) return refuse(fmt::format("{}: expected at least 0, got {}", field, value));
  }
  const int64_t each = int64_t{definition_.nodes()} * definition_.slots_on_node();
  if (request.has_max_slots() && request.max_slots() != 0 && request.max_slots() < std::max<int64_t>(each, 1))
    return refuse(fmt::format("max_slots: expected 0 (no limit), or at least {}, the slots of a trial, got {}", each,
                              request.max_slots()));
  if (request.has_priority()) {
    const std::string& priority = request.priority();
    if (priority != "normal" && priority != "urgent" && priority != "very_urgent")
      return refuse(fmt::format("priority: expected normal, urgent or very_urgent, got \"{}\"", priority));
    if (priority == "very_urgent" && !by.operates)
      return make_error(ErrorCode::kPermissionDenied,
                        "priority: very_urgent is for operators; this token may use normal and urgent");
  }
  v1::ExperimentInfo& shown = *definition_.mutable_info();
  *shown.mutable_labels() = {labels->begin(), labels->end()};
  if (request.has_name()) shown.set_name(request.name());
  if (request.has_description()) shown.set_description(request.description());
  if (request.has_notes()) shown.set_notes(request.notes());
  if (request.has_workspace()) {
    shown.set_workspace(request.workspace());
    shown.set_project(request.project());
  }
  touch();
  if (request.has_max_slots()) {
    definition_.set_max_slots(request.max_slots());
    if (is_active()) submit_waiting();
    preempt_excess(now_ms);
  }
  if (request.has_priority()) {
    definition_.set_priority(request.priority());
    for (const int64_t number : running_) {
      const protocol::TrialRecord& record = at(number).record;
      if (record.job_state() == "queued")
        context_.actions.priorities.push_back({record.info().job(), request.priority()});
    }
  }
  const bool retention =
      request.has_save_experiment_best() || request.has_save_trial_best() || request.has_save_trial_latest();
  if (!retention) return {};
  if (request.has_save_experiment_best()) definition_.set_save_experiment_best(request.save_experiment_best());
  if (request.has_save_trial_best()) definition_.set_save_trial_best(request.save_trial_best());
  if (request.has_save_trial_latest()) definition_.set_save_trial_latest(request.save_trial_latest());
  if (is_terminal(state())) retain(now_ms);
  return {};
}

void RunningExperiment::check_invariants() const {
  if (is_deleted()) return;  // Its rows are removed next.
  std::map<std::string, int64_t> states;
  for (const auto& [number, trial] : trials_) {
    const protocol::TrialRecord& record = trial.record;
    const TrialStanding& standing = trial.machine.standing();
    const std::string at = fmt::format("trial {} of experiment {}", number, id());
    ++states[record.info().state()];
    VOLADOR_CHECK(record.info().state() == to_string(standing.state), at);
    VOLADOR_CHECK(record.has_processes() == standing.has_processes && record.asked() == standing.asked, at);
    VOLADOR_CHECK(open_.contains(number) == !trial.is_over(), at);
    VOLADOR_CHECK(running_.contains(number) == record.job_requested(), at);
    VOLADOR_CHECK(waiting_.contains(number) == (!trial.is_over() && trial.waits_for_slots()), at);
    VOLADOR_CHECK(!record.job_requested() || standing.has_processes, at);
    VOLADOR_CHECK(context_.experiment_of.contains(number), at);
    const int64_t deadline = record.preempt_deadline_ms();
    VOLADOR_CHECK(deadline == 0 || deadlines_.contains({deadline, number}), at);
  }
  const std::string at = fmt::format("experiment {}", id());
  VOLADOR_CHECK(states == states_, at);
  VOLADOR_CHECK(!is_active() || is_stopping(state()) || search_ != nullptr, at);
  VOLADOR_CHECK(is_active() || (open_.empty() && running_.empty() && waiting_.empty() && deadlines_.empty()), at);
  VOLADOR_CHECK(!is_stopping(state()) || !open_.empty(), at);
  VOLADOR_CHECK(operations_.empty() && !performing_, at);
  VOLADOR_CHECK(waiting_.empty() || !has_room() || running_.empty(), at);
  int64_t kept = 0, bytes = 0;
  for (const auto& [key, record] : checkpoints_) {
    VOLADOR_CHECK(garbage_.contains(key) == (record.info().state() == "DELETING"), key);
    if (record.info().state() == "DELETED") continue;
    ++kept;
    bytes += record.info().bytes();
  }
  VOLADOR_CHECK(kept == kept_checkpoints_ && bytes == kept_bytes_, at);
}

}  // namespace volador::experiments
