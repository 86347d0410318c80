// Trains with two to four processes and kills one of them during an epoch: the others go on within the same call of train(),
// and a replacement joins them. The operator counts how often each sample was in a committed step, so that the program can
// say whether each epoch had every sample once.
#include <fmt/format.h>
#include <signal.h>
#include <train/train.h>
#include <volador/volador.h>

#include <thread>

#include "examples/digits.h"

class Digits : public train::TrainingOperator {
  void setup(const train::Config&) override {
    register_all(
        torch::nn::Sequential(torch::nn::Linear(64, 512), torch::nn::ReLU(), torch::nn::Linear(512, digits::kClasses)),
        train::sgd({.lr = 0.1, .momentum = 0.9}), train::cross_entropy());
    const digits::Images images = digits::load().train;
    const auto count = static_cast<int64_t>(images.labels.size());
    seen_ = torch::zeros({count});
    register_data({.train = train::tensor_dataset({torch::tensor(images.pixels).view({count, 64}), torch::arange(count),
                                                   torch::tensor(images.labels, torch::kLong)}),
                   .batch_size = 32});
  }

  train::Metrics train_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    torch::Tensor rows = torch::zeros_like(seen_);
    if (info.rows > 0) rows.index_fill_(0, batch[1], 1);
    all_reduce(rows);
    train::Metrics metrics = TrainingOperator::train_batch(batch, info);  // Throws if a worker is lost before its step.
    seen_ += rows;
    metrics.set("complete", seen_.eq(static_cast<double>(info.epoch + 1)).all().item<bool>() ? 1 : 0);
    metrics.set("world", world());
    return metrics;
  }
  // Goes with the model to workers that join.
  c10::IValue state_dict() override { return seen_; }
  void load_state_dict(const c10::IValue& state) override { seen_.copy_(state.toTensor()); }

  torch::Tensor seen_;  // [samples]
};
VOLADOR_TRAINING_OPERATOR(Digits);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  train::TorchTrainer<Digits> trainer({.num_workers = {2, 4}, .resources_per_worker = {.cpus = 0.5}, .seed = 7});
  int complete = 0;
  for (int epoch = 1; epoch <= 8; ++epoch) {
    std::thread killer([&trainer, epoch] {
      if (epoch != 3) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // Somewhere in the epoch.
      ::kill(trainer.worker_pids().back(), SIGKILL);
    });
    const auto trained = trainer.train();
    killer.join();
    complete += trained.at("last_complete") == 1;
    fmt::print("epoch {}  loss {:.4f}  workers {:.1f}  lost so far {}  metrics of {:.0f} samples\n", epoch,
               trained.at("train_loss"), trained.at("world"), trainer.failures(), trained.at("num_samples"));
  }
  fmt::print("epochs with every sample exactly once: {} of 8\n", complete);
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
