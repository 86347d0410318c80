// User code of a training run: models, optimizers and data of one rank, and what is done with a batch.
//
//   class Digits : public train::TrainingOperator {
//     void setup(const train::Config& config) override {
//       auto [model, optimizer, criterion] = register_all(Net(config.integer("width")), train::sgd({.lr = 0.1}), train::cross_entropy());
//       register_data({.train = digits::dataset("train"), .validation = digits::dataset("validation"), .batch_size = 64});
//     }
//   };
//   VOLADOR_TRAINING_OPERATOR(Digits);
#pragma once

#include <torch/nn/modules/container/any.h>
#include <torch/optim/optimizer.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/actor/type_name.h"
#include "train/core/schedule.h"
#include "train/data/dataset.h"
#include "train/data/loader.h"
#include "train/group/compression.h"
#include "train/operator/metric_means.h"
#include "tune/space/config.h"

namespace volador::train {

using Config = tune::Config;
using OptimizerPtr = std::shared_ptr<torch::optim::Optimizer>;
// Makes an optimizer of these parameters.
using OptimizerFactory = std::function<OptimizerPtr(std::vector<torch::Tensor> parameters)>;
// The loss, a scalar: the mean over the samples of the output.
using Criterion = std::function<torch::Tensor(const torch::Tensor& output, const torch::Tensor& target)>;

struct SgdSettings {
  double lr = 0;  // Must be given.
  double momentum = 0;
  double weight_decay = 0;
  double dampening = 0;
  bool nesterov = false;
};
struct AdamSettings {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;  // adamw: 0.01 is usual.
  bool amsgrad = false;
};
// Optimizers with fused kernels; see train/optim/optimizers.h for others. Throw kInvalidArgument (an option out of
// range).
OptimizerFactory sgd(const SgdSettings& options);
OptimizerFactory adam(const AdamSettings& options = {});
OptimizerFactory adamw(const AdamSettings& options = {.weight_decay = 0.01});

struct OptimizerSettings {
  // Divides the optimizer's state among the ranks (ZeRO stage 1): each steps a share of the parameters and sends them
  // to the others. The result is the same; the state takes about 1/world of the memory, more if one parameter is larger
  // than that share.
  bool shard = false;
};

Criterion cross_entropy(double label_smoothing = 0);  // Output [n, classes], target [n] of class numbers.
Criterion nll_loss();                                 // As cross_entropy, of log-probabilities.
Criterion mse_loss();                                 // Output and target of one shape.
Criterion bce_with_logits();                          // Output and target of one shape.

struct DataOptions {
  DatasetPtr train = {};
  DatasetPtr validation = {};
  int64_t batch_size = 0;             // Samples of a step over all ranks together; at least the number of ranks.
  int64_t validation_batch_size = 0;  // 0: batch_size.
  int64_t micro_batch = 0;  // Samples that a rank processes at once; larger shares are accumulated. 0: no limit.
  bool shuffle = true;      // Training data, anew each epoch.
  bool drop_last = false;   // Leaves out a last batch with fewer than batch_size samples.
  int loader_threads = 0;   // Threads of each rank that read ahead; 0: none.
  int prefetch = 2;         // Batches read ahead by each thread.
};

// When a schedule advances.
enum class ScheduleStep : uint8_t {
  kBatch,   // After each optimizer step.
  kEpoch,   // After each epoch.
  kManual,  // By step_schedule().
};

// What a loss that is NaN or infinite on any rank leads to.
enum class NanPolicy : uint8_t {
  kRaise,  // The run fails with an error that names step and ranks.
  kSkip,   // All ranks leave the step out.
  kStop,   // The call to train() ends after this step with stopped_by_nan = 1 among its metrics.
};

struct BatchInfo {
  int64_t batch_index = 0;  // In the epoch; 0 is the first.
  int64_t step = 0;         // Batches done before in the run.
  int64_t epoch = 0;
  int64_t rows = 0;  // Samples of this rank that count; 0: the batch is a placeholder that keeps the ranks in step.
  int64_t batch_rows = 0;  // Samples of all ranks together.
};

struct EpochInfo {
  int64_t epoch = 0;
  int64_t steps_max = -1;  // Batches of this call; -1: to the end of the epoch.
};

// One batch of a rank's share.
struct LoadedStep {
  Batch batch;  // On the rank's device.
  BatchInfo info;
};

// The batches of one call of train() or validate(). A call may end in the middle of an epoch and go on later.
class BatchIterator {
 public:
  virtual ~BatchIterator() = default;
  // Returns the next batch; nullopt: this call ends here. Commits the batch before it.
  virtual std::optional<LoadedStep> next() = 0;
};

struct StepOptions {
  double clip_norm = 0;   // Limit of the norm of all gradients together; 0: none.
  double clip_value = 0;  // Limit of each gradient element; 0: none.
};

struct OperatorImpl;
class RankLoop;

class TrainingOperator {
 public:
  TrainingOperator();
  virtual ~TrainingOperator();
  TrainingOperator(const TrainingOperator&) = delete;
  TrainingOperator& operator=(const TrainingOperator&) = delete;

  // Called first, once, in the process of each rank: registers models, optimizers, schedules and data. Models may be
  // initialised at random: all ranks start from those of rank 0.
  virtual void setup(const Config& config) = 0;

  // By default train_batch() of each batch. Returns the metrics' means weighted by num_samples. An own implementation
  // fetches batches from `batches` until there are none, or calls the default and returns further metrics of the call.
  virtual Metrics train_epoch(BatchIterator& batches, const EpochInfo& info);
  // By default forward, loss, backward and step of the only model: {"train_loss"}. An own implementation calls
  // backward() and step() in the same order on all ranks.
  virtual Metrics train_batch(const Batch& batch, const BatchInfo& info);
  // By default validate_batch() of each batch without gradients, all models in evaluation mode.
  virtual Metrics validate(BatchIterator& batches, const EpochInfo& info);
  // By default {"val_loss"}, and {"val_accuracy"} if the output has one number a class and targets are class numbers.
  virtual Metrics validate_batch(const Batch& batch, const BatchInfo& info);
  // More state of the operator's own, saved with checkpoints and copied to ranks that join: tensors, numbers, texts,
  // lists and dictionaries.
  virtual c10::IValue state_dict();
  virtual void load_state_dict(const c10::IValue& state);
  // Called by RankLoop::call() on all ranks, between calls of train() and validate(), with equal arguments. May use
  // collective operations. By default throws kInvalidArgument: the operator has no function of this name.
  virtual Metrics on_call(const std::string& name, const Config& arguments);

  // -- For setup() --

  // Puts the model on the rank's device and includes it in checkpoints. Names: "model", "model_2" … by default. Its
  // train::SyncBatchNorm modules normalise over the samples of all ranks.
  template <class M>
  M register_model(M model, std::string name = {});
  // An optimizer of the model's parameters. Throws kInvalidArgument: it cannot be sharded.
  template <class M>
  OptimizerPtr register_optimizer(const M& model, const OptimizerFactory& factory,
                                  const OptimizerSettings& settings = {});
  // An optimizer of any parameters of registered models.
  OptimizerPtr register_optimizer(OptimizerPtr optimizer, const OptimizerSettings& settings = {});
  void register_criterion(Criterion criterion);
  // Throws kInvalidArgument if the optimizer is not registered.
  void register_schedule(const OptimizerPtr& optimizer, SchedulePtr schedule, ScheduleStep when);
  void register_data(DataOptions data);
  // Model, optimizer and criterion at once.
  template <class M>
  std::tuple<M, OptimizerPtr, Criterion> register_all(M model, const OptimizerFactory& factory, Criterion criterion,
                                                      const OptimizerSettings& settings = {});
  void on_nan(NanPolicy policy);
  // Gradients are clipped in the default train_batch().
  void clip_gradients(const StepOptions& options);
  // Sets how gradients travel between the ranks; by default as they are. All ranks must set the same. Micro-batches are
  // added before the compression, and parameters and optimizers keep their types. With kHalf or kBFloat16 gradients of
  // float32 take half the bytes; an element of a sum over n ranks is off by at most n * u times the sum of the ranks'
  // absolute values, where u is 2^-11 for float16, whose values above 65504 become infinite, and 2^-8 for bfloat16. With
  // kPowerSgd matrices travel as factors (Vogels et al., NeurIPS 2019, arXiv:1905.13727): a sum has no bound, but what a
  // step leaves out is added to the next one. A group that is formed anew (a worker was lost or joined, a state was
  // loaded) starts without that remainder, so that such runs do not repeat bit for bit. Throws kInvalidArgument (an
  // option is out of range, or setup() is over).
  void compress_gradients(Compression compression, const PowerSgdOptions& power_sgd = {});
  // The forward pass of the default methods runs in this type under autocast: torch::kBFloat16, or torch::kHalf on a
  // GPU with a gradient scaler.
  void use_autocast(torch::ScalarType type);

  // -- For train_batch() and validate_batch() --

  // Output of the only model for the inputs of a batch.
  torch::Tensor forward(const Batch& batch);
  // Backward pass of a loss that is the mean over `rows` samples; rows < 0: over all of this batch. `last`: no further
  // backward pass belongs to this step. Without `optimizer`: the only one. Other optimizers' parameters get no gradients.
  void backward(const torch::Tensor& loss, const OptimizerPtr& optimizer = nullptr, int64_t rows = -1,
                bool last = true);
  // Waits for the sum of the gradients over the ranks and steps the optimizer; the gradients are gone afterwards.
  // In a batch, parameters of optimizers may change from the first step() on, not before: the state is copied until
  // then. Collective. Returns false if the step was left out (NanPolicy, gradient scaler).
  bool step(const OptimizerPtr& optimizer = nullptr, const StepOptions& options = {});
  // The same, without the step: gradients are then this rank's own copies and can be changed; call optimizer->step()
  // and clear_gradients() afterwards. Not for a sharded optimizer.
  void synchronize_gradients(const OptimizerPtr& optimizer = nullptr);
  void clear_gradients(const OptimizerPtr& optimizer = nullptr);
  void step_schedule(const OptimizerPtr& optimizer = nullptr);
  // The call to train() ends after this step, on all ranks.
  void request_stop();

  torch::Device device() const;
  int rank() const;
  int world() const;
  const Config& config() const;
  int64_t optimizer_state_bytes() const;  // Bytes of the tensors in the state of all optimizers on this rank.
  // Sum over the ranks, in place. Collective.
  void all_reduce(torch::Tensor tensor);
  // In place, from this rank. Collective.
  void broadcast(torch::Tensor tensor, int root = 0);

 private:
  friend class RankLoop;
  using Forward = std::function<torch::Tensor(const Batch&)>;
  void add_model(std::shared_ptr<torch::nn::Module> module, Forward forward, std::string name);
  void place(torch::nn::Module& module) const;

  std::unique_ptr<OperatorImpl> impl_;
};

// Registry of the operators of an executable by name, filled before main.
class OperatorRegistry {
 public:
  using Factory = std::function<std::unique_ptr<TrainingOperator>()>;
  static OperatorRegistry& instance();
  std::string add(std::string_view name, Factory factory);
  // Throws kNotFound that names the registered operators.
  std::unique_ptr<TrainingOperator> make(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, Factory>> factories_;
};

template <class Op>
const std::string& registered_operator() {
  static_assert(std::is_base_of_v<TrainingOperator, Op>, "volador: derive the class from train::TrainingOperator");
  static const std::string name =
      OperatorRegistry::instance().add(type_name<Op>(), [] { return std::make_unique<Op>(); });
  return name;
}
// Registers before main, in every process of the program.
template <class Op>
struct OperatorEntry {
  static inline const std::string& name = registered_operator<Op>();
};

namespace models {

// The module inside a holder (TORCH_MODULE) or a std::shared_ptr.
template <class M>
std::shared_ptr<torch::nn::Module> module_of(const M& model) {
  if constexpr (requires { model.ptr(); }) {
    return model.ptr();
  } else {
    return model;
  }
}

// Calls the model with the inputs of a batch, as many as its forward() takes; empty if it takes something else.
template <class M>
std::function<torch::Tensor(const Batch&)> forward_of(const M& model) {
  using T = torch::Tensor;
  if constexpr (requires(M m, T t) {
                  { m->forward(t) } -> std::convertible_to<T>;
                }) {
    return [model = M(model)](const Batch& batch) mutable -> T { return model->forward(batch.inputs()[0]); };
  } else if constexpr (requires(M m, T t) {
                         { m->forward(t, t) } -> std::convertible_to<T>;
                       }) {
    return [model = M(model)](const Batch& batch) mutable -> T { return model->forward(batch[0], batch[1]); };
  } else if constexpr (requires(M m, T t) {
                         { m->forward(t, t, t) } -> std::convertible_to<T>;
                       }) {
    return [model = M(model)](const Batch& batch) mutable -> T { return model->forward(batch[0], batch[1], batch[2]); };
  } else {
    return {};
  }
}

}  // namespace models

template <class M>
M TrainingOperator::register_model(M model, std::string name) {
  const auto module = models::module_of(model);
  place(*module);
  add_model(module, models::forward_of(model), std::move(name));
  return model;
}

template <class M>
OptimizerPtr TrainingOperator::register_optimizer(const M& model, const OptimizerFactory& factory,
                                                  const OptimizerSettings& settings) {
  return register_optimizer(factory(models::module_of(model)->parameters()), settings);
}

template <class M>
std::tuple<M, OptimizerPtr, Criterion> TrainingOperator::register_all(M model, const OptimizerFactory& factory,
                                                                      Criterion criterion,
                                                                      const OptimizerSettings& settings) {
  M registered = register_model(std::move(model));
  OptimizerPtr optimizer = register_optimizer(registered, factory, settings);
  register_criterion(criterion);
  return {std::move(registered), std::move(optimizer), std::move(criterion)};
}

}  // namespace volador::train

// Registers the operator in every process of the program; placed beside the class, in its namespace.
#define VOLADOR_TRAINING_OPERATOR(Type)                                                                      \
  [[maybe_unused]] static const std::string& VOLADOR_TRAIN_CONCAT(volador_training_operator_, __COUNTER__) = \
      ::volador::train::registered_operator<Type>()
#define VOLADOR_TRAIN_CONCAT(a, b) VOLADOR_TRAIN_CONCAT_STEP(a, b)
#define VOLADOR_TRAIN_CONCAT_STEP(a, b) a##b
