// Optimizers and loaders, in this process.
#include <fmt/format.h>
#include <torch/torch.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "tests/bench/train/models.h"
#include "tests/bench/train/peer.h"
#include "tests/bench/train/rows.h"
#include "train/core/sampler.h"
#include "train/data/loader.h"
#include "train/optim/optimizers.h"

namespace volador::train::bench {
namespace {

// ---- AdamW.

std::vector<torch::Tensor> parameters_with_gradients(const std::string& name) {
  torch::manual_seed(0);
  auto parameters = make(name).module->parameters();
  for (torch::Tensor& parameter : parameters) parameter.mutable_grad() = torch::randn_like(parameter);
  return parameters;
}

// Returns the median of the steps in ms.
template <class Optimizer>
double step_ms(const std::string& model, int64_t steps) {
  Optimizer optimizer(parameters_with_gradients(model), torch::optim::AdamWOptions(1e-3));
  std::vector<double> times;
  for (int64_t step = 0; step < kWarmup + steps; ++step) {
    const auto begin = Clock::now();
    optimizer.step();
    if (step >= kWarmup) times.push_back(1e3 * seconds_since(begin));
  }
  return median(times);
}

std::vector<Row> measure_adamw(const Options& options, const std::string& model) {
  torch::set_num_threads(1);
  const std::string name = "optimizer_adamw/" + model;
  Row beside_default{.name = name, .unit = "ms", .beside = "Python, default", .ratio_max = 0.25};
  Row beside_fused{.name = name, .unit = "ms", .beside = "Python, fused"};
  Row beside_libtorch{.name = name, .unit = "ms", .beside = "torch::optim::AdamW"};
  for (int round = 0; round < options.rounds; ++round) {
    const double ours = step_ms<AdamW>(model, options.steps);
    for (Row* row : {&beside_default, &beside_fused, &beside_libtorch}) row->ours.push_back(ours);
    beside_libtorch.peers.push_back(step_ms<torch::optim::AdamW>(model, options.steps));
    if (options.peer.empty()) continue;
    const auto result = run_peer(options, 0,
                                 {"--mode=optimizer", "--model=" + model, fmt::format("--steps={}", options.steps),
                                  fmt::format("--warmup={}", kWarmup)});
    beside_default.peers.push_back(result.at("default_ms"));
    beside_fused.peers.push_back(result.at("fused_ms"));
  }
  if (options.peer.empty()) return {beside_libtorch};
  return {beside_default, beside_fused, beside_libtorch};
}

// ---- Loader: the data sets and figures of peer_ddp.py's mode loader.

constexpr double kStepMs = 5;

DatasetPtr random_tensors(int64_t rows, std::vector<int64_t> shape) {
  shape.insert(shape.begin(), rows);
  return tensor_dataset({torch::rand(shape), torch::randint(10, {rows}, torch::kLong)});
}

// Colour images of 224 x 224 in bytes; a sample is made float and normalised when it is read.
DatasetPtr images() {
  constexpr int64_t kImages = 512;
  const torch::Tensor pixels = torch::randint(256, {kImages, 3, 224, 224}, torch::kByte);
  const torch::Tensor targets = torch::randint(1000, {kImages}, torch::kLong);
  const torch::Tensor mean = torch::tensor({0.485F, 0.456F, 0.406F}).view({3, 1, 1});
  const torch::Tensor deviation = torch::tensor({0.229F, 0.224F, 0.225F}).view({3, 1, 1});
  return map_dataset(kImages, [=](int64_t row) -> std::vector<torch::Tensor> {
    return {pixels[row].to(torch::kFloat).div_(255).sub_(mean).div_(deviation), targets[row]};
  });
}

// Keeps this thread busy as a training step does.
void compute(double milliseconds) {
  static const torch::Tensor matrix = torch::ones({128, 128});
  static torch::Tensor out = torch::empty({128, 128});
  const auto begin = Clock::now();
  while (1e3 * seconds_since(begin) < milliseconds) torch::mm_out(out, matrix, matrix);
}

struct Loaded {
  double samples_per_s = 0;
  double wait_ms = 0;  // Mean over the batches, the first of each epoch included.
  double first_batch_ms = 0;
};

class Epochs {
 public:
  Epochs(const DatasetPtr& data, int threads)
      : sampler_(data->size(), {.drop_last = true}), loader_(data, {.threads = threads}) {}

  void begin() {
    loader_.start([this, epoch = epoch_++, position = int64_t{0}]() mutable -> std::optional<Share> {
      Share share = sampler_.share(epoch, position, kBatch, 0, 1);
      position += share.batch_rows;
      if (share.batch_rows == 0) return std::nullopt;
      return share;
    });
  }
  bool next() { return loader_.next().has_value(); }

  // Reads whole epochs until the time is over. Returns the seconds taken; adds the wait for each batch in ms.
  double read(double seconds, double step_ms, std::vector<double>& waits) {
    const auto start = Clock::now();
    while (seconds_since(start) < seconds) {
      auto asked = Clock::now();
      begin();
      while (next()) {
        waits.push_back(1e3 * seconds_since(asked));
        compute(step_ms);
        asked = Clock::now();
      }
    }
    return seconds_since(start);
  }

 private:
  int64_t epoch_ = 0;
  DistributedSampler sampler_;
  Loader loader_;  // Last: its destructor ends the use of the sampler.
};

Loaded load(const DatasetPtr& data, int threads, double seconds) {
  Loaded loaded;
  const auto begin = Clock::now();
  Epochs epochs(data, threads);
  epochs.begin();
  epochs.next();
  loaded.first_batch_ms = 1e3 * seconds_since(begin);
  std::vector<double> waits;
  epochs.read(0.001, 0, waits);  // One epoch to warm up.
  waits.clear();
  const double taken = epochs.read(seconds, 0, waits);
  loaded.samples_per_s = static_cast<double>(waits.size() * kBatch) / taken;
  waits.clear();
  epochs.read(seconds, kStepMs, waits);
  for (const double wait : waits) loaded.wait_ms += wait / static_cast<double>(waits.size());
  return loaded;
}

std::vector<Row> measure_loader(const Options& options) {
  torch::set_num_threads(1);
  torch::manual_seed(0);
  const std::array<std::pair<std::string, DatasetPtr>, 3> data = {
      {{"digits", random_tensors(1797, {8, 8})}, {"mnist", random_tensors(5000, {1, 28, 28})}, {"images", images()}}};
  std::vector<Row> rows;  // Three for each data set and number of workers, in the order of the peer's.
  for (const auto& [name, set] : data) {
    for (const int workers : {0, 2}) {
      const auto add = [&, set_name = name](const char* figure, const char* unit) {
        rows.push_back({.name = fmt::format("loader/{}/{}/{}", set_name, workers, figure), .unit = unit});
        rows.back().beside = fmt::format("Python, {} {}", workers, workers == 0 ? "workers" : "processes");
      };
      add("rate", "samples/s");
      rows.back().note = "higher is better";
      add("wait", "ms");
      rows.back().note = fmt::format("for a batch, before a step of {} ms", kStepMs);
      add("first", "ms");
    }
  }
  for (int round = 0; round < options.rounds; ++round) {
    size_t at = 0;
    for (const auto& [name, set] : data) {
      for (const int workers : {0, 2}) {
        const Loaded loaded = load(set, workers, options.seconds);
        rows[at++].ours.push_back(loaded.samples_per_s);
        rows[at++].ours.push_back(loaded.wait_ms);
        rows[at++].ours.push_back(loaded.first_batch_ms);
      }
    }
    if (options.peer.empty()) continue;
    const auto result = run_peer(options, 0,
                                 {"--mode=loader", fmt::format("--batch={}", kBatch),
                                  fmt::format("--seconds={}", options.seconds), fmt::format("--step-ms={}", kStepMs)});
    at = 0;
    for (const auto& one : result.at("rows")) {
      rows.at(at++).peers.push_back(one.at("samples_a_second"));
      rows.at(at++).peers.push_back(one.at("wait_ms_mean"));
      rows.at(at++).peers.push_back(one.at("first_batch_ms"));
    }
  }
  return rows;
}

}  // namespace

std::vector<Bench> local_benches() {
  std::vector<Bench> benches;
  for (const std::string model : {"mlp", "small_tensors"})
    benches.push_back(
        {"optimizer_adamw/" + model, [model](const Options& options) { return measure_adamw(options, model); }});
  benches.push_back({"loader", measure_loader});
  return benches;
}

}  // namespace volador::train::bench
