// Trains a small convolutional network on handwritten digits with several processes: each step's batch is divided among
// the workers, whose gradients meet in shared memory.
//
//   train_digits [workers] [epochs]
#include <fmt/format.h>
#include <train/train.h>
#include <volador/volador.h>

#include "examples/digits.h"

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width) {
    layers = register_module(
        "layers", torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, width, 3).padding(1)),
                                        torch::nn::BatchNorm2d(width), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                                        torch::nn::Flatten(), torch::nn::Linear(16 * width, digits::kClasses)));
  }
  torch::Tensor forward(torch::Tensor images) { return layers->forward(std::move(images)); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);

train::DatasetPtr dataset(const digits::Images& part) {
  const auto count = static_cast<int64_t>(part.labels.size());
  return train::tensor_dataset({torch::tensor(part.pixels).view({count, 1, digits::kSide, digits::kSide}),
                                torch::tensor(part.labels, torch::kLong)});
}

class Digits : public train::TrainingOperator {
  void setup(const train::Config& config) override {
    register_all(Net(config.integer("width")), train::sgd({.lr = config.real("lr"), .momentum = 0.9}),
                 train::cross_entropy());
    const digits::Split split = digits::load();
    register_data({.train = dataset(split.train), .validation = dataset(split.validation), .batch_size = 64});
  }
};
VOLADOR_TRAINING_OPERATOR(Digits);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const int workers = argc > 1 ? std::stoi(argv[1]) : 2, epochs = argc > 2 ? std::stoi(argv[2]) : 5;
  train::TorchTrainer<Digits> trainer({.num_workers = workers, .config = {{"width", 32}, {"lr", 0.05}}, .seed = 7});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const auto trained = trainer.train();
    const auto validated = trainer.validate();
    fmt::print("epoch {}  loss {:.4f}  validation accuracy {:.4f}  {:.0f} samples/s\n", epoch, trained.at("train_loss"),
               validated.at("val_accuracy"), trained.at("samples_per_s"));
  }
  trainer.save("digits.pt");
  fmt::print("state  digits.pt  (torch.load reads it)\n");
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
