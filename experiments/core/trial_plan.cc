#include "experiments/core/trial_plan.h"

#include <algorithm>
#include <limits>

namespace volador::experiments {

TrialPlan::TrialPlan(const TrialPlanOptions& options, const TrialProgress& restored,
                     std::optional<int64_t> validated_at)
    : options_(options), progress_(restored) {
  // A validation of exactly this checkpoint is not part of it. Those of work that is lost do not count.
  if (validated_at == progress_.batches) progress_.last_validation = progress_.batches;
  initial_ = options_.initial_validation && !validated_at && progress_.batches == 0;
}

void TrialPlan::ask(int64_t length) { asked_ = length; }

TrialPlan::State TrialPlan::state() const {
  if (step_) return State::kRuns;
  TrialPlan copy = *this;
  if (copy.next()) return State::kRuns;
  return copy.exiting_ ? State::kExited : State::kWaits;
}

std::optional<TrialStep> TrialPlan::next() {
  if (!step_) step_ = decide();
  return step_;
}

int64_t TrialPlan::until(int64_t last, int64_t period) const {
  return period < 1 ? std::numeric_limits<int64_t>::max() : last + period - progress_.batches;
}

int64_t TrialPlan::to_train() const {
  const int64_t most = std::min({until(progress_.last_checkpoint, options_.checkpoint_period),
                                 until(progress_.last_validation, options_.validation_period),
                                 *asked_ - progress_.batches, options_.scheduling_unit});
  return std::max<int64_t>(most, 1);
}

std::optional<TrialStep> TrialPlan::decide() {
  const auto step = [&](TrialStep::Kind kind, int64_t batches = 0) {
    return TrialStep{kind, batches, progress_.batches + batches};
  };
  const TrialStep save = step(TrialStep::Kind::kCheckpoint), validate = step(TrialStep::Kind::kValidate);
  if (!initial_ && !asked_ && is_saved() && (closed_ || preempted_)) exiting_ = true;
  if (exiting_) return is_saved() || unsaved_ ? std::nullopt : std::optional(save);
  if (initial_) return validate;
  if (checkpoint_due_) return save;
  // By their periods the validation comes before the checkpoint, for the search it comes after it.
  if (trained_ && until(progress_.last_validation, options_.validation_period) < 1) return validate;
  if (trained_ && until(progress_.last_checkpoint, options_.checkpoint_period) < 1) return save;
  if (asked_ && progress_.batches < *asked_) {
    trained_ = false;
    return step(TrialStep::Kind::kTrain, to_train());
  }
  if (!is_saved()) return save;
  if (asked_) return validate;
  return std::nullopt;
}

bool TrialPlan::is_best(const StepResult& result) const {
  if (!result.experiment_best) return true;
  return options_.smaller_is_better ? result.metric < *result.experiment_best : result.metric > *result.experiment_best;
}

bool TrialPlan::done(const StepResult& result) {
  if (!step_) return false;
  const TrialStep step = *step_;
  step_.reset();
  const bool was_exiting = exiting_;
  bool completed = false;
  if (step.kind == TrialStep::Kind::kCheckpoint) {
    progress_.last_checkpoint = progress_.batches;
    checkpoint_due_ = false;
  }
  if (result.invalid_hp) {
    invalid_ = exiting_ = true;
    unsaved_ = step.kind == TrialStep::Kind::kCheckpoint;
    return false;
  }
  if (step.kind == TrialStep::Kind::kTrain) {
    progress_.batches = step.total;
    trained_ = true;
  } else if (step.kind == TrialStep::Kind::kValidate) {
    completed = !initial_ && asked_ && progress_.batches >= *asked_;
    initial_ = false;
    if (completed) asked_.reset();
    progress_.last_validation = progress_.batches;
    checkpoint_due_ = !is_saved() && (options_.checkpoint_policy == ValidationCheckpoint::kAll ||
                                      (options_.checkpoint_policy == ValidationCheckpoint::kBest && is_best(result)));
  }
  if (was_exiting) return completed;
  stop_requested_ = stop_requested_ || result.stop_requested;
  if (stop_requested_) exiting_ = true;
  check_preemption();
  return completed;
}

}  // namespace volador::experiments
