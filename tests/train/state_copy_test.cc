// Copies of the state of training loops, which are written while the loops go on.
#include "train/operator/state_copy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "runtime/result.h"
#include "tests/train/loop_ranks.h"

namespace volador::train {
namespace {

using testing::HasSubstr;

class Copied : public TrainingOperator {
 public:
  void setup(const Config& config) override {
    torch::manual_seed(3);
    auto [model, optimizer, criterion] =
        register_all(torch::nn::Sequential(torch::nn::Linear(6, 32), torch::nn::BatchNorm1d(32), torch::nn::Tanh(),
                                           torch::nn::Linear(32, 1)),
                     adamw({.lr = 0.01}), mse_loss(), {.shard = config.get_or("shard", false)});
    first_ = model->parameters().front();
    register_schedule(optimizer, schedules::exponential({.gamma = 0.9}), ScheduleStep::kBatch);
    const torch::Tensor x = torch::randn({120, 6});
    register_data({.train = tensor_dataset({x, x.sum(1, true)}),
                   .batch_size = 12,
                   .micro_batch = config.get_or("micro_batch", int64_t{0})});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo& info) override {
    if (config().get_or("changes_early", false)) {
      const torch::NoGradGuard no_grad;
      first_.mul_(0.5);
    }
    return TrainingOperator::train_batch(batch, info);
  }

 private:
  torch::Tensor first_;
};
VOLADOR_TRAINING_OPERATOR(Copied);

// Two optimizers, and a third model that is an average of the first one's parameters, made before the steps.
class CopiedPair : public TrainingOperator {
 public:
  void setup(const Config&) override {
    torch::manual_seed(3);
    for (torch::nn::Linear* model : {&first_, &second_, &average_}) register_model(*model);
    for (torch::Tensor& parameter : average_->parameters()) parameter.requires_grad_(false);
    optimizers_ = {register_optimizer(first_, adam({.lr = 0.01})),
                   register_optimizer(second_, sgd({.lr = 0.1, .momentum = 0.9}))};
    const torch::Tensor x = torch::randn({120, 6});
    register_data({.train = tensor_dataset({x, x}), .batch_size = 12});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo&) override {
    {
      const torch::NoGradGuard no_grad;
      average_->weight.lerp_(first_->weight, 0.5);
    }
    for (const OptimizerPtr& optimizer : optimizers_) {
      const torch::Tensor& input = batch.inputs()[0];
      backward((optimizer == optimizers_[0] ? first_ : second_)->forward(input).square().mean(), optimizer);
      step(optimizer);
    }
    return {};
  }

 private:
  torch::nn::Linear first_{6, 8}, second_{6, 4}, average_{6, 8};
  std::vector<OptimizerPtr> optimizers_;
};
VOLADOR_TRAINING_OPERATOR(CopiedPair);

struct CopyCase {
  const char* name;
  int world = 1;
  bool shard = false;
  int64_t micro_batch = 0;
  bool is_pair = false;
};

class CopyOfState : public testing::TestWithParam<CopyCase> {
 protected:
  static LoopRanks ranks() {
    Config config = Config::map();
    config.set("shard", GetParam().shard);
    config.set("micro_batch", GetParam().micro_batch);
    return LoopRanks(GetParam().world,
                     GetParam().is_pair ? OperatorEntry<CopiedPair>::name : OperatorEntry<Copied>::name, config);
  }
};

std::string written(StateCopy& copy) {
  std::string bytes(copy.size(), '\0');
  copy.write(bytes);
  return bytes;
}

// The bytes of two states; true if they are equal. A failure does not print them.
bool are_equal(const std::string& a, const std::string& b) { return a == b; }

TEST_P(CopyOfState, EqualsTheStateAtItsStepIfStepsTakeAllOfIt) {
  LoopRanks ranks = CopyOfState::ranks();
  ranks.run({.until_step = 3});
  const std::string expected = ranks.bytes();
  const auto copy = ranks.at(0).copy_state();
  ranks.run({.until_step = 6});
  EXPECT_FALSE(are_equal(ranks.bytes(), expected));
  EXPECT_TRUE(are_equal(written(*copy), expected));
}

TEST_P(CopyOfState, EqualsTheStateAtItsStepIfStepsTakeTheRestOfIt) {
  LoopRanks ranks = CopyOfState::ranks();
  for (int64_t step = 1; step < 5; ++step) {
    ranks.run({.until_step = step});
    const std::string expected = ranks.bytes();
    const auto copy = ranks.at(0).copy_state();
    std::string bytes(copy->size(), '\0');
    copy->begin(bytes);
    const int64_t pieces = 3 * (step - 1);
    for (int64_t i = 0; i < pieces; ++i) ASSERT_TRUE(copy->copy_piece());
    ranks.run({.until_step = step + 1});
    EXPECT_FALSE(copy->copy_piece());
    copy->end();
    EXPECT_TRUE(are_equal(bytes, expected)) << pieces;
  }
}

TEST_P(CopyOfState, EqualsTheStateAtItsStepIfAnotherThreadWritesIt) {
  LoopRanks ranks = CopyOfState::ranks();
  for (int64_t step = 1; step < 9; ++step) {
    ranks.run({.until_step = step});
    const std::string expected = ranks.bytes();
    const auto first = ranks.at(0).copy_state(), second = ranks.at(0).copy_state();
    auto one = std::async(std::launch::async, [&] { return written(*first); });
    auto other = std::async(std::launch::async, [&] { return written(*second); });
    ranks.run({.until_step = step + 1});
    EXPECT_TRUE(are_equal(one.get(), expected)) << step;
    EXPECT_TRUE(are_equal(other.get(), expected)) << step;
  }
}

TEST_P(CopyOfState, IsIndependentOfOtherCopies) {
  LoopRanks ranks = CopyOfState::ranks();
  std::vector<std::string> expected;
  std::vector<std::shared_ptr<StateCopy>> copies;
  for (int64_t step = 1; step < 5; ++step) {
    ranks.run({.until_step = step});
    expected.push_back(ranks.bytes());
    copies.push_back(ranks.at(0).copy_state());
  }
  copies[1].reset();
  ranks.run({.until_step = 6});
  for (const size_t i : {3, 0, 2}) EXPECT_TRUE(are_equal(written(*copies[i]), expected[i])) << i;
}

TEST_P(CopyOfState, SurvivesAnAbortAndAnotherState) {
  LoopRanks ranks = CopyOfState::ranks();
  const std::string start = ranks.bytes();
  ranks.run({.until_step = 3});
  const std::string expected = ranks.bytes();
  const auto begun = ranks.at(0).copy_state(), waiting = ranks.at(0).copy_state();
  std::string bytes(begun->size(), '\0');
  begun->begin(bytes);
  ASSERT_TRUE(begun->copy_piece());
  ranks.each([&](int rank) { ranks.at(rank).abort("a rank was lost"); });
  for (const SegmentReply& reply : ranks.run({.until_step = 6})) EXPECT_EQ(reply.end, SegmentEnd::kAborted);
  ranks.load(start);
  ranks.form();
  ranks.run({.until_step = 6});
  begun->end();
  EXPECT_TRUE(are_equal(bytes, expected));
  EXPECT_TRUE(are_equal(written(*waiting), expected));
}

INSTANTIATE_TEST_SUITE_P(Runs, CopyOfState,
                         testing::Values(CopyCase{.name = "OneRank"}, CopyCase{.name = "TwoRanks", .world = 2},
                                         CopyCase{.name = "Accumulation", .world = 2, .micro_batch = 2},
                                         CopyCase{.name = "Sharded", .world = 2, .shard = true},
                                         CopyCase{.name = "TwoOptimizers", .world = 2, .is_pair = true}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(StateCopy, IsRefusedIfAParameterChangesBeforeTheStep) {
  Config config = Config::map();
  config.set("changes_early", true);
  LoopRanks ranks(1, OperatorEntry<Copied>::name, config);
  ranks.run({.until_step = 1});
  const auto damaged = ranks.at(0).copy_state();
  ranks.run({.until_step = 2});
  try {
    written(*damaged);
    ADD_FAILURE() << "no exception";
  } catch (const Exception& exception) {
    EXPECT_THAT(exception.error().message, HasSubstr("before the first step()"));
  }
  const std::string expected = ranks.bytes();
  const auto copy = ranks.at(0).copy_state();
  ranks.run({.until_step = 4});
  EXPECT_TRUE(are_equal(written(*copy), expected));
}

}  // namespace
}  // namespace volador::train
