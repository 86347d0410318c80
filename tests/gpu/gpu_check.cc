// Checks training on a GPU: one line a check, "ok", "FAIL" or "skipped", with times and differences; exit code 1 if one
// failed. scripts/gpu_check.sh compiles it on a machine that has LibTorch and little else, so it uses no GoogleTest.
//
//   gpu_check [--cpu] [--list] [--limit=SECONDS] [NAME…]
//
//   --cpu     uses the CPU in place of the GPU, where that is possible: tests this program
//   --list    prints the names of the checks
//   --limit   time of one check, by default 120 s
//   NAME      runs only the checks whose names contain one of these
//
// The checks run in a child process. Where one crashes or does not end, it has failed and a new child does the others.
#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <limits>
#include <sstream>
#include <thread>

#include "runtime/result.h"
#include "train/group/backend_group.h"
#include "train/group/gradient_reducer.h"
#include "train/group/shared_group.h"
#include "train/operator/rank_loop.h"
#include "train/optim/clip.h"
#include "train/optim/grad_scaler.h"
#include "train/optim/optimizers.h"
#include "train/optim/state_dict.h"

namespace volador::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Tensors = std::vector<torch::Tensor>;
namespace F = torch::nn::functional;
namespace nn = torch::nn;

// -- Results of a check --

struct Skipped : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void expect(bool condition, const std::string& otherwise) {
  if (!condition) throw Failed(otherwise);
}
// Returns the difference as text; NaN is too large.
std::string near(const std::string& what, double difference, double limit) {
  const std::string text = fmt::format("{} {:.1e}", what, difference);
  expect(difference <= limit, fmt::format("{}, expected at most {:.0e}", text, limit));
  return text;
}

// -- The device --

bool on_cpu = false;

void require_gpu() {
  if (on_cpu) throw Skipped("not on the CPU");
}
torch::Device device() { return on_cpu ? torch::Device(torch::kCPU) : torch::Device(torch::kCUDA, 0); }
void synchronize() {
  if (!on_cpu) torch::cuda::synchronize();
}
// Milliseconds of one of `count` calls: the shortest of some series.
template <class Call>
double milliseconds(int count, Call call, int series = 4) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= series; ++i) {
    synchronize();
    const auto begin = Clock::now();
    for (int j = 0; j < count; ++j) call();
    synchronize();
    const std::chrono::duration<double, std::milli> passed = Clock::now() - begin;
    if (i > 0) best = std::min(best, passed.count() / count);  // The first one warms up.
  }
  return best;
}
torch::Tensor random(at::IntArrayRef sizes, uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(sizes, generator);
}
// The largest difference of two elements, relative to the largest element of its tensor if that is above 1.
double distance(const Tensors& a, const Tensors& b) {
  expect(a.size() == b.size(), "the numbers of tensors differ");
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const torch::Tensor x = a[i].detach().cpu().to(torch::kDouble), y = b[i].detach().cpu().to(torch::kDouble);
    const double difference = ((x - y).abs().max() / x.abs().max().clamp_min(1)).item<double>();
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

// -- Training runs --

constexpr int64_t kClasses = 10;
constexpr int64_t kSide = 16;  // Pixels.

// Images of ten classes, each a pattern with noise; vectors are the same without their shape.
DatasetPtr images(int64_t count, uint64_t seed) {
  const torch::Tensor labels = torch::arange(count) % kClasses;
  const torch::Tensor patterns = random({kClasses, 1, kSide, kSide}, 1);
  return tensor_dataset({patterns.index_select(0, labels) + random({count, 1, kSide, kSide}, seed), labels});
}

int64_t wide_width() { return on_cpu ? 64 : 3456; }

nn::Sequential make_model(const std::string& name, double dropout = 0) {
  nn::Sequential model;
  if (name == "cnn" || name == "cnn with batch norm") {
    int64_t channels = 1;
    for (const int64_t width : {16, 32}) {
      model->push_back(nn::Conv2d(nn::Conv2dOptions(channels, width, 3).padding(1)));
      if (name != "cnn") model->push_back(nn::BatchNorm2d(width));
      model->push_back(nn::ReLU());
      model->push_back(nn::MaxPool2d(2));
      channels = width;
    }
    model->push_back(nn::Flatten());
    model->push_back(nn::Linear(channels * kSide / 4 * kSide / 4, kClasses));
    return model;
  }
  model->push_back(nn::Flatten());
  const auto layers = [&](int64_t width, int count) {
    int64_t inputs = kSide * kSide;
    for (int i = 0; i < count; ++i) {
      model->push_back(nn::Linear(inputs, width));
      model->push_back(nn::Tanh());
      if (dropout > 0) model->push_back(nn::Dropout(dropout));
      inputs = width;
    }
    model->push_back(nn::Linear(inputs, kClasses));
  };
  if (name == "mlp") layers(512, 3);
  if (name == "wide") layers(wide_width(), 3);  // 24.8 million parameters on a GPU.
  if (name == "deep") layers(64, 100);
  return model;
}

class Task : public TrainingOperator {
 public:
  void setup(const Config& config) override {
    const double lr = config.get_or("lr", 0.05);
    const bool is_adamw = config.get_or("optimizer", "sgd") == "adamw";
    register_all(make_model(config.get_or("model", "mlp"), config.get_or("dropout", 0.0)),
                 is_adamw ? adamw({.lr = lr}) : sgd({.lr = lr, .momentum = 0.9}), cross_entropy());
    register_data({.train = images(config.get_or("rows", 1024), 2),
                   .validation = images(256, 3),
                   .batch_size = config.get_or("batch", 64),
                   .micro_batch = config.get_or("micro_batch", 0),
                   .loader_threads = static_cast<int>(config.get_or("threads", 0))});
    const std::string autocast = config.get_or("autocast", "");
    if (!autocast.empty()) use_autocast(autocast == "float16" ? torch::kHalf : torch::kBFloat16);
    if (config.contains("clip")) clip_gradients({.clip_norm = config.real("clip")});
    if (config.contains("policy")) on_nan(static_cast<NanPolicy>(config.integer("policy")));
    const std::string compression = config.get_or("compression", "");
    if (compression == "bfloat16") compress_gradients(Compression::kBFloat16);
    if (compression == "PowerSGD") compress_gradients(Compression::kPowerSgd, {.rank = 4, .start_step = 4});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo& info) override {
    if (info.step != config().get_or("nan_at", -1)) return TrainingOperator::train_batch(batch, info);
    backward(F::cross_entropy(forward(batch), batch.target()) * std::numeric_limits<double>::quiet_NaN());
    step();
    return {};
  }
};
VOLADOR_TRAINING_OPERATOR(Task);

BackendOptions backend_options(const std::string& backend, int rank, int world, std::shared_ptr<Rendezvous> table) {
  return {.backend = backend,
          .rank = rank,
          .world = world,
          .run = "check",
          .rendezvous = std::move(table),
          .join_timeout = 30s,
          .timeout = 30s};
}

// A group of ranks that are threads. group: "gloo", "nccl" or "shared" (memory).
struct Meeting {
  std::unique_ptr<Group> join(const std::string& group, int rank, int world, int64_t arena_bytes,
                              uint64_t layout) const {
    if (group != "shared") return join_backend_group(backend_options(group, rank, world, table));
    return join_shared_group({.segment = file.offer(),
                              .rank = rank,
                              .node_of_rank = std::vector<int>(static_cast<size_t>(world)),
                              .arena_bytes = arena_bytes,
                              .layout = layout});
  }
  SegmentFile file = SegmentFile::create().value();
  std::shared_ptr<Rendezvous> table = std::make_shared<LocalRendezvous>();
};

// Calls function(rank) in a thread for each rank; throws what one of them throws.
template <class Function>
auto each_rank(int world, Function function) -> std::vector<decltype(function(0))> {
  std::vector<std::future<decltype(function(0))>> running;
  for (int rank = 0; rank < world; ++rank) running.push_back(std::async(std::launch::async, function, rank));
  std::vector<decltype(function(0))> results;
  for (auto& one : running) one.wait();
  for (auto& one : running) results.push_back(one.get());
  return results;
}

// A training run whose ranks are threads and share the device. They start with equal parameters.
class Run {
 public:
  // group: as Meeting's, or empty for one rank alone.
  explicit Run(const Config& config, int world = 1, const std::string& group = "", bool use_gpu = !on_cpu) {
    for (int rank = 0; rank < world; ++rank) {
      loops_.push_back(std::make_unique<RankLoop>(
          RankOptions{.operator_name = OperatorEntry<Task>::name, .seed = 5, .use_gpu = use_gpu}, config));
    }
    const std::string first = to_bytes(loops_[0]->state());
    each_rank(world, [&](int rank) {
      RankLoop& loop = *loops_[static_cast<size_t>(rank)];
      loop.load(from_bytes(first));
      loop.form(group.empty() ? single_rank_group()
                              : meeting_.join(group, rank, world, loop.arena_bytes(world), loop.layout()));
      return 0;
    });
  }

  RankLoop& loop(size_t rank = 0) { return *loops_[rank]; }
  std::vector<SegmentReply> run(const SegmentRequest& request) {
    if (loops_.size() == 1) return {loops_[0]->run(request)};
    auto replies = each_rank(static_cast<int>(loops_.size()),
                             [&](int rank) { return loops_[static_cast<size_t>(rank)]->run(request); });
    for (const auto& reply : replies) expect(reply.end == SegmentEnd::kFinished, "aborted: " + reply.reason);
    return replies;
  }
  // Trains so many epochs and returns the mean losses of the first and the last.
  std::pair<double, double> train(int64_t epochs) {
    std::pair<double, double> losses;
    for (int64_t i = 0, first = loop().epoch(); i < epochs; ++i) {
      MetricSums sums;
      for (const auto& reply : run({.epoch = first + i})) sums.add_rank(reply.metrics);
      losses.second = sums.means(false).at("train_loss");
      if (i == 0) losses.first = losses.second;
    }
    return losses;
  }
  Metrics validate() { return run({.is_training = false})[0].metrics.means(false); }
  Tensors parameters(size_t rank = 0) const {
    Tensors tensors;
    const auto models = loops_[rank]->state().toGenericDict().at("models_state_dict").toList();
    for (const auto& item : models.get(0).toGenericDict()) tensors.push_back(item.value().toTensor().cpu().clone());
    return tensors;
  }

 private:
  const Meeting meeting_;
  std::vector<std::unique_ptr<RankLoop>> loops_;
};

// -- Checks --

// The name of the GPU from the driver, without headers of CUDA.
std::string gpu_name() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return "unknown GPU";
  const auto init = reinterpret_cast<int (*)(unsigned)>(::dlsym(driver, "cuInit"));
  const auto get = reinterpret_cast<int (*)(int*, int)>(::dlsym(driver, "cuDeviceGet"));
  const auto name_of = reinterpret_cast<int (*)(char*, int, int)>(::dlsym(driver, "cuDeviceGetName"));
  char name[256] = "";
  int handle = 0;
  const bool is_known = init(0) == 0 && get(&handle, 0) == 0 && name_of(name, sizeof(name) - 1, handle) == 0;
  return is_known ? name : "unknown GPU";
}

int nccl_version() {
  int version = 0;
  const auto get = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  if (get != nullptr) get(&version);
  return version;
}

std::string environment() {
  require_gpu();
  const auto& hooks = at::detail::getCUDAHooks();
  expect(std::string(TORCH_VERSION).find(fmt::format("{}.{}", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR)) == 0,
         "the headers disagree about LibTorch's version");
  return fmt::format("{} of {}, LibTorch {}, CUDA {}, cuDNN {}, NCCL {}", gpu_name(), torch::cuda::device_count(),
                     TORCH_VERSION, hooks.versionCUDART(), hooks.versionCuDNN(), nccl_version());
}

std::string learns(const Config& config) {
  Run run(config);
  const auto [first, last] = run.train(4);
  expect(last < first / 2, fmt::format("the loss fell from {:.4f} to {:.4f} only", first, last));
  const double accuracy = run.validate().at("val_accuracy");
  expect(accuracy > 0.9, fmt::format("accuracy of validation {:.3f}, expected above 0.9", accuracy));
  return fmt::format("loss {:.4f} -> {:.4f}, accuracy {:.3f}", first, last, accuracy);
}

std::string cnn_equals_cpu() {
  const Config config{{"model", "cnn with batch norm"}};
  Run gpu(config), cpu(config, 1, "", false);
  near("initial parameters", distance(cpu.parameters(), gpu.parameters()), 0);
  const auto on_gpu = gpu.train(1), on_host = cpu.train(1);
  const std::string text = near("16 steps: parameters", distance(cpu.parameters(), gpu.parameters()), 1e-3);
  return text + near(", loss", std::abs(on_gpu.first - on_host.first), 1e-3) +
         near(", loss of validation", std::abs(gpu.validate().at("val_loss") - cpu.validate().at("val_loss")), 1e-3);
}

std::string bfloat16() {
  const auto type_of = [](bool is_enabled) {
    const torch::Tensor matrix = torch::ones({8, 8}, device());
    const AutocastGuard guard(device().type(), torch::kBFloat16, is_enabled);
    return torch::matmul(matrix, matrix).scalar_type();
  };
  expect(type_of(true) == torch::kBFloat16 && type_of(false) == torch::kFloat, "the guard does not set the type");
  return learns({{"model", "cnn with batch norm"}, {"autocast", "bfloat16"}});
}

std::string float16() {
  require_gpu();
  Run run({{"model", "cnn"}, {"autocast", "float16"}, {"clip", 10.0}});
  const auto [first, last] = run.train(4);
  expect(last < first / 2, fmt::format("the loss fell from {:.4f} to {:.4f} only", first, last));
  const auto scaler = run.loop().state().toGenericDict().at("volador").toGenericDict().at("scaler").toGenericDict();
  const int64_t good = scaler.at("_growth_tracker").toInt();
  expect(good > 0, "the scaler has counted no step");
  return fmt::format("loss {:.4f} -> {:.4f}, scale {}, {} finite steps since", first, last,
                     scaler.at("scale").toDouble(), good);
}

// A finite step changes the parameter; an infinite one leaves it and halves the scale.
std::string gradient_scaler() {
  torch::Tensor parameter = torch::ones({1000}, device()).requires_grad_();
  SGD optimizer({parameter}, SGDOptions(0.5));
  GradScaler scaler({.init_scale = 1024});
  const auto step = [&](double factor) {
    optimizer.zero_grad();
    scaler.scale((parameter * factor).sum()).backward();
    const bool is_done = scaler.step(optimizer);
    scaler.update();
    return is_done;
  };
  expect(step(1) && parameter.eq(0.5).all().item<bool>(), "a finite step has another result");
  expect(!step(std::numeric_limits<double>::infinity()), "an infinite step was carried out");
  expect(parameter.eq(0.5).all().item<bool>() && scaler.current_scale() == 512, "an infinite step changed something");
  return "finite step done, infinite step left out, scale 1024 -> 512";
}

// Parameters after some steps with given gradients.
template <class Optimizer, class Options>
Tensors stepped(torch::Device where, const Options& options) {
  Tensors parameters;
  for (const int64_t size : {1, 7, 64, 1000, 4097}) {
    parameters.push_back(random({size, 3}, static_cast<uint64_t>(size)).to(where).requires_grad_());
  }
  Optimizer optimizer(parameters, options);
  for (uint64_t step = 0; step < 10; ++step) {
    for (torch::Tensor& parameter : parameters) {
      parameter.mutable_grad() = random(parameter.sizes(), 100 + step).to(where);
    }
    optimizer.step();
  }
  return parameters;
}

std::string optimizers_equal_cpu() {
  double largest = 0;
  const auto compare = [&](const char* name, const auto& run) {
    const double difference = distance(run(torch::Device(torch::kCPU)), run(device()));
    near(name, difference, 1e-4);
    largest = std::max(largest, difference);
  };
  using torch::Device;
  compare("SGD",
          [](Device at) { return stepped<SGD>(at, SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.1)); });
  compare("Adam", [](Device at) { return stepped<Adam>(at, AdamOptions(0.01).amsgrad(true).weight_decay(0.1)); });
  compare("AdamW", [](Device at) { return stepped<AdamW>(at, AdamWOptions(0.01).weight_decay(0.1)); });
  compare("Adagrad", [](Device at) { return stepped<Adagrad>(at, AdagradOptions(0.1)); });
  compare("RMSprop", [](Device at) { return stepped<RMSprop>(at, RMSpropOptions(0.01).momentum(0.9).centered(true)); });
  compare("Adadelta", [](Device at) { return stepped<Adadelta>(at, AdadeltaOptions(1.0)); });
  compare("Adamax", [](Device at) { return stepped<Adamax>(at, AdamaxOptions(0.01)); });
  compare("NAdam", [](Device at) { return stepped<NAdam>(at, NAdamOptions(0.01).weight_decay(0.1)); });
  compare("RAdam", [](Device at) { return stepped<RAdam>(at, RAdamOptions(0.01).decoupled_weight_decay(true)); });
  Tensors gradients;
  const auto clipped = [](Device at) {
    Tensors parameters;
    for (const int64_t size : {5, 300}) {
      parameters.push_back(torch::zeros({size}, at).requires_grad_());
      parameters.back().mutable_grad() = random({size}, static_cast<uint64_t>(size)).to(at);
    }
    const double norm = clip_grad_norm_(parameters, 1);
    Tensors all{torch::tensor(norm)};
    for (const torch::Tensor& parameter : parameters) all.push_back(parameter.grad());
    return all;
  };
  compare("clip_grad_norm_", clipped);
  return fmt::format("9 optimizers and clipping: largest difference {:.1e}", largest);
}

// Milliseconds of a step for 192 tensors with 25 million parameters together, and for as many with 0.1 million.
template <class Optimizer, class Options>
std::pair<double, double> time_of(const Options& options) {
  const auto time = [&](int64_t side) {
    Tensors parameters;
    for (int i = 0; i < 96; ++i) {
      for (const auto& sizes : {std::vector<int64_t>{side, side}, std::vector<int64_t>{side}}) {
        parameters.push_back(torch::ones(sizes, device()).requires_grad_());
        parameters.back().mutable_grad() = torch::ones(sizes, device());
      }
    }
    Optimizer optimizer(parameters, options);
    return milliseconds(on_cpu ? 2 : 20, [&] { optimizer.step(); });
  };
  return {time(on_cpu ? 64 : 512), time(32)};
}

std::string adamw_time() {
  const auto ours = time_of<AdamW>(AdamWOptions(1e-3)), torchs = time_of<torch::optim::AdamW>(AdamWOptions(1e-3));
  return fmt::format("192 tensors, large: {:.3f} ms, torch::optim::AdamW {:.3f} ms; small: {:.3f} ms, {:.3f} ms",
                     ours.first, torchs.first, ours.second, torchs.second);
}

std::string checkpoint() {
  const Config config{{"model", "mlp"}, {"optimizer", "adamw"}, {"lr", 1e-3}};
  const auto path = std::filesystem::temp_directory_path() / fmt::format("volador-gpu-check-{}.pth", ::getpid());
  const auto move = [&](Run& from, Run& to) {
    save_file(path, from.loop().state());
    to.loop().load(load_file(path));
    expect(to_bytes(from.loop().state()) == to_bytes(to.loop().state()), "the state differs after loading");
  };
  Run gpu(config), cpu(config, 1, "", false), again(config);
  gpu.train(1);
  move(gpu, cpu);
  move(cpu, again);
  std::filesystem::remove(path);
  cpu.train(1);
  gpu.train(1);
  again.train(1);
  return near("one more epoch: restored GPU", distance(gpu.parameters(), again.parameters()), 1e-5) +
         near(", CPU", distance(gpu.parameters(), cpu.parameters()), 1e-3);
}

// Dropout on the device repeats its random numbers after a restart.
std::string resume_with_dropout() {
  const Config config{{"model", "mlp"}, {"dropout", 0.3}};
  Run whole(config), first(config), second(config);
  whole.run({.epoch = 0, .until_step = 5});
  whole.run({.epoch = 0});
  first.run({.epoch = 0, .until_step = 5});
  second.loop().load(from_bytes(to_bytes(first.loop().state())));
  second.run({.epoch = 0});
  return near("parameters", distance(whole.parameters(), second.parameters()), 1e-6);
}

std::string accumulation() {
  Run whole(Config::map()), pieces({{"micro_batch", 24}}), threads({{"threads", 2}});
  whole.train(1);
  pieces.train(1);
  threads.train(1);
  return near("micro-batches", distance(whole.parameters(), pieces.parameters()), 1e-4) +
         near(", loader threads", distance(whole.parameters(), threads.parameters()), 1e-6);
}

std::string pinned_loader() {
  const torch::Tensor rows = random({4096, 2048}, 7);
  const int64_t batch_rows = 256;
  Loader loader(tensor_dataset({rows}), {.threads = 2, .prefetch = 2, .pin_memory = true});
  int64_t position = 0;
  loader.start([&]() -> std::optional<Share> {
    if (position == rows.size(0)) return std::nullopt;
    std::vector<int64_t> taken;
    for (int64_t i = 0; i < batch_rows; ++i) taken.push_back((position + i) * 1237 % rows.size(0));
    position += batch_rows;
    return share_of(std::move(taken));
  });
  // The copies are not waited for, so their pinned source is free for the next batches while they run.
  Tensors copies, expected;
  while (auto loaded = loader.next()) {
    if (!on_cpu) expect(loaded->batch.features().is_pinned(), "a batch is not in page-locked memory");
    copies.push_back(loaded->batch.to(device(), true).features());
    const auto taken = loaded->share.rows;
    expected.push_back(rows.index_select(0, torch::tensor(std::vector<int64_t>(taken.begin(), taken.end()))));
  }
  synchronize();
  expect(copies.size() == 16, fmt::format("{} batches, expected 16", copies.size()));
  near("copies", distance(expected, copies), 0);
  return "16 batches of 2 MiB arrived unchanged";
}

std::string nan_policies() {
  Run skipping({{"nan_at", 3}, {"policy", static_cast<int64_t>(NanPolicy::kSkip)}});
  skipping.run({.epoch = 0});
  for (const torch::Tensor& parameter : skipping.parameters()) {
    expect(parameter.isfinite().all().item<bool>(), "kSkip: a NaN loss reached the parameters");
  }
  Run raising({{"nan_at", 3}, {"policy", static_cast<int64_t>(NanPolicy::kRaise)}});
  try {
    raising.run({.epoch = 0});
  } catch (const Exception& e) {
    return "kSkip leaves the step out, kRaise throws";
  }
  throw Failed("kRaise: a NaN loss was not noticed");
}

// -- Groups --

void require_nccl() {
  require_gpu();
  const char* plugin = std::getenv("VOLADOR_NCCL_PLUGIN");
  if (plugin == nullptr) throw Skipped("the plug-in for NCCL was not built");
}

// All operations of a group whose world is one rank.
std::string operations(const std::string& backend) {
  const auto group = join_backend_group(backend_options(backend, 0, 1, std::make_shared<LocalRendezvous>()));
  expect(group->transport() == backend, "another transport");
  for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kHalf, torch::kDouble, torch::kLong}) {
    for (const torch::Device& at : {device(), torch::Device(torch::kCPU)}) {
      const torch::Tensor expected = torch::arange(1000, at).to(type);
      torch::Tensor tensor = expected.clone();
      group->all_reduce(tensor);
      group->broadcast(tensor, 0);
      expect(tensor.equal(expected), fmt::format("a sum of {} on {} changed it", c10::toString(type), at.str()));
    }
  }
  group->barrier();
  const BucketPlan plan = plan_buckets({{.name = "a", .elements = 300'000}, {.name = "b", .elements = 700'000}},
                                       {.first_bytes = 1 << 20, .bytes = 1 << 20, .control_words = 3});
  const auto exchange = group->exchange(
      plan, std::vector<torch::TensorOptions>(plan.buckets.size(), torch::dtype(torch::kFloat).device(device())));
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < plan.buckets.size(); ++i) {
      exchange->input(i).fill_(step + static_cast<double>(i));
      exchange->post(i);
    }
    exchange->finish();
    for (size_t i = 0; i < plan.buckets.size(); ++i) {
      expect(exchange->result(i).eq(step + static_cast<double>(i)).all().item<bool>(), "an exchange changed a bucket");
    }
  }
  group->abort("the check ends it");
  try {
    group->barrier();
  } catch (const GroupAborted&) {
    return "all_reduce and broadcast of 5 types, barrier, exchange, abort";
  }
  throw Failed("an aborted group goes on");
}

std::string nccl_run() {
  require_nccl();
  Run alone(Config::map()), nccl(Config::map(), 1, "nccl");
  alone.train(1);
  nccl.train(1);
  return near("parameters beside a run without a group", distance(alone.parameters(), nccl.parameters()), 1e-6);
}

// Gradients of ranks with parts of a batch, against those of the whole batch.
std::string hooks(const std::string& group_name, int world, const ReducerOptions& options = {}, double limit = 1e-5) {
  constexpr int64_t kRows = 64;
  constexpr int kSteps = 10;
  const auto rows_of = [&](int rank) { return rank == 0 ? kRows - 24 * (world - 1) : int64_t{24}; };  // Unequal shares.
  auto model = make_model("mlp");
  model->to(device());
  const auto input = [&](int step) {
    return random({kRows, kSide * kSide}, 50 + static_cast<uint64_t>(step)).to(device());
  };
  const torch::Tensor labels = (torch::arange(kRows) % kClasses).to(device());
  std::vector<Tensors> expected;
  for (int step = 0; step < kSteps; ++step) {
    model->zero_grad();
    F::cross_entropy(model->forward(input(step)), labels).backward();
    expected.emplace_back();
    for (const torch::Tensor& parameter : model->parameters())
      expected.back().push_back(parameter.grad().cpu().clone());
  }
  model->zero_grad();
  const auto state = module_state(*model);
  const Meeting meeting;
  const auto differences = each_rank(world, [&](int rank) {
    auto own = make_model("mlp");
    own->to(device());
    load_module_state(*own, state);
    GradientReducer reducer(own->parameters(), options);
    expect(reducer.plan().buckets.size() > 1, "the model has one bucket only");
    const auto group = meeting.join(group_name, rank, world, reducer.arena_bytes(world), reducer.layout());
    reducer.attach(*group);
    int64_t from = 0;
    for (int i = 0; i < rank; ++i) from += rows_of(i);
    double largest = 0;
    // Work that keeps the device behind the host: a bucket must not be read before its gradients are computed.
    const torch::Tensor load = torch::full({on_cpu ? 64 : 4096, on_cpu ? 64 : 4096}, 1e-4, device());
    for (int step = 0; step < kSteps; ++step) {
      const torch::Tensor x = input(step).narrow(0, from, rows_of(rank)), y = labels.narrow(0, from, rows_of(rank));
      torch::Tensor delay = load;
      for (int i = 0; i < 10; ++i) delay = torch::matmul(delay, load);
      const torch::Tensor loss = F::cross_entropy(own->forward(x + delay.sum() * 0), y);
      reducer.begin_backward(static_cast<double>(rows_of(rank)) / kRows, true);
      loss.backward();
      reducer.end_backward();
      const StepFlags flags = reducer.finish({.user = 1}, step % 2 == 0);
      expect(flags.user == world, fmt::format("a sum of flags is {}, expected {}", flags.user, world));
      Tensors gradients;
      for (const torch::Tensor& parameter : own->parameters()) gradients.push_back(parameter.grad().clone());
      const double difference = distance(expected[static_cast<size_t>(step)], gradients);
      if (!(difference <= largest)) largest = difference;
      reducer.clear();
    }
    return largest;
  });
  double largest = 0;
  for (const double difference : differences)
    largest = std::isnan(difference) ? difference : std::max(largest, difference);
  return near(fmt::format("{} steps of {} ranks: gradients", kSteps, world), largest, limit);
}

// Runs of several ranks on one device against one rank with the whole batch.
std::string ranks_equal_one(const std::string& group, int world) {
  std::string text;
  for (const char* model : {"mlp", "cnn"}) {
    for (const int64_t micro_batch : {0, 20}) {
      const Config config{{"model", model}, {"micro_batch", micro_batch}};
      Run one(config), several(config, world, group);
      one.train(1);
      several.train(1);
      for (int rank = 1; rank < world; ++rank) {
        near(fmt::format("parameters of ranks 0 and {}", rank),
             distance(several.parameters(0), several.parameters(static_cast<size_t>(rank))), 0);
      }
      text += near(fmt::format("{}{}{}", text.empty() ? "" : ", ", model, micro_batch > 0 ? " with micro-batches" : ""),
                   distance(one.parameters(), several.parameters()), 1e-3);
    }
  }
  return text;
}

// Whether the loaded NCCL lets two ranks use one GPU (2.30 and later).
bool nccl_takes_ranks_on_one_gpu() {
  std::string file;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        if (std::string(info->dlpi_name).find("libnccl.so") != std::string::npos)
          *static_cast<std::string*>(out) = info->dlpi_name;
        return 0;
      },
      &file);
  std::ifstream stream(file, std::ios::binary);
  std::stringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str().find("MULTI_RANK_GPU_ENABLE") != std::string::npos;
}

std::string nccl_two_ranks() {
  require_nccl();
  if (!nccl_takes_ranks_on_one_gpu()) {
    throw Skipped(fmt::format("NCCL {} does not know NCCL_MULTI_RANK_GPU_ENABLE", nccl_version()));
  }
  return hooks("nccl", 2) + "; " + ranks_equal_one("nccl", 2);
}

// Two ranks whose gradients are compressed: they learn, and their parameters are equal bit for bit.
std::string compressed_run(const std::string& compression) {
  Config config{{"rows", 2048}};
  Run whole(config, 2, "shared");
  config.set("compression", compression);
  Run compressed(config, 2, "shared");
  const double expected = whole.train(3).second;
  const auto [first, last] = compressed.train(3);
  near("parameters of ranks 0 and 1", distance(compressed.parameters(0), compressed.parameters(1)), 0);
  expect(last < first / 2, fmt::format("the loss fell from {:.4f} to {:.4f} only", first, last));
  expect(distance(whole.parameters(), compressed.parameters()) > 0, "nothing was compressed");
  return fmt::format("loss {:.4f} -> {:.4f}, of whole gradients {:.4f}", first, last, expected);
}

std::string nccl_refuses_two_ranks() {
  require_nccl();
  if (nccl_takes_ranks_on_one_gpu()) throw Skipped(fmt::format("NCCL {} takes two ranks on one GPU", nccl_version()));
  const auto table = std::make_shared<LocalRendezvous>();
  const auto messages = each_rank(2, [&](int rank) -> std::string {
    try {
      join_backend_group(backend_options("nccl", rank, 2, table));
      return {};
    } catch (const std::exception& e) {
      return e.what();
    }
  });
  for (const std::string& message : messages) expect(!message.empty(), "two ranks on one GPU formed a group");
  return messages[0];
}

// -- Step times --

// What a user would write with LibTorch alone.
template <class Optimizer>
double step_by_hand(const std::string& name, int64_t rows, int64_t batch) {
  const DatasetPtr data = images(rows, 2);
  std::vector<int64_t> all(static_cast<size_t>(rows));
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int64_t>(i);
  const Batch whole = data->rows(all);
  auto model = make_model(name);
  model->to(device());
  Optimizer optimizer(model->parameters(), AdamWOptions(1e-4));
  double sum = 0;
  const auto epoch = [&] {
    const torch::Tensor order = torch::randperm(rows, torch::kLong);
    for (int64_t from = 0; from < rows; from += batch) {
      const torch::Tensor taken = order.narrow(0, from, batch);
      const auto bring = [&](const torch::Tensor& tensor) {
        const torch::Tensor picked = tensor.index_select(0, taken);
        return on_cpu ? picked : picked.pin_memory().to(device(), true);
      };
      const torch::Tensor x = bring(whole.features()), y = bring(whole.target());
      optimizer.zero_grad();
      const torch::Tensor loss = F::cross_entropy(model->forward(x), y);
      loss.backward();
      optimizer.step();
      sum += loss.template item<double>();
    }
  };
  return milliseconds(1, epoch) / static_cast<double>(rows / batch);
}

std::string step_time(const std::string& name) {
  const int64_t batch = 256, steps = on_cpu ? 4 : 40, rows = batch * steps;
  const Config config{{"model", name}, {"optimizer", "adamw"}, {"lr", 1e-4}, {"batch", batch}, {"rows", rows}};
  Run run(config);
  StepTimes times;
  const auto of = [&](Run& measured, int series = 4) {
    const auto epoch = [&] { times = measured.run({.epoch = measured.loop().epoch()})[0].times; };
    return milliseconds(1, epoch, series) / static_cast<double>(steps);
  };
  const double ours = of(run);
  const StepTimes parts = times;
  Config with_threads = config, with_autocast = config, with_cast = config, with_factors = config;
  with_threads.set("threads", 2);
  with_autocast.set("autocast", "bfloat16");
  with_cast.set("compression", "bfloat16");
  with_factors.set("compression", "PowerSGD");
  Run threads(with_threads), autocast(with_autocast), gloo(config, 2, "gloo"), shared(config, 2, "shared");
  Run cast(with_cast, 2, "shared"), factors(with_factors, 2, "shared");
  const double by_hand = step_by_hand<AdamW>(name, rows, batch);
  const double plain = step_by_hand<torch::optim::AdamW>(name, rows, batch);
  const auto part = [&](double seconds) { return seconds * 1e3 / static_cast<double>(steps); };
  return fmt::format(
      "{:.1f} M parameters: RankLoop {:.3f} ms, by hand {:.3f} ms (torch::optim::AdamW {:.3f} ms); two loader threads "
      "{:.3f} ms, bfloat16 {:.3f} ms; two ranks by Gloo {:.3f} ms, through shared memory {:.3f} ms, compressed to "
      "bfloat16 "
      "{:.3f} ms, by PowerSGD {:.3f} ms; host: data {:.3f}, forward {:.3f}, backward {:.3f}, optimizer {:.3f} ms",
      static_cast<double>(run.loop().parameter_count()) / 1e6, ours, by_hand, plain, of(threads), of(autocast),
      of(gloo, 1), of(shared, 2), of(cast, 2), of(factors, 2), part(parts.data), part(parts.forward),
      part(parts.backward), part(parts.optimizer));
}

struct Check {
  const char* name;
  std::function<std::string()> run;
};

// Those that could block come last.
const std::vector<Check>& checks() {
  static const std::vector<Check> all{
      {"environment", environment},
      {"training of a CNN",
       [] {
         return learns({{"model", "cnn with batch norm"}});
       }},
      {"training equals the CPU", cnn_equals_cpu},
      {"autocast in bfloat16", bfloat16},
      {"autocast in float16 with GradScaler", float16},
      {"GradScaler", gradient_scaler},
      {"optimizers equal the CPU", optimizers_equal_cpu},
      {"time of AdamW", adamw_time},
      {"checkpoint between GPU and CPU", checkpoint},
      {"resume with dropout", resume_with_dropout},
      {"accumulation and loader threads", accumulation},
      {"loader with pinned memory", pinned_loader},
      {"NaN policies", nan_policies},
      {"gloo, one rank", [] { return operations("gloo"); }},
      {"gloo, gradient hooks of two ranks", [] { return hooks("gloo", 2); }},
      {"gloo, gradient hooks of three ranks", [] { return hooks("gloo", 3); }},
      {"gloo, two ranks equal one", [] { return ranks_equal_one("gloo", 2); }},
      {"shared memory, gradient hooks of two ranks", [] { return hooks("shared", 2); }},
      {"shared memory, gradient hooks of three ranks", [] { return hooks("shared", 3); }},
      {"shared memory, two ranks equal one", [] { return ranks_equal_one("shared", 2); }},
      {"shared memory, gradient hooks in bfloat16",
       [] { return hooks("shared", 2, {.compression = Compression::kBFloat16}, 1e-3); }},
      {"shared memory, gradient hooks by PowerSGD",
       [] {
         return hooks("shared", 2,
                      {.compression = Compression::kPowerSgd,
                       .power_sgd = {.rank = 64, .start_step = 0, .min_compression_rate = 0.1}},
                      1e-3);
       }},
      {"shared memory, training in bfloat16", [] { return compressed_run("bfloat16"); }},
      {"shared memory, training by PowerSGD", [] { return compressed_run("PowerSGD"); }},
      {"step time of a wide MLP", [] { return step_time("wide"); }},
      {"step time of a deep MLP", [] { return step_time("deep"); }},
      {"nccl, one rank",
       [] {
         require_nccl();
         return operations("nccl");
       }},
      {"nccl, training with one rank", nccl_run},
      {"nccl, two ranks on one GPU", nccl_two_ranks},
      {"nccl, refusal of two ranks on one GPU", nccl_refuses_two_ranks},
  };
  return all;
}

// -- Running them --

enum Outcome : char { kPassed = 'p', kFailed = 'f', kSkipped = 's' };

void print(Outcome outcome, const char* name, const std::string& text) {
  const char* word = outcome == kPassed ? "ok" : outcome == kFailed ? "FAIL" : "skipped";
  std::printf("%-8s %s: %s\n", word, name, text.substr(0, text.find('\n')).c_str());
  std::fflush(stdout);
}

Outcome run(const Check& check) {
  const auto begin = Clock::now();
  const auto report = [&](Outcome outcome, const std::string& text) {
    const std::chrono::duration<double> passed = Clock::now() - begin;
    print(outcome, check.name, fmt::format("{} [{:.1f} s]", text.substr(0, text.find('\n')), passed.count()));
    return outcome;
  };
  try {
    if (!on_cpu && !torch::cuda::is_available()) throw Skipped("no CUDA device");
    const std::string text = check.run();
    synchronize();
    return report(kPassed, text);
  } catch (const Skipped& skipped) {
    return report(kSkipped, skipped.what());
  } catch (const std::exception& e) {
    return report(kFailed, e.what());
  }
}

struct Tally {
  int passed = 0, failed = 0, skipped = 0;
  void add(Outcome outcome) { ++(outcome == kPassed ? passed : outcome == kSkipped ? skipped : failed); }
};

// Runs the checks from `next` in a child and returns the first one that has not ended.
size_t run_in_child(const std::vector<Check>& chosen, size_t next, std::chrono::seconds limit, Tally& tally) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("no child process");
  if (child == 0) {
    ::close(ends[0]);
    // Convolutions and products in full precision, so that results can be compared.
    at::globalContext().setAllowTF32CuDNN(false);
    at::globalContext().setAllowTF32CuBLAS(false);
    for (size_t i = next; i < chosen.size(); ++i) {
      const Outcome outcome = run(chosen[i]);
      if (::write(ends[1], &outcome, 1) != 1) ::_exit(3);
    }
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string why;
  while (next < chosen.size()) {
    pollfd waiting{.fd = ends[0], .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(limit.count() * 1000));
    if (ready < 0 && errno == EINTR) continue;
    Outcome outcome{};
    if (ready == 0) {
      why = fmt::format("it did not end within {} s", limit.count());
      break;
    }
    if (::read(ends[0], &outcome, 1) != 1) break;
    tally.add(outcome);
    ++next;
  }
  ::close(ends[0]);
  if (!why.empty()) ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (next == chosen.size()) return next;
  if (why.empty()) {
    why = WIFSIGNALED(status) ? fmt::format("the process was ended by signal {}", WTERMSIG(status))
                              : fmt::format("the process ended with {}", WEXITSTATUS(status));
  }
  print(kFailed, chosen[next].name, why);
  tally.add(kFailed);
  return next + 1;
}

int run_all(int argc, char** argv) {
  std::chrono::seconds limit = 120s;
  std::vector<std::string> names;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--cpu") {
      on_cpu = true;
    } else if (argument == "--list") {
      for (const Check& check : checks()) std::printf("%s\n", check.name);
      return 0;
    } else if (argument.starts_with("--limit=")) {
      limit = std::chrono::seconds(std::atoi(argument.c_str() + 8));
    } else if (argument.starts_with("-")) {
      std::fprintf(stderr, "gpu_check: %s: expected --cpu, --list, --limit=SECONDS or a part of a name\n", argv[i]);
      return 2;
    } else {
      names.push_back(argument);
    }
  }
  std::vector<Check> chosen;
  for (const Check& check : checks()) {
    const std::string name = check.name;
    if (names.empty() ||
        std::any_of(names.begin(), names.end(), [&](const auto& part) { return name.find(part) != name.npos; }))
      chosen.push_back(check);
  }
  // NCCL reads it once.
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
  Tally tally;
  for (size_t next = 0; next < chosen.size();) next = run_in_child(chosen, next, limit, tally);
  std::printf("gpu_check: %d passed, %d failed, %d skipped\n", tally.passed, tally.failed, tally.skipped);
  return tally.failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace volador::train

int main(int argc, char** argv) { return volador::train::run_all(argc, argv); }
