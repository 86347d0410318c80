#include "train/trial/trial_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "tune/refusal.h"

namespace volador::train {
namespace {

// Advances once in `frequency` steps.
class RareSchedule final : public Schedule {
 public:
  RareSchedule(SchedulePtr inner, int64_t frequency) : inner_(std::move(inner)), frequency_(frequency) {}
  double rate(double base_rate, int64_t step) const override { return inner_->rate(base_rate, step / frequency_); }
  std::optional<double> momentum(int64_t step) const override { return inner_->momentum(step / frequency_); }

 private:
  const SchedulePtr inner_;
  const int64_t frequency_;
};

}  // namespace

void LrScheduler::step() {
  for (auto& schedule : context_->schedules_) {
    if (schedule.optimizer == optimizer_) ++schedule.pending;
  }
  if (!context_->is_training_) context_->step_schedules();
}

int DistributedContext::get_rank() const {
  if (!context_.has_started_) {
    tune::throw_refusal(
        "distributed().get_rank(): the ranks are numbered after the trial's constructor and the build_…() functions, "
        "and "
        "anew when workers come or go; for a folder of this process use its process id");
  }
  return context_.operator_.rank();
}

int DistributedContext::get_size() const {
  if (!context_.has_started_) {
    tune::throw_refusal(
        "distributed().get_size(): the number of ranks is not known in the trial's constructor and the build_…() "
        "functions, and changes when workers come or go");
  }
  return context_.operator_.world();
}

std::vector<c10::IValue> DistributedContext::allgather(const c10::IValue& own) const {
  get_size();
  return gather_values(context_.operator_, own);
}
c10::IValue DistributedContext::broadcast(const c10::IValue& own) const {
  return allgather(get_rank() == 0 ? own : c10::IValue()).front();
}

TorchTrialContext::TorchTrialContext(TrainingOperator& owner, const Config& hparams)
    : operator_(owner), hparams_(hparams) {}

ScriptModel TorchTrialContext::wrap_model(torch::jit::Module script, std::string name) {
  return operator_.register_model(ScriptModel(std::move(script)), std::move(name));
}

OptimizerPtr TorchTrialContext::wrap_optimizer(OptimizerPtr optimizer, const OptimizerSettings& settings) {
  return add(operator_.register_optimizer(std::move(optimizer), settings));
}

OptimizerPtr TorchTrialContext::add(OptimizerPtr optimizer) {
  optimizers_.push_back(optimizer);
  return optimizer;
}

LrScheduler TorchTrialContext::wrap_lr_scheduler(SchedulePtr schedule, const OptimizerPtr& optimizer,
                                                 StepMode step_mode, int64_t frequency) {
  if (schedule == nullptr) tune::throw_refusal("wrap_lr_scheduler(): the schedule is null");
  if (frequency < 1)
    tune::throw_refusal(fmt::format("wrap_lr_scheduler(): frequency is {}; it must be at least 1", frequency));
  for (const Scheduled& other : schedules_) {
    if (other.optimizer == optimizer) {
      tune::throw_refusal(
          "wrap_lr_scheduler(): the optimizer has a schedule; combine both by train::schedules::chained() or "
          "sequential()");
    }
  }
  if (frequency > 1) schedule = std::make_shared<RareSchedule>(std::move(schedule), frequency);
  const ScheduleStep when = step_mode == StepMode::kEveryEpoch           ? ScheduleStep::kEpoch
                            : step_mode == StepMode::kEveryOptimizerStep ? ScheduleStep::kBatch
                                                                         : ScheduleStep::kManual;
  operator_.register_schedule(optimizer, std::move(schedule), when);
  schedules_.push_back({.optimizer = optimizer, .every_batch = step_mode == StepMode::kEveryBatch});
  return {*this, optimizer};
}

void TorchTrialContext::add(std::shared_ptr<MetricReducer> reducer, const ReducerUse& use) {
  if (reducer == nullptr) tune::throw_refusal("wrap_reducer(): the reducer is null");
  if (!use.for_training && !use.for_validation)
    tune::throw_refusal(
        "wrap_reducer(): neither for_training nor for_validation is set; the reducer would have no use");
  reducers_.push_back({std::move(reducer), use});
}

std::shared_ptr<ValuesReducer> TorchTrialContext::wrap_reducer(ValuesReducer::Function function, std::string name,
                                                               const ReducerUse& use) {
  if (name.empty()) tune::throw_refusal("wrap_reducer(): a function needs the name of its metric");
  return wrap_reducer(std::make_shared<ValuesReducer>(std::move(name), std::move(function)), use);
}

void TorchTrialContext::aggregate_gradients(const Aggregation& aggregation) {
  if (has_started_) tune::throw_refusal("aggregate_gradients(): call it in the trial's constructor");
  if (aggregation.frequency < 1) {
    tune::throw_refusal(
        fmt::format("aggregate_gradients(): frequency is {}; it must be at least 1", aggregation.frequency));
  }
  aggregation_ = aggregation;
}

void TorchTrialContext::use_amp(torch::ScalarType type) {
  operator_.use_autocast(type);
  amp_ = type;
}

AutocastGuard TorchTrialContext::autocast_forward_pass() const {
  return AutocastGuard(operator_.device().type(), amp_.value_or(torch::kBFloat16), amp_.has_value());
}

int64_t TorchTrialContext::get_per_slot_batch_size() const {
  if (!has_started_) {
    tune::throw_refusal(
        "get_per_slot_batch_size(): the number of ranks is not known yet and may change; the batch_size of a data "
        "loader "
        "is that of all ranks together: use get_global_batch_size()");
  }
  return batch_size_ / operator_.world() + (operator_.rank() < batch_size_ % operator_.world() ? 1 : 0);
}

const torch::optim::Optimizer* TorchTrialContext::meant_by(const OptimizerPtr& optimizer) const {
  return optimizer == nullptr && optimizers_.size() == 1 ? optimizers_.front().get() : optimizer.get();
}

void TorchTrialContext::backward(const torch::Tensor& loss, const BackwardOptions& options) {
  const auto* optimizer = meant_by(options.optimizer);
  if (std::find(complete_.begin(), complete_.end(), optimizer) != complete_.end()) {
    tune::throw_refusal(
        "backward(): a second pass for this optimizer before its step_optimizer(), whose gradients are on their way to "
        "the other ranks; set .more = true in all passes but the last, or add the losses");
  }
  if (is_last_part_ && !options.more) complete_.push_back(optimizer);
  operator_.backward(scale_ == 1 ? loss : loss * scale_, options.optimizer, options.rows < 0 ? rows_ : options.rows,
                     is_last_part_ && !options.more);
}

bool TorchTrialContext::step_optimizer(const OptimizerPtr& optimizer, const StepOptions& options) {
  if (!is_last_part_) return false;
  std::erase(complete_, meant_by(optimizer));
  const bool is_done = operator_.step(optimizer, options);
  is_stop_pending_ = false;
  return is_done;
}

void TorchTrialContext::set_stop_requested(bool stop_requested) {
  stop_requested_ = is_stop_pending_ = stop_requested;
  if (stop_requested && is_training_) operator_.request_stop();
}

void TorchTrialContext::step_schedules() {
  for (Scheduled& schedule : schedules_) {
    for (; schedule.pending > 0; --schedule.pending) operator_.step_schedule(schedule.optimizer);
  }
}

}  // namespace volador::train
