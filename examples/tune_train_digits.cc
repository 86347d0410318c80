// Tunes a network on handwritten digits, each trial of which trains with two workers; ASHA stops poor trials early.
#include <fmt/format.h>
#include <train/train.h>
#include <volador/volador.h>

#include "examples/digits.h"

train::DatasetPtr dataset(const digits::Images& part) {
  const auto count = static_cast<int64_t>(part.labels.size());
  return train::tensor_dataset({torch::tensor(part.pixels).view({count, digits::kSide * digits::kSide}),
                                torch::tensor(part.labels, torch::kLong)});
}

class Digits : public train::TrainingOperator {
  void setup(const train::Config& config) override {
    const int64_t width = config.integer("width");
    auto [model, optimizer, criterion] =
        register_all(torch::nn::Sequential(torch::nn::Linear(digits::kSide * digits::kSide, width), torch::nn::ReLU(),
                                           torch::nn::Linear(width, digits::kClasses)),
                     train::sgd({.lr = config.real("lr"), .momentum = 0.9}), train::cross_entropy());
    register_schedule(optimizer, train::schedules::exponential({.gamma = 0.95}), train::ScheduleStep::kEpoch);
    const digits::Split split = digits::load();
    register_data({.train = dataset(split.train), .validation = dataset(split.validation), .batch_size = 64});
  }
};
VOLADOR_TRAINING_OPERATOR(Digits);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  // The trainer knows what a trial needs: two workers. Giving resources_per_trial as well is an error.
  auto analysis =
      tune::run(train::as_trainable<Digits>({.num_workers = 2, .resources_per_worker = {.cpus = 0.5}, .seed = 7}),
                {
                    .name = "train_digits",
                    .space = {{"lr", tune::loguniform(1e-3, 1.0)}, {"width", tune::choice({16, 32, 64})}},
                    .metric = "val_accuracy",
                    .mode = tune::Mode::kMax,
                    .num_samples = 8,
                    .scheduler = tune::asha({.grace_period = 1, .max_t = 9, .reduction_factor = 3}),
                    .checkpoint = {.at_end = true},
                    .seed = 7,
                });
  const auto& best = analysis.best_trial();
  fmt::print("best configuration   {}\n", best.config.to_json());
  fmt::print("validation accuracy  {:.4f}\n", best.last_result.at("val_accuracy"));
  fmt::print("checkpoint           {}\n", (analysis.best_checkpoint().path() / "trainer.pt").string());
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
