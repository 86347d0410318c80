// Cost of checkpoints for a state of 1 GB, and of the report of a step.
#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <string>

#include "runtime/files/durable_file.h"
#include "tests/bench/train/rows.h"
#include "tests/temporary_directory.h"
#include "train/trainer/trainer.h"

namespace volador::train::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWidth = 16'384;  // 268 million parameters, 1.07 GB.
constexpr int64_t kStateBatch = 16;
constexpr int kRestingSteps = 3;  // Steps without a checkpoint, for the comparison.

class Large final : public TrainingOperator {
 public:
  void setup(const Config&) override {
    torch::set_num_threads(1);
    register_all(torch::nn::Linear(torch::nn::LinearOptions(kWidth, kWidth).bias(false)), sgd({.lr = 0.01}),
                 mse_loss());
    const torch::Tensor rows = torch::randn({kStateBatch, kWidth});
    register_data({.train = tensor_dataset({rows.repeat({16, 1}), rows.repeat({16, 1})}), .batch_size = kStateBatch});
  }
};
VOLADOR_TRAINING_OPERATOR(Large);

class Tiny final : public TrainingOperator {
 public:
  void setup(const Config&) override {
    torch::set_num_threads(1);
    register_all(torch::nn::Linear(4, 1), sgd({.lr = 0.01}), mse_loss());
    register_data({.train = tensor_dataset({torch::randn({4096, 4}), torch::randn({4096, 1})}), .batch_size = 1});
  }
};
VOLADOR_TRAINING_OPERATOR(Tiny);

double train_seconds(Trainer& trainer) {
  const auto begin = Clock::now();
  trainer.train({.num_steps = 1});
  return seconds_since(begin);
}

// Writes as many bytes as the checkpoint has, as fast as the disk takes them.
double write_seconds(const fs::path& file, size_t bytes) {
  const std::string zeros(bytes, 'v');
  const auto begin = Clock::now();
  const auto written = write_file_atomically(file, zeros);
  if (!written) throw std::runtime_error(written.error().message);
  return seconds_since(begin);
}

// In the folder for temporary files (TMPDIR), which should be on a disk.
std::vector<Row> measure_checkpoints(const Options& options) {
  const TemporaryDirectory folder;
  Row stall{.name = "checkpoint_stall/1GB", .unit = "% of step", .value_max = 5};
  Row write{.name = "checkpoint_write/1GB", .unit = "s", .beside = "the same bytes, one write", .ratio_max = 1.25};
  TorchTrainer<Large> trainer({.num_workers = 1, .copy_state = false, .report = false, .storage = "none"});
  train_seconds(trainer);
  for (int round = 0; round < options.rounds; ++round) {
    std::vector<double> resting;
    for (int step = 0; step < kRestingSteps; ++step) resting.push_back(train_seconds(trainer));
    const auto begin = Clock::now();
    std::future<void> written = trainer.save_async(folder.path() / "async.pt");
    const double call = seconds_since(begin);
    trainer.train({.num_steps = 1});
    const double both = seconds_since(begin);
    stall.ours.push_back(100 * std::max(0.0, both - median(resting)) / median(resting));
    stall.note =
        fmt::format("save_async() returned after {:.0f} ms; a step takes {:.0f} ms", 1e3 * call, 1e3 * median(resting));
    written.get();
    const auto saved = Clock::now();
    trainer.save(folder.path() / "state.pt");
    write.ours.push_back(seconds_since(saved));
    write.peers.push_back(write_seconds(folder.path() / "raw", fs::file_size(folder.path() / "state.pt")));
  }
  return {stall, write};
}

// What a report adds to a train() of one step.
std::vector<Row> measure_report(const Options& options) {
  constexpr int kCalls = 200;
  const TemporaryDirectory folder;
  Row row{.name = "train_report", .unit = "ms", .value_max = 1};
  for (int round = 0; round < options.rounds; ++round) {
    double medians[2];
    for (const bool is_reported : {false, true}) {
      TorchTrainer<Tiny> trainer(
          {.num_workers = 1, .copy_state = false, .report = is_reported, .storage = folder.path().string()});
      for (int64_t i = 0; i < kWarmup; ++i) train_seconds(trainer);
      std::vector<double> times;
      for (int i = 0; i < kCalls; ++i) times.push_back(1e3 * train_seconds(trainer));
      medians[is_reported] = median(times);
    }
    row.ours.push_back(medians[1] - medians[0]);
    row.note = fmt::format("a train() of one step takes {:.2f} ms with a report and {:.2f} ms without", medians[1],
                           medians[0]);
  }
  return {row};
}

}  // namespace

std::vector<Bench> checkpoint_benches() {
  return {{"checkpoint", measure_checkpoints}, {"train_report", measure_report}};
}

}  // namespace volador::train::bench
