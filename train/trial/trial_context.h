// What a TorchTrial registers and calls: a view of its training operator with Determined's names.
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/operator/training_operator.h"
#include "train/optim/grad_scaler.h"
#include "train/trial/metric_reducer.h"
#include "train/trial/script_model.h"

namespace volador::train {

// When a learning-rate schedule advances.
enum class StepMode : uint8_t {
  kEveryEpoch,
  kEveryBatch,          // After each train_batch().
  kEveryOptimizerStep,  // After each step of its optimizer; with gradients that are aggregated, fewer.
  kManual,              // By LrScheduler::step().
};

struct BackwardOptions {
  OptimizerPtr optimizer = {};  // Whose parameters get gradients; may be left out if there is one optimizer.
  bool more = false;            // Another backward pass for this optimizer follows before its step.
  int64_t rows = -1;            // Samples that the loss is the mean of; -1: the whole batch.
};

struct Aggregation {
  int64_t frequency = 1;          // Batches of one optimizer step; at least 1.
  bool average_gradients = true;  // false: the step uses the sum of the batches' gradients.
};

struct ReducerUse {
  bool for_training = true;
  bool for_validation = true;
};

class TorchTrialContext;

// A schedule of an optimizer.
class LrScheduler {
 public:
  LrScheduler(TorchTrialContext& context, OptimizerPtr optimizer)
      : context_(&context), optimizer_(std::move(optimizer)) {}
  // Advances the schedule: in train_batch() when the batch is done, elsewhere at once.
  void step();

 private:
  TorchTrialContext* context_;
  OptimizerPtr optimizer_;
};

// The ranks of the run. Their number may change between batches, so that they are not known before the first one.
class DistributedContext {
 public:
  explicit DistributedContext(TorchTrialContext& context) : context_(context) {}
  // kInvalidArgument: called in the trial's constructor or a build_…() function.
  int get_rank() const;
  int get_size() const;
  // The values of all ranks, in their order, with tensors on the CPU. Collective: every rank calls it equally often.
  std::vector<c10::IValue> allgather(const c10::IValue& own) const;
  // Rank 0's value.
  c10::IValue broadcast(const c10::IValue& own) const;

 private:
  TorchTrialContext& context_;
};

class TorchTrialContext {
 public:
  TorchTrialContext(TrainingOperator& owner, const Config& hparams);
  TorchTrialContext(const TorchTrialContext&) = delete;
  TorchTrialContext& operator=(const TorchTrialContext&) = delete;

  // -- For the trial's constructor. What is not wrapped is neither in checkpoints nor equal on all ranks. --

  // Puts the model on the rank's device. Names: "model", "model_2" … by default.
  template <class M>
  M wrap_model(M model, std::string name = {}) {
    return operator_.register_model(std::move(model), std::move(name));
  }
  ScriptModel wrap_model(torch::jit::Module script, std::string name = {});
  // An optimizer of the model's parameters: context.wrap_optimizer(model, train::sgd({.lr = 0.1})).
  template <class M>
  OptimizerPtr wrap_optimizer(const M& model, const OptimizerFactory& factory, const OptimizerSettings& settings = {}) {
    return add(operator_.register_optimizer(model, factory, settings));
  }
  // An optimizer of any parameters of wrapped models.
  OptimizerPtr wrap_optimizer(OptimizerPtr optimizer, const OptimizerSettings& settings = {});
  // `frequency`: the schedule advances at each frequency-th occasion. kInvalidArgument: frequency < 1, the optimizer is
  // not wrapped or has a schedule.
  LrScheduler wrap_lr_scheduler(SchedulePtr schedule, const OptimizerPtr& optimizer, StepMode step_mode,
                                int64_t frequency = 1);
  // Its metrics are reported beside those of train_batch() and of the evaluation.
  template <class R>
  std::shared_ptr<R> wrap_reducer(std::shared_ptr<R> reducer, const ReducerUse& use = {}) {
    add(reducer, use);
    return reducer;
  }
  // A metric `name` that the function computes from all values given to update() on all ranks.
  std::shared_ptr<ValuesReducer> wrap_reducer(ValuesReducer::Function function, std::string name,
                                              const ReducerUse& use = {});
  // An optimizer step for several batches: a step then reads frequency × batch_size samples, which are given to
  // train_batch() one batch after the other, and step_optimizer() acts in the last of them. A step is repeated or resumed
  // as a whole. kInvalidArgument: frequency < 1.
  void aggregate_gradients(const Aggregation& aggregation);
  void on_nan(NanPolicy policy) { operator_.on_nan(policy); }
  // The type of autocast_forward_pass(): torch::kBFloat16, or torch::kHalf on a GPU with a gradient scaler.
  void use_amp(torch::ScalarType type);

  // -- Hyperparameters: the `config` of the trainer, or of the tune trial. --

  const Config& get_hparams() const { return hparams_; }
  // kInvalidArgument: there is none of this name; the message lists the names.
  Config get_hparam(std::string_view name) const { return hparams_[name]; }
  // The hyperparameter global_batch_size.
  int64_t get_global_batch_size() const { return hparams_.integer("global_batch_size"); }
  // This rank's samples of a full batch. kInvalidArgument: called before the first batch, when the number of ranks is
  // not known; data loaders take the global batch size.
  int64_t get_per_slot_batch_size() const;

  // -- For train_batch() --

  // Instead of loss.backward(). The loss is the mean over the samples of the batch; each batch counts with its number of
  // samples. kInvalidArgument: an earlier pass for this optimizer was not marked with .more.
  void backward(const torch::Tensor& loss, const BackwardOptions& options = {});
  // Instead of optimizer->step() and zero_grad(): waits for the sum of the gradients over the ranks, clips it, steps and
  // clears the gradients. Collective. Returns false if no step was made: in all but the last of several aggregated
  // batches, and by NanPolicy or the gradient scaler.
  bool step_optimizer(const OptimizerPtr& optimizer = nullptr, const StepOptions& options = {});
  // Runs the forward pass in the type of use_amp() while the guard exists.
  [[nodiscard]] AutocastGuard autocast_forward_pass() const;

  // -- Anywhere --

  // The call to train() ends after the running batch, on all ranks; outside train_batch(): after the first batch of the
  // next call.
  void set_stop_requested(bool stop_requested);
  bool get_stop_requested() const { return stop_requested_; }
  int64_t current_train_epoch() const { return epoch_; }
  int64_t current_train_batch() const { return batch_; }  // Since the start of the run.
  bool is_epoch_start() const { return is_epoch_start_; }
  bool is_epoch_end() const { return is_epoch_end_; }
  // Samples of the running batch that count. 0: a placeholder, in a last batch with fewer samples than ranks; the library
  // ignores its loss and metrics.
  int64_t current_batch_rows() const { return rows_; }
  torch::Device device() const { return operator_.device(); }
  DistributedContext distributed() { return DistributedContext(*this); }

 private:
  friend class TrialOperator;
  friend class LrScheduler;
  friend class DistributedContext;
  struct Reduced {
    std::shared_ptr<MetricReducer> reducer;
    ReducerUse use;
  };
  struct Scheduled {
    OptimizerPtr optimizer;
    bool every_batch = false;
    int64_t pending = 0;  // Steps to do when the batch is done.
  };
  OptimizerPtr add(OptimizerPtr optimizer);
  void add(std::shared_ptr<MetricReducer> reducer, const ReducerUse& use);
  // The optimizer that is meant by null; null if that is not clear, which the operator refuses.
  const torch::optim::Optimizer* meant_by(const OptimizerPtr& optimizer) const;
  // All schedules that were to advance in the batch.
  void step_schedules();

  TrainingOperator& operator_;
  const Config hparams_;
  std::vector<OptimizerPtr> optimizers_;
  std::vector<Scheduled> schedules_;
  std::vector<Reduced> reducers_;
  Aggregation aggregation_;
  std::optional<torch::ScalarType> amp_;
  bool has_started_ = false;  // The constructor and the build_…() functions are over.
  bool stop_requested_ = false;
  bool is_stop_pending_ = false;  // No step has told the other ranks.

  // The running batch.
  bool is_training_ = false;
  bool is_last_part_ = true;                              // Its gradients complete the step.
  double scale_ = 1;                                      // That of the loss.
  std::vector<const torch::optim::Optimizer*> complete_;  // No backward pass of theirs may follow before their step.
  int64_t epoch_ = 0, batch_ = 0, rows_ = 0;
  int64_t batch_size_ = 0;  // That of all ranks together.
  bool is_epoch_start_ = false, is_epoch_end_ = false;
};

}  // namespace volador::train
