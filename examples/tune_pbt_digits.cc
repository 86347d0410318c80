// Population based training on handwritten digits, without LibTorch: six small networks start with mostly unsuitable
// learning rates; every four epochs the worst ones continue from the weights of the best ones with a changed learning
// rate and momentum.
#include <fmt/format.h>
#include <volador/volador.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "examples/digits.h"

namespace fs = std::filesystem;

// 64 pixels, a hidden layer, ten classes.
class Net {
 public:
  static constexpr int kIn = digits::kSide * digits::kSide, kHidden = 24, kOut = digits::kClasses;
  static constexpr size_t kWeights = (kIn + 1) * kHidden + (kHidden + 1) * kOut;

  explicit Net(unsigned seed) : weights_(kWeights), speed_(kWeights) {
    std::mt19937 random(seed);
    for (float& weight : weights_) weight = (static_cast<float>(random()) / 4294967296.0F - 0.5F) * 0.5F;
  }

  int classify(const float* pixels) {
    forward(pixels);
    return static_cast<int>(std::max_element(out_, out_ + kOut) - out_);
  }

  void learn(const float* pixels, int64_t label, float lr, float momentum) {
    forward(pixels);
    const float highest = *std::max_element(out_, out_ + kOut);
    float sum = 0;
    for (float& value : out_) sum += value = std::exp(value - highest);
    for (int k = 0; k < kOut; ++k) out_[k] = out_[k] / sum - (k == label ? 1.0F : 0.0F);
    float* second = weights_.data() + (kIn + 1) * kHidden;
    float error[kHidden] = {};
    for (int k = 0; k < kOut; ++k) {
      for (int h = 0; h < kHidden; ++h) error[h] += out_[k] * second[k * (kHidden + 1) + h];
    }
    for (int k = 0; k < kOut; ++k)
      move((kIn + 1) * kHidden + k * (kHidden + 1), hidden_, kHidden, out_[k], lr, momentum);
    for (int h = 0; h < kHidden; ++h)
      move(h * (kIn + 1), pixels, kIn, error[h] * (1 - hidden_[h] * hidden_[h]), lr, momentum);
  }

  void save(const fs::path& file) const {
    std::ofstream out(file, std::ios::binary);
    for (const auto* part : {&weights_, &speed_}) out.write(reinterpret_cast<const char*>(part->data()), bytes());
    if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
  }
  void load(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    for (auto* part : {&weights_, &speed_}) in.read(reinterpret_cast<char*>(part->data()), bytes());
    if (!in) throw std::runtime_error("cannot read " + file.string());
  }

 private:
  static constexpr std::streamsize bytes() { return kWeights * sizeof(float); }

  void forward(const float* pixels) {
    const float* weight = weights_.data();
    for (float& hidden : hidden_) {
      hidden = std::tanh(std::inner_product(pixels, pixels + kIn, weight, weight[kIn]));
      weight += kIn + 1;
    }
    for (float& out : out_) {
      out = std::inner_product(hidden_, hidden_ + kHidden, weight, weight[kHidden]);
      weight += kHidden + 1;
    }
  }

  // Updates a row of weights, whose last element is the bias.
  void move(int at, const float* inputs, int count, float error, float lr, float momentum) {
    for (int i = 0; i <= count; ++i) {
      float& speed = speed_[static_cast<size_t>(at + i)];
      speed = momentum * speed - lr * error * (i < count ? inputs[i] : 1.0F);
      weights_[static_cast<size_t>(at + i)] += speed;
    }
  }

  std::vector<float> weights_, speed_;
  float hidden_[kHidden] = {}, out_[kOut] = {};
};

double accuracy(Net& net, const digits::Images& images) {
  int right = 0;
  for (size_t i = 0; i < images.labels.size(); ++i)
    right += net.classify(&images.pixels[i * Net::kIn]) == images.labels[i];
  return static_cast<double>(right) / static_cast<double>(images.labels.size());
}

// One step is one epoch over the training images.
class TrainNet : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override {
    lr_ = static_cast<float>(config.real("lr"));
    momentum_ = static_cast<float>(config.real("momentum"));
    order_.resize(split_.train.labels.size());
    std::iota(order_.begin(), order_.end(), 0);
  }

  tune::Metrics step() override {
    std::shuffle(order_.begin(), order_.end(), random_);
    for (const size_t i : order_)
      net_.learn(&split_.train.pixels[i * Net::kIn], split_.train.labels[i], lr_, momentum_);
    return {{"accuracy", accuracy(net_, split_.validation)}};
  }

  void save_checkpoint(const fs::path& dir) override { net_.save(dir / "net.bin"); }
  void load_checkpoint(const fs::path& dir) override { net_.load(dir / "net.bin"); }

 private:
  digits::Split split_ = digits::load();
  std::vector<size_t> order_;
  std::mt19937 random_{7};
  Net net_{7};
  float lr_ = 0, momentum_ = 0;
};
VOLADOR_TRAINABLE(TrainNet);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const tune::Domain lr = tune::loguniform(1e-4, 0.1);
  const tune::Domain momentum = tune::uniform(0.0, 0.9);
  auto analysis = tune::run<TrainNet>({
      .name = "pbt_digits",
      .space = {{"lr", lr}, {"momentum", momentum}},
      .metric = "accuracy",
      .mode = tune::Mode::kMax,
      .num_samples = 6,
      .scheduler =
          tune::pbt({.perturbation_interval = 4, .hyperparam_mutations = {{"lr", lr}, {"momentum", momentum}}}),
      .stop = {{"training_iteration", 24}},
      .checkpoint = {.at_end = true, .num_to_keep = 1},
      .seed = 9,
      .reuse_actors = true,
  });

  std::ifstream log(analysis.directory() / "pbt_global.txt");
  int64_t copies = 0;
  for (std::string line; std::getline(log, line);) ++copies;
  double worst = 1;
  for (const auto& trial : analysis.trials()) worst = std::min(worst, trial.last_result.at("accuracy"));
  Net net(7);
  net.load(analysis.best_checkpoint().path() / "net.bin");
  fmt::print("best configuration   {}\n", analysis.best_trial().config.to_json());
  fmt::print("validation accuracy  {:.4f} of the best network, {:.4f} of the worst\n",
             analysis.best_trial().last_result.at("accuracy"), worst);
  fmt::print("test accuracy        {:.4f}\n", accuracy(net, digits::load().test));
  fmt::print("copies               {}  ({}: pbt_global.txt, and pbt_policy_….txt of each trial)\n", copies,
             analysis.directory().string());
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
