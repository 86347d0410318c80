// Steps and start of data-parallel training, and the cost of the trainer around a step.
#include <fmt/format.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "tests/bench/train/models.h"
#include "tests/bench/train/peer.h"
#include "tests/bench/train/rows.h"
#include "train/group/gradient_reducer.h"
#include "train/group/power_sgd.h"
#include "train/optim/optimizers.h"
#include "train/trainer/trainer.h"

namespace volador::train::bench {
namespace {

constexpr double kRate = 0.01;
constexpr double kMomentum = 0.9;
constexpr int64_t kCompared = 10;  // The step whose losses are compared; below kWarmup.
constexpr double kLossTolerance = 1e-4;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Returns the rank's batch whatever the rows. Read by the rank's thread only.
class FixedBatch final : public Dataset {
 public:
  explicit FixedBatch(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  train::Batch rows(std::span<const int64_t>) const override { return batch_; }
  void use(Batch batch) { batch_ = {.tensors = {std::move(batch.input), std::move(batch.targets)}}; }

 private:
  const int64_t size_;
  train::Batch batch_;
};

ReducerOptions compression_of(const std::string& name) {
  if (name == "float16") return {.compression = Compression::kHalf};
  if (name == "bfloat16") return {.compression = Compression::kBFloat16};
  if (name == "power_sgd") return {.compression = Compression::kPowerSgd, .power_sgd = {.rank = 4, .start_step = 0}};
  return {};
}

// Bytes of gradients that a rank contributes to a step, without flags and padding.
int64_t bytes_of(const BenchModel& model, const ReducerOptions& options) {
  int64_t bytes = 0;
  for (const torch::Tensor& parameter : model.module->parameters()) {
    const bool is_cast = options.compression == Compression::kHalf || options.compression == Compression::kBFloat16;
    int64_t elements = parameter.numel();
    if (options.compression == Compression::kPowerSgd) {
      if (const auto shape = factor_shape(parameter, options.power_sgd))
        elements = shape->left_elements() + shape->right_elements();
    }
    bytes += elements * (is_cast ? 2 : 4);
  }
  return bytes;
}

// Trains a model on one batch a rank and measures the steps of each call of train().
class Steps final : public TrainingOperator {
 public:
  void setup(const Config& config) override {
    torch::set_num_threads(1);
    torch::manual_seed(0);
    model_ = make(config.text("model"));
    register_all(model_.module, sgd({.lr = kRate, .momentum = kMomentum}), cross_entropy());
    const int64_t batch = kBatch * config.integer("ranks");
    data_ = std::make_shared<FixedBatch>(batch * config.integer("steps"));
    register_data({.train = data_, .batch_size = batch, .shuffle = false});
    const ReducerOptions options = compression_of(config.get_or("compression", ""));
    compress_gradients(options.compression, options.power_sgd);
  }

  Metrics train_epoch(BatchIterator& batches, const EpochInfo&) override {
    data_->use(make_batch(model_, rank()));
    all_reduce(torch::zeros({1}));  // All ranks begin together.
    auto loaded = batches.next();
    std::vector<double> times;
    double loss = 0;
    const double cpu = cpu_seconds();
    auto begin = Clock::now();
    while (loaded) {
      loss = train_batch(loaded->batch, loaded->info).at("train_loss");
      loaded = batches.next();
      const auto end = Clock::now();
      times.push_back(std::chrono::duration<double, std::milli>(end - begin).count());
      begin = end;
    }
    const double cpu_ms = 1e3 * (cpu_seconds() - cpu) / static_cast<double>(times.size());
    const torch::Tensor first = torch::full({1}, loss, torch::kDouble);
    broadcast(first);
    return {{"step_ms", quantile(times, 0.5)},     {"step_ms_p10", quantile(times, 0.1)},
            {"step_ms_p90", quantile(times, 0.9)}, {"cpu_ms", cpu_ms},
            {"loss", first.item<double>()},  // Loss of rank 0 in the last step.
            {"differing", differing_parameters()}};
  }

 private:
  // Number of parameters whose bits are not those of rank 0.
  double differing_parameters() {
    const torch::NoGradGuard no_grad;
    double count = 0;
    for (const torch::Tensor& parameter : model_.module->parameters()) {
      const torch::Tensor reference = parameter.detach().clone();
      broadcast(reference);
      if (!torch::equal(reference.view(torch::kInt), parameter.detach().view(torch::kInt))) ++count;
    }
    return count;
  }

  BenchModel model_;
  std::shared_ptr<FixedBatch> data_;
};
VOLADOR_TRAINING_OPERATOR(Steps);

TrainerOptions trainer_options(const std::string& model, int ranks, int64_t steps,
                               const std::string& compression = "") {
  return {.num_workers = ranks,
          .config = {{"model", model}, {"ranks", ranks}, {"steps", steps}, {"compression", compression}},
          .storage = "none"};
}

struct Trained {
  double loss = 0;  // Loss of rank 0 in step kCompared.
  Metrics metrics;  // Times of the measured steps.
};

Trained train_ours(const std::string& model, int ranks, int64_t steps, const std::string& compression = "") {
  TorchTrainer<Steps> trainer(trainer_options(model, ranks, kWarmup + steps, compression));
  Trained trained;
  trained.loss = trainer.train({.num_steps = kCompared}).at("loss");
  trainer.train({.num_steps = kWarmup - kCompared});
  trained.metrics = trainer.train({.num_steps = steps});
  return trained;
}

// The same steps in this process by LibTorch alone. Returns the median of the steps in ms.
double train_by_libtorch(const std::string& name, int64_t steps) {
  torch::set_num_threads(1);
  torch::manual_seed(0);
  const BenchModel model = make(name);
  const Batch batch = make_batch(model, 0);
  torch::optim::SGD optimizer(model.module->parameters(), torch::optim::SGDOptions(kRate).momentum(kMomentum));
  std::vector<double> times;
  for (int64_t step = 0; step < kWarmup + steps; ++step) {
    const auto begin = Clock::now();
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model.module->forward(batch.input), batch.targets).backward();
    optimizer.step();
    if (step >= kWarmup) times.push_back(1e3 * seconds_since(begin));
  }
  return median(times);
}

// Medians over the rounds of a step's further figures.
struct Spread {
  std::vector<double> p10, p90, cpu;
  void add(double low, double high, double cpu_ms) {
    p10.push_back(low);
    p90.push_back(high);
    cpu.push_back(cpu_ms);
  }
  std::string text() const {
    return fmt::format("p10-p90 {:.2f}-{:.2f} ms, CPU {:.2f} ms", median(p10), median(p90), median(cpu));
  }
};

void note_wrong(Row& row, const std::string& wrong) {
  if (row.wrong.find(wrong) == std::string::npos) row.wrong += (row.wrong.empty() ? "" : "; ") + wrong;
}

// ranks = 1: without DDP.
std::vector<Row> measure_steps(const Options& options, const std::string& model, int ranks, double ratio_max) {
  const int64_t steps = model == "mlp_large" ? options.steps / 4 : options.steps;
  const bool is_single = ranks == 1;
  std::vector<std::string> flags = {is_single ? "--mode=single" : "--mode=ddp", "--model=" + model,
                                    fmt::format("--batch={}", kBatch)};
  if (options.bucket_view) flags.emplace_back("--gradient-as-bucket-view");
  const auto peer = [&](int64_t measured, int64_t warmup) {
    auto all = flags;
    all.push_back(fmt::format("--steps={}", measured));
    all.push_back(fmt::format("--warmup={}", warmup));
    return run_peer(options, is_single ? 0 : ranks, all);
  };

  Row row{
      .name = fmt::format("{}/{}", is_single ? "ddp_single" : "ddp_step", model), .unit = "ms", .ratio_max = ratio_max};
  row.beside = is_single ? "Python" : fmt::format("torchrun DDP, {} ranks", ranks);
  Row bare{.name = row.name, .unit = "ms", .beside = "LibTorch loop"};
  Spread ours;
  Spread theirs;
  double loss = 0;
  for (int round = 0; round < options.rounds; ++round) {
    const Trained trained = train_ours(model, ranks, steps);
    loss = trained.loss;
    row.ours.push_back(trained.metrics.at("step_ms"));
    ours.add(trained.metrics.at("step_ms_p10"), trained.metrics.at("step_ms_p90"), trained.metrics.at("cpu_ms"));
    if (trained.metrics.at("differing") > 0) note_wrong(row, "parameters differ between ranks");
    if (!options.peer.empty()) {
      const auto result = peer(steps, kWarmup);
      row.peers.push_back(result.at("step_ms"));
      theirs.add(result.at("step_ms_p10"), result.at("step_ms_p90"), result.at("cpu_ms"));
    }
    if (is_single) {
      bare.ours.push_back(row.ours.back());
      bare.peers.push_back(train_by_libtorch(model, steps));
    }
  }
  row.note = ours.text();
  if (!options.peer.empty()) {
    const double peer_loss = peer(kCompared - 1, 1).at("loss");
    row.note +=
        fmt::format(" against {}; loss of step {} {:.6f} against {:.6f}", theirs.text(), kCompared, loss, peer_loss);
    if (!(std::abs(loss - peer_loss) <= kLossTolerance))
      note_wrong(row, fmt::format("the losses differ by more than {}", kLossTolerance));
  } else {
    row.note += fmt::format("; loss of step {} {:.6f}", kCompared, loss);
  }
  if (is_single) return {row, bare};
  return {row};
}

// Steps with compressed gradients beside those with whole ones. The ranks are on one machine: its memory takes the place
// of a network.
std::vector<Row> measure_compression(const Options& options, const std::string& compression) {
  std::vector<Row> rows;
  for (const std::string model : {"mlp", "mlp_large"}) {
    const int64_t steps = model == "mlp_large" ? options.steps / 4 : options.steps;
    Row row{.name = fmt::format("ddp_compressed/{}/{}", compression, model), .unit = "ms", .beside = "whole gradients"};
    for (int round = 0; round < options.rounds; ++round) {
      const Metrics found = train_ours(model, options.ranks, steps, compression).metrics;
      row.ours.push_back(found.at("step_ms"));
      row.peers.push_back(train_ours(model, options.ranks, steps).metrics.at("step_ms"));
      if (found.at("differing") > 0) note_wrong(row, "parameters differ between ranks");
    }
    const BenchModel made = make(model);
    row.note = fmt::format("{:.3f} MB of gradients a rank and step against {:.3f} MB",
                           static_cast<double>(bytes_of(made, compression_of(compression))) / 1e6,
                           static_cast<double>(bytes_of(made, {})) / 1e6);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> measure_start(const Options& options) {
  const std::string own = std::filesystem::read_symlink("/proc/self/exe");
  Row row{.name = "ddp_start", .unit = "s", .ratio_max = 0.15, .note = "from a new trainer, the cluster is up"};
  row.beside = fmt::format("torchrun DDP, {} ranks", options.ranks);
  Row cold{.name = "ddp_start/program", .unit = "s", .beside = row.beside, .note = "from exec, with a private cluster"};
  for (int round = 0; round < options.rounds; ++round) {
    row.ours.push_back(first_step_seconds(options.ranks));
    cold.ours.push_back(
        run_program({own, "--first-step", fmt::format("--ranks={}", options.ranks)}).at("first_step_s"));
    if (options.peer.empty()) continue;
    const auto result =
        run_peer(options, options.ranks, {"--mode=start", "--model=mlp", fmt::format("--batch={}", kBatch)});
    row.peers.push_back(result.at("first_step_s"));
    cold.peers.push_back(row.peers.back());
  }
  return {row, cold};
}

// ---- The trainer's own cost: default methods beside a loop by hand, in turns in one process, with the same data,
// optimizer and model.

constexpr int64_t kBlocks = 100;
constexpr int64_t kBlockSteps = 50;

struct Small : torch::nn::Module {
  Small() {
    register_module("first", first);
    register_module("second", second);
  }
  torch::Tensor forward(const torch::Tensor& input) { return second(torch::relu(first(input))); }
  torch::nn::Linear first{64, 32}, second{32, 10};
};

class Overhead final : public TrainingOperator {
 public:
  void setup(const Config&) override {
    torch::set_num_threads(1);
    const int64_t rows = (kBlocks + 1) * kBlockSteps * kBatch;
    features_ = torch::randn({rows, 64});
    targets_ = torch::randint(10, {rows}, torch::kLong);
    register_all(std::make_shared<Small>(), factory_, cross_entropy());
    register_data({.train = tensor_dataset({features_, targets_}), .batch_size = kBatch});
  }

  // Returns µs a step.
  Metrics train_epoch(BatchIterator& batches, const EpochInfo&) override {
    const torch::Tensor order = torch::randperm(features_.size(0));
    Small model;
    const OptimizerPtr optimizer = factory_(model.parameters());
    double loss_sum = 0;
    const auto by_default = [&](int64_t) {
      const auto loaded = batches.next();
      loss_sum += train_batch(loaded->batch, loaded->info).at("train_loss");
    };
    const auto by_hand = [&](int64_t step) {
      const torch::Tensor rows = order.narrow(0, step * kBatch, kBatch);
      optimizer->zero_grad();
      const torch::Tensor loss = torch::nn::functional::cross_entropy(model.forward(features_.index_select(0, rows)),
                                                                      targets_.index_select(0, rows));
      loss.backward();
      optimizer->step();
      loss_sum += loss.item<double>();
    };
    int64_t step = 0;
    const auto block = [&](const auto& one) {
      const auto begin = Clock::now();
      for (int64_t i = 0; i < kBlockSteps; ++i) one(step + i);
      return 1e6 * seconds_since(begin) / static_cast<double>(kBlockSteps);
    };
    std::vector<double> ours, bare, differences;
    for (int64_t i = 0; i <= kBlocks; ++i) {
      const double a = block(by_default);
      const double b = block(by_hand);
      step += kBlockSteps;
      if (i == 0) continue;  // Warm-up.
      ours.push_back(a);
      bare.push_back(b);
      differences.push_back(a - b);
    }
    return {
        {"ours_us", median(ours)}, {"bare_us", median(bare)}, {"overhead_us", median(differences)}, {"loss", loss_sum}};
  }

 private:
  const OptimizerFactory factory_ = sgd({.lr = kRate, .momentum = kMomentum});
  torch::Tensor features_, targets_;
};
VOLADOR_TRAINING_OPERATOR(Overhead);

std::vector<Row> measure_overhead(const Options& options) {
  Row row{.name = "train_overhead",
          .unit = "us",
          .value_max = 50,
          .note = "a step by the default methods, less one by hand"};
  Row step{.name = "train_overhead/step", .unit = "us", .beside = "LibTorch loop"};
  step.note = "MLP 64-32-10, the same optimizer and data";
  for (int round = 0; round < options.rounds; ++round) {
    TorchTrainer<Overhead> trainer({.num_workers = 1, .storage = "none"});
    const Metrics metrics = trainer.train();
    row.ours.push_back(metrics.at("overhead_us"));
    step.ours.push_back(metrics.at("ours_us"));
    step.peers.push_back(metrics.at("bare_us"));
  }
  return {row, step};
}

}  // namespace

double first_step_seconds(int ranks) {
  const auto begin = Clock::now();
  TorchTrainer<Steps> trainer(trainer_options("mlp", ranks, kWarmup));
  trainer.train({.num_steps = 1});
  return seconds_since(begin);
}

std::vector<Bench> step_benches() {
  std::vector<Bench> benches;
  for (const std::string_view name : kModelNames) {
    const std::string model(name);
    benches.push_back({"ddp_step/" + model, [model](const Options& options) {
                         return measure_steps(options, model, options.ranks, model == "cnn" ? 0.9 : 0.6);
                       }});
  }
  for (const std::string_view name : kModelNames) {
    const std::string model(name);
    benches.push_back(
        {"ddp_single/" + model, [model](const Options& options) { return measure_steps(options, model, 1, 0); }});
  }
  for (const std::string compression : {"bfloat16", "float16", "power_sgd"}) {
    benches.push_back({"ddp_compressed/" + compression,
                       [compression](const Options& options) { return measure_compression(options, compression); }});
  }
  benches.push_back({"ddp_start", measure_start});
  benches.push_back({"train_overhead", measure_overhead});
  return benches;
}

}  // namespace volador::train::bench
