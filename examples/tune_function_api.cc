// Tunes a function: a small network, implemented here, learns the XOR of two inputs by gradient descent. The function
// reports each epoch, saves when a checkpoint is due, and continues from its last checkpoint.
#include <volador/volador.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <random>
#include <vector>

namespace tune = volador::tune;

// Two inputs, some hidden units, one output.
class Network {
 public:
  Network(int64_t width, uint64_t seed)
      : weights_(static_cast<size_t>(4 * width + 1)), width_(static_cast<size_t>(width)) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (double& weight : weights_) weight = normal(random);
  }

  // One pass over the four cases; returns the mean squared error before it.
  double epoch(double lr) {
    constexpr std::array<std::array<double, 3>, 4> kCases{{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 0}}};
    double loss = 0;
    for (const auto& [a, b, target] : kCases) {
      std::vector<double> hidden(width_);
      double out = weights_.back();
      for (size_t i = 0; i < width_; ++i) {
        hidden[i] = std::tanh(weights_[4 * i] * a + weights_[4 * i + 1] * b + weights_[4 * i + 2]);
        out += weights_[4 * i + 3] * hidden[i];
      }
      const double error = out - target;
      loss += error * error / 4;
      for (size_t i = 0; i < width_; ++i) {
        const double slope = error * weights_[4 * i + 3] * (1 - hidden[i] * hidden[i]);
        weights_[4 * i + 3] -= lr * error * hidden[i];
        weights_[4 * i] -= lr * slope * a;
        weights_[4 * i + 1] -= lr * slope * b;
        weights_[4 * i + 2] -= lr * slope;
      }
      weights_.back() -= lr * error;
    }
    return loss;
  }

  void save(const std::filesystem::path& directory) const {
    std::ofstream(directory / "weights", std::ios::binary)
        .write(reinterpret_cast<const char*>(weights_.data()), bytes());
  }
  void load(const std::filesystem::path& directory) {
    std::ifstream(directory / "weights", std::ios::binary).read(reinterpret_cast<char*>(weights_.data()), bytes());
  }
  const std::vector<double>& weights() const { return weights_; }

 private:
  std::streamsize bytes() const { return static_cast<std::streamsize>(weights_.size() * sizeof(double)); }
  std::vector<double> weights_;
  size_t width_;
};

void train(const tune::Config& config) {
  Network network(config.integer("width"), 7);
  if (tune::get_checkpoint()) network.load(tune::get_checkpoint()->path());
  while (true) {
    double loss = 0;
    for (int i = 0; i < 50; ++i) loss = network.epoch(config.real("lr"));
    tune::add_histogram("weights", network.weights());  // TensorBoard shows it beside the loss.
    tune::report({{"loss", loss}}, [&](const auto& directory) { network.save(directory); });
  }
}

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv);
  const auto analysis = tune::run<&train>({
      .name = "xor",
      .space = {{"lr", tune::loguniform(1e-3, 1.0)}, {"width", tune::randint(2, 9)}},
      .metric = "loss",
      .mode = tune::Mode::kMin,
      .num_samples = 12,
      .scheduler = tune::asha({.grace_period = 2, .max_t = 20, .reduction_factor = 3}),
      .stop = {{"loss", 1e-4}},
      .checkpoint = {.at_end = true},
      .seed = 3,
      .trial_folder = "{id}_lr={lr}",
  });
  const tune::Trial& best = analysis.best_trial();
  Network network(best.config.integer("width"), 7);
  network.load(analysis.best_checkpoint().path());
  std::printf("best        %s\nloss        %.6f, %.6f from its checkpoint\n", best.config.to_json().c_str(),
              best.last_result.at("loss"), network.epoch(0));
}
