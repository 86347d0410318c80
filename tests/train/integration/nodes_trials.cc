// Program for nodes_test.py: trains with workers on several machines and writes down what happens, so that steps that
// are lost, repeated or done by the wrong group are found.
//
// Its output has one JSON object a line, "line" says which:
//   changed  whenever the group or what explain() says is another one: pids by rank, explain
//   epoch    after each train(): epoch, step, world, failures, num_samples, loss, pids by rank, and uses_min and
//            uses_max: how often the state has learned from the row that it saw least and most often
//   end      after the last one: epoch, loss, loss_alone of a run with one worker, and the distance of their parameters
//   error    the run has failed: message
// Times ("at") are seconds of the monotonic clock. Ranks write their steps to the file `steps` of the folder, a line
// each: time, step, epoch, rank, world, pid, node.
#include <fcntl.h>
#include <fmt/format.h>
#include <train/train.h>
#include <unistd.h>
#include <volador/volador.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <thread>

#include "runtime/actor/self.h"

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using nlohmann::json;

constexpr int64_t kRows = 480, kBatch = 12;  // 40 steps an epoch.

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct CountingNetImpl : torch::nn::Module {
  CountingNetImpl() {
    layers = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)));
    uses = register_parameter("uses", torch::zeros({kRows}));
  }
  torch::Tensor forward(torch::Tensor, torch::Tensor x) { return layers->forward(std::move(x)); }
  torch::nn::Sequential layers;
  torch::Tensor uses;  // [kRows]: minus the number of steps in which each row was trained on.
};
TORCH_MODULE(CountingNet);

// A small network, and an account of the rows within the state of the model: each step adds -1 to the entry of each row
// of its batch. config: folder, and step_ms, the time that a step takes at least.
class CountedRows : public train::TrainingOperator {
 public:
  void setup(const train::Config& config) override {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const torch::Tensor x = torch::randn({kRows, 6}, generator);
    const torch::Tensor y = x.matmul(torch::arange(1, 7, torch::kFloat).view({6, 1})) / 4 + 0.5;
    net_ = register_model(CountingNet());
    weights_ = register_optimizer(train::adamw({.lr = 0.01, .weight_decay = 0.01})(net_->layers->parameters()));
    account_ = register_optimizer(train::sgd({.lr = 1})({net_->uses}));
    register_criterion(train::mse_loss());
    register_data({.train = train::tensor_dataset({torch::arange(kRows), x, y}), .batch_size = kBatch});
    step_time_ = std::chrono::milliseconds(config.integer("step_ms"));
    steps_ = fs::path(config.text("folder")) / "steps";
  }

  train::Metrics train_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    std::this_thread::sleep_for(step_time_);
    const torch::Tensor loss = torch::nn::functional::mse_loss(forward(batch), batch.target());
    const torch::Tensor uses = net_->uses.index_select(0, batch[0]).mean() * info.batch_rows;
    backward(loss, weights_);
    backward(uses, account_);
    step(weights_);
    step(account_);
    note(info);
    return {{"train_loss", loss.item<double>()}, {"num_samples", static_cast<double>(info.rows)}};
  }

 private:
  void note(const train::BatchInfo& info) const {
    if (step_time_ == 0ms) return;  // The run with one worker, for the comparison.
    const std::string line = fmt::format("{:.6f} {} {} {} {} {} {}\n", seconds_now(), info.step, info.epoch, rank(),
                                         world(), ::getpid(), volador::self().node_name);
    const int file = ::open(steps_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      throw std::runtime_error("the step could not be written to " + steps_.string());
    ::close(file);
  }

  CountingNet net_ = nullptr;
  train::OptimizerPtr weights_, account_;
  std::chrono::milliseconds step_time_{0};
  fs::path steps_;
};
VOLADOR_TRAINING_OPERATOR(CountedRows);

using Trainer = train::TorchTrainer<CountedRows>;

std::map<std::string, torch::Tensor> parameters_of(const std::string& state) {
  std::map<std::string, torch::Tensor> tensors;
  const auto models = train::from_bytes(state).toGenericDict().at("models_state_dict").toList();
  for (const auto& item : models.get(0).toGenericDict())
    tensors.emplace(item.key().toStringRef(), item.value().toTensor());
  return tensors;
}

std::mutex output_mutex;

void print(std::string_view line, json fields) {
  fields["line"] = line;
  fields["at"] = seconds_now();
  const std::lock_guard<std::mutex> hold(output_mutex);
  fmt::print("{}\n", fields.dump());
  std::fflush(stdout);
}

// Prints whenever the group or the explanation has changed, until it is asked to stop.
void watch(const std::stop_token& stop, const Trainer& trainer) {
  std::vector<int> pids;
  std::string explained;
  while (!stop.stop_requested()) {
    auto now_pids = trainer.worker_pids();
    auto now_explained = trainer.explain();
    if (now_pids != pids || now_explained != explained) {
      pids = std::move(now_pids);
      explained = std::move(now_explained);
      print("changed", {{"pids", pids}, {"explain", explained}});
    }
    std::this_thread::sleep_for(10ms);
  }
}

}  // namespace

// nodes_trials folder=DIR [min=N] [max=N] [epochs=N] [step_ms=N] [hang_ms=N]
// Trains `epochs` epochs, or with 0 until the folder has a file `enough`.
int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  std::map<std::string, std::string> given{
      {"min", "2"}, {"max", "4"}, {"epochs", "0"}, {"step_ms", "25"}, {"hang_ms", "5000"}};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return 2;
    given[argument.substr(0, equals)] = argument.substr(equals + 1);
  }
  const auto number = [&](const char* name) { return std::atoi(given.at(name).c_str()); };
  const fs::path folder = given.at("folder");
  const auto config_with = [&](int step_ms) {
    return train::Config{{"folder", folder.string()}, {"step_ms", static_cast<int64_t>(step_ms)}};
  };

  std::string state;
  double loss = 0;
  int64_t epochs = 0;
  {
    Trainer trainer({.num_workers = {number("min"), number("max")},
                     .config = config_with(number("step_ms")),
                     .name = "counted rows",
                     .seed = 7,
                     .hang_timeout = std::chrono::milliseconds(number("hang_ms")),
                     .strategy = volador::Strategy::kSpread,
                     .storage = "none"});
    const std::jthread watching([&](const std::stop_token& stop) { watch(stop, trainer); });
    while (number("epochs") > 0 ? epochs < number("epochs") : !fs::exists(folder / "enough")) {
      const train::Metrics metrics = trainer.train();
      loss = metrics.at("train_loss");
      epochs = trainer.epoch();
      state = trainer.state();
      const torch::Tensor uses = -parameters_of(state).at("uses");
      print("epoch", {{"epoch", epochs},
                      {"step", trainer.step()},
                      {"world", trainer.world()},
                      {"failures", trainer.failures()},
                      {"num_samples", metrics.at("num_samples")},
                      {"loss", loss},
                      {"uses_min", uses.min().item<double>()},
                      {"uses_max", uses.max().item<double>()},
                      {"pids", trainer.worker_pids()}});
    }
  }
  Trainer alone({.config = config_with(0), .seed = 7, .report = false, .storage = "none"});
  double loss_alone = 0;
  while (alone.epoch() < epochs) loss_alone = alone.train().at("train_loss");
  double distance = 0;
  const auto left = parameters_of(state), right = parameters_of(alone.state());
  for (const auto& [name, tensor] : left)
    distance = std::max(distance, (tensor - right.at(name)).abs().max().item<double>());
  print("end", {{"epoch", epochs}, {"distance", distance}, {"loss", loss}, {"loss_alone", loss_alone}});
} catch (const volador::Exception& e) {
  print("error", {{"message", e.what()}});
  return 1;
}
