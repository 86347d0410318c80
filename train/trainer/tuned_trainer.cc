#include "train/trainer/tuned_trainer.h"

#include <utility>

namespace volador::train {
namespace {

constexpr double kTrialCpus = 0.01;          // A trial's own process mostly waits for its workers.
constexpr const char* kFile = "trainer.pt";  // In a checkpoint.

}  // namespace

TunedTrainer::TunedTrainer(TunedOptions options) : options_(std::move(options)) {}

void TunedTrainer::setup(const Config& config) {
  Config merged = options_.config.is_null() ? Config::map() : options_.config;
  for (const auto& entry : config.entries()) merged.set(entry.name, entry.value);
  trainer_ = std::make_unique<Trainer>(options_.operator_name,
                                       TrainerOptions{.num_workers = {options_.min_workers, options_.max_workers},
                                                      .resources_per_worker = {.cpus = options_.cpus,
                                                                               .gpus = options_.gpus,
                                                                               .memory = options_.memory,
                                                                               .custom = options_.custom},
                                                      .config = merged,
                                                      .seed = options_.seed,
                                                      .use_gpu = options_.use_gpu,
                                                      .max_failures = options_.max_failures,
                                                      .start_timeout = options_.start_timeout,
                                                      .hang_timeout = options_.hang_timeout,
                                                      .group = tune::placement_group(),
                                                      .first_bundle = 1,
                                                      .report = false});
}

tune::Metrics TunedTrainer::step() {
  tune::Metrics metrics = trainer_->train();
  if (!trainer_->has_validation()) return metrics;
  for (const auto& [name, value] : trainer_->validate()) {
    if (!metrics.contains(name)) metrics.set(name, value);
  }
  return metrics;
}

void TunedTrainer::save_checkpoint(const std::filesystem::path& directory) { trainer_->save(directory / kFile); }
void TunedTrainer::load_checkpoint(const std::filesystem::path& directory) { trainer_->load(directory / kFile); }

tune::TrainableRef as_trainable(const std::string& operator_name, const TrainerOptions& options) {
  check_options(options);
  const Resources& each = options.resources_per_worker;
  tune::TrainableRef trainable =
      tune::with_parameters<TunedTrainer>(TunedOptions{.operator_name = operator_name,
                                                       .min_workers = options.num_workers.min,
                                                       .max_workers = options.num_workers.max,
                                                       .cpus = each.cpus,
                                                       .gpus = each.gpus,
                                                       .memory = each.memory,
                                                       .custom = each.custom,
                                                       .config = options.config,
                                                       .seed = options.seed,
                                                       .use_gpu = options.use_gpu.value_or(each.gpus > 0),
                                                       .max_failures = options.max_failures,
                                                       .start_timeout = options.start_timeout,
                                                       .hang_timeout = options.hang_timeout});
  trainable.label = options.name.empty() ? tune::trainables::label_of(operator_name) : options.name;
  trainable.bundles.push_back({.cpus = kTrialCpus});
  trainable.bundles.insert(trainable.bundles.end(), static_cast<size_t>(options.num_workers.min), each);
  return trainable;
}

}  // namespace volador::train
