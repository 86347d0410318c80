// Tunes a small convolutional network on handwritten digits: learning rate, momentum, width and batch size; ASHA stops
// poor trials early. At the end the best checkpoint is loaded and evaluated once on images that no trial has seen.
#include <fmt/format.h>
#include <torch/torch.h>
#include <volador/volador.h>

#include "examples/digits.h"

namespace fs = std::filesystem;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width) {
    layers = register_module(
        "layers", torch::nn::Sequential(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, width, 3).padding(1)),
                                        torch::nn::BatchNorm2d(width), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                                        torch::nn::Conv2d(torch::nn::Conv2dOptions(width, 2 * width, 3).padding(1)),
                                        torch::nn::BatchNorm2d(2 * width), torch::nn::ReLU(), torch::nn::MaxPool2d(2),
                                        torch::nn::Flatten(), torch::nn::Linear(8 * width, digits::kClasses)));
  }
  torch::Tensor forward(torch::Tensor images) { return layers->forward(std::move(images)); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);

struct Batch {
  torch::Tensor images;  // [n, 1, 8, 8]
  torch::Tensor labels;  // [n]
};

Batch to_tensors(const digits::Images& part) {
  const auto count = static_cast<int64_t>(part.labels.size());
  return {torch::tensor(part.pixels).view({count, 1, digits::kSide, digits::kSide}),
          torch::tensor(part.labels, torch::kLong)};
}

double accuracy(Net& net, const Batch& data) {
  const torch::NoGradGuard no_grad;
  net->eval();
  return net->forward(data.images).argmax(1).eq(data.labels).to(torch::kDouble).mean().item<double>();
}

// One step is one epoch over the training images.
class TrainDigits : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override {
    torch::manual_seed(7);
    const digits::Split split = digits::load();
    train_ = to_tensors(split.train);
    validation_ = to_tensors(split.validation);
    batch_ = config.integer("batch");
    net_ = Net(config.integer("width"));
    optimizer_ = std::make_unique<torch::optim::SGD>(
        net_->parameters(),
        torch::optim::SGDOptions(config.real("lr")).momentum(config.real("momentum")).weight_decay(1e-4));
  }

  tune::Metrics step() override {
    net_->train();
    const torch::Tensor order = torch::randperm(train_.labels.size(0));
    double loss_sum = 0;
    for (int64_t at = 0; at < order.size(0); at += batch_) {
      const torch::Tensor rows = order.slice(0, at, std::min(at + batch_, order.size(0)));
      optimizer_->zero_grad();
      torch::Tensor loss = torch::nn::functional::cross_entropy(net_->forward(train_.images.index_select(0, rows)),
                                                                train_.labels.index_select(0, rows));
      loss.backward();
      optimizer_->step();
      loss_sum += loss.item<double>() * static_cast<double>(rows.size(0));
    }
    return {{"accuracy", accuracy(net_, validation_)}, {"loss", loss_sum / static_cast<double>(order.size(0))}};
  }

  void save_checkpoint(const fs::path& dir) override {
    torch::save(net_, (dir / "net.pt").string());
    torch::save(*optimizer_, (dir / "optimizer.pt").string());
  }

  void load_checkpoint(const fs::path& dir) override {
    torch::load(net_, (dir / "net.pt").string());
    torch::load(*optimizer_, (dir / "optimizer.pt").string());
  }

 private:
  Batch train_, validation_;
  int64_t batch_ = 32;
  Net net_{nullptr};
  std::unique_ptr<torch::optim::SGD> optimizer_;
};
VOLADOR_TRAINABLE(TrainDigits);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  auto analysis = tune::run<TrainDigits>({
      .name = "digits",
      .space = {{"lr", tune::loguniform(1e-3, 0.3)},
                {"momentum", tune::uniform(0.5, 0.95)},
                {"width", tune::randint(8, 33)},
                {"batch", tune::choice({16, 32, 64})}},
      .metric = "accuracy",
      .mode = tune::Mode::kMax,
      .num_samples = 24,
      .scheduler = tune::asha({.grace_period = 1, .max_t = 27, .reduction_factor = 3}),
      .checkpoint = {.frequency = 3, .at_end = true, .num_to_keep = 1},
      .seed = 7,
  });

  const auto& best = analysis.best_trial();
  Net net(best.config.integer("width"));
  torch::load(net, (analysis.best_checkpoint().path() / "net.pt").string());
  fmt::print("best configuration   {}\n", best.config.to_json());
  fmt::print("validation accuracy  {:.4f}\n", best.last_result.at("accuracy"));
  fmt::print("test accuracy        {:.4f}  (of the reloaded checkpoint, on {} images that no trial has seen)\n",
             accuracy(net, to_tensors(digits::load().test)), digits::load().test.labels.size());
  fmt::print("results              {}\n", analysis.directory().string());
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
