// The search of an experiment: what happens goes to it as steps, which the journal keeps, and its operations make, ask and
// close trials.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "experiments/config/config_reader.h"
#include "experiments/core/running_experiment.h"
#include "runtime/quantities.h"
#include "tune/overload.h"

namespace volador::experiments {
namespace {

namespace determined = tune::determined;

determined::ExitReason exit_reason(TrialExit exit) {
  switch (exit) {
    case TrialExit::kUserCanceled:
      return determined::ExitReason::kUserCancelled;
    case TrialExit::kUserRequestedStop:
    case TrialExit::kEarlyStopped:
    case TrialExit::kMetricsUnavailable:
      return determined::ExitReason::kUserRequestedStop;
    case TrialExit::kInvalidHp:
      return determined::ExitReason::kInvalidHp;
    case TrialExit::kInitInvalidHp:
      return determined::ExitReason::kInitInvalidHp;
    case TrialExit::kErrored:
      break;
  }
  return determined::ExitReason::kErrored;
}

Result<determined::Operations> operations_from(const protocol::SearchStep& step) {
  determined::Operations operations;
  for (const v1::SearcherOperation& one : step.operations()) {
    if (one.kind() == "create") {
      auto hparams = tune::Config::from_json(one.hparams().empty() ? "{}" : one.hparams());
      if (!hparams || !hparams->is_map())
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("create of trial \"{}\": hparams: expected a JSON object, got {}", one.request(),
                                      one.hparams()));
      operations.emplace_back(determined::Create{one.request(), one.seed(), std::move(*hparams)});
    } else if (one.kind() == "validate_after") {
      operations.emplace_back(determined::ValidateAfter{one.request(), one.length()});
    } else if (one.kind() == "close") {
      operations.emplace_back(determined::Close{one.request()});
    } else if (one.kind() == "shutdown") {
      operations.emplace_back(determined::Shutdown{one.failure(), one.cancel()});
    } else {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("kind: expected create, validate_after, close or shutdown, got \"{}\"", one.kind()));
    }
  }
  return operations;
}

}  // namespace

Result<std::unique_ptr<determined::Search>> search_of(const ExperimentConfig& config, uint32_t seed) {
  const auto space = hyperparameter_space(config);
  if (!space) return make_error(space.error());
  return determined::Search::create(searcher_settings(config.searcher).options, *space, seed);
}

Result<void> RunningExperiment::begin(const std::string& who, int64_t now_ms) {
  auto search = search_of(config(), definition_.seed());
  if (!search) return make_error(search.error());
  search_ = std::move(*search);
  touch();
  event("experiment was created", {{"by", who}});
  Step step;
  step.set_kind(Step::INITIAL);
  tell(std::move(step), now_ms);
  return {};
}

void RunningExperiment::restore_search(const ExperimentRows& rows) {
  auto search = search_of(config(), definition_.seed());
  if (!search) return;
  search_ = std::move(*search);
  if (rows.search) {
    step_ = snapshot_step_ = rows.search->step();
    if (!search_->restore(rows.search->snapshot())) return search_.reset();
  }
  // Steps of before the snapshot may be left if the journal was cut.
  for (const auto& [number, step] : rows.steps) {
    if (number <= snapshot_step_) continue;
    if (number != step_ + 1) return search_.reset();
    execute(step);
    step_ = number;
  }
  stored_step_ = step_;
}

// What has happened goes to the search; the answer to a custom one has been checked by answer() before.
determined::Operations RunningExperiment::execute(const Step& step) {
  switch (step.kind()) {
    case Step::INITIAL:
      return search_->initial_operations();
    case Step::CREATED:
      return search_->created(step.request());
    case Step::VALIDATED:
      return search_->validated(step.request(), step.number(), step.value());
    case Step::REPORTED:
      return search_->reported(step.request(), step.number(), step.value());
    case Step::TRAINED:
      search_->trained(step.request(), step.value());
      return {};
    case Step::CLOSED:
      return search_->closed(step.request());
    case Step::EXITED:
      return search_->exited(step.request(), exit_reason(static_cast<TrialExit>(step.number())));
    case Step::ANSWERED: {
      const auto operations = operations_from(step);
      if (!operations) return {};
      return search_
          ->answer(step.number(), *operations, step.has_progress() ? std::optional(step.progress()) : std::nullopt)
          .value_or(determined::Operations());
    }
    default:
      return {};
  }
}

void RunningExperiment::note(Step step) {
  ++step_;
  new_steps_.push_back(std::move(step));
  context_.touched.insert(id());
}

void RunningExperiment::tell(Step step, int64_t now_ms) {
  if (!has_search()) return;
  auto operations = execute(step);
  note(std::move(step));
  perform(std::move(operations), now_ms);
}

void RunningExperiment::perform(determined::Operations operations, int64_t now_ms) {
  std::ranges::move(operations, std::back_inserter(operations_));
  if (std::exchange(performing_, true)) return;
  while (!operations_.empty() && has_search()) {
    const determined::Operation operation = std::move(operations_.front());
    operations_.pop_front();
    const auto trial_of = [&](const std::string& request) -> Trial* {
      const auto found = by_request_.find(request);
      return found == by_request_.end() ? nullptr : &at(found->second);
    };
    std::visit(tune::Overload{[&](const determined::Create& one) { create(one, now_ms); },
                              [&](const determined::ValidateAfter& one) {
                                if (Trial* trial = trial_of(one.request)) ask(*trial, one.length, now_ms);
                              },
                              [&](const determined::Close& one) {
                                if (Trial* trial = trial_of(one.request)) close(*trial, now_ms);
                              },
                              [&](const determined::Shutdown& one) {
                                if (one.cancel)
                                  set_reason(*definition_.mutable_info(), reason("experiment.trials_canceled"));
                                touch();
                                obey(machine_.search_ended(one.failure, one.cancel), now_ms);
                              }},
               operation);
  }
  operations_.clear();
  performing_ = false;
  finish_if_over(now_ms);
}

void RunningExperiment::create(const determined::Create& operation, int64_t now_ms) {
  const int64_t number = ++context_.last_trial;
  protocol::TrialRecord record;
  v1::TrialInfo& shown = *record.mutable_info();
  shown.set_id(number);
  shown.set_experiment(id());
  shown.set_request_id(operation.request);
  shown.set_hparams(operation.hyperparameters.is_null() ? "{}" : operation.hyperparameters.to_json());
  shown.set_seed(operation.trial_seed);
  shown.set_created_ms(now_ms);
  shown.set_warm_start_trial(definition_.warm_start_trial());
  shown.set_warm_start_checkpoint(definition_.warm_start_checkpoint());
  const RunState begins = state() == RunState::kPaused ? RunState::kPaused : RunState::kActive;
  record.set_state(static_cast<int32_t>(begins));
  shown.set_state(std::string(to_string(begins)));
  const auto [found, added] = trials_.emplace(std::piecewise_construct, std::forward_as_tuple(number),
                                              std::forward_as_tuple(std::move(record), config().max_restarts));
  Trial& trial = found->second;
  by_request_[operation.request] = number;
  context_.experiment_of[number] = id();
  take_program(trial);
  open_.insert(number);
  count(trial, 1);
  touch(trial);
  Step step;
  step.set_kind(Step::CREATED);
  step.set_request(operation.request);
  tell(std::move(step), now_ms);
  // In a timed search a trial runs from its beginning to its end, or until the search closes it.
  if (settings_.options.timed) ask(trial, settings_.options.max_length, now_ms);
}

void RunningExperiment::ask(Trial& trial, int64_t length, int64_t now_ms) {
  if (trial.is_over()) return;
  trial.record.mutable_info()->set_searched_length(length);
  trial.record.set_length(length);
  if (trial.machine.standing().has_processes && trial.id() != completing_) trial.record.set_asked_late(true);
  act(trial, trial.machine.asked(), now_ms);
}

void RunningExperiment::close(Trial& trial, int64_t now_ms) {
  if (trial.is_over()) return;
  if (settings_.options.timed) {
    act(trial, trial.machine.completed(), now_ms);
    if (trial.machine.standing().has_processes) ask_to_end(trial, now_ms);
    if (trial.is_over()) return;
  }
  // What an earlier run ended with says nothing about the end of the trial.
  if (!trial.machine.standing().has_processes) set_reason(*trial.record.mutable_info(), {});
  act(trial, trial.machine.closed(), now_ms);
}

// Whether a custom search has to decide what the trial does next.
bool RunningExperiment::awaits_program(const Trial& trial) const {
  if (search_ == nullptr || search_->custom() == nullptr) return false;
  return std::ranges::any_of(search_->custom()->events(), [&](const determined::SearchEvent& event) {
    return event.request == trial.record.info().request_id() &&
           event.kind == determined::SearchEvent::Kind::kValidationCompleted;
  });
}

std::optional<v1::GetSearcherEventsReply> RunningExperiment::searcher_events() const {
  v1::GetSearcherEventsReply reply;
  if (search_ != nullptr && search_->custom() != nullptr) {
    for (const determined::SearchEvent& event : search_->custom()->events())
      reply.add_events(to_config(event).to_json());
  }
  if (reply.events().empty() && has_search()) return std::nullopt;
  return reply;
}

// The program's operations, checked and in the search.
Result<determined::Operations> RunningExperiment::answer(const Step& step) {
  const auto operations = operations_from(step);
  if (!operations) return make_error(operations.error());
  return search_->answer(step.number(), *operations,
                         step.has_progress() ? std::optional(step.progress()) : std::nullopt);
}

Result<void> RunningExperiment::searcher_operations(const v1::PostSearcherOperationsRequest& request, int64_t now_ms) {
  if (!has_search())
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("experiment {} is {}: its search takes no more operations", id(), to_string(state())));
  // A repeated answer is no step of the search.
  if (search_->custom() != nullptr && request.event() <= search_->custom()->answered()) return {};
  Step step;
  step.set_kind(Step::ANSWERED);
  step.set_number(request.event());
  *step.mutable_operations() = request.operations();
  if (request.has_progress()) step.set_progress(request.progress());
  const auto operations = operations_from(step);
  if (!operations) return make_error(operations.error());
  const auto creates = static_cast<size_t>(std::ranges::count_if(
      *operations, [](const auto& one) { return std::holds_alternative<determined::Create>(one); }));
  if (trials_.size() + creates > context_.limits.trials)
    return make_error(ErrorCode::kUnavailable, fmt::format("experiment {} has {}, and may have {}", id(),
                                                           counted(trials_.size(), "trial"), context_.limits.trials));
  auto answered = answer(step);
  if (!answered) return make_error(answered.error());
  note(std::move(step));
  // Trials whose completion was answered without another length are told that there is no more.
  for (const int64_t number : open_) {
    if (at(number).record.job_requested()) changed_trials_.insert(number);
  }
  perform(std::move(*answered), now_ms);
  return {};
}

}  // namespace volador::experiments
