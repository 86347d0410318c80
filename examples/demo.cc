// Program of `volador demo`: ASHA over small networks on handwritten digits, implemented here, so that no library is
// needed. Width of the layers, learning rate, momentum and batch size vary; most trials are stopped early.
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

// 64 pixels, a hidden layer of rectifiers, ten classes; stochastic gradient descent with momentum.
class Net {
 public:
  static constexpr int kIn = digits::kSide * digits::kSide, kOut = digits::kClasses;

  explicit Net(int width)
      : width_(width),
        hidden_(static_cast<size_t>(width)),
        error_(static_cast<size_t>(width)),
        weights_(static_cast<size_t>((kIn + 1) * width + (width + 1) * kOut)),
        gradient_(weights_.size()),
        speed_(weights_.size()) {
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 0.15F);
    for (float& weight : weights_) weight = normal(random);
  }

  int classify(const float* pixels) {
    forward(pixels);
    return static_cast<int>(std::max_element(out_, out_ + kOut) - out_);
  }

  // Adds the gradient of one image; returns the loss.
  double add(const float* pixels, int64_t label) {
    forward(pixels);
    const float highest = *std::max_element(out_, out_ + kOut);
    float sum = 0;
    for (float& value : out_) sum += value = std::exp(value - highest);
    const double loss = -std::log(std::max(out_[label] / sum, 1e-9F));
    std::fill(error_.begin(), error_.end(), 0.0F);
    for (int k = 0; k < kOut; ++k) {
      const float wrong = out_[k] / sum - (k == label ? 1.0F : 0.0F);
      const float* row = second(k);
      for (int h = 0; h < width_; ++h) error_[static_cast<size_t>(h)] += wrong * row[h];
      add_row(row - weights_.data(), hidden_.data(), width_, wrong);
    }
    for (int h = 0; h < width_; ++h) {
      if (hidden_[static_cast<size_t>(h)] > 0) add_row(h * (kIn + 1), pixels, kIn, error_[static_cast<size_t>(h)]);
    }
    return loss;
  }

  void move(float lr, float momentum, int64_t images) {
    for (size_t i = 0; i < weights_.size(); ++i) {
      speed_[i] = momentum * speed_[i] - lr * gradient_[i] / static_cast<float>(images);
      weights_[i] += speed_[i];
      gradient_[i] = 0;
    }
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
  std::streamsize bytes() const { return static_cast<std::streamsize>(weights_.size() * sizeof(float)); }
  const float* second(int k) const { return weights_.data() + (kIn + 1) * width_ + k * (width_ + 1); }

  void forward(const float* pixels) {
    const float* row = weights_.data();
    for (float& hidden : hidden_) {
      hidden = std::max(0.0F, std::inner_product(pixels, pixels + kIn, row, row[kIn]));
      row += kIn + 1;
    }
    for (int k = 0; k < kOut; ++k)
      out_[k] = std::inner_product(hidden_.begin(), hidden_.end(), second(k), second(k)[width_]);
  }

  // Updates a row of weights, whose last element is the bias.
  void add_row(std::ptrdiff_t at, const float* inputs, int count, float error) {
    float* row = gradient_.data() + at;
    for (int i = 0; i < count; ++i) row[i] += error * inputs[i];
    row[count] += error;
  }

  const int width_;
  std::vector<float> hidden_, error_, weights_, gradient_, speed_;
  float out_[kOut] = {};
};

double accuracy(Net& net, const digits::Images& images) {
  int right = 0;
  for (size_t i = 0; i < images.labels.size(); ++i)
    right += net.classify(&images.pixels[i * Net::kIn]) == images.labels[i];
  return static_cast<double>(right) / static_cast<double>(images.labels.size());
}

// One step is one epoch over the training images.
class DemoNet : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override {
    lr_ = static_cast<float>(config.real("lr"));
    momentum_ = static_cast<float>(config.real("momentum"));
    batch_ = config.integer("batch");
    net_ = std::make_unique<Net>(static_cast<int>(config.integer("width")));
    order_.resize(split_.train.labels.size());
    std::iota(order_.begin(), order_.end(), 0);
  }

  tune::Metrics step() override {
    std::shuffle(order_.begin(), order_.end(), random_);
    double loss = 0;
    int64_t waiting = 0;
    for (const size_t i : order_) {
      loss += net_->add(&split_.train.pixels[i * Net::kIn], split_.train.labels[i]);
      if (++waiting < batch_) continue;
      net_->move(lr_, momentum_, waiting);
      waiting = 0;
    }
    return {{"accuracy", accuracy(*net_, split_.validation)}, {"loss", loss / static_cast<double>(order_.size())}};
  }

  void save_checkpoint(const fs::path& dir) override { net_->save(dir / "net.bin"); }
  void load_checkpoint(const fs::path& dir) override { net_->load(dir / "net.bin"); }

 private:
  const digits::Split split_ = digits::load();
  std::vector<size_t> order_;
  std::mt19937 random_{7};
  std::unique_ptr<Net> net_;
  float lr_ = 0, momentum_ = 0;
  int64_t batch_ = 1;
};
VOLADOR_TRAINABLE(DemoNet);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const int64_t samples = argc > 1 ? std::stoll(argv[1]) : -1;  // By default as many as fit into a minute.
  auto analysis = tune::run<DemoNet>({
      .name = "digits",
      .space = {{"lr", tune::loguniform(1e-3, 1.0)},
                {"momentum", tune::uniform(0.0, 0.95)},
                {"width", tune::randint(4, 129)},
                {"batch", tune::choice({4, 16, 64})}},
      .metric = "accuracy",
      .mode = tune::Mode::kMax,
      .num_samples = samples,
      .scheduler = tune::asha({.grace_period = 1, .max_t = 81, .reduction_factor = 3}),
      .max_concurrent_trials = 8,
      .time_budget = samples < 0 ? std::chrono::seconds(60) : std::chrono::seconds(0),
      .checkpoint = {.at_end = true, .num_to_keep = 1},
  });
  fmt::print("best configuration   {}\nvalidation accuracy  {:.4f}\n", analysis.best_trial().config.to_json(),
             analysis.best_trial().last_result.at("accuracy"));
  return analysis.interrupted() ? 130 : 0;
} catch (const volador::Exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 1;
}
