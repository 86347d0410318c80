// Trains a generative adversarial network with several processes: two models with an optimizer each, and a train_batch() of
// the program's own. The generator learns to draw points around the four corners of a square.
//
//   train_gan [workers] [epochs]
#include <fmt/format.h>
#include <train/train.h>
#include <volador/volador.h>

torch::nn::Sequential network(int64_t inputs, int64_t outputs) {
  const auto leaky = torch::nn::LeakyReLUOptions().negative_slope(0.2);
  return torch::nn::Sequential(torch::nn::Linear(inputs, 64), torch::nn::LeakyReLU(leaky), torch::nn::Linear(64, 64),
                               torch::nn::LeakyReLU(leaky), torch::nn::Linear(64, outputs));
}
torch::Tensor corners() { return torch::tensor({2.0F, 1.0F, 2.0F, 3.0F, 4.0F, 1.0F, 4.0F, 3.0F}).view({4, 2}); }
torch::Tensor points(int64_t count) { return corners().repeat({count / 4, 1}) + 0.3 * torch::randn({count, 2}); }

class Gan : public train::TrainingOperator {
  void setup(const train::Config& config) override {
    generator_ = register_model(network(8, 2), "generator");
    critic_ = register_model(network(2, 1), "critic");
    generator_steps_ = register_optimizer(generator_, train::adam({.lr = config.real("lr"), .beta1 = 0.5}));
    critic_steps_ = register_optimizer(critic_, train::adam({.lr = config.real("lr"), .beta1 = 0.5}));
    register_data({.train = train::tensor_dataset({points(8192)}),
                   .validation = train::tensor_dataset({points(2048)}),
                   .batch_size = 128,
                   .validation_batch_size = 2048});
  }
  torch::Tensor draw(int64_t count) { return generator_->forward(torch::randn({count, 8})); }
  torch::Tensor loss(const torch::Tensor& points, bool real) {
    const torch::Tensor output = critic_->forward(points);
    return train::bce_with_logits()(output, torch::full_like(output, real ? 1 : 0));
  }
  train::Metrics train_batch(const train::Batch& batch, const train::BatchInfo&) override {
    const torch::Tensor drawn = draw(batch.size());
    backward(loss(batch.features(), true) + loss(drawn.detach(), false), critic_steps_);
    step(critic_steps_);
    backward(loss(drawn, true), generator_steps_);
    step(generator_steps_);
    return {};
  }
  train::Metrics validate_batch(const train::Batch& batch, const train::BatchInfo&) override {
    const torch::Tensor drawn = draw(batch.size()), shift = drawn.mean(0) - batch.features().mean(0);
    const torch::Tensor at = torch::bincount(torch::cdist(drawn, corners()).argmin(1), {}, 4).to(torch::kDouble);
    return {{"distance", shift.norm().item<double>()}, {"rarest", (at.min() / at.sum()).item<double>()}};
  }
  torch::nn::Sequential generator_ = nullptr, critic_ = nullptr;
  train::OptimizerPtr generator_steps_, critic_steps_;
};
VOLADOR_TRAINING_OPERATOR(Gan);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const int workers = argc > 1 ? std::stoi(argv[1]) : 2, epochs = argc > 2 ? std::stoi(argv[2]) : 20;
  train::TorchTrainer<Gan> trainer({.num_workers = workers, .config = {{"lr", 5e-4}}, .seed = 3});
  for (int epoch = 0; epoch <= epochs; ++epoch) {
    if (epoch > 0) trainer.train();
    const auto shown = trainer.validate();
    fmt::print("epoch {:2}  distance of the means {:.3f}  share of the rarest corner {:.2f}\n", epoch,
               shown.at("distance"), shown.at("rarest"));
  }
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
