// Trains a network on handwritten digits with Adam, whose state is divided among the workers: each keeps the moments of
// a share of the parameters only (ZeRO stage 1). The result is that of undivided Adam, bit for bit.
//
//   train_zero [workers] [epochs]
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
    const torch::nn::Sequential net(torch::nn::Linear(64, 256), torch::nn::ReLU(), torch::nn::Linear(256, 64),
                                    torch::nn::ReLU(), torch::nn::Linear(64, digits::kClasses));
    register_all(net, train::adam({.lr = 0.002}), train::cross_entropy(), {.shard = config.boolean("shard")});
    const digits::Split split = digits::load();
    register_data({.train = dataset(split.train), .validation = dataset(split.validation), .batch_size = 64});
  }

  train::Metrics train_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    train::Metrics metrics = TrainingOperator::train_batch(batch, info);
    torch::Tensor bytes = torch::zeros({world()}, torch::kLong);
    bytes[rank()] = optimizer_state_bytes();
    all_reduce(bytes);
    for (int i = 0; i < world(); ++i) metrics.set(fmt::format("state_{}", i), bytes[i].item<double>());
    return metrics;
  }
};
VOLADOR_TRAINING_OPERATOR(Digits);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const int workers = argc > 1 ? std::stoi(argv[1]) : 2, epochs = argc > 2 ? std::stoi(argv[2]) : 5;
  for (const bool shard : {false, true}) {
    train::TorchTrainer<Digits> trainer({.num_workers = workers, .config = {{"shard", shard}}, .seed = 7});
    train::Metrics trained, validated;
    for (int epoch = 0; epoch < epochs; ++epoch) {
      trained = trainer.train();
      validated = trainer.validate();
    }
    fmt::print("{}  loss {:.6f}  validation accuracy {:.4f}\n", shard ? "divided  " : "undivided",
               trained.at("train_loss"), validated.at("val_accuracy"));
    for (int rank = 0; rank < workers; ++rank)
      fmt::print("  rank {}: {:.0f} bytes of optimizer state\n", rank, trained.at(fmt::format("last_state_{}", rank)));
    if (shard) trainer.save("zero.pt");
  }
  fmt::print("state  zero.pt  (torch.load reads it)\n");
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
