// Training code in the shape of Determined's PyTorchTrial. It runs as a training operator: under train::TorchTrainer and
// tune::run, with the same checkpoints, recovery from lost workers and change of their number.
//
//   class Digits : public train::TorchTrial {
//    public:
//     explicit Digits(train::TorchTrialContext& context) : context_(context) {
//       model_ = context.wrap_model(Net(context.get_hparam("width").integer()));
//       optimizer_ = context.wrap_optimizer(model_, train::sgd({.lr = context.get_hparam("lr").real()}));
//     }
//     train::TrainingDataLoader build_training_data_loader() override { return {.dataset = digits("train"), .batch_size = 64}; }
//     train::ValidationDataLoader build_validation_data_loader() override { return {.dataset = digits("validation")}; }
//     train::Metrics train_batch(const train::Batch& batch, int64_t epoch_idx, int64_t batch_idx) override {
//       const torch::Tensor loss = criterion_(model_->forward(batch.features()), batch.target());
//       context_.backward(loss);
//       context_.step_optimizer(optimizer_);
//       return {{"train_loss", loss.item<double>()}};
//     }
//     train::Metrics evaluate_batch(const train::Batch& batch) override { … }
//     …
//   };
//   VOLADOR_TORCH_TRIAL(Digits);
//
//   train::TorchTrainer<Digits> trainer({.num_workers = 4, .config = {{"width", 32}, {"lr", 0.1}}});
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "runtime/actor/type_name.h"
#include "train/data/dataset.h"
#include "train/operator/training_operator.h"
#include "train/trial/metric_reducer.h"
#include "train/trial/trial_context.h"

namespace volador::train {

struct TrainingDataLoader {
  DatasetPtr dataset = {};
  int64_t batch_size = 0;  // Samples of a batch over all ranks together; 0: the hyperparameter global_batch_size.
  bool shuffle = true;     // Anew each epoch.
  bool drop_last = false;  // Leaves out a last batch that is not full.
  int loader_threads = 0;  // Threads of each rank that read ahead, for validation too; 0: none.
  int prefetch = 2;        // Batches read ahead by each thread.
};

struct ValidationDataLoader {
  DatasetPtr dataset = {};  // Null: the trial is not validated.
  int64_t batch_size = 0;   // 0: that of the training data.
};

// Functions that are called at events of the run, on each rank; those of an epoch or a validation that is repeated after
// the loss of a worker are called again.
class TrialCallback {
 public:
  virtual ~TrialCallback() = default;
  virtual void on_training_start() {}  // Before the first batch of this process.
  virtual void on_training_epoch_start(int64_t /*epoch_idx*/) {}
  virtual void on_training_epoch_end(int64_t /*epoch_idx*/) {}
  virtual void on_validation_start() {}
  virtual void on_validation_end(const Metrics& /*metrics*/) {}  // Reduced over the ranks, equal on all.
  // State for checkpoints: tensors, numbers, texts, lists and dictionaries. Rank 0's is saved, and given to ranks that
  // join. A state from before the callback was added is not loaded.
  virtual c10::IValue state_dict() { return {}; }
  virtual void load_state_dict(const c10::IValue& /*state*/) {}
};
using TrialCallbacks = std::map<std::string, std::shared_ptr<TrialCallback>>;

// User code of a trial. A derived class has a constructor of a TorchTrialContext&, which wraps models, optimizers and
// schedules, and either evaluate_batch() or evaluate_full_dataset(). The context outlives it.
class TorchTrial {
 public:
  virtual ~TorchTrial() = default;

  // Called once in each process, after the constructor.
  virtual TrainingDataLoader build_training_data_loader() = 0;
  virtual ValidationDataLoader build_validation_data_loader() = 0;
  virtual TrialCallbacks build_callbacks() { return {}; }

  // Forward pass, context.backward() and context.step_optimizer(). `epoch_idx` counts from 0, `batch_idx` over the whole
  // run. Returns metrics, whose means over batches and ranks are reported, weighted by samples. A batch during which a
  // worker was lost is run again.
  virtual Metrics train_batch(const Batch& batch, int64_t epoch_idx, int64_t batch_idx) = 0;
  // Metrics of a batch of this rank's share of the validation data, without gradients and models in evaluation mode. No
  // collective operations.
  virtual Metrics evaluate_batch(const Batch& batch);
  // Metrics of all validation data, whose batches rank 0 gets one after the other. Called on rank 0 only.
  virtual Metrics evaluate_full_dataset(BatchIterator& batches);
  // How the metrics of evaluate_batch() are reduced over batches and ranks.
  virtual EvaluationReducer evaluation_reducer() const { return {}; }
};

// What a trial class has.
struct TrialClass {
  std::string name;
  std::function<std::unique_ptr<TorchTrial>(TorchTrialContext&)> make;
  bool has_evaluate_batch = false;
  bool has_evaluate_full_dataset = false;
};

// The operator that runs a trial. kInvalidArgument (in setup()): the trial lacks data or an evaluation.
std::unique_ptr<TrainingOperator> make_trial_operator(TrialClass trial);

namespace trials {

// Whether T overrides a function: its address then has another class, or is not accessible.
template <class T>
constexpr bool has_evaluate_batch() {
  if constexpr (requires { &T::evaluate_batch; }) {
    return !std::is_same_v<decltype(&T::evaluate_batch), decltype(&TorchTrial::evaluate_batch)>;
  }
  return true;
}
template <class T>
constexpr bool has_evaluate_full_dataset() {
  if constexpr (requires { &T::evaluate_full_dataset; }) {
    return !std::is_same_v<decltype(&T::evaluate_full_dataset), decltype(&TorchTrial::evaluate_full_dataset)>;
  }
  return true;
}

}  // namespace trials

template <class T>
const std::string& registered_trial() {
  static_assert(std::is_base_of_v<TorchTrial, T>, "volador: derive the class from train::TorchTrial");
  static_assert(std::is_constructible_v<T, TorchTrialContext&>,
                "volador: the trial needs a public constructor of train::TorchTrialContext&");
  static const std::string name = OperatorRegistry::instance().add(type_name<T>(), [] {
    return make_trial_operator({.name = std::string(type_name<T>()),
                                .make = [](TorchTrialContext& context) { return std::make_unique<T>(context); },
                                .has_evaluate_batch = trials::has_evaluate_batch<T>(),
                                .has_evaluate_full_dataset = trials::has_evaluate_full_dataset<T>()});
  });
  return name;
}

// A trial is registered as the operator that runs it, so that TorchTrainer and as_trainable() take its class.
template <std::derived_from<TorchTrial> T>
struct OperatorEntry<T> {
  static inline const std::string& name = registered_trial<T>();
};

}  // namespace volador::train

// Registers the trial in every process of the program; placed beside the class, in its namespace.
#define VOLADOR_TORCH_TRIAL(Type)                                                                      \
  [[maybe_unused]] static const std::string& VOLADOR_TRAIN_CONCAT(volador_torch_trial_, __COUNTER__) = \
      ::volador::train::registered_trial<Type>()
