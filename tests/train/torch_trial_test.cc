// Trials in Determined's shape, run by several ranks that are threads of this process.
#include "train/trial/torch_trial.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "runtime/result.h"
#include "tests/train/refusals.h"
#include "train/group/shared_group.h"
#include "train/operator/rank_loop.h"
#include "train/optim/state_dict.h"
#include "train/trainer/trainer.h"
#include "train/trainer/tuned_trainer.h"

namespace volador::train {
namespace {

constexpr int64_t kTrialSamples = 100;

// Noisy points of a fixed linear function.
DatasetPtr trial_points() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const torch::Tensor x = torch::randn({kTrialSamples, 6}, generator);
  return tensor_dataset({x, x.matmul(torch::arange(1, 7, torch::kFloat).view({6, 1})) + 0.5});
}
torch::nn::Sequential trial_net() {
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
}

struct TrialRanks {
  template <class T>
  static TrialRanks of(int world, const Config& config = Config::map()) {
    return TrialRanks(world, config, OperatorEntry<T>::name);
  }
  TrialRanks(int world, const Config& config, const std::string& name) : file(SegmentFile::create().value()) {
    torch::set_num_threads(1);
    for (int rank = 0; rank < world; ++rank)
      loops.push_back(std::make_unique<RankLoop>(RankOptions{.operator_name = name, .seed = 5}, config));
    load(bytes());
    each<int>([&](size_t rank) {
      if (world == 1) {
        loops[0]->form(single_rank_group());
      } else {
        loops[rank]->form(join_shared_group({.segment = file.offer(),
                                             .rank = static_cast<int>(rank),
                                             .node_of_rank = std::vector<int>(static_cast<size_t>(world)),
                                             .arena_bytes = loops[0]->arena_bytes(world),
                                             .layout = loops[rank]->layout()}));
      }
      return 0;
    });
  }
  template <class R, class F>
  std::vector<R> each(F function) {
    std::vector<std::future<R>> running;
    for (size_t rank = 0; rank < loops.size(); ++rank)
      running.push_back(std::async(std::launch::async, [&function, rank] {
        torch::set_num_threads(1);
        return function(rank);
      }));
    std::vector<R> results;
    for (auto& one : running) results.push_back(one.get());
    return results;
  }
  std::vector<SegmentReply> run(const SegmentRequest& request) {
    return each<SegmentReply>([&](size_t rank) { return loops[rank]->run(request); });
  }
  // Metrics as the trainer reports them.
  Metrics metrics(const SegmentRequest& request) {
    MetricSums sums;
    for (const auto& reply : run(request)) sums.add_rank(reply.metrics);
    return sums.means(false);
  }
  std::string bytes(size_t rank = 0) const { return to_bytes(loops[rank]->state()); }
  void load(const std::string& state) {
    for (auto& loop : loops) loop->load(from_bytes(state));
  }
  std::vector<torch::Tensor> parameters(size_t rank = 0) const {
    std::vector<torch::Tensor> tensors;
    const c10::IValue models = loops[rank]->state().toGenericDict().at("models_state_dict");
    for (const c10::IValue& model : models.toListRef()) {
      for (const auto& item : model.toGenericDict()) tensors.push_back(item.value().toTensor().clone());
    }
    return tensors;
  }
  SegmentFile file;
  std::vector<std::unique_ptr<RankLoop>> loops;
};

double difference(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  EXPECT_EQ(a.size(), b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

// Counts epochs, so that a state is in the checkpoint, and records what was called.
class EpochCounter : public TrialCallback {
 public:
  explicit EpochCounter(std::vector<std::string>* calls) : calls_(calls) {}
  void on_training_start() override { record("training_start"); }
  void on_training_epoch_start(int64_t epoch) override { record(fmt::format("epoch_start {}", epoch)); }
  void on_training_epoch_end(int64_t epoch) override {
    ++epochs_;
    record(fmt::format("epoch_end {}", epoch));
  }
  void on_validation_start() override { record("validation_start"); }
  void on_validation_end(const Metrics& metrics) override {
    record(fmt::format("validation_end {}", metrics.at("count")));
  }
  c10::IValue state_dict() override { return epochs_; }
  void load_state_dict(const c10::IValue& state) override { epochs_ = state.toInt(); }

 private:
  void record(std::string call) {
    if (calls_ != nullptr) calls_->push_back(std::move(call));
  }
  std::vector<std::string>* calls_;
  int64_t epochs_ = 0;
};

// Sum of squared errors and number of samples, over all ranks.
class ErrorSum : public MetricReducer {
 public:
  void update(const torch::Tensor& error) {
    sum_ += error.square().sum().item<double>();
    count_ += error.size(0);
  }
  void reset() override { sum_ = 0, count_ = 0; }
  c10::IValue per_slot_reduce() override { return torch::tensor({sum_, static_cast<double>(count_)}, torch::kDouble); }
  Metrics cross_slot_reduce(const std::vector<c10::IValue>& per_slot) override {
    torch::Tensor all = torch::zeros({2}, torch::kDouble);
    for (const c10::IValue& one : per_slot) all += one.toTensor();
    return {{"squared_error", all[0].item<double>()}, {"errors", all[1].item<double>()}};
  }

 private:
  double sum_ = 0;
  int64_t count_ = 0;
};

class LineTrial : public TorchTrial {
 public:
  explicit LineTrial(TorchTrialContext& context) : context_(context) {
    model_ = context.wrap_model(trial_net());
    optimizer_ = context.wrap_optimizer(model_, adamw({.lr = 0.01}));
    const Config& hparams = context.get_hparams();
    if (hparams.contains("step_mode")) {
      schedule_ = context.wrap_lr_scheduler(schedules::exponential({.gamma = 0.5}), optimizer_,
                                            static_cast<StepMode>(hparams.integer("step_mode")),
                                            hparams.get_or("schedule_frequency", 1));
    }
    if (hparams.contains("reducers")) {
      errors_ = context.wrap_reducer(std::make_shared<ErrorSum>());
      largest_ = context.wrap_reducer(
          [](const std::vector<c10::IValue>& values) {
            double largest = 0;
            for (const c10::IValue& value : values) largest = std::max(largest, value.toDouble());
            return largest;
          },
          hparams.get_or("reducer_name", "largest"), {.for_training = false});
    }
    context.aggregate_gradients({.frequency = hparams.get_or("frequency", 1)});
  }
  TrainingDataLoader build_training_data_loader() override { return {.dataset = trial_points()}; }
  ValidationDataLoader build_validation_data_loader() override {
    return {.dataset = trial_points(), .batch_size = context_.get_hparams().get_or("validation_batch", 0)};
  }
  Metrics train_batch(const Batch& batch, int64_t epoch_idx, int64_t batch_idx) override {
    if (context_.get_hparams().get_or("stop_at", -1) == batch_idx && context_.distributed().get_rank() == 0)
      context_.set_stop_requested(true);
    const double rate = optimizer_->param_groups()[0].options().get_lr();
    const torch::Tensor output = model_->forward(batch.features()), loss = mse_loss()(output, batch.target());
    context_.backward(loss);
    context_.step_optimizer(optimizer_);
    if (errors_ && context_.current_batch_rows() > 0) errors_->update((output - batch.target()).detach());
    if (schedule_ && context_.get_hparams().integer("step_mode") == static_cast<int64_t>(StepMode::kManual) &&
        batch_idx % 3 == 0)
      schedule_->step();
    EXPECT_EQ(batch_idx, context_.current_train_batch());
    EXPECT_EQ(epoch_idx, context_.current_train_epoch());
    return {{"train_loss", loss.item<double>()},
            {"rate", rate},
            {"epoch_starts", context_.is_epoch_start()},
            {"epoch_ends", context_.is_epoch_end()},
            {"share", static_cast<double>(context_.get_per_slot_batch_size())}};
  }
  Metrics evaluate_batch(const Batch& batch) override {
    EXPECT_FALSE(torch::GradMode::is_enabled());
    EXPECT_FALSE(model_->is_training());
    const torch::Tensor error = model_->forward(batch.features()) - batch.target();
    if (errors_) errors_->update(error);
    if (largest_) largest_->update(error.abs().max().item<double>());
    return {{"val_loss", error.square().mean().item<double>()},
            {"count", static_cast<double>(batch.size())},
            {"worst", error.abs().max().item<double>()},
            {"least", error.abs().min().item<double>()},
            {"batches", static_cast<double>(batch.size())}};
  }
  EvaluationReducer evaluation_reducer() const override {
    return {{"count", Reducer::kSum},
            {"worst", Reducer::kMax},
            {"least", Reducer::kMin},
            {"batches", [](const std::vector<double>& values) { return static_cast<double>(values.size()); }}};
  }
  TrialCallbacks build_callbacks() override { return {{"epochs", std::make_shared<EpochCounter>(calls)}}; }

  static inline std::vector<std::string>* calls = nullptr;

 private:
  TorchTrialContext& context_;
  torch::nn::Sequential model_ = nullptr;
  OptimizerPtr optimizer_;
  std::optional<LrScheduler> schedule_;
  std::shared_ptr<ErrorSum> errors_;
  std::shared_ptr<ValuesReducer> largest_;
};
VOLADOR_TORCH_TRIAL(LineTrial);

// The same as an operator.
class LineOperator : public TrainingOperator {
  void setup(const Config&) override {
    register_all(trial_net(), adamw({.lr = 0.01}), mse_loss());
    register_data({.train = trial_points(), .validation = trial_points(), .batch_size = 20});
  }
};
VOLADOR_TRAINING_OPERATOR(LineOperator);

const Config kBatchOf20{{"global_batch_size", 20}};

TEST(TorchTrial, TrainsBitForBitAsTheOperatorOfTheSameCode) {
  for (const int world : {1, 3}) {
    auto trial = TrialRanks::of<LineTrial>(world, kBatchOf20);
    auto plain = TrialRanks::of<LineOperator>(world);
    plain.load([&] {  // All but the operator's own state.
      auto state = from_bytes(trial.bytes()).toGenericDict();
      state.at("volador").toGenericDict().insert_or_assign("operator", c10::IValue());
      return to_bytes(state);
    }());
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const Metrics ours = trial.metrics({.epoch = epoch}), theirs = plain.metrics({.epoch = epoch});
      EXPECT_EQ(ours.at("train_loss"), theirs.at("train_loss"));
      EXPECT_EQ(ours.at("num_samples"), kTrialSamples);
    }
    EXPECT_EQ(difference(trial.parameters(), plain.parameters()), 0) << world;
    EXPECT_DOUBLE_EQ(trial.metrics({.is_training = false}).at("val_loss"),
                     plain.metrics({.is_training = false}).at("val_loss"));
  }
}

TEST(TorchTrial, TrainersAndTrialsOfTuneTakeTheClass) {
  static_assert(std::is_constructible_v<TorchTrainer<LineTrial>, TrainerOptions>);
  EXPECT_EQ(OperatorEntry<LineTrial>::name, type_name<LineTrial>());
  EXPECT_EQ(as_trainable<LineTrial>({.num_workers = 2}).bundles.size(), 3u);
}

TEST(TorchTrial, ReducersGiveTheSameMetricsForAnyNumberOfRanks) {
  // Batches of 33 and a last one of a single sample, so that ranks have unequal shares, and some none.
  const Config config{{"global_batch_size", 33}, {"validation_batch", 33}, {"reducers", true}};
  const Metrics one = TrialRanks::of<LineTrial>(1, config).metrics({.is_training = false});
  EXPECT_EQ(one.at("count"), kTrialSamples);
  EXPECT_EQ(one.at("batches"), 4);
  EXPECT_EQ(one.at("errors"), kTrialSamples);
  EXPECT_DOUBLE_EQ(one.at("largest"), one.at("worst"));
  EXPECT_LT(one.at("least"), one.at("worst"));
  EXPECT_NEAR(one.at("squared_error"), one.at("val_loss") * kTrialSamples, 1e-4 * one.at("squared_error"));
  for (const int world : {2, 3}) {
    const Metrics several = TrialRanks::of<LineTrial>(world, config).metrics({.is_training = false});
    for (const char* name : {"val_loss", "count", "worst", "least", "squared_error", "errors", "largest"})
      EXPECT_NEAR(several.at(name), one.at(name), 1e-5 * one.at(name)) << name;
    EXPECT_EQ(several.at("batches"), 3 * world + 1);  // Shares of ranks: the last batch is one rank's.
    EXPECT_EQ(several.at("num_samples"), kTrialSamples);
    EXPECT_EQ(several.at("batch_count"), 4);
  }
}

TEST(TorchTrial, ReducersOfTrainingCollectOverTheRanks) {
  const Config config{{"global_batch_size", 33}, {"reducers", true}};
  for (const int world : {1, 3}) {
    auto ranks = TrialRanks::of<LineTrial>(world, config);
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const Metrics metrics = ranks.metrics({.epoch = epoch});
      EXPECT_DOUBLE_EQ(metrics.at("errors"), kTrialSamples);
      EXPECT_GT(metrics.at("squared_error"), 0);
      EXPECT_FALSE(metrics.contains("largest"));  // Only for validation.
      EXPECT_EQ(metrics.at("num_samples"), kTrialSamples);
      EXPECT_EQ(metrics.at("batch_count"), 4);
    }
  }
}

TEST(TorchTrial, ReducerWithTheNameOfAMetricIsRefused) {
  const Config config{{"global_batch_size", 20}, {"reducers", true}, {"reducer_name", "val_loss"}};
  auto ranks = TrialRanks::of<LineTrial>(1, config);
  expect_refused([&] { ranks.run({.is_training = false}); },
                 "the metric val_loss is that of a reducer and of another one; give the reducer's another name");
}

TEST(TorchTrial, AggregatedBatchesMakeTheStepOfOneBatch) {
  auto whole = TrialRanks::of<LineTrial>(1, kBatchOf20);
  for (const int world : {1, 2, 3}) {
    auto parts = TrialRanks::of<LineTrial>(world, {{"global_batch_size", 5}, {"frequency", 4}});
    parts.load(whole.bytes());
    whole.loops[0]->run({.epoch = 0, .until_step = 5});
    const Metrics metrics = parts.metrics({.epoch = 0, .until_step = 5});
    EXPECT_LT(difference(whole.parameters(), parts.parameters()), 1e-5) << world;
    EXPECT_EQ(metrics.at("num_samples"), kTrialSamples);
    EXPECT_EQ(metrics.at("batch_count"), 5);
    if (world == 1) {
      EXPECT_DOUBLE_EQ(metrics.at("epoch_starts"), 1.0 / 20);
    }
    whole = TrialRanks::of<LineTrial>(1, kBatchOf20);
  }
}

// One step of SGD from 0 with the gradient that `use` asks for; the batch has the values 1 … 8.
class StepTrial : public TorchTrial {
 public:
  explicit StepTrial(TorchTrialContext& context) : context_(context) {
    model_ = context.wrap_model(torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false)));
    torch::nn::init::zeros_(model_->weight);
    optimizer_ = context.wrap_optimizer(std::make_shared<torch::optim::SGD>(model_->parameters(), 1.0));
    const Config& hparams = context.get_hparams();
    if (hparams.get_or("amp", false)) context.use_amp(torch::kBFloat16);
    context.aggregate_gradients(
        {.frequency = hparams.get_or("frequency", 1), .average_gradients = hparams.get_or("average", true)});
  }
  TrainingDataLoader build_training_data_loader() override {
    const torch::Tensor x = torch::arange(1, 9, torch::kFloat).view({8, 1});
    return {.dataset = tensor_dataset({torch::cat({x, -x}, 1)}), .shuffle = false};
  }
  ValidationDataLoader build_validation_data_loader() override { return {}; }
  Metrics train_batch(const Batch& batch, int64_t, int64_t) override {
    const Config& hparams = context_.get_hparams();
    const torch::Tensor output = [&] {
      const AutocastGuard amp = context_.autocast_forward_pass();
      return model_->forward(batch.features());
    }();
    EXPECT_EQ(output.scalar_type(), hparams.get_or("amp", false) ? torch::kBFloat16 : torch::kFloat);
    const torch::Tensor loss = output.to(torch::kFloat).mean();
    if (hparams.get_or("twice", false)) {
      context_.backward(0.25 * loss, {.more = hparams.get_or("more", true)});
      context_.backward(0.75 * model_->forward(batch.features()).mean());
    } else {
      context_.backward(loss);
    }
    const bool stepped = context_.step_optimizer(
        optimizer_, {.clip_norm = hparams.get_or("clip_norm", 0.0), .clip_value = hparams.get_or("clip_value", 0.0)});
    return {{"stepped", stepped}};
  }

 private:
  TorchTrialContext& context_;
  torch::nn::Linear model_{nullptr};
  OptimizerPtr optimizer_;
};
VOLADOR_TORCH_TRIAL(StepTrial);

torch::Tensor weight_after_step(int world, const Config& config) {
  auto ranks = TrialRanks::of<StepTrial>(world, config);
  ranks.run({.epoch = 0});
  return ranks.parameters(static_cast<size_t>(world) - 1)[0].view({2});
}

TEST(TorchTrial, StepClipsTheSumOfAllRanks) {
  const torch::Tensor gradient = torch::tensor({4.5F, -4.5F});
  const torch::Tensor parameter = torch::zeros({2}).requires_grad_();
  parameter.mutable_grad() = gradient.clone();
  torch::nn::utils::clip_grad_norm_(parameter, 0.5);
  for (const int world : {1, 2, 3}) {
    const Config whole{{"global_batch_size", 8}};
    EXPECT_TRUE(weight_after_step(world, whole).allclose(-gradient)) << world;
    Config config = whole;
    config.set("clip_norm", 0.5);
    EXPECT_TRUE(weight_after_step(world, config).allclose(-parameter.grad())) << world;
    config = whole;
    config.set("clip_value", 2.0);
    EXPECT_TRUE(weight_after_step(world, config).allclose(torch::tensor({-2.0F, 2.0F}))) << world;
  }
}

TEST(TorchTrial, AmpRunsTheForwardPassInItsType) {
  EXPECT_TRUE(weight_after_step(2, {{"global_batch_size", 8}, {"amp", true}}).allclose(torch::tensor({-4.5F, 4.5F})));
}

TEST(TorchTrial, AggregatedGradientsAreAveragedOrSummed) {
  for (const int world : {1, 2}) {
    const Config average{{"global_batch_size", 2}, {"frequency", 4}};
    EXPECT_TRUE(weight_after_step(world, average).allclose(torch::tensor({-4.5F, 4.5F})));
    Config sum = average;
    sum.set("average", false);
    EXPECT_TRUE(weight_after_step(world, sum).allclose(torch::tensor({-18.0F, 18.0F})));
  }
}

TEST(TorchTrial, SeveralBackwardPassesOfAStepAddUp) {
  for (const int world : {1, 2}) {
    const Config config{{"global_batch_size", 8}, {"twice", true}};
    EXPECT_TRUE(weight_after_step(world, config).allclose(torch::tensor({-4.5F, 4.5F})));
  }
  auto ranks = TrialRanks::of<StepTrial>(1, {{"global_batch_size", 8}, {"twice", true}, {"more", false}});
  EXPECT_THAT([&] { ranks.run({.epoch = 0}); },
              testing::Throws<Exception>(testing::Property(
                  &Exception::what, testing::HasSubstr("set .more = true in all passes but the last"))));
}

TEST(TorchTrial, ResumesAtEveryBatchBitForBit) {
  Config config{{"global_batch_size", 20}, {"step_mode", static_cast<int64_t>(StepMode::kEveryBatch)}};
  auto whole = TrialRanks::of<LineTrial>(2, config);
  whole.run({.epoch = 0, .until_step = 5});
  whole.run({.epoch = 1, .until_step = 8});
  for (int64_t split = 1; split < 5; ++split) {
    auto first = TrialRanks::of<LineTrial>(2, config), second = TrialRanks::of<LineTrial>(2, config);
    first.run({.epoch = 0, .until_step = split});
    second.load(first.bytes());
    second.run({.epoch = 0});
    second.run({.epoch = 1, .until_step = 8});
    EXPECT_TRUE(second.bytes() == whole.bytes()) << split;  // With the callbacks' state.
  }
}

TEST(TorchTrial, SchedulesAdvanceByEpochBatchOptimizerStepOrHand) {
  // Rates of twelve batches in units of the first one, as powers of one half; an epoch has 5 batches of 20.
  const auto powers = [](StepMode mode, int64_t schedule_frequency, int64_t frequency) {
    auto ranks = TrialRanks::of<LineTrial>(1, {{"global_batch_size", 20 / frequency},
                                               {"frequency", frequency},
                                               {"step_mode", static_cast<int64_t>(mode)},
                                               {"schedule_frequency", schedule_frequency}});
    std::vector<int> of_batches;
    for (int64_t step = 0; step < 12; ++step) {
      const Metrics metrics = ranks.metrics({.epoch = step / 5, .until_step = step + 1});
      of_batches.push_back(static_cast<int>(std::lround(-std::log2(metrics.at("rate") / 0.01))));
    }
    return of_batches;
  };
  using testing::ElementsAre;
  EXPECT_THAT(powers(StepMode::kEveryEpoch, 1, 1), ElementsAre(0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2));
  EXPECT_THAT(powers(StepMode::kEveryEpoch, 2, 1), ElementsAre(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1));
  EXPECT_THAT(powers(StepMode::kEveryBatch, 1, 1), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(powers(StepMode::kEveryBatch, 3, 1), ElementsAre(0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3));
  EXPECT_THAT(powers(StepMode::kEveryBatch, 1, 2), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22));
  EXPECT_THAT(powers(StepMode::kEveryOptimizerStep, 1, 2), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(powers(StepMode::kManual, 1, 1), ElementsAre(0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4));
}

TEST(TorchTrial, CallbacksFollowEpochsAndValidations) {
  std::vector<std::string> calls;
  LineTrial::calls = &calls;
  auto ranks = TrialRanks::of<LineTrial>(1, kBatchOf20);
  LineTrial::calls = nullptr;
  ranks.run({.epoch = 0, .until_step = 3});
  ranks.run({.epoch = 0});
  ranks.run({.is_training = false});
  ranks.run({.epoch = 1});
  EXPECT_THAT(calls, testing::ElementsAre("training_start", "epoch_start 0", "epoch_end 0", "validation_start",
                                          "validation_end 100", "epoch_start 1", "epoch_end 1"));
}

TEST(TorchTrial, StopRequestOfOneRankEndsTheCallOnAll) {
  Config config = kBatchOf20;
  config.set("stop_at", 2);
  auto ranks = TrialRanks::of<LineTrial>(3, config);
  for (const SegmentReply& reply : ranks.run({.epoch = 0})) {
    EXPECT_TRUE(reply.is_stopped);
    EXPECT_EQ(reply.step, 3);
  }
  for (const SegmentReply& reply : ranks.run({.epoch = 0})) EXPECT_EQ(reply.step, 5);  // The next call is not stopped.
}

TEST(TorchTrial, ABatchThatIsRepeatedCountsOnce) {
  const Config config{{"global_batch_size", 20}, {"step_mode", static_cast<int64_t>(StepMode::kEveryBatch)}};
  auto ranks = TrialRanks::of<LineTrial>(2, config);
  ranks.run({.epoch = 0, .until_step = 2});
  const std::string before = ranks.bytes();
  auto waiting = std::async(std::launch::async, [&] { return ranks.loops[0]->run({.epoch = 0}); });
  while (ranks.loops[0]->status().waiting_for.empty()) std::this_thread::yield();  // Rank 1 never comes.
  ranks.loops[0]->abort("rank 1 was lost");
  EXPECT_EQ(waiting.get().end, SegmentEnd::kAborted);
  EXPECT_TRUE(ranks.bytes() == before);
  auto alone = TrialRanks::of<LineTrial>(1, config);
  alone.load(before);
  ranks.loops[0]->form(single_rank_group());
  ranks.loops[0]->run({.epoch = 0});
  alone.run({.epoch = 0});
  EXPECT_TRUE(ranks.bytes() == alone.bytes());
}

TEST(TorchTrial, AbortedValidationIsRepeatedFromItsBeginning) {
  const Config config{{"global_batch_size", 20}, {"reducers", true}};
  auto ranks = TrialRanks::of<LineTrial>(2, config);
  auto waiting = std::async(std::launch::async, [&] { return ranks.loops[0]->run({.is_training = false}); });
  while (ranks.loops[0]->status().waiting_for.empty()) std::this_thread::yield();
  ranks.loops[0]->abort("rank 1 was lost");
  EXPECT_EQ(waiting.get().end, SegmentEnd::kAborted);
  ranks.loops[0]->form(single_rank_group());
  const Metrics metrics = ranks.loops[0]->run({.is_training = false}).metrics.means(false);
  EXPECT_DOUBLE_EQ(metrics.at("errors"), kTrialSamples);
  EXPECT_DOUBLE_EQ(metrics.at("count"), kTrialSamples);
}

// Two models with an optimizer each, and a metric that needs all validation data at once. The evaluation is private.
class PairTrial : public TorchTrial {
 public:
  explicit PairTrial(TorchTrialContext& context) : context_(context) {
    first_ = context.wrap_model(torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)), "first");
    second_ = context.wrap_model(torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)), "second");
    torch::nn::init::ones_(first_->weight);
    torch::nn::init::ones_(second_->weight);
    first_steps_ = context.wrap_optimizer(first_, sgd({.lr = 1}));
    second_steps_ = context.wrap_optimizer(second_, sgd({.lr = 1}));
  }
  TrainingDataLoader build_training_data_loader() override {
    return {.dataset = tensor_dataset({torch::ones({4, 1})}), .batch_size = 4};
  }
  ValidationDataLoader build_validation_data_loader() override {
    return {.dataset = tensor_dataset({torch::arange(10)}), .batch_size = 4};
  }
  Metrics train_batch(const Batch& batch, int64_t, int64_t) override {
    const torch::Tensor x = batch.features();
    context_.backward(second_->forward(first_->forward(x)).mean(), {.optimizer = second_steps_});
    context_.backward((3 * first_->forward(x)).mean(), {.optimizer = first_steps_});
    context_.step_optimizer(first_steps_);
    context_.step_optimizer(second_steps_);
    return {};
  }

 private:
  Metrics evaluate_full_dataset(BatchIterator& batches) override {
    std::vector<torch::Tensor> seen;
    while (auto loaded = batches.next()) {
      EXPECT_EQ(loaded->info.rows, loaded->batch.size());
      seen.push_back(loaded->batch.features());
    }
    EXPECT_EQ(context_.distributed().get_rank(), 0);
    return {{"median", torch::cat(seen).median().item<double>()},
            {"in_order", torch::cat(seen).equal(torch::arange(10))}};
  }
  TorchTrialContext& context_;
  torch::nn::Linear first_{nullptr}, second_{nullptr};
  OptimizerPtr first_steps_, second_steps_;
};
VOLADOR_TORCH_TRIAL(PairTrial);

TEST(TorchTrial, ModelsWithAnOptimizerEachKeepTheirGradientsApart) {
  for (const int world : {1, 2}) {
    auto ranks = TrialRanks::of<PairTrial>(world);
    ranks.run({.epoch = 0});
    EXPECT_EQ(ranks.parameters()[0].item<float>(), -2) << world;
    EXPECT_EQ(ranks.parameters()[1].item<float>(), 0) << world;
  }
}

TEST(TorchTrial, RankZeroEvaluatesTheFullDataSetInOrder) {
  for (const int world : {1, 3}) {
    auto ranks = TrialRanks::of<PairTrial>(world);
    const Metrics metrics = ranks.metrics({.is_training = false});
    EXPECT_EQ(metrics.at("in_order"), 1) << world;
    EXPECT_EQ(metrics.at("median"), 4);
    EXPECT_EQ(metrics.at("num_samples"), 10);
    EXPECT_EQ(metrics.at("batch_count"), 3);
  }
}

// Does what "mistake" names.
class WrongTrial : public TorchTrial {
 public:
  explicit WrongTrial(TorchTrialContext& context) : context_(context) {
    auto model = context.wrap_model(torch::nn::Linear(1, 1));
    const OptimizerPtr optimizer = context.wrap_optimizer(model, sgd({.lr = 1}));
    if (is("rank")) context.distributed().get_rank();
    if (is("hparam")) context.get_hparam("width");
    if (is("frequency")) context.aggregate_gradients({.frequency = 0});
    const SchedulePtr schedule = schedules::constant();
    if (is("schedules")) {
      context.wrap_lr_scheduler(schedule, optimizer, StepMode::kEveryEpoch);
      context.wrap_lr_scheduler(schedule, optimizer, StepMode::kManual);
    }
    if (is("reducer")) context.wrap_reducer(std::make_shared<ErrorSum>(), {false, false});
  }
  TrainingDataLoader build_training_data_loader() override {
    if (is("data")) return {};
    return {.dataset = trial_points(), .batch_size = is("share") ? context_.get_per_slot_batch_size() : 20};
  }
  ValidationDataLoader build_validation_data_loader() override { return {.dataset = trial_points()}; }
  Metrics train_batch(const Batch&, int64_t, int64_t) override { return {}; }

 private:
  bool is(const char* mistake) const { return context_.get_hparams().get_or("mistake", "") == mistake; }
  TorchTrialContext& context_;
};
VOLADOR_TORCH_TRIAL(WrongTrial);
class TwofoldTrial : public WrongTrial {
 public:
  using WrongTrial::WrongTrial;
  Metrics evaluate_batch(const Batch&) override { return {}; }
  Metrics evaluate_full_dataset(BatchIterator&) override { return {}; }
};
VOLADOR_TORCH_TRIAL(TwofoldTrial);

TEST(TorchTrial, MistakesAreRefusedWithTheNextStep) {
  const auto setup = [](const std::string& mistake, const std::string& name = OperatorEntry<WrongTrial>::name) {
    return [=] { RankLoop(RankOptions{.operator_name = name}, {{"mistake", mistake}}); };
  };
  const auto says = [](const char* text) {
    return testing::Throws<Exception>(testing::Property(&Exception::what, testing::HasSubstr(text)));
  };
  EXPECT_THAT(setup("rank"), says("use its process id"));
  EXPECT_THAT(setup("hparam"), says("width"));
  EXPECT_THAT(setup("frequency"), says("frequency is 0"));
  EXPECT_THAT(setup("schedules"), says("train::schedules::chained()"));
  EXPECT_THAT(setup("reducer"), says("neither for_training nor for_validation"));
  EXPECT_THAT(setup("data"), says("build_training_data_loader() returned no data set"));
  EXPECT_THAT(setup("share"), says("use get_global_batch_size()"));
  EXPECT_THAT(setup("none"), says("overrides none of evaluate_batch() and evaluate_full_dataset()"));
  EXPECT_THAT(setup("none", OperatorEntry<TwofoldTrial>::name), says("overrides both evaluate_batch() and"));
}

}  // namespace
}  // namespace volador::train
