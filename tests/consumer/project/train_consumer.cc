// Trains y = 2 x with two workers, by the installed headers.
#include <train/train.h>
#include <volador/volador.h>

#include <cstdio>

class Line : public train::TrainingOperator {
  void setup(const train::Config&) override {
    register_all(torch::nn::Linear(1, 1), train::sgd({.lr = 0.3}), train::mse_loss());
    const torch::Tensor x = torch::linspace(-1, 1, 64).view({64, 1});
    register_data({.train = train::tensor_dataset({x, 2 * x}), .batch_size = 16});
  }
};
VOLADOR_TRAINING_OPERATOR(Line);

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv);
  train::TorchTrainer<Line> trainer({.num_workers = 2, .resources_per_worker = {.cpus = 0.5}, .storage = "none"});
  double loss = 0;
  for (int epoch = 0; epoch < 30; ++epoch) loss = trainer.train().at("train_loss");
  std::printf("loss %g\n", loss);
  return loss < 1e-3 ? 0 : 1;
}
