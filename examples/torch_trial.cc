// Trains a small network on handwritten digits as a trial in the shape of Determined's PyTorchTrial.
//
//   torch_trial [workers] [epochs]    Prints loss and accuracy of each epoch; accuracy about 0.98 after 5 epochs.
#include <fmt/format.h>
#include <train/train.h>
#include <train/trial/torch_trial.h>
#include <volador/volador.h>

#include "examples/digits.h"

train::DatasetPtr rows(const digits::Images& part) {
  const auto count = static_cast<int64_t>(part.labels.size());
  return train::tensor_dataset({torch::tensor(part.pixels).view({count, 1, digits::kSide, digits::kSide}),
                                torch::tensor(part.labels, torch::kLong)});
}

class Digits : public train::TorchTrial {
 public:
  // The batch size is the hyperparameter global_batch_size.
  explicit Digits(train::TorchTrialContext& context) : context_(context) {
    const int64_t width = context.get_hparam("width").integer();
    model_ = context.wrap_model(torch::nn::Sequential(torch::nn::Conv2d(1, width, 3), torch::nn::BatchNorm2d(width),
                                                      torch::nn::ReLU(), torch::nn::MaxPool2d(2), torch::nn::Flatten(),
                                                      torch::nn::Linear(9 * width, digits::kClasses)));
    optimizer_ = context.wrap_optimizer(model_, train::sgd({.lr = context.get_hparam("lr").real(), .momentum = 0.9}));
  }
  train::TrainingDataLoader build_training_data_loader() override { return {.dataset = rows(split_.train)}; }
  train::ValidationDataLoader build_validation_data_loader() override { return {.dataset = rows(split_.validation)}; }
  train::Metrics train_batch(const train::Batch& batch, int64_t /*epoch_idx*/, int64_t /*batch_idx*/) override {
    const torch::Tensor loss = train::cross_entropy()(model_->forward(batch.features()), batch.target());
    context_.backward(loss);
    context_.step_optimizer(optimizer_, {.clip_norm = 5});
    return {{"train_loss", loss.item<double>()}};
  }
  train::Metrics evaluate_batch(const train::Batch& batch) override {
    const torch::Tensor hits = model_->forward(batch.features()).argmax(1).eq(batch.target());
    return {{"accuracy", hits.to(torch::kDouble).mean().item<double>()}};
  }

 private:
  train::TorchTrialContext& context_;
  const digits::Split split_ = digits::load();
  torch::nn::Sequential model_ = nullptr;
  train::OptimizerPtr optimizer_;
};
VOLADOR_TORCH_TRIAL(Digits);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const int workers = argc > 1 ? std::stoi(argv[1]) : 2, epochs = argc > 2 ? std::stoi(argv[2]) : 5;
  const train::Config hparams{{"global_batch_size", 64}, {"lr", 0.02}, {"width", 32}};
  train::TorchTrainer<Digits> trainer({.num_workers = workers, .config = hparams, .seed = 7});
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    const double loss = trainer.train().at("train_loss");
    fmt::print("epoch {}  loss {:.4f}  accuracy {:.4f}\n", epoch, loss, trainer.validate().at("accuracy"));
  }
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
