// Trials of kind Trial: each has a job and a command of its own, which the resource's server decides on.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/core/experiment_table.h"
#include "experiments/core/running_experiment.h"
#include "runtime/quantities.h"

namespace volador::experiments {

Result<void> ExperimentCore::run_trials(int64_t experiment, const std::vector<protocol::KatibTrialProgram>& programs,
                                        int64_t now_ms) {
  auto found = impl_->experiment(experiment);
  if (!found) return make_error(found.error());
  return (*found)->run_trials(programs, now_ms);
}

void ExperimentCore::end_search(int64_t experiment, bool failure, int64_t now_ms) {
  if (auto found = impl_->experiment(experiment)) (*found)->end_search(failure, now_ms);
}

std::optional<v1::ExperimentInfo> ExperimentCore::of_resource(int64_t experiment) const {
  const auto found = impl_->experiment(experiment);
  if (!found || (*found)->definition().info().katib().empty()) return std::nullopt;
  return (*found)->info();
}

std::vector<int64_t> ExperimentCore::all_of_resources() const {
  std::vector<int64_t> ids;
  for (const auto& [id, experiment] : impl_->experiments) {
    if (!experiment->definition().info().katib().empty() && !experiment->is_deleted()) ids.push_back(id);
  }
  return ids;
}

Result<void> ExperimentCore::may_report(int64_t trial, const ExperimentRequester& by) const {
  const auto found = impl_->experiment_of_trial(trial);
  if (!found) return make_error(found.error());
  return impl_->check_process(**found, by);
}

// Operations of its own accord: events that wait for an answer are dropped with them.
Result<void> RunningExperiment::decide(std::vector<v1::SearcherOperation> operations, int64_t now_ms) {
  if (!has_search() || search_->custom() == nullptr)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("experiment {} is {}: it takes no more trials", id(), to_string(state())));
  Step step;
  step.set_kind(Step::ANSWERED);
  const auto* custom = search_->custom();
  if (custom->last_event() > custom->answered()) step.set_number(custom->last_event());
  for (v1::SearcherOperation& operation : operations) *step.add_operations() = std::move(operation);
  auto decided = answer(step);
  if (!decided) return make_error(decided.error());
  note(std::move(step));
  perform(std::move(*decided), now_ms);
  return {};
}

Result<void> RunningExperiment::run_trials(const std::vector<protocol::KatibTrialProgram>& programs, int64_t now_ms) {
  std::vector<v1::SearcherOperation> operations;
  const auto add = [&](const char* kind, const std::string& name) -> v1::SearcherOperation& {
    v1::SearcherOperation& operation = operations.emplace_back();
    operation.set_kind(kind);
    operation.set_request(name);
    return operation;
  };
  for (const protocol::KatibTrialProgram& program : programs) {
    if (by_request_.contains(program.name()) || new_programs_.contains(program.name())) continue;
    new_programs_[program.name()] = program;
    add("create", program.name()).set_hparams(program.hparams());
    add("validate_after", program.name()).set_length(1);
    add("close", program.name());
  }
  if (operations.empty()) return {};
  Result<void> decided =
      trials_.size() + new_programs_.size() > context_.limits.trials
          ? make_error(ErrorCode::kUnavailable, fmt::format("experiment {} has {}, and may have {}", id(),
                                                            counted(trials_.size(), "trial"), context_.limits.trials))
          : decide(std::move(operations), now_ms);
  new_programs_.clear();
  return decided;
}

void RunningExperiment::end_search(bool failure, int64_t now_ms) {
  if (!has_search()) return;
  for (const int64_t number : std::vector<int64_t>(open_.begin(), open_.end())) {
    Trial& trial = at(number);
    if (!trial.is_over()) act(trial, trial.machine.become(RunState::kStoppingKilled), now_ms);
  }
  v1::SearcherOperation end;
  end.set_kind("shutdown");
  end.set_failure(failure);
  static_cast<void>(decide({end}, now_ms));
}

const protocol::KatibTrialProgram* RunningExperiment::program_of(const Trial& trial) const {
  const auto found = programs_.find(trial.id());
  return found == programs_.end() ? nullptr : &found->second;
}

void RunningExperiment::take_program(Trial& trial) {
  auto found = new_programs_.find(trial.record.info().request_id());
  if (found == new_programs_.end()) return;
  protocol::KatibTrialProgram& program = programs_[trial.id()] = found->second;
  program.set_experiment(id());
  program.set_trial(trial.id());
  trial.record.mutable_info()->set_name(program.name());
  changed_programs_.insert(trial.id());
}

void RunningExperiment::drop_program(const Trial& trial) {
  if (programs_.erase(trial.id()) > 0) changed_programs_.insert(trial.id());
}

}  // namespace volador::experiments
