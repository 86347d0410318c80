// Checks training by actors on a GPU: a private cluster whose workers share it, with a worker killed on the way. One line
// a check, "ok" or "FAIL", with times; exit code 1 if one failed. scripts/gpu_check.sh --trainer builds and runs it.
//
//   gpu_trainer [--cpu]   --cpu: without the GPU; tests this program
#include <fmt/format.h>
#include <signal.h>
#include <train/train.h>
#include <volador/volador.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;
using train::Compression;
using train::Config;

bool on_cpu = false;

constexpr int64_t kClasses = 10, kPixels = 256, kTrainRows = 4096, kBatchRows = 256;

// Vectors of ten classes, each a pattern with noise.
train::DatasetPtr patterns(int64_t count, uint64_t seed) {
  const auto random = [](at::IntArrayRef sizes, uint64_t of) {
    return torch::randn(sizes, at::make_generator<at::CPUGeneratorImpl>(of));
  };
  const torch::Tensor labels = torch::arange(count) % kClasses;
  return train::tensor_dataset(
      {random({kClasses, kPixels}, 1).index_select(0, labels) + random({count, kPixels}, seed), labels});
}

// The metric "differing" is the number of parameters that are not equal on all ranks after a call of train().
class Patterns : public train::TrainingOperator {
 public:
  void setup(const Config& config) override {
    const int64_t width = config.integer("width");
    auto net = torch::nn::Sequential(
        torch::nn::Linear(kPixels, width), torch::nn::Tanh(), torch::nn::Linear(width, width), torch::nn::Tanh(),
        torch::nn::Linear(width, width), torch::nn::Tanh(), torch::nn::Linear(width, kClasses));
    net_ = std::get<0>(register_all(net, train::adamw({.lr = config.real("lr")}), train::cross_entropy()));
    register_data({.train = patterns(kTrainRows, 2),
                   .validation = patterns(512, 3),
                   .batch_size = kBatchRows,
                   .loader_threads = 1});
    const std::string compression = config.text("compression");
    if (compression == "bfloat16") compress_gradients(Compression::kBFloat16);
    if (compression == "PowerSGD") compress_gradients(Compression::kPowerSgd, {.rank = 4, .start_step = 20});
  }
  train::Metrics train_epoch(train::BatchIterator& batches, const train::EpochInfo& info) override {
    TrainingOperator::train_epoch(batches, info);
    const torch::NoGradGuard no_grad;
    const torch::Tensor differing = torch::zeros({1});
    for (const torch::Tensor& parameter : net_->parameters()) {
      const torch::Tensor first = parameter.detach().clone();
      broadcast(first);
      differing.add_(torch::equal(first, parameter) ? 0 : 1);
    }
    all_reduce(differing);
    return {{"differing", differing.item<double>()}, {"on_gpu", device().is_cuda() ? 1.0 : 0.0}};
  }

 private:
  torch::nn::Sequential net_ = nullptr;
};
VOLADOR_TRAINING_OPERATOR(Patterns);

using Trainer = train::TorchTrainer<Patterns>;

train::TrainerOptions options(const std::string& compression, const std::string& backend = "shared", int workers = 2) {
  train::TrainerOptions options{
      .num_workers = workers,
      .resources_per_worker = {.cpus = 1},
      .config = {{"width", on_cpu ? 64 : 3456}, {"lr", on_cpu ? 3e-3 : 1e-4}, {"compression", compression}},
      .seed = 5,
      .backend = backend,
      .hang_timeout = 30s,
      .storage = "none"};
  if (!on_cpu) options.resources_per_worker.gpus = 1.0 / workers;
  return options;
}

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw std::runtime_error(otherwise);
}

// Trains an epoch and checks it. Returns its metrics.
train::Metrics epoch_of(Trainer& trainer) {
  train::Metrics metrics = trainer.train({.profile = true});
  expect(metrics.at("differing") == 0, fmt::format("{} parameters differ between the ranks", metrics.at("differing")));
  expect((metrics.at("on_gpu") > 0) != on_cpu, "the ranks are on another device");
  return metrics;
}

std::string learns(const train::TrainerOptions& given) {
  Trainer trainer(given);
  const double first = epoch_of(trainer).at("train_loss");
  train::Metrics last;
  for (int i = 0; i < 3; ++i) last = epoch_of(trainer);
  const double accuracy = trainer.validate().at("val_accuracy");
  expect(last.at("train_loss") < first / 2,
         fmt::format("the loss fell from {:.4f} to {:.4f} only", first, last.at("train_loss")));
  expect(accuracy > 0.9, fmt::format("accuracy of validation {:.3f}, expected above 0.9", accuracy));
  return fmt::format(
      "loss {:.4f} -> {:.4f}, accuracy {:.3f}, {:.2f} ms a step, of them {:.2f} ms waiting for gradients", first,
      last.at("train_loss"), accuracy, 1e3 * last.at("mean_step_s"), 1e3 * last.at("mean_communication_s"));
}

std::string survives_a_kill() {
  Trainer trainer(options(""));
  const double first = epoch_of(trainer).at("train_loss");
  ::kill(trainer.worker_pids().back(), SIGKILL);
  trainer.train();
  const double last = epoch_of(trainer).at("train_loss");
  expect(trainer.failures() == 1, fmt::format("{} failures, expected 1", trainer.failures()));
  expect(trainer.epoch() == 3 && trainer.step() == 3 * kTrainRows / kBatchRows, "steps were lost or repeated");
  expect(last < first, "the loss does not fall");
  return fmt::format("epoch {}, loss {:.4f} -> {:.4f}", trainer.epoch(), first, last);
}

std::string checkpoint() {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / fmt::format("gpu-trainer-{}.pt", ::getpid());
  Trainer one(options(""));
  one.train();
  one.save(file);
  const double expected = one.validate().at("val_loss");
  one.shutdown();
  Trainer two(options(""));
  two.load(file);
  std::filesystem::remove(file);
  const double found = two.validate().at("val_loss");
  expect(found == expected, fmt::format("loss of validation {} after loading, {} before", found, expected));
  return fmt::format("loss of validation {:.6f} before and after", found);
}

}  // namespace

int main(int argc, char** argv) try {
  for (int i = 1; i < argc; ++i) on_cpu = on_cpu || std::string(argv[i]) == "--cpu";
  auto cluster = volador::init(
      argc, argv, {.address = "local", .num_cpus = 8, .num_gpus = on_cpu ? 0 : 1, .logs_to_driver = false});
  const std::pair<const char*, std::function<std::string()>> checks[] = {
      {"one worker", [] { return learns(options("", "shared", 1)); }},
      {"two workers, shared memory", [] { return learns(options("")); }},
      {"two workers, compressed to bfloat16", [] { return learns(options("bfloat16")); }},
      {"two workers, compressed by PowerSGD", [] { return learns(options("PowerSGD")); }},
      {"two workers, Gloo", [] { return learns(options("", "gloo")); }},
      {"two workers, one is killed", survives_a_kill},
      {"two workers, checkpoint", checkpoint},
  };
  int failed = 0;
  for (const auto& [name, check] : checks) {
    const auto begin = std::chrono::steady_clock::now();
    std::string text;
    bool is_ok = true;
    try {
      text = check();
    } catch (const std::exception& e) {
      text = e.what();
      is_ok = false;
      ++failed;
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    std::printf("%-8s trainer, %s: %s [%.1f s]\n", is_ok ? "ok" : "FAIL", name, text.c_str(), passed.count());
    std::fflush(stdout);
  }
  std::printf("gpu_trainer: %d failed\n", failed);
  return failed > 0 ? 1 : 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "gpu_trainer: %s\n", e.what());
  return 2;
}
