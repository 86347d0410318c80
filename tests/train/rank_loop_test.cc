// Training loops of several ranks that are threads of this process.
#include "train/operator/rank_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <future>
#include <limits>

#include "runtime/result.h"
#include "train/group/shared_group.h"
#include "train/optim/state_dict.h"

namespace volador::train {
namespace {

constexpr int64_t kSamples = 100;

// Noisy points of a fixed linear function.
DatasetPtr points() {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
  const torch::Tensor x = torch::randn({kSamples, 6}, generator);
  const torch::Tensor y = x.matmul(torch::arange(1, 7, torch::kFloat).view({6, 1})) + 0.5;
  return tensor_dataset({x, y});
}

class Line : public TrainingOperator {
 public:
  void setup(const Config& config) override {
    auto [model, optimizer, criterion] =
        register_all(torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1)),
                     adamw({.lr = 0.01}), mse_loss());
    if (config.get_or("schedule", false))
      register_schedule(optimizer, schedules::exponential({.gamma = 0.9}), ScheduleStep::kBatch);
    register_data({.train = points(),
                   .validation = points(),
                   .batch_size = config.get_or("batch", int64_t{20}),
                   .micro_batch = config.get_or("micro_batch", int64_t{0}),
                   .loader_threads = static_cast<int>(config.get_or("threads", int64_t{0}))});
    if (config.get_or("nan_at", int64_t{-1}) >= 0) on_nan(static_cast<NanPolicy>(config.integer("policy")));
  }
  Metrics train_batch(const Batch& batch, const BatchInfo& info) override {
    if (info.step == config().get_or("nan_at", int64_t{-1}) && rank() == 0) {
      backward(torch::nn::functional::mse_loss(forward(batch), batch.target()) *
               std::numeric_limits<double>::quiet_NaN());
      step();
      return {};
    }
    if (info.step == config().get_or("stop_at", int64_t{-1}) && rank() == 0) request_stop();
    return TrainingOperator::train_batch(batch, info);
  }
};
VOLADOR_TRAINING_OPERATOR(Line);

struct Ranks {
  explicit Ranks(int world, const Config& config = Config::map(), const std::string& name = OperatorEntry<Line>::name)
      : file(SegmentFile::create().value()) {
    torch::set_num_threads(1);
    for (int rank = 0; rank < world; ++rank)
      loops.push_back(std::make_unique<RankLoop>(RankOptions{.operator_name = name, .seed = 5}, config));
    const std::string first = to_bytes(loops[0]->state());
    each<int>([&](int rank) {
      loops[static_cast<size_t>(rank)]->load(from_bytes(first));
      if (world == 1) {
        loops[0]->form(single_rank_group());
      } else {
        loops[static_cast<size_t>(rank)]->form(
            join_shared_group({.segment = file.offer(),
                               .rank = rank,
                               .node_of_rank = std::vector<int>(static_cast<size_t>(world)),
                               .arena_bytes = loops[0]->arena_bytes(world),
                               .layout = loops[static_cast<size_t>(rank)]->layout()}));
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
        return function(static_cast<int>(rank));
      }));
    std::vector<R> results;
    for (auto& one : running) results.push_back(one.get());
    return results;
  }
  std::vector<SegmentReply> run(const SegmentRequest& request) {
    return each<SegmentReply>([&](int rank) { return loops[static_cast<size_t>(rank)]->run(request); });
  }
  std::string bytes(size_t rank = 0) const { return to_bytes(loops[rank]->state()); }
  std::vector<torch::Tensor> parameters(size_t rank = 0) const {
    std::vector<torch::Tensor> tensors;
    for (const auto& item :
         loops[rank]->state().toGenericDict().at("models_state_dict").toList().get(0).toGenericDict())
      tensors.push_back(item.value().toTensor().clone());
    return tensors;
  }
  SegmentFile file;
  std::vector<std::unique_ptr<RankLoop>> loops;
};

double distance(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, (a[i] - b[i]).abs().max().item<double>());
  return largest;
}

TEST(RankLoop, RanksHaveTheSameParametersBitForBit) {
  for (const int world : {2, 3, 4}) {
    Ranks ranks(world);
    ranks.run({.epoch = 0});
    ranks.run({.epoch = 1});
    for (size_t rank = 1; rank < static_cast<size_t>(world); ++rank)
      EXPECT_EQ(distance(ranks.parameters(0), ranks.parameters(rank)), 0);
  }
}

TEST(RankLoop, AnyNumberOfRanksGivesTheResultOfOneRankOnTheWholeBatch) {
  Ranks one(1);
  for (int64_t epoch = 0; epoch < 3; ++epoch) one.run({.epoch = epoch});
  for (const int world : {2, 3, 4}) {  // 20 samples are not divisible by 3.
    Ranks several(world);
    for (int64_t epoch = 0; epoch < 3; ++epoch) several.run({.epoch = epoch});
    EXPECT_LT(distance(one.parameters(), several.parameters()), 2e-5) << world;
  }
}

TEST(RankLoop, ShortLastBatchWithFewerSamplesThanRanksCountsEachSampleOnce) {
  // 100 samples in batches of 33: the last one has a single sample, for three ranks.
  Ranks one(1, {{"batch", 33}}), three(3, {{"batch", 33}});
  one.run({.epoch = 0});
  const auto replies = three.run({.epoch = 0});
  double samples = 0;
  for (const auto& reply : replies) samples += reply.metrics.samples;
  EXPECT_EQ(samples, kSamples);
  EXPECT_EQ(replies[0].step, 4);
  EXPECT_LT(distance(one.parameters(), three.parameters()), 1e-5);
}

TEST(RankLoop, AccumulationGivesTheResultOfTheWholeBatch) {
  Ranks whole(2), pieces(2, {{"micro_batch", 3}});
  whole.run({.epoch = 0});
  pieces.run({.epoch = 0});
  EXPECT_LT(distance(whole.parameters(), pieces.parameters()), 1e-5);
}

TEST(RankLoop, LoaderThreadsDoNotChangeTheResult) {
  Ranks without(2), with(2, {{"threads", 2}});
  without.run({.epoch = 0});
  with.run({.epoch = 0});
  EXPECT_EQ(without.bytes(), with.bytes());
}

TEST(RankLoop, ResumesAtEveryBatchBitForBit) {
  const Config config{{"schedule", true}};
  Ranks whole(2, config);
  whole.run({.epoch = 0, .until_step = 7});
  whole.run({.epoch = 0});
  whole.run({.epoch = 1, .until_step = 8});
  for (int64_t split = 1; split < 5; ++split) {
    Ranks first(2, config);
    first.run({.epoch = 0, .until_step = split});
    Ranks second(2, config);
    for (auto& loop : second.loops) loop->load(from_bytes(first.bytes()));
    second.run({.epoch = 0});
    second.run({.epoch = 1, .until_step = 8});
    EXPECT_EQ(distance(whole.parameters(), second.parameters()), 0) << split;
  }
}

TEST(RankLoop, AllRanksPauseAfterTheSameStepAndGoOn) {
  Ranks whole(3), paused(3);
  whole.run({.epoch = 0});
  paused.loops[1]->request_pause();
  const auto replies = paused.run({.epoch = 0});
  for (const auto& reply : replies) {
    EXPECT_EQ(reply.end, SegmentEnd::kPaused);
    EXPECT_EQ(reply.step, 1);
  }
  EXPECT_EQ(paused.run({.epoch = 0})[0].end, SegmentEnd::kFinished);
  EXPECT_EQ(distance(whole.parameters(), paused.parameters()), 0);
}

TEST(RankLoop, AnAbortedStepLeavesTheStateOfTheStepBefore) {
  Ranks ranks(2);
  ranks.run({.epoch = 0, .until_step = 2});
  const std::string before = ranks.bytes();
  auto waiting =
      std::async(std::launch::async, [&] { return ranks.loops[0]->run({.epoch = 0}); });  // Rank 1 never comes.
  while (ranks.loops[0]->status().waiting_for.empty()) std::this_thread::yield();
  EXPECT_THAT(ranks.loops[0]->status().waiting_for, testing::ElementsAre(1));
  EXPECT_THAT(ranks.loops[0]->status().activity, testing::HasSubstr("gradients"));
  ranks.loops[0]->abort("rank 1 was lost");
  const SegmentReply reply = waiting.get();
  EXPECT_EQ(reply.end, SegmentEnd::kAborted);
  EXPECT_EQ(reply.reason, "rank 1 was lost");
  EXPECT_EQ(reply.step, 2);
  EXPECT_EQ(ranks.bytes(), before);
}

TEST(RankLoop, NanOfOneRankRaisesSkipsOrStopsOnAll) {
  const auto config = [](NanPolicy policy) { return Config{{"nan_at", 2}, {"policy", static_cast<int64_t>(policy)}}; };
  Ranks raising(2, config(NanPolicy::kRaise));
  const auto errors = raising.each<std::string>([&](int rank) -> std::string {
    try {
      raising.loops[static_cast<size_t>(rank)]->run({.epoch = 0});
      return "none";
    } catch (const Exception& e) {
      return e.error().message;
    }
  });
  // The first rank that throws aborts the group, so that the other may learn of that instead.
  EXPECT_THAT(errors, testing::Contains(testing::HasSubstr("the loss of 1 of 2 ranks is NaN or infinite in step 2")));
  EXPECT_EQ(raising.loops[0]->status().step, 2);

  Ranks skipping(2, config(NanPolicy::kSkip));
  const auto skipped = skipping.run({.epoch = 0});
  EXPECT_EQ(skipped[1].step, 5);
  EXPECT_TRUE(std::isfinite(skipped[1].metrics.means(false).at("train_loss")));
  EXPECT_TRUE(std::isfinite(skipping.parameters(1)[0].sum().item<double>()));

  Ranks stopping(2, config(NanPolicy::kStop));
  const auto replies = stopping.run({.epoch = 0});
  EXPECT_EQ(replies[0].step, 3);
  EXPECT_EQ(replies[1].step, 3);
  EXPECT_EQ(replies[0].metrics.means(false).at("stopped_by_nan"), 1);
}

TEST(RankLoop, RequestOfOneRankStopsAllAfterTheStep) {
  Ranks ranks(2, {{"stop_at", 1}});
  for (const auto& reply : ranks.run({.epoch = 0})) {
    EXPECT_EQ(reply.end, SegmentEnd::kFinished);
    EXPECT_EQ(reply.step, 2);
  }
}

TEST(RankLoop, ValidationCoversEachSampleOnceAndChangesNothing) {
  Ranks ranks(3);
  const std::string before = ranks.bytes();
  MetricSums sums;
  for (const auto& reply : ranks.run({.is_training = false})) sums.add_rank(reply.metrics);
  EXPECT_EQ(sums.samples, kSamples);
  EXPECT_GT(sums.means(false).at("val_loss"), 0);
  EXPECT_EQ(ranks.bytes(), before);
}

TEST(RankLoop, StateOfAnotherModelIsRefusedByName) {
  Ranks ranks(1);
  c10::IValue state = from_bytes(ranks.bytes());
  auto model = state.toGenericDict().at("models_state_dict").toList().get(0).toGenericDict();
  ASSERT_EQ(model.erase("0.weight"), 1u);
  EXPECT_THAT([&] { ranks.loops[0]->load(state); },
              testing::Throws<Exception>(testing::Property(&Exception::what, testing::HasSubstr("0.weight"))));
}

// Two models: the loss of the second one passes through the first one.
class Chain : public TrainingOperator {
  void setup(const Config&) override {
    first_ = register_model(torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)), "first");
    second_ = register_model(torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)), "second");
    const torch::NoGradGuard no_grad;
    first_->weight.fill_(1);
    second_->weight.fill_(1);
    first_steps_ = register_optimizer(first_, sgd({.lr = 1}));
    second_steps_ = register_optimizer(second_, sgd({.lr = 1}));
    register_data({.train = tensor_dataset({torch::ones({4, 1}), torch::ones({4, 1})}), .batch_size = 4});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo&) override {
    const torch::Tensor x = batch.features();
    backward(second_->forward(first_->forward(x)).mean(), second_steps_);  // The gradient of both is 1.
    backward((3 * first_->forward(x)).mean(), first_steps_);
    step(first_steps_);
    step(second_steps_);
    return {};
  }
  torch::nn::Linear first_{nullptr}, second_{nullptr};
  OptimizerPtr first_steps_, second_steps_;
};
VOLADOR_TRAINING_OPERATOR(Chain);

TEST(RankLoop, BackwardPassOfOneOptimizerLeavesNoGradientsInAnothersParameters) {
  for (const int world : {1, 2}) {
    Ranks ranks(world, Config::map(), OperatorEntry<Chain>::name);
    ranks.run({.epoch = 0});
    const auto models = ranks.loops[0]->state().toGenericDict().at("models_state_dict").toList();
    EXPECT_EQ(models.get(0).toGenericDict().at("weight").toTensor().item<float>(), -2) << world;
    EXPECT_EQ(models.get(1).toGenericDict().at("weight").toTensor().item<float>(), 0) << world;
  }
}

class Nothing : public TrainingOperator {
  void setup(const Config& config) override {
    if (config.contains("model")) register_model(torch::nn::Linear(2, 2));
    if (config.contains("unknown"))
      step_schedule(std::make_shared<torch::optim::SGD>(std::vector<torch::Tensor>{}, 0.1));
  }
};
VOLADOR_TRAINING_OPERATOR(Nothing);

TEST(RankLoop, IncompleteSetupIsRefusedWithTheNextStep) {
  const auto setup = [](const Config& config) {
    return [config] { RankLoop(RankOptions{.operator_name = OperatorEntry<Nothing>::name}, config); };
  };
  const auto says = [](const char* text) {
    return testing::Throws<Exception>(testing::Property(&Exception::what, testing::HasSubstr(text)));
  };
  EXPECT_THAT(setup(Config::map()), says("registered no model"));
  EXPECT_THAT(setup({{"model", true}}), says("registered no optimizer"));
  EXPECT_THAT(setup({{"model", true}, {"unknown", true}}), says("this optimizer is not registered"));
  EXPECT_THAT([] { RankLoop(RankOptions{.operator_name = "Missing"}, Config::map()); },
              says("is not registered in this program"));
}

TEST(RankLoop, BatchWithFewerSamplesThanRanksIsRefused) {
  EXPECT_THAT(
      [] {
        Ranks ranks(4, {{"batch", 3}});
      },
      testing::Throws<Exception>(
          testing::Property(&Exception::what, testing::HasSubstr("batch_size is 3, and the run has 4 workers"))));
}

}  // namespace
}  // namespace volador::train
