// A trainer as the trainable of tune::run: each trial trains with several workers.
//
//   auto analysis = tune::run(train::as_trainable<Digits>({.num_workers = 2, .config = {{"width", 32}}}),
//                             {.space = {{"lr", tune::loguniform(1e-3, 1.0)}}, .metric = "val_accuracy", .mode = tune::Mode::kMax});
#pragma once

#include <memory>
#include <string>

#include "runtime/serialize/codec.h"
#include "train/trainer/trainer.h"
#include "tune/execution/trainable.h"
#include "tune/execution/trainable_registry.h"

namespace volador::train {

// The options of a trainer that reach its trials.
struct TunedOptions {
  std::string operator_name;
  int min_workers = 1, max_workers = 1;
  double cpus = 0, gpus = 0;
  int64_t memory = 0;
  std::map<std::string, double> custom;
  Config config;
  uint64_t seed = 0;
  bool use_gpu = false;
  int max_failures = -1;
  std::chrono::milliseconds start_timeout{0}, hang_timeout{0};
};
VOLADOR_FIELDS(TunedOptions, operator_name, min_workers, max_workers, cpus, gpus, memory, custom, config, seed, use_gpu,
               max_failures, start_timeout, hang_timeout);

// A step is an epoch, then validation if the operator registered such data; the metrics are those of both. The trial's
// configuration, over the trainer's, goes to setup(). A checkpoint is the file of Trainer::save().
class TunedTrainer : public tune::Trainable {
 public:
  explicit TunedTrainer(TunedOptions options);
  void setup(const Config& config) override;
  tune::Metrics step() override;
  void save_checkpoint(const std::filesystem::path& directory) override;
  void load_checkpoint(const std::filesystem::path& directory) override;

 private:
  TunedOptions options_;
  std::unique_ptr<Trainer> trainer_;
};

// The trainable asks for its resources itself: a placement group with a small bundle for the trial and one for each of
// the least number of workers. Throws kInvalidArgument (an option), and tune::run does if resources_per_trial is given
// as well.
tune::TrainableRef as_trainable(const std::string& operator_name, const TrainerOptions& options);
template <class Op>
tune::TrainableRef as_trainable(const TrainerOptions& options = {}) {
  return as_trainable(OperatorEntry<Op>::name, options);
}

}  // namespace volador::train
