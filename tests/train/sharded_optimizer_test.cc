// Optimizers whose state is divided among ranks, which are threads, against optimizers that are not divided.
#include "train/operator/sharded_optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "runtime/result.h"
#include "tests/train/loop_ranks.h"
#include "tests/train/refusals.h"
#include "tests/train/thread_ranks.h"
#include "train/data/dataset.h"
#include "train/optim/grad_scaler.h"
#include "train/optim/optimizers.h"

namespace volador::train {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

OptimizerPtr make_optimizer(const std::string& name, std::vector<torch::Tensor> parameters) {
  if (name == "sgd") return sgd({.lr = 0.05, .momentum = 0.9, .nesterov = true})(std::move(parameters));
  if (name == "adam") return adam({.lr = 0.01, .weight_decay = 0.01})(std::move(parameters));
  if (name == "adamw") return adamw({.lr = 0.01, .amsgrad = true})(std::move(parameters));
  if (name == "adagrad") return std::make_shared<Adagrad>(std::move(parameters), AdagradOptions(0.01));
  if (name == "plain adagrad")
    return std::make_shared<torch::optim::Adagrad>(std::move(parameters), torch::optim::AdagradOptions(0.01));
  if (name == "rmsprop") return std::make_shared<RMSprop>(std::move(parameters), RMSpropOptions(0.01).momentum(0.9));
  if (name == "nadam") return std::make_shared<NAdam>(std::move(parameters), NAdamOptions(0.01));
  return std::make_shared<torch::optim::LBFGS>(std::move(parameters), 0.1);
}

// Small network with a parameter that no rank uses, and options by name.
class DividedNet : public TrainingOperator {
  void setup(const Config& config) override {
    const OptimizerSettings settings{.shard = config.get_or("shard", false)};
    const auto name = config.get_or("optimizer", std::string("adamw"));
    const auto width = config.get_or("width", int64_t{16});
    torch::nn::Sequential model(torch::nn::Linear(6, width), torch::nn::Tanh(), torch::nn::Linear(width, 4),
                                torch::nn::Tanh(), torch::nn::Linear(4, 1));
    parameters_ = register_model(model)->parameters();
    if (config.get_or("unused", true)) model->register_parameter("unused", torch::ones({100}));
    OptimizerPtr optimizer;
    if (config.get_or("groups", false)) {
      std::vector<torch::optim::OptimizerParamGroup> groups;
      const auto parameters = model->parameters();
      groups.emplace_back(std::vector<torch::Tensor>(parameters.begin(), parameters.begin() + 3));
      groups.emplace_back(std::vector<torch::Tensor>(parameters.begin() + 3, parameters.end()),
                          std::make_unique<AdamWOptions>(0.1));
      optimizer = register_optimizer(std::make_shared<AdamW>(groups, AdamWOptions(0.01)), settings);
    } else {
      optimizer = register_optimizer(
          model, [&](auto parameters) { return make_optimizer(name, parameters); }, settings);
    }
    register_criterion(mse_loss());
    if (config.get_or("schedule", false))
      register_schedule(optimizer, schedules::exponential({.gamma = 0.9}), ScheduleStep::kBatch);
    clip_gradients({.clip_norm = config.get_or("clip", 0.0)});
    on_nan(NanPolicy::kSkip);
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const torch::Tensor x = torch::randn({100, 6}, generator);
    const DatasetPtr data = tensor_dataset({x, x.sum(1, true).sin()});
    register_data(
        {.train = data, .validation = data, .batch_size = 20, .micro_batch = config.get_or("micro_batch", int64_t{0})});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo& info) override {
    if (info.step == config().get_or("nan_at", int64_t{-1}) && rank() == 0) {
      backward(forward(batch).mean() * std::numeric_limits<double>::quiet_NaN());
      step();
      return {};
    }
    if (info.step == config().get_or("lost_at", int64_t{-1}) && rank() == 1)
      throw Exception(Error{ErrorCode::kApplication, "rank 1 ends here"});
    Metrics metrics = TrainingOperator::train_batch(batch, info);
    metrics.set("state_bytes", static_cast<double>(optimizer_state_bytes()));
    return metrics;
  }
  Metrics on_call(const std::string& name, const Config& arguments) override {
    if (name == "sum") {
      torch::Tensor sum = torch::full({1}, arguments.integer("value") * (rank() + 1), torch::kLong);
      all_reduce(sum);
      return {{"sum", sum.item<double>()}};
    }
    if (name == "equal") {  // Whether the parameters are those of rank 0.
      bool is_equal = true;
      for (const torch::Tensor& parameter : parameters_) {
        torch::Tensor copy = parameter.detach().clone();
        broadcast(copy);
        is_equal = is_equal && copy.equal(parameter);
      }
      return {{"equal", is_equal ? 1.0 : 0.0}};
    }
    if (name == "fail" && rank() == 1) throw Exception(Error{ErrorCode::kApplication, "rank 1 fails"});
    if (name == "fail") all_reduce(torch::zeros({1}));
    if (name == "synchronize") synchronize_gradients();
    return TrainingOperator::on_call(name, arguments);
  }
  std::vector<torch::Tensor> parameters_;
};
VOLADOR_TRAINING_OPERATOR(DividedNet);

LoopRanks divided(int world, Config config = Config::map(), std::vector<int> nodes = {}) {
  config.set("shard", true);
  return LoopRanks(world, OperatorEntry<DividedNet>::name, config, std::move(nodes));
}
LoopRanks undivided(int world, const Config& config = Config::map(), std::vector<int> nodes = {}) {
  return LoopRanks(world, OperatorEntry<DividedNet>::name, config, std::move(nodes));
}

TEST(OwnersOf, GivesTheLargestParametersToTheRanksWithTheFewestBytes) {
  EXPECT_THAT(owners_of({1, 8, 5, 4}, 2), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(owners_of({4, 4, 4, 4, 4}, 3), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(owners_of({3, 0, 9}, 1), Each(0));
  EXPECT_TRUE(owners_of({}, 4).empty());
  std::vector<int64_t> bytes(100);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<int64_t>(i * 37 % 101);
  const auto owners = owners_of(bytes, 7);
  std::vector<int64_t> sums(7);
  for (size_t i = 0; i < bytes.size(); ++i) sums[static_cast<size_t>(owners[i])] += bytes[i];
  EXPECT_LE(*std::max_element(sums.begin(), sums.end()) - *std::min_element(sums.begin(), sums.end()), 100);
}

// Runs some epochs with and without division; compares all bytes of the states.
void expect_equal_runs(const Config& config, const std::vector<int>& nodes, int64_t epochs = 2) {
  const int world = static_cast<int>(nodes.size());
  LoopRanks whole = undivided(world, config, nodes), parts = divided(world, config, nodes);
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const auto expected = whole.run({.epoch = epoch}), replies = parts.run({.epoch = epoch});
    EXPECT_EQ(replies[0].metrics.sums[0], expected[0].metrics.sums[0]);
  }
  EXPECT_EQ(parts.bytes(), whole.bytes());
  EXPECT_THAT(parts.each([&](int rank) { return parts.at(rank).call("equal", Config::map()).at("equal"); }), Each(1));
}

TEST(ShardedOptimizer, EqualsTheUndividedOptimizerBitForBit) {
  for (const char* name : {"sgd", "adam", "adamw", "adagrad", "plain adagrad", "rmsprop", "nadam"}) {
    SCOPED_TRACE(name);
    expect_equal_runs({{"optimizer", name}}, {0, 0});
  }
  for (const char* name : {"sgd", "adamw"}) {
    SCOPED_TRACE(name);
    expect_equal_runs({{"optimizer", name}}, {0});
    expect_equal_runs({{"optimizer", name}}, {0, 0, 0});
  }
}

TEST(ShardedOptimizer, KeepsClippingSchedulesGroupsAccumulationAndNanPolicy) {
  expect_equal_runs({{"clip", 0.1}}, {0, 0, 0});
  expect_equal_runs({{"schedule", true}, {"groups", true}, {"micro_batch", 3}}, {0, 0, 0});
  expect_equal_runs({{"nan_at", 3}}, {0, 0});
}

TEST(ShardedOptimizer, LargeParametersAndSeveralNodesGiveTheSameBits) {
  expect_equal_runs({{"width", 44000}}, {0, 0}, 1);  // A parameter of more than 1 MiB.
  expect_equal_runs(Config::map(), {0, 1, 1});
}

TEST(ShardedOptimizer, StateTakesTheShareOfEachRankInMemory) {
  const auto bytes_of = [](LoopRanks ranks) {
    std::vector<double> bytes;
    ranks.run({.epoch = 0});
    for (const auto& reply : ranks.run({.epoch = 1})) {  // The state that was gathered after epoch 0 is gone.
      bytes.push_back(reply.metrics.means(true).at("last_state_bytes"));
    }
    return bytes;
  };
  const Config config{{"unused", false}, {"width", 64}};
  const double whole = bytes_of(undivided(2, config))[0];
  constexpr double kLargest = 3 * 4 * 6 * 64;  // Three moments of the first weight.
  EXPECT_GT(whole, kLargest);
  for (const int world : {2, 4}) {
    const auto parts = bytes_of(divided(world, config));
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0.0), whole);
    EXPECT_LE(*std::max_element(parts.begin(), parts.end()), std::max(whole / world + 200, kLargest + 200)) << world;
  }
}

TEST(ShardedOptimizer, WholeStateIsOnRank0WhenItWasGathered) {
  LoopRanks ranks = divided(3), whole = undivided(3);
  EXPECT_TRUE(ranks.at(2).is_sharded());
  EXPECT_FALSE(whole.at(0).is_sharded());
  EXPECT_TRUE(ranks.at(2).has_state());  // Before the first step.
  for (const auto& reply : ranks.run({.epoch = 0, .until_step = 3, .gathers_state = false}))
    EXPECT_FALSE(reply.has_state);
  EXPECT_THAT(error_of([&] { ranks.at(0).state(); }).message, HasSubstr("rank 0 of 3 has the state of its share"));
  const auto replies = ranks.run({.epoch = 0, .until_step = 3});  // No step.
  EXPECT_TRUE(replies[0].has_state);
  EXPECT_FALSE(replies[1].has_state);
  EXPECT_THAT(error_of([&] { ranks.at(1).state(); }).message,
              HasSubstr("ask rank 0 after a segment with gathers_state"));
  whole.run({.epoch = 0, .until_step = 3});
  EXPECT_EQ(ranks.bytes(), whole.bytes());
  ranks.run({.is_training = false});
  EXPECT_EQ(ranks.bytes(), whole.bytes());
  ranks.at(1).request_pause();
  const auto paused = ranks.run({.epoch = 0, .gathers_state = false});
  EXPECT_EQ(paused[0].end, SegmentEnd::kPaused);
  EXPECT_TRUE(paused[0].has_state);
}

TEST(ShardedOptimizer, AnotherNumberOfRanksDividesTheStateAnew) {
  LoopRanks parts = divided(3), whole = undivided(3);
  int64_t epoch = 0;
  for (const int world : {3, 2, 4, 1, 2}) {
    for (LoopRanks* ranks : {&parts, &whole}) {
      const std::string state = ranks->bytes();
      ranks->resize(world);
      ranks->load(state);
      ranks->form();
      EXPECT_EQ(ranks->bytes(), state) << world;
      ranks->run({.epoch = epoch});
    }
    EXPECT_EQ(parts.bytes(), whole.bytes()) << world;
    ++epoch;
  }
}

TEST(ShardedOptimizer, NewGroupWithoutTheStateIsRefused) {
  LoopRanks ranks = divided(3);
  ranks.resize(2);
  ranks.form();  // No step was done.
  ranks.run({.epoch = 0, .gathers_state = false});
  ranks.form();  // The same ranks go on.
  EXPECT_EQ(ranks.run({.epoch = 1, .gathers_state = false})[0].step, 10);
  EXPECT_THAT(
      error_of([&] { ranks.at(1).form(single_rank_group()); }).message,
      HasSubstr("rank 1 of 2 has the state of its share of a sharded optimizer only, which rank 0 of 1 cannot"));
}

TEST(ShardedOptimizer, CheckpointsAreThoseOfTheUndividedOptimizer) {
  LoopRanks whole = undivided(2);
  whole.run({.epoch = 0});
  LoopRanks parts = divided(2);
  parts.load(whole.bytes());  // Into a formed group.
  EXPECT_EQ(parts.bytes(), whole.bytes());
  EXPECT_EQ(parts.bytes(1), whole.bytes());
  parts.run({.epoch = 1});
  whole.run({.epoch = 1});
  EXPECT_EQ(parts.bytes(), whole.bytes());
  LoopRanks again = undivided(2);
  again.load(parts.bytes());
  again.run({.epoch = 2});
  whole.run({.epoch = 2});
  EXPECT_EQ(again.bytes(), whole.bytes());
}

TEST(ShardedOptimizer, StateThatDoesNotFitChangesNothingOnAnyRank) {
  LoopRanks ranks = divided(2), whole = undivided(2);
  ranks.run({.epoch = 0});
  whole.run({.epoch = 0});
  auto state = from_bytes(ranks.bytes());
  auto optimizer = state.toGenericDict().at("optimizers_state_dict").toList().get(0).toGenericDict();
  // A parameter that belongs to one of the ranks.
  optimizer.at("state").toGenericDict().at(1).toGenericDict().insert_or_assign("exp_avg", torch::zeros({7}));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(error_of([&] { ranks.at(rank).load(state); }).message, HasSubstr("[\"exp_avg\"] has shape [7]"))
        << rank;
  }
  EXPECT_EQ(ranks.bytes(), whole.bytes());
  ranks.run({.epoch = 1});
  whole.run({.epoch = 1});
  EXPECT_EQ(ranks.bytes(), whole.bytes());
}

TEST(ShardedOptimizer, RunGoesOnFromTheKeptStateAfterALoss) {
  LoopRanks undisturbed = divided(2), ranks = divided(2, {{"lost_at", 7}});
  undisturbed.run({.epoch = 0});
  ranks.run({.epoch = 0});
  const std::string kept = ranks.bytes();
  const auto replies = ranks.each([&](int rank) {
    try {
      return ranks.at(rank).run({.epoch = 1});
    } catch (const Exception&) {
      return SegmentReply();
    }
  });
  EXPECT_EQ(replies[0].end, SegmentEnd::kAborted);
  EXPECT_FALSE(replies[0].has_state);
  EXPECT_EQ(replies[0].step, 7);
  ranks.config.set("lost_at", -1);
  ranks.loops[1] = nullptr;  // A new process.
  ranks.resize(2);
  ranks.load(kept);
  ranks.form();
  ranks.run({.epoch = 1});
  undisturbed.run({.epoch = 1});
  EXPECT_EQ(ranks.bytes(), undisturbed.bytes());
}

TEST(ShardedOptimizer, AbortEndsTheExchangeOfTheParameters) {
  const SegmentFile file = SegmentFile::create().value();
  std::vector<std::shared_ptr<Group>> groups(2);
  std::string message;
  run_ranks(2, [&](int rank) {
    groups[static_cast<size_t>(rank)] =
        join_shared_group({.segment = file.offer(), .rank = rank, .node_of_rank = {0, 0}});
    if (rank == 1) return;
    const torch::Tensor parameter = torch::ones({4}, torch::requires_grad());
    ShardedOptimizer sharded(adam()({parameter}));
    sharded.form(0, 2);
    parameter.mutable_grad() = torch::ones({4});
    sharded.take_own_gradients();
    std::thread other([&] {
      while (groups[0]->state().operation.empty()) std::this_thread::yield();
      groups[0]->abort("rank 1 was lost");
    });
    try {
      sharded.send_parameters(*groups[0]);
    } catch (const GroupAborted& aborted) {
      message = aborted.what();
    }
    other.join();
  });
  EXPECT_EQ(message, "rank 1 was lost");
}

TEST(ShardedOptimizer, GradScalerSkipsAndStepsAlikeOnAllRanks) {
  const SegmentFile file = SegmentFile::create().value();
  std::vector<std::vector<torch::Tensor>> results(3);  // Two ranks, and one process that has everything.
  run_ranks(3, [&](int rank) {
    torch::set_num_threads(1);
    std::shared_ptr<Group> group;
    if (rank < 2) group = join_shared_group({.segment = file.offer(), .rank = rank, .node_of_rank = {0, 0}});
    auto& parameters = results[static_cast<size_t>(rank)];
    for (const int64_t size : {5, 3, 2}) parameters.push_back(torch::ones({size}, torch::requires_grad()));
    const OptimizerPtr optimizer = adamw()(parameters);
    ShardedOptimizer sharded(optimizer);
    sharded.form(rank % 2, rank < 2 ? 2 : 1);
    GradScaler scaler({.init_scale = 8});
    for (int step = 0; step < 4; ++step) {
      torch::Tensor loss = torch::zeros({});
      for (const auto& parameter : parameters) loss = loss + (parameter * (step == 2 ? INFINITY : 0.5)).sum();
      scaler.scale(loss).backward();
      scaler.unscale_(*optimizer);
      sharded.take_own_gradients();
      const bool is_done = scaler.step(*optimizer);
      scaler.update();
      EXPECT_EQ(is_done, step != 2);
      if (is_done && rank < 2) sharded.send_parameters(*group);
      optimizer->zero_grad();
    }
    EXPECT_EQ(scaler.current_scale(), 4);
  });
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(results[0][i].equal(results[2][i])) << i;
    EXPECT_TRUE(results[1][i].equal(results[2][i])) << i;
  }
}

// Two optimizers: gradients of the second one, of several buckets, wait while the first one steps.
class DividedPair : public TrainingOperator {
  void setup(const Config& config) override {
    const OptimizerSettings settings{.shard = config.get_or("shard", false)};
    first_ = register_model(torch::nn::Linear(4, 4), "first");
    second_ = register_model(torch::nn::Linear(4, 270000), "second");  // A bias of more than 1 MiB.
    first_steps_ = register_optimizer(first_, adam({.lr = 0.01}), settings);
    second_steps_ = register_optimizer(second_, adam({.lr = 0.01}));  // Divided and undivided may be mixed.
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    register_data(
        {.train = tensor_dataset({torch::randn({20, 4}, generator), torch::ones({20, 1})}), .batch_size = 10});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo&) override {
    backward(second_->forward(first_->forward(batch.features())).square().mean(), second_steps_);
    backward(second_->forward(first_->forward(batch.features())).mean(), first_steps_);
    step(first_steps_);
    step(second_steps_);
    return {};
  }
  torch::nn::Linear first_{nullptr}, second_{nullptr};
  OptimizerPtr first_steps_, second_steps_;
};
VOLADOR_TRAINING_OPERATOR(DividedPair);

TEST(ShardedOptimizer, StepsWhileGradientsOfAnotherOptimizerWait) {
  for (const std::vector<int>& nodes : {std::vector<int>{0, 0}, {0, 1}}) {
    LoopRanks whole(2, OperatorEntry<DividedPair>::name, Config::map(), nodes);
    LoopRanks parts(2, OperatorEntry<DividedPair>::name, {{"shard", true}}, nodes);
    whole.run({.epoch = 0});
    EXPECT_EQ(parts.run({.epoch = 0})[0].end, SegmentEnd::kFinished);
    EXPECT_EQ(parts.bytes(), whole.bytes());
  }
}

TEST(ShardedOptimizer, RefusesWhatItCannotDivide) {
  EXPECT_THAT(error_of([] { divided(1, {{"optimizer", "lbfgs"}}); }).message, HasSubstr("LBFGS cannot be sharded"));
  LoopRanks ranks = divided(1);
  EXPECT_THAT(error_of([&] { ranks.at(0).call("synchronize", Config::map()); }).message,
              HasSubstr("synchronize_gradients(): the optimizer is sharded"));
}

TEST(RankLoopCall, RunsOnAllRanksWithCollectiveOperations) {
  LoopRanks ranks = undivided(3);
  const auto results = ranks.each([&](int rank) { return ranks.at(rank).call("sum", {{"value", 10}}).at("sum"); });
  EXPECT_THAT(results, Each(60));
  EXPECT_THAT(error_of([&] { ranks.at(0).call("other", Config::map()); }).message,
              HasSubstr("has no function \"other\""));
}

TEST(RankLoopCall, ErrorOfOneRankEndsTheOthers) {
  LoopRanks ranks = undivided(2);
  const auto errors = ranks.each([&](int rank) -> std::pair<ErrorCode, std::string> {
    try {
      ranks.at(rank).call("fail", Config::map());
    } catch (const Exception& exception) {
      return {exception.error().code, exception.error().message};
    }
    return {};
  });
  EXPECT_EQ(errors[1].second, "rank 1 fails");
  EXPECT_EQ(errors[0].first, ErrorCode::kUnavailable);
  EXPECT_THAT(errors[0].second, HasSubstr("rank 1 ended with an error in on_call(\"fail\")"));
  EXPECT_EQ(ranks.at(0).status().activity, "");
}

}  // namespace
}  // namespace volador::train
