// Training runs whose gradients travel compressed between two processes, also after one of them was killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <train/train.h>

#include <string>
#include <thread>

#include "tests/temporary_directory.h"

namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using train::Compression;
using train::Config;

// Learns handwritten digits: two matrices and two vectors. After each step the ranks compare their parameters: the metric
// "differing" is the number of those that are not equal.
class CompressedDigits : public train::TrainingOperator {
 public:
  void setup(const Config& config) override {
    auto net = torch::nn::Sequential(torch::nn::Linear(64, 96), torch::nn::ReLU(), torch::nn::Linear(96, 10));
    net_ = std::get<0>(register_all(net, train::sgd({.lr = 0.1, .momentum = 0.9}), train::cross_entropy()));
    const auto digits = train::csv("examples/data/digits.csv.gz", {.header = false});
    register_data({.train = digits, .validation = digits, .batch_size = 60});
    const std::string name = config.text("compression");
    if (name == "bfloat16") compress_gradients(Compression::kBFloat16);
    if (name == "float16") compress_gradients(Compression::kHalf);
    if (name == "power_sgd") compress_gradients(Compression::kPowerSgd, {.rank = 4, .start_step = 10});
    if (name == "rank 0") compress_gradients(Compression::kPowerSgd, {.rank = 0});
    if (name == "unequal") {
      const bool is_first = ::mkdir(config.text("folder").c_str(), 0700) == 0;
      compress_gradients(is_first ? Compression::kHalf : Compression::kNone);
    }
    late_ = name == "late";
  }
  train::Metrics train_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    if (late_) compress_gradients(Compression::kHalf);
    train::Metrics metrics = TrainingOperator::train_batch({{batch.features() / 16, batch.target()}}, info);
    const torch::NoGradGuard no_grad;
    const torch::Tensor differing = torch::zeros({1});
    for (const torch::Tensor& parameter : net_->parameters()) {
      const torch::Tensor first = parameter.detach().clone();
      broadcast(first);
      differing.add_(torch::equal(first, parameter) ? 0 : 1);
    }
    all_reduce(differing);
    metrics.set("differing", differing.item<double>());
    return metrics;
  }
  train::Metrics validate_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    return TrainingOperator::validate_batch({{batch.features() / 16, batch.target()}}, info);
  }

 private:
  torch::nn::Sequential net_ = nullptr;
  bool late_ = false;
};
VOLADOR_TRAINING_OPERATOR(CompressedDigits);

using DigitsTrainer = train::TorchTrainer<CompressedDigits>;

train::TrainerOptions options_for(const std::string& compression) {
  return {.num_workers = 2,
          .config = {{"compression", compression}},
          .seed = 7,
          .start_timeout = 30s,
          .report = false,
          .storage = "none"};
}

class CompressedRun : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CompressedRun, testing::Values("bfloat16", "float16", "power_sgd"));

TEST_P(CompressedRun, LearnsAsOneOfWholeGradientsDoes) {
  DigitsTrainer whole(options_for("none")), compressed(options_for(GetParam()));
  for (int epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(whole.train().at("differing"), 0);
    EXPECT_EQ(compressed.train().at("differing"), 0);
  }
  EXPECT_NE(whole.state(), compressed.state());
  const train::Metrics expected = whole.validate(), found = compressed.validate();
  EXPECT_GT(expected.at("val_accuracy"), 0.95);
  EXPECT_NEAR(found.at("val_accuracy"), expected.at("val_accuracy"), 0.02);
  std::printf("%s: loss of validation %.4f, of whole gradients %.4f\n", GetParam(), found.at("val_loss"),
              expected.at("val_loss"));
}

TEST_P(CompressedRun, GoesOnWithEqualParametersAfterTheLossOfAWorker) {
  DigitsTrainer trainer(options_for(GetParam()));
  const double first = trainer.train().at("train_loss");
  double last = first;
  for (int kill = 0; kill < 2; ++kill) {
    std::jthread killer([&] {
      std::this_thread::sleep_for(5ms);
      const auto pids = trainer.worker_pids();
      if (!pids.empty()) ::kill(pids[static_cast<size_t>(kill) % pids.size()], SIGKILL);
    });
    const train::Metrics metrics = trainer.train();
    EXPECT_EQ(metrics.at("differing"), 0);
    killer.join();
    last = trainer.train().at("train_loss");
  }
  EXPECT_EQ(trainer.failures(), 2);
  EXPECT_EQ(trainer.train().at("differing"), 0);
  EXPECT_LT(last, first / 3);
}

std::string error_of(const std::string& compression) {
  const volador::TemporaryDirectory folder;
  train::TrainerOptions options = options_for(compression);
  options.config.set("folder", (folder.path() / "first").string());
  DigitsTrainer trainer(options);
  try {
    trainer.train();
  } catch (const volador::Exception& e) {
    return e.error().message;
  }
  return "no error";
}

TEST(CompressGradients, NamesAnOptionOutOfRange) {
  EXPECT_THAT(error_of("rank 0"), HasSubstr("power_sgd.rank is 0; it must be at least 1"));
}

TEST(CompressGradients, NamesCompressionThatDiffersBetweenRanks) {
  EXPECT_THAT(error_of("unequal"), testing::AllOf(HasSubstr("different parameters or compression on two ranks"),
                                                  HasSubstr("compression float16"), HasSubstr("compression none")));
}

TEST(CompressGradients, IsRefusedAfterSetup) {
  EXPECT_THAT(error_of("late"), HasSubstr("compress_gradients(): setup() is over"));
}

}  // namespace
