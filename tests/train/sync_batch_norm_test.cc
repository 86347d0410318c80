// Batch normalisation over the samples of several ranks, which are threads, against one process with the whole batch.
#include "train/operator/sync_batch_norm.h"

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

namespace volador::train {
namespace {

using testing::HasSubstr;
using torch::Tensor;

struct SyncNode {
  explicit SyncNode(int world) : world(world), file(SegmentFile::create().value()) {}
  std::shared_ptr<Group> join(int rank) const {
    if (world == 1) return single_rank_group();
    return join_shared_group(
        {.segment = file.offer(), .rank = rank, .node_of_rank = std::vector<int>(static_cast<size_t>(world))});
  }
  int world;
  SegmentFile file;
};

double largest_difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

struct NormStep {
  Tensor output, input_gradient, weight_gradient, bias_gradient;
};

// A training step with the loss mean over the samples of sum(output * target).
template <class Module>
NormStep norm_step(Module& module, const Tensor& input, const Tensor& target) {
  NormStep step;
  const Tensor leaf = input.detach().clone().set_requires_grad(true);
  step.output = module->forward(leaf);
  module->zero_grad();
  ((step.output * target).sum() / static_cast<double>(input.size(0))).backward();
  step.input_gradient = leaf.grad();
  if (module->weight.defined()) {
    step.weight_gradient = module->weight.grad().clone();
    step.bias_gradient = module->bias.grad().clone();
  }
  return step;
}

// Compares two steps of ranks that have `shares` samples with one process that has all. A rank with share 0 gets a
// sample that does not count.
template <class Plain, class Synced>
void expect_equal_steps(const std::vector<int64_t>& shape, torch::nn::BatchNormOptions options,
                        const std::vector<int64_t>& shares, torch::ScalarType type) {
  torch::set_num_threads(1);
  const double tolerance = type == torch::kDouble ? 1e-10 : 1e-5;
  const int64_t all = std::accumulate(shares.begin(), shares.end(), int64_t{0});
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  std::vector<int64_t> sizes = shape;
  sizes[0] = all;
  Plain plain(options);
  plain->to(type);
  if (options.affine()) {
    const torch::NoGradGuard no_grad;
    plain->weight.copy_(torch::rand({shape[1]}, generator) + 0.5);
    plain->bias.copy_(torch::rand({shape[1]}, generator));
  }
  const SyncNode node(static_cast<int>(shares.size()));
  std::vector<Synced> modules;
  std::vector<std::shared_ptr<BatchNormSync>> syncs;
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    Synced module(options);
    module->to(type);
    load_module_state(*module, clone_tensors(module_state(*plain)));
    syncs.push_back(std::make_shared<BatchNormSync>(
        BatchNormSync{.group = nullptr,
                      .counts = shares[rank] > 0,
                      .weight = static_cast<double>(shares[rank]) / static_cast<double>(all)}));
    EXPECT_EQ(share_batch_norms(*module, syncs.back()), 1);
    modules.push_back(module);
  }
  std::vector<std::shared_ptr<Group>> groups(shares.size());
  for (int number = 0; number < 2; ++number) {
    const Tensor input = (torch::randn(sizes, generator) * 3 + 10).to(type);
    const Tensor target = torch::randn(sizes, generator).to(type);
    const NormStep expected = norm_step(plain, input, target);
    std::vector<NormStep> steps(shares.size());
    run_ranks(node.world, [&](int number_of_rank) {
      torch::set_num_threads(1);
      const auto rank = static_cast<size_t>(number_of_rank);
      if (groups[rank] == nullptr) groups[rank] = syncs[rank]->group = node.join(number_of_rank);
      const int64_t from = std::accumulate(shares.begin(), shares.begin() + number_of_rank, int64_t{0});
      const int64_t rows = std::max<int64_t>(1, shares[rank]);
      const int64_t begin = std::min(from, all - rows);
      steps[rank] = norm_step(modules[rank], input.narrow(0, begin, rows), target.narrow(0, begin, rows));
      if (shares[rank] == 0) {
        EXPECT_EQ(steps[rank].input_gradient.abs().max().item<double>(), 0);
        return;
      }
      EXPECT_LT(largest_difference(steps[rank].output, expected.output.narrow(0, from, rows)), tolerance);
      EXPECT_LT(largest_difference(steps[rank].input_gradient * syncs[rank]->weight,
                                   expected.input_gradient.narrow(0, from, rows)),
                tolerance);
    });
    if (options.affine()) {
      Tensor weight = torch::zeros_like(expected.weight_gradient), bias = torch::zeros_like(weight);
      for (size_t rank = 0; rank < shares.size(); ++rank) {
        weight += steps[rank].weight_gradient * syncs[rank]->weight;
        bias += steps[rank].bias_gradient * syncs[rank]->weight;
      }
      EXPECT_LT(largest_difference(weight, expected.weight_gradient), tolerance);
      EXPECT_LT(largest_difference(bias, expected.bias_gradient), tolerance);
    }
    for (const auto& module : modules) {
      if (!options.track_running_stats()) continue;
      EXPECT_LT(largest_difference(module->running_mean, plain->running_mean), tolerance);
      EXPECT_LT(largest_difference(module->running_var, plain->running_var), tolerance);
      EXPECT_EQ(module->num_batches_tracked.template item<int64_t>(), number + 1);
      EXPECT_TRUE(module->running_var.equal(modules[0]->running_var));
    }
  }
}

const std::vector<std::vector<int64_t>> kShares{{11}, {7, 4}, {5, 4, 3}, {6, 1}};

TEST(SyncBatchNorm, EqualsOneProcessWithTheWholeBatch) {
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    for (const auto& shares : kShares) {
      SCOPED_TRACE(testing::Message() << type << " " << testing::PrintToString(shares));
      const torch::nn::BatchNormOptions options(3);
      expect_equal_steps<torch::nn::BatchNorm1d, SyncBatchNorm1d>({0, 3}, options, shares, type);
      expect_equal_steps<torch::nn::BatchNorm1d, SyncBatchNorm1d>({0, 3, 5}, options, shares, type);
      expect_equal_steps<torch::nn::BatchNorm2d, SyncBatchNorm2d>({0, 3, 4, 5}, options, shares, type);
      expect_equal_steps<torch::nn::BatchNorm3d, SyncBatchNorm3d>({0, 3, 2, 3, 4}, options, shares, type);
    }
  }
}

TEST(SyncBatchNorm, OptionsHaveTheMeaningOfBatchNorm) {
  const auto same = [](const torch::nn::BatchNormOptions& options) {
    expect_equal_steps<torch::nn::BatchNorm2d, SyncBatchNorm2d>({0, 3, 4, 5}, options, {5, 2}, torch::kDouble);
  };
  same(torch::nn::BatchNormOptions(3).affine(false));
  same(torch::nn::BatchNormOptions(3).track_running_stats(false));
  same(torch::nn::BatchNormOptions(3).momentum(std::nullopt));
  same(torch::nn::BatchNormOptions(3).momentum(0.3).eps(0.1));
}

TEST(SyncBatchNorm, PlaceholderOfARankCountsAsNoSample) {
  const torch::nn::BatchNormOptions options(3);
  expect_equal_steps<torch::nn::BatchNorm2d, SyncBatchNorm2d>({0, 3, 2, 2}, options, {2, 1, 0}, torch::kDouble);
  expect_equal_steps<torch::nn::BatchNorm1d, SyncBatchNorm1d>({0, 3}, options, {0, 3}, torch::kFloat);
}

TEST(SyncBatchNorm, ParametersAndBuffersHaveTheNamesOfBatchNorm) {
  torch::nn::BatchNorm2d plain(4);
  SyncBatchNorm2d synced(4);
  load_module_state(*synced, module_state(*plain));
  load_module_state(*plain, module_state(*synced));
  EXPECT_EQ(to_bytes(module_state(*plain)), to_bytes(module_state(*synced)));
  EXPECT_EQ(synced->parameters().size(), 2u);
  std::ostringstream text;
  text << SyncBatchNorm3d(torch::nn::BatchNormOptions(5).momentum(std::nullopt));
  EXPECT_EQ(text.str(),
            "volador::train::SyncBatchNorm3d(5, eps=1e-05, momentum=None, affine=true, track_running_stats=true)");
}

TEST(SyncBatchNorm, EvaluationHasNoCollectiveOperation) {
  const SyncNode node(2);
  run_ranks(2, [&](int rank) {
    const auto sync = std::make_shared<BatchNormSync>(BatchNormSync{.group = node.join(rank)});
    SyncBatchNorm2d synced(3);
    share_batch_norms(*synced, sync);
    torch::nn::BatchNorm2d plain(3);
    synced->eval();
    plain->eval();
    const Tensor input = torch::randn({2, 3, 4, 4});
    if (rank == 1) return;  // Calls nothing.
    EXPECT_TRUE(synced->forward(input).equal(plain->forward(input)));
  });
}

TEST(SyncBatchNorm, AbortEndsAWaitingBackwardPassWithGroupAborted) {
  const SyncNode node(2);
  std::vector<std::shared_ptr<Group>> groups(2);
  std::string message;
  run_ranks(2, [&](int rank) {
    const auto index = static_cast<size_t>(rank);
    groups[index] = node.join(rank);
    const auto sync = std::make_shared<BatchNormSync>(BatchNormSync{.group = groups[index], .weight = 0.5});
    SyncBatchNorm1d module(3);
    share_batch_norms(*module, sync);
    const Tensor input = torch::randn({4, 3}, torch::requires_grad());
    const Tensor loss = module->forward(input).square().sum();
    if (rank == 1) return;
    std::thread other([&] {
      while (groups[0]->state().operation.empty()) std::this_thread::yield();
      groups[0]->abort("rank 1 was lost");
    });
    try {
      loss.backward();
    } catch (const GroupAborted& aborted) {
      message = aborted.what();
    }
    other.join();
  });
  EXPECT_EQ(message, "rank 1 was lost");
}

TEST(SyncBatchNorm, DeferredStatisticsChangeWithTheCommit) {
  const SyncNode node(2);
  run_ranks(2, [&](int rank) {
    const auto sync = std::make_shared<BatchNormSync>(BatchNormSync{.group = node.join(rank), .is_deferring = true});
    SyncBatchNorm1d module(3);
    share_batch_norms(*module, sync);
    module->forward(torch::full({4, 3}, 1.0 + 2 * rank));
    EXPECT_EQ(module->running_mean.sum().item<float>(), 0);
    sync->commit();
    EXPECT_FLOAT_EQ(module->running_mean[1].item<float>(), 0.2F);  // A tenth of the mean of 1 and 3.
    sync->commit();
    EXPECT_EQ(module->num_batches_tracked.item<int64_t>(), 1);
  });
}

TEST(SyncBatchNorm, SixteenBitInputIsNormalisedInFloat) {
  const SyncNode node(2);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const Tensor input = torch::randn({6, 3, 4, 4}, generator).to(torch::kBFloat16);
  const Tensor expected = torch::nn::BatchNorm2d(3)->forward(input.to(torch::kFloat));
  run_ranks(2, [&](int rank) {
    const auto sync = std::make_shared<BatchNormSync>(BatchNormSync{.group = node.join(rank), .weight = 0.5});
    SyncBatchNorm2d module(3);
    share_batch_norms(*module, sync);
    const Tensor leaf = input.narrow(0, 3 * rank, 3).clone().set_requires_grad(true);
    const Tensor output = module->forward(leaf);
    output.to(torch::kFloat).sum().backward();
    EXPECT_EQ(output.scalar_type(), torch::kBFloat16);
    EXPECT_EQ(leaf.grad().scalar_type(), torch::kBFloat16);
    EXPECT_LT(largest_difference(output.to(torch::kFloat), expected.narrow(0, 3 * rank, 3)), 0.02);
    EXPECT_LT(leaf.grad().abs().max().item<double>(), 1e-4);  // The sum of normalised values is constant.
  });
}

TEST(SyncBatchNorm, RefusesWhatItCannotNormalise) {
  const SyncNode node(2);
  run_ranks(2, [&](int rank) {
    const auto sync = std::make_shared<BatchNormSync>(BatchNormSync{.group = node.join(rank), .counts = rank == 0});
    SyncBatchNorm1d module(3);
    share_batch_norms(*module, sync);
    EXPECT_THAT(error_of([&] {
                  module->forward(torch::zeros({2, 4}));
                }).message,
                HasSubstr("SyncBatchNorm1d: the input has shape [2, 4]"));
    EXPECT_THAT(error_of([&] {
                  module->forward(torch::zeros({1, 3}));
                }).message,
                HasSubstr("have 1 values for each channel"));
    const Tensor input = torch::randn({4, 3}, torch::requires_grad());
    const Tensor output = module->forward(input).square().sum();
    EXPECT_THAT(error_of([&] { torch::autograd::grad({output}, {input}, {}, true, /*create_graph=*/true); }).message,
                HasSubstr("it has no second derivative"));
  });
}

// ---- Conversion.

struct BlockImpl : torch::nn::SequentialImpl {
  using SequentialImpl::SequentialImpl;
  Tensor forward(Tensor input) { return SequentialImpl::forward(input); }
};
TORCH_MODULE(Block);

struct HolderNetImpl : torch::nn::Module {
  HolderNetImpl() {
    norm = register_module("norm", torch::nn::BatchNorm1d(4));
    layers = register_module("layers", torch::nn::Sequential(torch::nn::Linear(4, 4), torch::nn::BatchNorm1d(4)));
  }
  Tensor forward(const Tensor& input) { return layers->forward(norm->forward(input)); }
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Sequential layers;
};
TORCH_MODULE(HolderNet);

TEST(ConvertSyncBatchNorm, ReplacesElementsOfSequential) {
  torch::set_num_threads(1);
  Block inner(torch::nn::BatchNorm2d(torch::nn::BatchNormOptions(2).eps(0.01)), torch::nn::ReLU());
  torch::nn::Sequential model(
      {{"conv", torch::nn::Conv2d(1, 2, 3)}, {"norm", torch::nn::BatchNorm2d(2)}, {"inner", inner}});
  model->eval();
  const std::vector<Tensor> before = model->parameters();
  const std::string state = to_bytes(module_state(*model));
  const Tensor input = torch::randn({3, 1, 6, 6});
  const Tensor output = model->forward(input);

  EXPECT_EQ(convert_sync_batch_norm(model), 2);
  EXPECT_EQ(share_batch_norms(*model, std::make_shared<BatchNormSync>()), 2);
  EXPECT_EQ(model->ptr(1)->as<SyncBatchNorm2d>()->options.num_features(), 2);
  EXPECT_EQ(inner->ptr(0)->as<SyncBatchNorm2d>()->options.eps(), 0.01);
  const std::vector<Tensor> after = model->parameters();
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(after[i].is_same(before[i])) << i;
  EXPECT_EQ(to_bytes(module_state(*model)), state);
  EXPECT_TRUE(model->forward(input).equal(output));
  EXPECT_FALSE(model->ptr(1)->is_training());
  // Buffers that were adopted are those that forward() changes and that the state contains.
  model->train();
  model->forward(input);
  EXPECT_NE(to_bytes(module_state(*model)), state);
  EXPECT_EQ(convert_sync_batch_norm(model), 0);
}

TEST(ConvertSyncBatchNorm, ReplacesChildrenThatOnlyTheirNameReaches) {
  struct Named : torch::nn::Module {
    Named() { register_module("norm", torch::nn::BatchNorm3d(4)); }
  };
  const auto model = std::make_shared<Named>();
  EXPECT_EQ(convert_sync_batch_norm(model), 1);
  EXPECT_NE(model->named_children()["norm"]->as<SyncBatchNorm3d>(), nullptr);
}

TEST(ConvertSyncBatchNorm, RefusesMembersAndChangesNothing) {
  HolderNet net;
  EXPECT_THAT(
      error_of([&] { convert_sync_batch_norm(net); }).message,
      HasSubstr("convert_sync_batch_norm(): norm (torch::nn::BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=true, "
                "track_running_stats=true)) cannot be replaced"));
  EXPECT_NE(net->layers->ptr(1)->as<torch::nn::BatchNorm1d>(), nullptr);
  EXPECT_THAT(error_of([&] { convert_sync_batch_norm(torch::nn::BatchNorm1d(4)); }).message,
              HasSubstr("the module itself"));
  torch::nn::ModuleList list(torch::nn::BatchNorm1d(4));
  EXPECT_THAT(error_of([&] { convert_sync_batch_norm(list); }).message, HasSubstr("0 (torch::nn::Batch"));
  const torch::nn::BatchNorm1d held(4);
  torch::nn::Sequential sequential(torch::nn::Linear(4, 4), held);
  EXPECT_THAT(error_of([&] { convert_sync_batch_norm(sequential); }).message,
              HasSubstr("use train::SyncBatchNorm1d, 2d or 3d in the model"));
}

// ---- In a training operator.

class NormedNet : public TrainingOperator {
  void setup(const Config& config) override {
    const auto width = config.get_or("width", int64_t{4});
    torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::Tanh(),
                                torch::nn::Linear(8, 5), torch::nn::BatchNorm1d(5), torch::nn::Linear(5, width),
                                torch::nn::Linear(width, 1));
    model->to(torch::kDouble);
    if (config.get_or("sync", true)) convert_sync_batch_norm(model);
    register_all(model, sgd({.lr = 0.05, .momentum = 0.9}), mse_loss());
    auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    const Tensor x = torch::randn({100, 6}, generator, torch::kDouble);
    const DatasetPtr data = tensor_dataset({x, x.sum(1, true).sin()});
    register_data({.train = data,
                   .validation = data,
                   .batch_size = config.get_or("batch", int64_t{49}),
                   .micro_batch = config.get_or("micro_batch", int64_t{0})});
  }
  Metrics train_batch(const Batch& batch, const BatchInfo& info) override {
    if (info.step == config().get_or("lost_at", int64_t{-1}) && rank() == 1) {
      forward(batch);
      throw Exception(Error{ErrorCode::kApplication, "rank 1 ends here"});
    }
    return TrainingOperator::train_batch(batch, info);
  }
};
VOLADOR_TRAINING_OPERATOR(NormedNet);

// Largest difference between the models of two states.
double model_distance(const std::string& a, const std::string& b) {
  const auto model = [](const std::string& bytes) {
    return from_bytes(bytes).toGenericDict().at("models_state_dict").toList().get(0).toGenericDict();
  };
  const auto first = model(a), second = model(b);
  double distance = 0;
  for (const auto& item : first)
    distance = std::max(distance, largest_difference(item.value().toTensor().to(torch::kDouble),
                                                     second.at(item.key()).toTensor().to(torch::kDouble)));
  return distance;
}

TEST(SyncBatchNormTraining, AnyNumberOfRanksGivesTheResultOfOneRankWithBatchNorm) {
  // 100 samples in batches of 49: the third rank has a placeholder in the last batch, of two samples.
  LoopRanks one(1, OperatorEntry<NormedNet>::name, {{"sync", false}});
  for (int64_t epoch = 0; epoch < 2; ++epoch) one.run({.epoch = epoch});
  for (const std::vector<int>& nodes : {std::vector<int>{0, 0}, {0, 0, 0}, {0, 1, 1}}) {
    LoopRanks several(static_cast<int>(nodes.size()), OperatorEntry<NormedNet>::name, Config::map(), nodes);
    for (int64_t epoch = 0; epoch < 2; ++epoch) several.run({.epoch = epoch});
    EXPECT_LT(model_distance(one.bytes(), several.bytes()), 1e-10) << nodes.size();
    for (int rank = 1; rank < static_cast<int>(nodes.size()); ++rank)
      EXPECT_EQ(several.bytes(rank), several.bytes()) << rank;
    MetricSums sums;
    for (const auto& reply : several.run({.is_training = false})) sums.add_rank(reply.metrics);
    EXPECT_EQ(sums.samples, 100);
  }
}

TEST(SyncBatchNormTraining, BackwardPassBetweenNodesMeetsNoExchangeOfGradients) {
  const Config config{{"width", 30000}};  // More than one bucket.
  LoopRanks one_node(2, OperatorEntry<NormedNet>::name, config);
  LoopRanks two_nodes(2, OperatorEntry<NormedNet>::name, config, {0, 1});
  one_node.run({.epoch = 0, .until_step = 2});
  EXPECT_EQ(two_nodes.run({.epoch = 0, .until_step = 2})[0].step, 2);
  EXPECT_LT(model_distance(one_node.bytes(), two_nodes.bytes()), 1e-10);
}

TEST(SyncBatchNormTraining, AccumulationHasTheSameNumberOfPassesOnAllRanks) {
  LoopRanks ranks(3, OperatorEntry<NormedNet>::name,
                  {{"batch", 19}, {"micro_batch", 3}});  // 3, 2 and 2 passes of 7, 6, 6.
  const auto replies = ranks.run({.epoch = 0});
  double samples = 0;
  for (const auto& reply : replies) samples += reply.metrics.samples;
  EXPECT_EQ(samples, 100);
  EXPECT_EQ(ranks.bytes(1), ranks.bytes(0));
  EXPECT_EQ(ranks.bytes(2), ranks.bytes(0));
}

TEST(SyncBatchNormTraining, BatchThatIsGivenUpLeavesTheRunningStatistics) {
  LoopRanks ranks(2, OperatorEntry<NormedNet>::name, {{"batch", 20}, {"lost_at", 2}});
  ranks.run({.epoch = 0, .until_step = 2});
  const std::string before = ranks.bytes();
  const auto ends = ranks.each([&](int rank) {
    try {
      return ranks.at(rank).run({.epoch = 0}).end;
    } catch (const Exception&) {
      return SegmentEnd::kFinished;
    }
  });
  EXPECT_EQ(ends[0], SegmentEnd::kAborted);
  EXPECT_EQ(ranks.bytes(), before);
}

}  // namespace
}  // namespace volador::train
