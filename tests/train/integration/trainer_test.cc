// Training runs whose workers are real processes that are killed, stopped or hang. A private cluster. Most faults
// happen inside the operator, at a named place, so that they do not depend on time. VOLADOR_TEST_SEED: seed of the
// random kills.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <train/train.h>
#include <unistd.h>
#include <volador/volador.h>

#include <atomic>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "tests/temporary_directory.h"

namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using train::Config;
using volador::ErrorCode;

constexpr int64_t kRows = 120, kValidationRows = 50, kBatch = 12, kSteps = kRows / kBatch;  // Steps of an epoch.

// ---- The operator.

struct NetImpl : torch::nn::Module {
  NetImpl(int64_t width, double dropout) {
    layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(6, width), torch::nn::Tanh(),
                                                             torch::nn::Dropout(dropout), torch::nn::Linear(width, 1)));
    uses = register_parameter("uses", torch::zeros({kRows}));
  }
  torch::Tensor forward(torch::Tensor, torch::Tensor x) { return layers->forward(std::move(x)); }
  torch::nn::Sequential layers;
  torch::Tensor uses;  // Minus the number of steps in which each row was trained on.
};
TORCH_MODULE(Net);

// Row number, point and value of a noisy linear function.
train::DatasetPtr points(int64_t rows) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const torch::Tensor x = torch::randn({rows, 6}, generator);
  const torch::Tensor y = x.matmul(torch::arange(1, 7, torch::kFloat).view({6, 1})) / 4 + 0.5;
  return train::tensor_dataset({torch::arange(rows), x, y});
}

// A small network, and an account of the rows within the state of the model: each step adds -1 to the entry of each row
// of its batch. The account therefore shows what the state has learned from, whichever ranks did it, and however often.
//
// config.fault: {kind, place, batch, rank}, which happens once, after the test has armed it. config.folder: where the
// processes write their ids and mark what has happened.
class Ledger : public train::TrainingOperator {
 public:
  void setup(const Config& config) override {
    std::ofstream(fs::path(config.text("folder")) / fmt::format("pid-{}", ::getpid())) << "\n";
    inject("setup", 0);
    int64_t width = 8;
    if (config.get_or("unequal", false) && first("unequal")) ++width;
    net_ = register_model(Net(width, config.get_or("dropout", 0.0)));
    const auto adamw = config.get_or("lr", 0.01);
    weights_ = register_optimizer(train::adamw({.lr = adamw, .weight_decay = 0.01})(net_->layers->parameters()));
    account_ = register_optimizer(train::sgd({.lr = 1})({net_->uses}));
    register_criterion(train::mse_loss());
    register_schedule(weights_, train::schedules::exponential({.gamma = 0.99}), train::ScheduleStep::kBatch);
    if (config.get_or("no_data", false)) return;
    register_data(
        {.train = points(kRows), .validation = points(kValidationRows), .batch_size = config.get_or("batch", kBatch)});
  }

  train::Metrics train_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    inject("train_batch", info.batch_index);
    const fs::path folder(config().text("folder"));
    if (rank() == 0 && fs::exists(folder / "fault") && first("resumed"))
      std::ofstream(folder / "resumed" / "step") << info.step;
    if (info.step == config().get_or("stop_at", -1) && rank() == 0) request_stop();
    const torch::Tensor loss = torch::nn::functional::mse_loss(forward(batch), batch.target());
    const torch::Tensor uses = net_->uses.index_select(0, batch[0]).mean() * info.batch_rows;
    backward(loss, weights_);
    backward(uses, account_);
    inject("before_steps", info.batch_index);
    step(weights_);
    inject("between_steps", info.batch_index);
    step(account_);
    inject("after_steps", info.batch_index);
    torch::Tensor rows = torch::tensor(info.rows);
    all_reduce(rows);
    if (rows.item<int64_t>() != info.batch_rows) throw std::runtime_error("the ranks have other rows than the batch");
    return {{"train_loss", loss.item<double>()}, {"num_samples", static_cast<double>(info.rows)}};
  }
  train::Metrics validate_batch(const train::Batch& batch, const train::BatchInfo& info) override {
    inject("validate_batch", info.batch_index);
    return TrainingOperator::validate_batch(batch, info);
  }
  c10::IValue state_dict() override {
    inject("state_dict", 0);
    return static_cast<int64_t>(17);
  }
  void load_state_dict(const c10::IValue& state) override {
    inject("load_state_dict", 0);
    if (state.toInt() != 17) throw std::runtime_error("not what state_dict() returned");
  }

 private:
  // Whether no caller has asked before for this name.
  bool first(const std::string& name) { return ::mkdir((fs::path(config().text("folder")) / name).c_str(), 0700) == 0; }

  // The fault of the configuration, once in the run, if it belongs to this place, batch and rank.
  void inject(std::string_view place, int64_t batch) {
    const Config* fault = config().find("fault");
    if (fault == nullptr || fault->text("place") != place || fault->get_or("batch", 0) != batch) return;
    if (!fs::exists(fs::path(config().text("folder")) / "armed")) return;
    const std::string kind = fault->text("kind");
    if (kind == "kill_all") return kill_all();
    if (kind == "kill_always") ::kill(::getpid(), SIGKILL);
    if (rank() != fault->get_or("rank", 0) || !first("fault")) return;
    if (kind == "kill") ::kill(::getpid(), SIGKILL);
    if (kind == "stop") ::kill(::getpid(), SIGSTOP);
    if (kind == "throw") throw std::runtime_error("the price of row 17 is negative");
    if (kind == "hold") {  // Until the test releases it.
      while (!fs::exists(fs::path(config().text("folder")) / "released")) std::this_thread::sleep_for(1ms);
    }
    if (kind == "hang") {
      std::mutex mutex;
      std::condition_variable never;
      std::unique_lock<std::mutex> hold(mutex);
      never.wait(hold, [] { return false; });
    }
  }

  // All ranks end within one step, the first one last.
  void kill_all() {
    if (fs::exists(fs::path(config().text("folder")) / "fault")) return;
    torch::Tensor pids = torch::zeros({world()}, torch::kLong);
    pids[rank()] = static_cast<int64_t>(::getpid());
    all_reduce(pids);
    if (rank() == 0) {
      first("fault");
      for (int other = world() - 1; other >= 0; --other)
        ::kill(static_cast<pid_t>(pids[other].item<int64_t>()), SIGKILL);
    }
    ::pause();
  }

  Net net_ = nullptr;
  train::OptimizerPtr weights_, account_;
};
VOLADOR_TRAINING_OPERATOR(Ledger);

using Trainer = train::TorchTrainer<Ledger>;

// ---- States.

c10::IValue part_of(const std::string& state, const char* key) {
  return train::from_bytes(state).toGenericDict().at(key);
}

std::map<std::string, torch::Tensor> parameters(const std::string& state) {
  std::map<std::string, torch::Tensor> tensors;
  for (const auto& item : part_of(state, "models_state_dict").toList().get(0).toGenericDict())
    tensors.emplace(item.key().toStringRef(), item.value().toTensor());
  return tensors;
}

double distance(const std::string& a, const std::string& b) {
  const auto left = parameters(a), right = parameters(b);
  double largest = left.size() == right.size() ? 0 : INFINITY;
  for (const auto& [name, tensor] : left)
    largest = std::max(largest, (tensor - right.at(name)).abs().max().item<double>());
  return largest;
}

// Whether the state has learned from each row exactly once an epoch.
void expect_each_row_once_an_epoch(const std::string& state, int64_t epochs) {
  const torch::Tensor uses = -parameters(state).at("uses");
  EXPECT_NEAR(uses.min().item<double>(), static_cast<double>(epochs), 1e-3);
  EXPECT_NEAR(uses.max().item<double>(), static_cast<double>(epochs), 1e-3);
}

bool is_alive(int pid) { return ::kill(pid, 0) == 0 || errno != ESRCH; }

template <class Done>
bool within(std::chrono::seconds limit, Done done) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

// Stops a process and returns when all its threads have stopped, which the signal alone does not wait for.
bool freeze(int pid) {
  if (::kill(pid, SIGSTOP) != 0) return false;
  return within(10s, [pid] {
    for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
      std::ifstream file(task.path() / "stat");
      const std::string stat((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
      const size_t name_end = stat.rfind(')');  // "pid (name) T …"
      if (name_end == std::string::npos || stat.compare(name_end + 2, 1, "T") != 0) return false;
    }
    return true;
  });
}

ErrorCode code_of(const std::function<void()>& call, std::string* message = nullptr) {
  try {
    call();
  } catch (const volador::Exception& e) {
    if (message != nullptr) *message = e.error().message;
    return e.code();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "not a volador::Exception: " << e.what();
  }
  ADD_FAILURE() << "no exception";
  return ErrorCode::kInternal;
}

std::string message_of(const std::function<void()>& call) {
  std::string message;
  code_of(call, &message);
  return message;
}

class TorchTrainer : public ::testing::Test {
 protected:
  // After each test no process of its runs is left.
  void TearDown() override {
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      const std::string name = entry.path().filename();
      if (name.rfind("pid-", 0) != 0) continue;
      const int pid = std::stoi(name.substr(4));
      EXPECT_TRUE(within(20s, [&] { return !is_alive(pid); })) << "process " << pid << " is left";
    }
  }
  void arm() const { std::ofstream(folder_.path() / "armed") << "\n"; }
  Config config(Config fault = {}) const {
    Config config = {{"folder", folder_.path().string()}};
    if (!fault.is_null()) config.set("fault", std::move(fault));
    return config;
  }
  train::TrainerOptions options(const train::WorkerRange& workers, Config config) const {
    return {.num_workers = workers,
            .config = std::move(config),
            .seed = 7,
            .start_timeout = 30s,
            .report = false,
            .storage = "none"};
  }
  train::TrainerOptions options(const train::WorkerRange& workers) const { return options(workers, config()); }
  volador::TemporaryDirectory folder_;
};

// An undisturbed run with one worker, as long as it is needed.
class Undisturbed {
 public:
  Undisturbed()
      : trainer_({.config = {{"folder", folder_.path().string()}}, .seed = 7, .report = false, .storage = "none"}) {}
  const std::string& after(int64_t epochs) {
    while (static_cast<int64_t>(states_.size()) < epochs) {
      losses_.push_back(trainer_.train().at("train_loss"));
      states_.push_back(trainer_.state());
    }
    return states_.at(static_cast<size_t>(epochs - 1));
  }
  double loss_of(int64_t epoch) {
    after(epoch);
    return losses_.at(static_cast<size_t>(epoch - 1));
  }

 private:
  volador::TemporaryDirectory folder_;
  Trainer trainer_;
  std::vector<std::string> states_;
  std::vector<double> losses_;
};
std::unique_ptr<Undisturbed> undisturbed_run;
Undisturbed& undisturbed() {
  if (undisturbed_run == nullptr) undisturbed_run = std::make_unique<Undisturbed>();
  return *undisturbed_run;
}

void expect_as_undisturbed(Trainer& trainer) {
  const std::string state = trainer.state();
  EXPECT_EQ(trainer.step(), trainer.epoch() * kSteps);
  EXPECT_EQ(part_of(state, "volador").toGenericDict().at("step").toInt(), trainer.step());
  EXPECT_EQ(part_of(state, "volador").toGenericDict().at("epoch").toInt(), trainer.epoch());
  EXPECT_LT(distance(state, undisturbed().after(trainer.epoch())), 1e-4);
  expect_each_row_once_an_epoch(state, trainer.epoch());
}

// ---- Results.

TEST_F(TorchTrainer, ReturnsMetricsAndCountsEpochsAndSteps) {
  Trainer trainer(options(2));
  auto metrics = trainer.train();
  for (const char* name : {"train_loss", "last_train_loss", "samples_per_s"}) EXPECT_GT(metrics.at(name), 0) << name;
  EXPECT_EQ(metrics.at("num_samples"), kRows);
  EXPECT_EQ(metrics.at("batch_count"), kSteps);
  EXPECT_EQ(metrics.at("epoch"), 1);
  EXPECT_EQ(metrics.at("step"), kSteps);
  EXPECT_EQ(metrics.at("workers"), 2);
  EXPECT_FALSE(metrics.contains("mean_forward_s"));
  EXPECT_NEAR(metrics.at("train_loss"), undisturbed().loss_of(1), 1e-5);

  metrics = trainer.train({.num_steps = 2 * kSteps + 3, .profile = true});
  EXPECT_EQ(metrics.at("num_samples"), (2 * kSteps + 3) * kBatch);
  EXPECT_EQ(metrics.at("batch_count"), 2 * kSteps + 3);
  EXPECT_EQ(metrics.at("epoch"), 3);
  EXPECT_EQ(metrics.at("step"), 3 * kSteps + 3);
  double parts = 0;
  for (const char* name :
       {"mean_data_s", "mean_forward_s", "mean_backward_s", "mean_communication_s", "mean_optimizer_s"}) {
    EXPECT_GT(metrics.at(name), 0) << name;
    parts += metrics.at(name);
  }
  EXPECT_LT(parts * (2 * kSteps + 3), (2 * kSteps + 3) * kBatch / metrics.at("samples_per_s"));

  metrics = trainer.train();
  EXPECT_EQ(metrics.at("num_samples"), kRows - 3 * kBatch);
  EXPECT_EQ(trainer.epoch(), 4);
  EXPECT_EQ(trainer.step(), 4 * kSteps);
  EXPECT_EQ(trainer.world(), 2);
  EXPECT_EQ(trainer.failures(), 0);

  metrics = trainer.validate();
  EXPECT_GT(metrics.at("val_loss"), 0);
  EXPECT_EQ(metrics.at("num_samples"), kValidationRows);
  EXPECT_EQ(metrics.at("batch_count"), 5);
  EXPECT_EQ(trainer.validate({.num_steps = 2}).at("num_samples"), 2 * kBatch);
  EXPECT_EQ(trainer.step(), 4 * kSteps);
  expect_as_undisturbed(trainer);
  EXPECT_EQ(code_of([&] { trainer.train({.num_steps = 0}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { trainer.validate({.num_steps = -2}); }), ErrorCode::kInvalidArgument);
}

TEST_F(TorchTrainer, EndsACallThatTheOperatorStopsInTheLastStepOfAnEpoch) {
  Config stops = config();
  stops.set("stop_at", kSteps - 1);
  Trainer trainer(options(2, stops));
  EXPECT_EQ(trainer.train({.num_steps = 3 * kSteps}).at("step"), kSteps);
  EXPECT_EQ(trainer.train({.num_steps = kSteps}).at("step"), 2 * kSteps);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, TwoRunsOfOneProgramTrainAtTheSameTime) {
  Trainer first(options(2)), second(options({1, 2}));
  auto training = std::async(std::launch::async, [&] { return first.train().at("step"); });
  second.train();
  EXPECT_EQ(training.get(), kSteps);
  expect_as_undisturbed(first);
  expect_as_undisturbed(second);
}

TEST_F(TorchTrainer, EqualSeedsAndWorldsGiveEqualBits) {
  Config with_dropout = config();
  with_dropout.set("dropout", 0.3);
  std::vector<std::string> states;
  for (const uint64_t seed : {7, 7, 8}) {
    auto same = options(3, with_dropout);
    same.seed = seed;
    Trainer trainer(same);
    trainer.train();
    trainer.train({.num_steps = 4});
    states.push_back(trainer.state());
  }
  EXPECT_TRUE(states[0] == states[1]);
  EXPECT_GT(distance(states[0], states[2]), 1e-2);
}

TEST_F(TorchTrainer, AnyNumberOfWorkersGivesTheResultOfOne) {
  for (const int workers : {2, 4}) {
    Trainer trainer(options(workers));
    for (int epoch = 0; epoch < 3; ++epoch) trainer.train();
    EXPECT_EQ(trainer.world(), workers);
    EXPECT_LT(distance(trainer.state(), undisturbed().after(3)), 2e-5);
  }
}

TEST_F(TorchTrainer, StateHasTheKeysOfDeterminedAndThePlaceInTheData) {
  Trainer trainer(options(1));
  trainer.train({.num_steps = 3});
  const std::string state = trainer.state();
  const auto keys = train::from_bytes(state).toGenericDict();
  for (const char* key :
       {"models_state_dict", "optimizers_state_dict", "lr_schedulers_state_dict", "callbacks", "volador"})
    EXPECT_TRUE(keys.contains(key)) << key;
  EXPECT_EQ(keys.at("optimizers_state_dict").toList().size(), 2U);
  EXPECT_EQ(part_of(state, "volador").toGenericDict().at("position").toInt(), 3 * kBatch);
}

TEST_F(TorchTrainer, ContinuesFromAFileWithAnyNumberOfWorkers) {
  const fs::path file = folder_.path() / "state.pt";
  std::string uninterrupted;
  {
    Trainer trainer(options(2));
    trainer.train({.num_steps = kSteps + 4});
    trainer.save(file);
    trainer.train({.num_steps = kSteps});
    uninterrupted = trainer.state();
  }
  for (const int workers : {2, 3, 1}) {
    Trainer trainer(options(workers));
    trainer.load(file);
    EXPECT_EQ(trainer.step(), kSteps + 4);
    EXPECT_EQ(trainer.epoch(), 1);
    EXPECT_EQ(trainer.train({.num_steps = kSteps}).at("epoch"), 2);
    const std::string state = trainer.state();
    EXPECT_LT(distance(state, uninterrupted), 1e-5) << workers;
    EXPECT_TRUE(workers != 2 || state == uninterrupted);
  }
}

TEST_F(TorchTrainer, LoadsAnEarlierStateIntoARunningRun) {
  Trainer trainer(options(2, config({{"kind", "kill_all"}, {"place", "train_batch"}, {"batch", 5}})));
  trainer.train({.num_steps = 3});
  const std::string early = trainer.state();
  trainer.train();
  trainer.train();
  trainer.load_state(early);
  EXPECT_EQ(trainer.step(), 3);
  arm();  // All workers end: the run goes on from the state that was loaded, not from the copy of the epoch before.
  trainer.train();
  EXPECT_EQ(trainer.epoch(), 1);
  EXPECT_EQ(trainer.failures(), 2);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, RefusesAStateOfAnotherModelAndKeepsItsOwn) {
  Config wider = config();
  wider.set("unequal", true);
  std::string other;
  {
    Trainer trainer(options(1, wider));
    other = trainer.state();
  }
  Trainer trainer(options(2, config({{"kind", "kill_all"}, {"place", "train_batch"}, {"batch", 4}})));
  trainer.train();
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.load_state(other); }, &message), ErrorCode::kInvalidArgument);
  EXPECT_THAT(message, HasSubstr("layers.0.weight"));
  EXPECT_EQ(code_of([&] { trainer.load_state("not a state"); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { trainer.load_state(train::to_bytes(c10::IValue(int64_t{5}))); }),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(code_of([&] { trainer.load(folder_.path() / "none.pt"); }), ErrorCode::kNotFound);
  arm();  // Nor does the copy for the loss of all workers come from them.
  trainer.train();
  EXPECT_EQ(trainer.failures(), 2);
  expect_as_undisturbed(trainer);
}

// ---- Lost workers.

struct Loss {
  const char* place;
  int batch, rank;
};
void PrintTo(const Loss& loss, std::ostream* out) {
  *out << fmt::format("{} {} {}", loss.place, loss.batch, loss.rank);
}
class LostWorker : public TorchTrainer, public ::testing::WithParamInterface<Loss> {};

TEST_P(LostWorker, LeavesTheRunToTheOthersUntilAReplacementJoins) {
  const auto [place, batch, rank] = GetParam();
  Trainer trainer(options({2, 3}, config({{"kind", "kill"}, {"place", place}, {"batch", batch}, {"rank", rank}})));
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 3; }));
  std::vector<int> before = trainer.worker_pids();
  ASSERT_EQ(before.size(), 3U);
  arm();
  const int64_t epochs = trainer.epoch();
  EXPECT_EQ(trainer.train().at("epoch"), epochs + 1);
  EXPECT_EQ(trainer.failures(), 1);
  ASSERT_TRUE(within(30s, [&] { return trainer.world() == 3 || (trainer.train(), false); }));
  const std::vector<int> after = trainer.worker_pids();
  ASSERT_EQ(after.size(), 3U);
  EXPECT_FALSE(is_alive(before[static_cast<size_t>(rank)]));
  before.erase(before.begin() + rank);
  EXPECT_EQ(std::vector<int>(after.begin(), after.begin() + 2), before)
      << "the survivors keep their processes and order";
  EXPECT_EQ(trainer.failures(), 1);
  expect_as_undisturbed(trainer);
}
INSTANTIATE_TEST_SUITE_P(At, LostWorker,
                         testing::Values(Loss{"train_batch", 0, 2}, Loss{"train_batch", 5, 0},
                                         Loss{"before_steps", 4, 1}, Loss{"between_steps", 6, 0},
                                         Loss{"between_steps", 9, 2}, Loss{"after_steps", 3, 1},
                                         Loss{"after_steps", 9, 0}),
                         [](const auto& loss) {
                           return fmt::format("{}{}Rank{}", loss.param.place, loss.param.batch, loss.param.rank);
                         });

TEST_F(TorchTrainer, WaitsForTheReplacementIfTheNumberOfWorkersIsFixed) {
  Trainer trainer(options(2, config({{"kind", "kill"}, {"place", "before_steps"}, {"batch", 5}, {"rank", 1}})));
  arm();
  const auto metrics = trainer.train();
  EXPECT_EQ(metrics.at("step"), kSteps);
  EXPECT_EQ(metrics.at("workers"), 2);
  EXPECT_EQ(trainer.failures(), 1);
  trainer.train();
  EXPECT_EQ(trainer.failures(), 1);
  expect_as_undisturbed(trainer);
}

class AllWorkersLost : public TorchTrainer, public ::testing::WithParamInterface<std::tuple<int, bool>> {};

TEST_P(AllWorkersLost, GoesOnFromTheKeptCopyOrFromTheStart) {
  const auto [epochs_before, copy_state] = GetParam();
  auto given = options(3, config({{"kind", "kill_all"}, {"place", "train_batch"}, {"batch", 4}}));
  given.copy_state = copy_state;
  Trainer trainer(given);
  for (int epoch = 0; epoch < epochs_before; ++epoch) trainer.train();
  arm();
  const auto metrics = trainer.train();
  EXPECT_EQ(metrics.at("epoch"), epochs_before + 1);
  EXPECT_EQ(metrics.at("step"), (epochs_before + 1) * kSteps);
  EXPECT_EQ(metrics.at("num_samples"), kRows) << "what was done again counts once";
  EXPECT_EQ(trainer.failures(), 3);
  int64_t resumed_at = -1;
  std::ifstream(folder_.path() / "resumed" / "step") >> resumed_at;
  // The last copy may not have been stored yet.
  const int64_t last_copy = copy_state ? epochs_before * kSteps : 0;
  EXPECT_THAT(resumed_at, testing::AnyOf(last_copy, std::max<int64_t>(0, last_copy - kSteps)));
  trainer.train();
  EXPECT_EQ(trainer.epoch(), epochs_before + 2);
  expect_as_undisturbed(trainer);
}
INSTANTIATE_TEST_SUITE_P(After, AllWorkersLost, testing::Combine(testing::Values(0, 1, 2), testing::Bool()),
                         [](const auto& given) {
                           return fmt::format("{}Epochs{}Copies", std::get<0>(given.param),
                                              std::get<1>(given.param) ? "With" : "Without");
                         });

TEST_F(TorchTrainer, RepeatsFewStepsAfterTheLossOfAllWorkersIfItCopiesTheStateOften) {
  auto given = options(3, config({{"kind", "kill_all"}, {"place", "train_batch"}, {"batch", 8}}));
  given.copy_every_steps = 3;
  Trainer trainer(given);
  trainer.train();
  arm();
  const auto metrics = trainer.train();
  EXPECT_EQ(metrics.at("step"), 2 * kSteps);
  EXPECT_EQ(metrics.at("num_samples"), kRows);
  EXPECT_EQ(trainer.failures(), 3);
  int64_t resumed_at = -1;
  std::ifstream(folder_.path() / "resumed" / "step") >> resumed_at;
  // Batch 8 is step 18. The copy of step 18 was asked for right before; that of step 15 has arrived.
  EXPECT_GE(resumed_at, 15);
  EXPECT_LE(resumed_at, 18);
  expect_as_undisturbed(trainer);
}

class SamplesOfACall : public TorchTrainer, public testing::WithParamInterface<bool> {};

TEST_P(SamplesOfACall, AreCountedOnceAlthoughAllWorkersWereLost) {
  // Over the end of an epoch: what this call did before the loss is done again. Without a copy of the state the steps of
  // the first call are done again too.
  auto given = options(2, config({{"kind", "kill_all"}, {"place", "train_batch"}, {"batch", 4}}));
  given.copy_state = GetParam();
  Trainer trainer(given);
  trainer.train({.num_steps = 7});
  arm();
  const auto metrics = trainer.train({.num_steps = 2 * kSteps});
  EXPECT_EQ(metrics.at("step"), 2 * kSteps + 7);
  EXPECT_EQ(metrics.at("num_samples"), 2 * kRows);
  EXPECT_EQ(metrics.at("batch_count"), 2 * kSteps);
  EXPECT_EQ(trainer.epoch(), 2);
  trainer.train();
  expect_as_undisturbed(trainer);
}
INSTANTIATE_TEST_SUITE_P(Copies, SamplesOfACall, testing::Bool(),
                         [](const auto& given) { return given.param ? "WithCopies" : "WithoutCopies"; });

TEST_F(TorchTrainer, ReplacesAWorkerThatEndsInSetup) {
  arm();
  Trainer trainer(options(2, config({{"kind", "kill"}, {"place", "setup"}})));
  EXPECT_EQ(trainer.train().at("workers"), 2);
  EXPECT_EQ(trainer.failures(), 1);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, SurvivesTheLossOfTheWorkerThatGivesItsStateToANewcomer) {
  // A third worker starts after a loss; rank 0 ends while it hands over its state.
  Trainer trainer(options({2, 3}, config({{"kind", "kill"}, {"place", "state_dict"}})));
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 3; }));
  trainer.state();
  arm();
  ASSERT_EQ(::kill(trainer.worker_pids()[2], SIGKILL), 0);
  ASSERT_TRUE(within(30s, [&] { return trainer.failures() >= 2 || (trainer.train(), false); }));
  trainer.train();
  EXPECT_EQ(trainer.failures(), 2);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, FormsAnewAtOnceIfAWorkerIsLostWhileAStateIsHandedOver) {
  auto given = options({2, 3}, config({{"kind", "hold"}, {"place", "state_dict"}}));
  given.hang_timeout = 20s;  // No worker is to be ended because it waits for the worker that was lost.
  Trainer trainer(given);
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 3; }));
  trainer.state();
  arm();
  const std::vector<int> pids = trainer.worker_pids();
  ASSERT_EQ(::kill(pids[2], SIGKILL), 0);
  std::atomic<bool> has_grown{false};
  auto training = std::async(std::launch::async, [&] {
    return within(60s, [&] { return has_grown || (has_grown = trainer.train().at("workers") == 3, false); });
  });
  EXPECT_TRUE(within(30s, [&] { return fs::exists(folder_.path() / "fault"); })) << "rank 0 writes its state";
  ASSERT_EQ(::kill(pids[1], SIGKILL), 0);
  EXPECT_TRUE(within(30s, [&] { return trainer.explain().find("was lost") != std::string::npos; }))
      << trainer.explain();
  const auto begin = std::chrono::steady_clock::now();
  std::ofstream(folder_.path() / "released") << "\n";
  EXPECT_TRUE(training.get());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  EXPECT_EQ(trainer.failures(), 2);
  EXPECT_EQ(trainer.worker_pids()[0], pids[0]);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, SurvivesTheLossOfANewcomerThatTakesAState) {
  Trainer trainer(options({2, 3}, config({{"kind", "kill"}, {"place", "load_state_dict"}})));
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 3; }));
  arm();
  ASSERT_EQ(::kill(trainer.worker_pids()[1], SIGKILL), 0);
  ASSERT_TRUE(within(30s, [&] { return trainer.failures() >= 2 || (trainer.train(), false); }));
  trainer.train();
  EXPECT_EQ(trainer.failures(), 2);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, RepeatsAValidationInWhichAWorkerIsLost) {
  Trainer trainer(options({1, 2}, config({{"kind", "kill"}, {"place", "validate_batch"}, {"batch", 2}, {"rank", 1}})));
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 2; }));
  const auto before = trainer.validate();
  arm();
  const auto after = trainer.validate();
  EXPECT_EQ(trainer.failures(), 1);
  EXPECT_NEAR(after.at("val_loss"), before.at("val_loss"), 1e-5);
  EXPECT_EQ(after.at("num_samples"), kValidationRows);
  trainer.train();
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, ReplacesWorkersThatAreLostBetweenCalls) {
  Trainer trainer(options(2));
  const fs::path file = folder_.path() / "state.pt";
  trainer.train();
  int kills = 0;
  const auto kill_one = [&](bool first) {
    const std::vector<int> pids = trainer.worker_pids();
    ASSERT_EQ(::kill(first ? pids.front() : pids.back(), SIGKILL), 0);
    ++kills;
  };
  const auto kill_all = [&] {
    for (const int pid : trainer.worker_pids()) kills += ::kill(pid, SIGKILL) == 0;
  };
  kill_one(true);
  EXPECT_LT(distance(trainer.state(), undisturbed().after(1)), 2e-5);
  kill_one(true);
  trainer.save(file);
  kill_one(false);
  trainer.load(file);
  kill_all();
  trainer.load(file);
  kill_one(false);
  EXPECT_EQ(trainer.validate().at("num_samples"), kValidationRows);
  kill_one(true);
  EXPECT_EQ(trainer.train().at("epoch"), 2);
  kill_all();
  EXPECT_EQ(trainer.train().at("epoch"), 3);
  EXPECT_EQ(trainer.world(), 2);
  EXPECT_EQ(trainer.failures(), kills);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, FailsAfterMoreLossesThanAllowed) {
  auto given = options(2, config({{"kind", "kill"}, {"place", "train_batch"}, {"batch", 3}, {"rank", 1}}));
  given.max_failures = 0;
  Trainer trainer(given);
  arm();
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.train(); }, &message), ErrorCode::kActorDied);
  EXPECT_THAT(message, HasSubstr("rank 1"));
  EXPECT_THAT(message, HasSubstr("max_failures is 0"));
  EXPECT_EQ(code_of([&] { trainer.validate(); }), ErrorCode::kActorDied);
}

// ---- Workers that do not go on.

TEST_F(TorchTrainer, EndsAFrozenWorkerAndGoesOn) {
  auto given = options({2, 3}, config({{"kind", "stop"}, {"place", "train_batch"}, {"batch", 5}, {"rank", 1}}));
  given.hang_timeout = 1s;
  Trainer trainer(given);
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 3; }));
  const int frozen = trainer.worker_pids()[1];
  arm();
  const auto begin = std::chrono::steady_clock::now();
  trainer.train();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
  EXPECT_EQ(trainer.failures(), 1);
  EXPECT_TRUE(within(10s, [&] { return !is_alive(frozen); }));
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, EndsAWorkerThatHangsInItsOwnCodeWhileOthersWait) {
  auto given = options({2, 3}, config({{"kind", "hang"}, {"place", "train_batch"}, {"batch", 5}, {"rank", 2}}));
  given.hang_timeout = 1s;
  Trainer trainer(given);
  ASSERT_TRUE(within(30s, [&] { return trainer.train().at("workers") == 3; }));
  const int hanging = trainer.worker_pids()[2];
  arm();
  trainer.train();
  EXPECT_EQ(trainer.failures(), 1);
  EXPECT_TRUE(within(10s, [&] { return !is_alive(hanging); }));
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, NamesTheHangingWorkerWhenTheRunFails) {
  auto given = options(2, config({{"kind", "hang"}, {"place", "before_steps"}, {"batch", 2}, {"rank", 0}}));
  given.hang_timeout = 1s;
  given.max_failures = 0;
  Trainer trainer(given);
  trainer.train();
  arm();
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.train(); }, &message), ErrorCode::kActorDied);
  EXPECT_THAT(message, HasSubstr("rank 0"));
  EXPECT_THAT(message, HasSubstr("hangs: it has been in its own code in step 13"));
  // What each rank did: the hanging one is in user code, the other one waits for it.
  EXPECT_THAT(message, HasSubstr("Ledger::train_batch"));
  EXPECT_THAT(message, HasSubstr("waits for rank 0"));
}

TEST_F(TorchTrainer, ExplainsWhatEachRankDoesWhileAStepIsLong) {
  auto given = options(2, config({{"kind", "hold"}, {"place", "before_steps"}, {"batch", 2}, {"rank", 1}}));
  given.hang_timeout = 20s;
  Trainer trainer(given);
  trainer.train();
  arm();
  std::string explained;
  std::jthread watch([&] {
    within(15s, [&] {
      explained = trainer.explain();
      return explained.find("train_batch") != std::string::npos &&
             explained.find("waits for rank 1") != std::string::npos;
    });
    std::ofstream(folder_.path() / "released") << "\n";
  });
  trainer.train();
  watch.join();
  EXPECT_THAT(explained, HasSubstr("Ledger::train_batch"));
  EXPECT_THAT(explained, HasSubstr("waits for rank 1"));
  EXPECT_EQ(trainer.failures(), 0);
  EXPECT_THAT(trainer.explain(), Not(HasSubstr("train_batch")));
}

TEST_F(TorchTrainer, ReplacesWorkersThatFreezeBetweenCalls) {
  auto given = options(2);
  given.hang_timeout = 1s;
  Trainer trainer(given);
  trainer.train();
  ASSERT_TRUE(freeze(trainer.worker_pids()[0]));
  EXPECT_LT(distance(trainer.state(), undisturbed().after(1)), 2e-5);
  EXPECT_EQ(trainer.failures(), 1);
  const std::string state = trainer.state();
  ASSERT_TRUE(freeze(trainer.worker_pids()[1]));
  trainer.load_state(state);
  trainer.train();
  EXPECT_EQ(trainer.failures(), 2);
  expect_as_undisturbed(trainer);
}

TEST_F(TorchTrainer, EndsFrozenAndStartingWorkersWithTheTrainer) {
  {
    Trainer frozen(options(2));
    frozen.train();
    for (const int pid : frozen.worker_pids()) ASSERT_TRUE(freeze(pid));
    const Trainer starting(options(3));
  }
  // TearDown() looks for what is left.
}

// ---- Errors.

TEST_F(TorchTrainer, ReportsAnExceptionOfSetup) {
  arm();
  Trainer trainer(options(2, config({{"kind", "throw"}, {"place", "setup"}})));
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.train(); }, &message), ErrorCode::kApplication);
  EXPECT_THAT(message, HasSubstr("the price of row 17 is negative"));
  EXPECT_EQ(message_of([&] { trainer.state(); }), message) << "later calls report the same";
}

TEST_F(TorchTrainer, ReportsAnExceptionOfTrainBatchOnOneRank) {
  Trainer trainer(options({1, 3}, config({{"kind", "throw"}, {"place", "train_batch"}, {"batch", 5}, {"rank", 0}})));
  trainer.train();
  arm();
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.train(); }, &message), ErrorCode::kApplication);
  EXPECT_THAT(message, HasSubstr("the price of row 17 is negative"));
  EXPECT_THAT(message, HasSubstr("rank 0"));
  EXPECT_EQ(code_of([&] { trainer.validate(); }), ErrorCode::kApplication);
}

TEST_F(TorchTrainer, NamesTheCauseIfWorkersNeverOutliveSetup) {
  auto given = options(2, config({{"kind", "kill_always"}, {"place", "setup"}}));
  given.start_timeout = 1s;
  arm();
  Trainer trainer(given);
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.train(); }, &message), ErrorCode::kUnavailable);
  EXPECT_THAT(message, HasSubstr("start_timeout"));
  EXPECT_THAT(message, HasSubstr("ended by signal 9"));
  EXPECT_GE(trainer.failures(), 2);
  EXPECT_LT(trainer.failures(), 30) << "replacements are started with growing delays";
}

TEST_F(TorchTrainer, NamesParametersThatDiffer) {
  Config unequal = config();
  unequal.set("unequal", true);
  Trainer trainer(options(2, unequal));
  std::string message;
  EXPECT_EQ(code_of([&] { trainer.train(); }, &message), ErrorCode::kApplication);
  EXPECT_THAT(message, HasSubstr("different parameters"));
  EXPECT_THAT(message, HasSubstr("model.layers.0.weight [9, 6]"));
  EXPECT_THAT(message, HasSubstr("model.layers.0.weight [8, 6]"));
}

TEST_F(TorchTrainer, NamesWhatIsMissingOrTooSmall) {
  Config no_data = config();
  no_data.set("no_data", true);
  Trainer without(options(2, no_data));
  EXPECT_THAT(message_of([&] { without.train(); }), HasSubstr("registered no training data; call register_data()"));
  Config small = config();
  small.set("batch", 2);
  Trainer trainer(options(3, small));
  EXPECT_THAT(message_of([&] { trainer.train(); }), HasSubstr("batch_size is 2, and the run has 3 workers"));
}

TEST_F(TorchTrainer, RefusesOptions) {
  const auto refused = [&](auto change) {
    auto given = options(1);
    change(given);
    std::string message;
    EXPECT_EQ(code_of([&] { Trainer trainer(given); }, &message), ErrorCode::kInvalidArgument);
    return message;
  };
  EXPECT_THAT(refused([](auto& given) { given.num_workers = 0; }), HasSubstr("num_workers is {0, 0}"));
  EXPECT_THAT(refused([](auto& given) { given.num_workers = {3, 2}; }), HasSubstr("num_workers is {3, 2}"));
  EXPECT_THAT(refused([](auto& given) { given.max_failures = -2; }), HasSubstr("max_failures is -2"));
  EXPECT_THAT(refused([](auto& given) { given.start_timeout = 0s; }), HasSubstr("start_timeout"));
  EXPECT_THAT(refused([](auto& given) { given.hang_timeout = -1s; }), HasSubstr("hang_timeout"));
  EXPECT_THAT(refused([](auto& given) { given.use_gpu = true; }), HasSubstr("asks for no GPU"));
  EXPECT_THAT(refused([](auto& given) { given.backend = "mpi"; }), HasSubstr("\"shared\", \"nccl\" or \"gloo\""));
  EXPECT_THAT(refused([](auto& given) { given.backend = "nccl"; }), HasSubstr("needs a whole GPU for each worker"));
}

TEST_F(TorchTrainer, RefusesWorkersThatTheClusterCouldNeverHold) {
  EXPECT_EQ(code_of([&] { Trainer trainer(options(9)); }), ErrorCode::kInfeasible);
  auto large = options(1);
  large.resources_per_worker = {.cpus = 9};
  EXPECT_EQ(code_of([&] { Trainer trainer(large); }), ErrorCode::kInfeasible);
  large = options({2, 3});
  large.resources_per_worker = {.cpus = 3};
  Trainer trainer(large);
  EXPECT_GE(trainer.train().at("workers"), 2) << "only the least number must fit";
}

TEST_F(TorchTrainer, SaysWhatItWaitsForAndFailsAfterTheTimeout) {
  auto large = options(1);
  large.resources_per_worker = {.cpus = 7};
  undisturbed_run.reset();
  Trainer holder(large);
  holder.train();
  auto given = options(2);
  given.start_timeout = 1s;
  Trainer trainer(given);
  std::string message;
  auto failed = std::async(std::launch::async, [&] { return code_of([&] { trainer.train(); }, &message); });
  EXPECT_TRUE(within(10s, [&] { return trainer.explain().find("waits for workers") != std::string::npos; }))
      << trainer.explain();
  EXPECT_EQ(failed.get(), ErrorCode::kUnavailable);
  EXPECT_THAT(message, HasSubstr("start_timeout"));
}

TEST_F(TorchTrainer, RefusesCallsAfterShutdown) {
  Trainer trainer(options(2));
  trainer.train();
  const std::string state = trainer.state();
  trainer.shutdown();
  trainer.shutdown();
  const std::vector<std::function<void()>> calls = {
      [&] { trainer.train(); },           [&] { trainer.validate(); },
      [&] { trainer.state(); },           [&] { trainer.save(folder_.path() / "state.pt"); },
      [&] { trainer.load_state(state); }, [&] { trainer.load(folder_.path() / "state.pt"); }};
  for (const auto& call : calls) {
    std::string message;
    EXPECT_EQ(code_of(call, &message), ErrorCode::kUnavailable);
    EXPECT_THAT(message, HasSubstr("shutdown() was called"));
  }
  EXPECT_FALSE(fs::exists(folder_.path() / "state.pt"));
  EXPECT_EQ(trainer.epoch(), 1);
  EXPECT_THAT(trainer.worker_pids(), testing::IsEmpty());
  EXPECT_THAT(trainer.explain(), Not(testing::IsEmpty()));
}

// ---- Many faults.

// Kills come at any time: in a step, while a group is formed, while a state is handed over, between calls.
TEST_F(TorchTrainer, EndsWithTheResultOfAnUndisturbedRunAfterTwentyKillsAtRandomTimes) {
  constexpr int kKills = 20;
  const char* given_seed = std::getenv("VOLADOR_TEST_SEED");
  const uint64_t seed = given_seed != nullptr ? std::strtoull(given_seed, nullptr, 10) : std::random_device{}();
  std::printf("VOLADOR_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  auto given = options({2, 4});
  given.report = true;
  given.storage = folder_.path() / "results";
  Trainer trainer(given);
  std::atomic<int> kills{0};
  std::set<int> killed;
  std::jthread killer([&](const std::stop_token& stop) {
    while (kills < kKills && !stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 80));
      const std::vector<int> pids = trainer.worker_pids();
      if (pids.empty()) continue;
      const int pid = pids[random() % pids.size()];
      if (killed.insert(pid).second && ::kill(pid, SIGKILL) == 0) ++kills;
    }
  });
  ASSERT_TRUE(within(100s, [&] { return kills >= kKills || (trainer.train(), false); }));
  killer.request_stop();
  const double loss = trainer.train().at("train_loss");
  EXPECT_EQ(trainer.failures(), kKills);
  EXPECT_NEAR(loss, undisturbed().loss_of(trainer.epoch()), 1e-3);
  expect_as_undisturbed(trainer);
  std::printf("%d kills in %lld epochs\n", kKills, static_cast<long long>(trainer.epoch()));
}

}  // namespace

int main(int argc, char** argv) {
  // The files of the private cluster. Processes that are started to run actors inherit it.
  std::unique_ptr<volador::TemporaryDirectory> home;
  if (std::getenv("VOLADOR_ROLE") == nullptr) {
    home = std::make_unique<volador::TemporaryDirectory>();
    ::setenv("VOLADOR_HOME", home->path().c_str(), 1);
  }
  auto cluster = volador::init(argc, argv, {.address = "local", .num_cpus = 8});
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  undisturbed_run.reset();
  return failed;
}
