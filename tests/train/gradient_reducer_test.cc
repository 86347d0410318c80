// Sums of gradients over ranks that are threads: compression, PowerSGD, and groups that reduce on another device.
#include "train/group/gradient_reducer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/train/refusals.h"
#include "tests/train/thread_ranks.h"
#include "train/group/backend_group.h"
#include "train/group/power_sgd.h"
#include "train/group/shared_group.h"

namespace volador::train {
namespace {

using Gradients = std::vector<torch::Tensor>;
using Shapes = std::vector<std::vector<int64_t>>;

// What a test sees of a rank's group, and changes in it.
struct Watch {
  bool reduces_elsewhere = false;  // On a device that differs from that of the parameters in its name only.
  int64_t posted_bytes = 0;
  int finished = 0;                      // Calls of finish() of all exchanges.
  int aborts_at = -1;                    // The call of finish() that aborts the group first.
  std::vector<const void*> memory = {};  // Buckets of the exchanges.
};

class WatchedExchange final : public GradientExchange {
 public:
  WatchedExchange(std::unique_ptr<GradientExchange> inner, Group& group, Watch& watch)
      : inner_(std::move(inner)), group_(group), watch_(watch) {}
  torch::Tensor input(size_t bucket) override { return noted(inner_->input(bucket)); }
  torch::Tensor result(size_t bucket) override { return noted(inner_->result(bucket)); }
  void post(size_t bucket) override {
    watch_.posted_bytes += static_cast<int64_t>(inner_->input(bucket).nbytes());
    inner_->post(bucket);
  }
  void progress() override { inner_->progress(); }
  void finish() override {
    if (watch_.finished++ == watch_.aborts_at) group_.abort("the test gives up the step");
    inner_->finish();
  }

 private:
  torch::Tensor noted(torch::Tensor tensor) {
    watch_.memory.push_back(tensor.const_data_ptr());
    return tensor;
  }
  const std::unique_ptr<GradientExchange> inner_;
  Group& group_;
  Watch& watch_;
};

class WatchedGroup final : public Group {
 public:
  WatchedGroup(std::unique_ptr<Group> inner, Watch& watch) : inner_(std::move(inner)), watch_(watch) {}
  int rank() const override { return inner_->rank(); }
  int world() const override { return inner_->world(); }
  std::string_view transport() const override { return inner_->transport(); }
  void all_reduce(torch::Tensor tensor) override { inner_->all_reduce(tensor); }
  void broadcast(torch::Tensor tensor, int root) override { inner_->broadcast(tensor, root); }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<GradientExchange> exchange(const BucketPlan& plan,
                                             const std::vector<torch::TensorOptions>& types) override {
    std::vector<torch::TensorOptions> plain;
    for (const auto& type : types) plain.push_back(torch::TensorOptions(c10::typeMetaToScalarType(type.dtype())));
    return std::make_unique<WatchedExchange>(inner_->exchange(plan, plain), *inner_, watch_);
  }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  CollectiveState state() const override { return inner_->state(); }
  torch::Device reduces_on(torch::Device parameters) const override {
    return watch_.reduces_elsewhere ? torch::Device(torch::kCPU, 0) : inner_->reduces_on(parameters);
  }

 private:
  const std::unique_ptr<Group> inner_;
  Watch& watch_;
};

torch::Tensor random_tensor(torch::IntArrayRef sizes, uint64_t seed) {
  return torch::randn(sizes, at::detail::createCPUGenerator(seed));
}

// One rank with parameters of these shapes.
struct Member {
  Member(const Shapes& shapes, const ReducerOptions& options, torch::ScalarType type = torch::kFloat) {
    for (const auto& shape : shapes) parameters.push_back(torch::zeros(shape, torch::requires_grad().dtype(type)));
    reducer.emplace(parameters, options);
  }
  void join(const SegmentFile& file, int rank, int world, int64_t step = 0) {
    group = std::make_unique<WatchedGroup>(
        join_shared_group({.segment = file.offer(),
                           .rank = rank,
                           .node_of_rank = std::vector<int>(static_cast<size_t>(world), 0),
                           .arena_bytes = reducer->arena_bytes(world),
                           .layout = reducer->layout()}),
        watch);
    reducer->attach(*group, step);
  }
  // A backward pass that gives these gradients; parameters with undefined ones take no part.
  void backward(const Gradients& gradients, double weight, bool last = true) {
    torch::Tensor loss = torch::zeros({});
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (gradients[i].defined()) loss = loss + (parameters[i] * gradients[i]).sum();
    }
    reducer->begin_backward(weight, last);
    if (loss.requires_grad()) loss.backward();
    reducer->end_backward();
  }
  Gradients finish(const StepFlags& flags = {}, bool owned = false) {
    sums = reducer->finish(flags, owned);
    Gradients gradients;
    for (const torch::Tensor& parameter : parameters)
      gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
    reducer->clear();
    return gradients;
  }
  Gradients step(const Gradients& gradients, double weight) {
    backward(gradients, weight);
    return finish();
  }

  Watch watch;
  std::unique_ptr<Group> group;
  Gradients parameters;
  std::optional<GradientReducer> reducer;
  StepFlags sums;
};

// Calls body(rank, member) for each rank of a group.
void run_members(int world, const Shapes& shapes, const ReducerOptions& options,
                 const std::function<void(int, Member&)>& body, const Watch& watch = {}) {
  const SegmentFile file = SegmentFile::create().value();
  run_ranks(world, [&](int rank) {
    torch::set_num_threads(1);
    Member member(shapes, options);
    member.watch = watch;
    member.join(file, rank, world);
    body(rank, member);
  });
}

// Several buckets of unequal matrices, vectors and a tensor of four dimensions.
const Shapes kShapes = {{40, 30}, {40}, {24, 3, 5, 5}, {17}, {60, 50}, {}};

Gradients gradients_of(int rank, int step, const Shapes& shapes = kShapes) {
  Gradients gradients;
  for (size_t i = 0; i < shapes.size(); ++i)
    gradients.push_back(random_tensor(shapes[i], static_cast<uint64_t>(rank * 1'000 + step * 50) + i));
  return gradients;
}

double weight_of(int rank, int world) { return (rank + 1.0) / (world * (world + 1) / 2.0); }

bool equal(const Gradients& a, const Gradients& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].defined() != b[i].defined()) return false;
    if (a[i].defined() && (a[i].scalar_type() != b[i].scalar_type() || !torch::equal(a[i], b[i]))) return false;
  }
  return true;
}

double distance(const torch::Tensor& a, const torch::Tensor& b) { return ((a - b).norm() / b.norm()).item<double>(); }

// Gradients of each rank: [rank][step][parameter].
using Results = std::vector<std::vector<Gradients>>;

Results train(int world, int steps, const ReducerOptions& options, const Watch& watch = {}) {
  Results results(static_cast<size_t>(world));
  run_members(
      world, kShapes, options,
      [&](int rank, Member& member) {
        for (int step = 0; step < steps; ++step)
          results[static_cast<size_t>(rank)].push_back(member.step(gradients_of(rank, step), weight_of(rank, world)));
      },
      watch);
  return results;
}

ReducerOptions power_sgd(PowerSgdOptions options) {
  return {.bucket_bytes = 4096, .compression = Compression::kPowerSgd, .power_sgd = options};
}
const PowerSgdOptions kPower{.rank = 2, .start_step = 0, .min_compression_rate = 1.5};

// -- float16 and bfloat16 --

class CastReducer : public ::testing::TestWithParam<std::tuple<Compression, int>> {};
INSTANTIATE_TEST_SUITE_P(Types, CastReducer,
                         ::testing::Combine(::testing::Values(Compression::kHalf, Compression::kBFloat16),
                                            ::testing::Values(2, 3)));

TEST_P(CastReducer, SumsAreThoseOfTheCastGradientsOnAllRanks) {
  const auto [compression, world] = GetParam();
  const auto type = compression == Compression::kHalf ? torch::kHalf : torch::kBFloat16;
  const double unit = compression == Compression::kHalf ? 0x1p-11 : 0x1p-8;
  const Results results = train(world, 3, {.bucket_bytes = 2048, .compression = compression});
  for (size_t step = 0; step < 3; ++step) {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      torch::Tensor sum, exact, sizes;
      for (int rank = 0; rank < world; ++rank) {
        const torch::Tensor part = gradients_of(rank, static_cast<int>(step))[i] * weight_of(rank, world);
        sum = rank == 0 ? part.to(type) : sum + part.to(type);
        exact = rank == 0 ? part.to(torch::kDouble) : exact + part;
        sizes = rank == 0 ? part.abs() : sizes + part.abs();
      }
      const torch::Tensor& first = results[0][step][i];
      EXPECT_EQ(first.scalar_type(), torch::kFloat);
      EXPECT_TRUE(torch::equal(first, sum.to(torch::kFloat))) << "step " << step << " parameter " << i;
      EXPECT_TRUE(((first - exact).abs() <= world * unit * sizes + 1e-7).all().item<bool>());
      for (const auto& other : results) EXPECT_TRUE(torch::equal(other[step][i], first));
    }
  }
}

TEST_P(CastReducer, PassesAreAddedBeforeTheCast) {
  const auto [compression, world] = GetParam();
  const auto type = compression == Compression::kHalf ? torch::kHalf : torch::kBFloat16;
  run_members(world, {{300}, {300}, {300}}, {.compression = compression}, [&, ranks = world](int, Member& member) {
    const torch::Tensor one = torch::full({300}, 1.0), little = torch::full({300}, 0x1p-12);
    const double weight = 1.0 / 4;
    for (int step = 0; step < 2; ++step) {
      // The first parameter has all passes, the second one the first and third, the third one the last.
      for (int pass = 0; pass < 17; ++pass)
        member.backward({pass == 0 ? one : little,
                         pass == 0   ? one
                         : pass == 2 ? little
                                     : torch::Tensor(),
                         pass == 16 ? one : torch::Tensor()},
                        weight, pass == 16);
      const Gradients sums = member.finish();
      const auto sum = [&](double value) {
        torch::Tensor total = torch::full({300}, value * weight).to(type);
        for (int rank = 1; rank < ranks; ++rank) total = total + torch::full({300}, value * weight).to(type);
        return total.to(torch::kFloat);
      };
      EXPECT_TRUE(torch::equal(sums[0], sum(1 + 16 * 0x1p-12)));
      EXPECT_TRUE(torch::equal(sums[1], sum(1 + 0x1p-12)));
      EXPECT_TRUE(torch::equal(sums[2], sum(1)));
    }
  });
}

TEST(GradientReducer, GradientsOfOtherTypesAreNotCast) {
  const SegmentFile file = SegmentFile::create().value();
  run_ranks(2, [&](int rank) {
    Gradients parameters;
    for (const auto type : {torch::kBFloat16, torch::kDouble, torch::kFloat, torch::kBFloat16})
      parameters.push_back(torch::zeros({100}, torch::requires_grad().dtype(type)));
    GradientReducer reducer(parameters, {.compression = Compression::kHalf});
    const auto group = join_shared_group(
        {.segment = file.offer(), .rank = rank, .node_of_rank = {0, 0}, .arena_bytes = reducer.arena_bytes(2)});
    reducer.attach(*group);
    torch::Tensor loss = torch::zeros({});
    for (const torch::Tensor& parameter : parameters) loss = loss + (parameter * (1 + 0x1p-7)).sum() * 0x1p17;
    reducer.begin_backward(0.25, true);
    loss.backward();
    reducer.end_backward();
    reducer.finish({}, false);
    for (const torch::Tensor& parameter : parameters) {
      EXPECT_EQ(parameter.grad().scalar_type(), parameter.scalar_type());
      // 66048 is above the largest float16.
      const double expected =
          parameter.scalar_type() == torch::kBFloat16 ? 66048 : std::numeric_limits<double>::infinity();
      EXPECT_EQ(parameter.grad()[0].item<double>(), expected) << parameter.scalar_type();
    }
  });
}

TEST(GradientReducer, OneRankDoesNotCompress) {
  for (const ReducerOptions& options : {ReducerOptions{.compression = Compression::kBFloat16}, power_sgd(kPower)}) {
    Member member(kShapes, options);
    const auto group = single_rank_group();
    member.reducer->attach(*group);
    Gradients halves = gradients_of(0, 0);
    for (torch::Tensor& gradient : halves) gradient = gradient * 0.5;
    EXPECT_TRUE(equal(member.step(gradients_of(0, 0), 0.5), halves));
    EXPECT_TRUE(equal(member.step(gradients_of(0, 0), 1), gradients_of(0, 0)));
  }
}

// -- Flags and parameters without gradients --

std::vector<ReducerOptions> all_compressions() {
  return {{},
          {.compression = Compression::kHalf},
          {.bucket_bytes = 512, .compression = Compression::kBFloat16},
          power_sgd(kPower)};
}

TEST(GradientReducer, FlagsAreExact) {
  for (const ReducerOptions& options : all_compressions()) {
    run_members(3, kShapes, options, [](int rank, Member& member) {
      for (int step = 0; step < 3; ++step) {
        member.backward(gradients_of(rank, step), 1.0 / 3);
        member.finish({.pause = 1001.0 + rank, .not_finite = rank == 1 ? 257.0 : 0, .user = 4097.25});
        EXPECT_EQ(member.sums.pause, 3006);
        EXPECT_EQ(member.sums.not_finite, 257);
        EXPECT_EQ(member.sums.user, 12291.75);
      }
    });
  }
}

TEST(GradientReducer, FlagsOfParametersInBfloat16AreExact) {
  const SegmentFile file = SegmentFile::create().value();
  run_ranks(2, [&](int rank) {
    Member member({{100}, {3, 3}}, {}, torch::kBFloat16);
    member.join(file, rank, 2);
    member.backward({torch::ones({100}), torch::ones({3, 3})}, 0.5);
    EXPECT_EQ(member.finish({.user = 1001})[0][5].item<double>(), 1);
    EXPECT_EQ(member.sums.user, 2002);
  });
}

TEST(GradientReducer, ParametersThatNoRankUsesHaveNoGradient) {
  for (const ReducerOptions& options : all_compressions()) {
    run_members(2, {{30, 20}, {30, 20}, {30, 20}, {7}, {7}}, options, [](int rank, Member& member) {
      for (int step = 0; step < 2; ++step) {
        const auto if_rank = [&](int wanted, torch::IntArrayRef sizes) {
          return rank == wanted ? torch::full(sizes, wanted + 1.0) : torch::Tensor();
        };
        const Gradients sums = member.step(
            {if_rank(0, {30, 20}), if_rank(1, {30, 20}), torch::Tensor(), torch::Tensor(), if_rank(1, {7})}, 0.5);
        EXPECT_LT(distance(sums[0], torch::full({30, 20}, 0.5)), 1e-5);
        EXPECT_LT(distance(sums[1], torch::full({30, 20}, 1.0)), 1e-5);
        EXPECT_FALSE(sums[2].defined());
        EXPECT_FALSE(sums[3].defined());
        EXPECT_TRUE(torch::equal(sums[4], torch::full({7}, 1.0)));
      }
    });
  }
}

// -- Another device --

TEST(GradientReducer, GroupThatReducesOnAnotherDeviceGivesTheSameBits) {
  for (const ReducerOptions& options : all_compressions()) {
    const Results direct = train(3, 4, options), staged = train(3, 4, options, {.reduces_elsewhere = true});
    for (size_t rank = 0; rank < 3; ++rank) {
      for (size_t step = 0; step < 4; ++step) EXPECT_TRUE(equal(direct[rank][step], staged[rank][step]));
    }
  }
}

TEST(GradientReducer, StagedGradientsAreTheRanksOwn) {
  for (const bool is_staged : {false, true}) {
    run_members(2, kShapes, {},
                [&](int rank, Member& member) {
                  member.backward(gradients_of(rank, 0), 0.5);
                  member.reducer->finish({}, false);
                  for (const torch::Tensor& parameter : member.parameters) {
                    EXPECT_EQ(std::count(member.watch.memory.begin(), member.watch.memory.end(),
                                         parameter.grad().storage().data()),
                              is_staged ? 0 : 1);
                  }
                  member.group->barrier();
                },
                {.reduces_elsewhere = is_staged});
  }
}

// -- PowerSGD --

TEST(PowerSgdReducer, RanksHaveEqualBitsAndVectorsAreExact) {
  const Results compressed = train(3, 5, power_sgd(kPower)), whole = train(3, 5, {.bucket_bytes = 4096});
  for (size_t step = 0; step < 5; ++step) {
    EXPECT_TRUE(equal(compressed[0][step], compressed[1][step]));
    EXPECT_TRUE(equal(compressed[0][step], compressed[2][step]));
    for (size_t i = 0; i < kShapes.size(); ++i) {
      EXPECT_EQ(torch::equal(compressed[0][step][i], whole[0][step][i]), kShapes[i].size() < 2) << i;
      EXPECT_EQ(compressed[0][step][i].sizes(), whole[0][step][i].sizes());
    }
  }
}

TEST(PowerSgdReducer, LowRankGradientsAreExact) {
  const Shapes shapes = {{50, 40}, {32, 4, 3, 3}};
  for (const int64_t rank : {2, 4}) {  // The sums over the ranks have rank 2.
    run_members(2, shapes, power_sgd({.rank = rank, .start_step = 0}), [&](int member_rank, Member& member) {
      for (int step = 1; step < 5; ++step) {
        Gradients own, sums;
        for (size_t i = 0; i < shapes.size(); ++i) {
          const auto part = [&](int of) {
            const auto seed = static_cast<uint64_t>(of * 100) + i;
            const int64_t rows = shapes[i][0], columns = at::zeros(shapes[i]).numel() / rows;
            return at::outer(random_tensor({rows}, seed), random_tensor({columns}, seed + 5)).view(shapes[i]) *
                   (step + of);
          };
          own.push_back(part(member_rank));
          sums.push_back(part(0) * 0.5 + part(1) * 0.5);
        }
        const Gradients found = member.step(own, 0.5);
        for (size_t i = 0; i < shapes.size(); ++i) EXPECT_LT(distance(found[i], sums[i]), 1e-5) << rank << " " << step;
      }
    });
  }
}

// Distance of the mean over the steps from the constant gradient, whose singular values are about equal.
double mean_distance(const PowerSgdOptions& options, int steps) {
  double found = 0;
  run_members(2, {{40, 30}}, power_sgd(options), [&](int rank, Member& member) {
    torch::Tensor sum = torch::zeros({40, 30});
    const auto gradient = [](int of) { return random_tensor({40, 30}, 7 + static_cast<uint64_t>(of)); };
    for (int step = 0; step < steps; ++step) sum += member.step({gradient(rank)}, weight_of(rank, 2))[0];
    if (rank == 0) found = distance(sum / steps, gradient(0) * weight_of(0, 2) + gradient(1) * weight_of(1, 2));
  });
  return found;
}

TEST(PowerSgdReducer, ErrorFeedbackMakesTheSumOverTheStepsExact) {
  const double early = mean_distance({.rank = 2, .start_step = 0}, 20);
  const double late = mean_distance({.rank = 2, .start_step = 0}, 320);
  EXPECT_LT(late, 0.05);
  EXPECT_NEAR(late * 16, early, 0.5 * early);  // The error that is left stays the same.
  EXPECT_GT(mean_distance({.rank = 2, .start_step = 0, .error_feedback = false}, 320), 0.5);
}

TEST(PowerSgdReducer, RandomBasesInEachStepAlsoConverge) {
  EXPECT_LT(mean_distance({.rank = 2, .start_step = 0, .warm_start = false}, 320), 0.06);
}

TEST(PowerSgdReducer, FactorsAreSmallerThanGradients) {
  const Shapes shapes = {{200, 300}, {200}, {100, 200}, {100}};
  const auto bytes = [&](const ReducerOptions& options) {
    int64_t posted = 0;
    run_members(2, shapes, options, [&](int rank, Member& member) {
      member.step(gradients_of(rank, 0, shapes), 0.5);
      if (rank == 0) posted = member.watch.posted_bytes;
    });
    return posted;
  };
  const int64_t control = 64;  // 3 flags and 4 parameters, rounded up to a cache line.
  EXPECT_EQ(bytes({}), (60'000 + 208 + 20'000 + 112) * 4 + control);
  EXPECT_EQ(bytes({.compression = Compression::kBFloat16}), (60'000 + 224 + 20'000 + 128) * 2 + control);
  // Left factors, vectors and right factors.
  EXPECT_EQ(bytes(power_sgd({.rank = 4, .start_step = 0})),
            (4 * 200 + 4 * 100 + 208 + 112 + 4 * 300 + 4 * 200) * 4 + control);
}

TEST(PowerSgdReducer, WholeGradientsTravelBeforeTheFirstStep) {
  PowerSgdOptions late = kPower;
  late.start_step = 3;
  const Results whole = train(2, 5, {}), compressed = train(2, 5, power_sgd(late));
  for (size_t step = 0; step < 5; ++step) EXPECT_EQ(equal(whole[1][step], compressed[1][step]), step < 3) << step;
  const Results from_start = train(2, 2, power_sgd(kPower));
  const SegmentFile file = SegmentFile::create().value();
  run_ranks(2, [&](int rank) {
    Member member(kShapes, power_sgd(late));
    member.join(file, rank, 2, 3);  // Three steps were done before.
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(equal(member.step(gradients_of(rank, step), weight_of(rank, 2)),
                        from_start[static_cast<size_t>(rank)][static_cast<size_t>(step)]));
    }
  });
}

TEST(PowerSgdReducer, StepThatWasGivenUpIsRepeatedWithTheSameResult) {
  constexpr int kBefore = 3, kSteps = 6;
  const auto run = [](int aborts_at) {
    const SegmentFile first = SegmentFile::create().value(), second = SegmentFile::create().value();
    Results results(2);
    std::atomic<int> given_up{0};
    run_ranks(2, [&](int rank) {
      Member member(kShapes, power_sgd(kPower));
      if (rank == 0) member.watch.aborts_at = aborts_at;
      member.join(first, rank, 2);
      const auto step = [&](int number) { return member.step(gradients_of(rank, number), weight_of(rank, 2)); };
      for (int number = 0; number < kBefore; ++number) step(number);
      member.group->barrier();
      if (aborts_at >= 0) {
        try {
          step(kBefore);
        } catch (const GroupAborted&) {
          ++given_up;
          member.reducer->clear();
        }
      }
      const std::unique_ptr<Group> old = std::move(member.group);
      member.join(second, rank, 2, kBefore);
      for (int number = kBefore; number < kSteps; ++number) results[static_cast<size_t>(rank)].push_back(step(number));
    });
    EXPECT_EQ(given_up > 0, aborts_at >= 0);
    return results;
  };
  const Results smooth = run(-1);
  // Each step finishes two exchanges: abort before the sums of the left and of the right factors.
  for (const int aborts_at : {2 * kBefore, 2 * kBefore + 1}) {
    const Results repeated = run(aborts_at);
    for (size_t rank = 0; rank < 2; ++rank) {
      ASSERT_EQ(repeated[rank].size(), smooth[rank].size());
      for (size_t step = 0; step < smooth[rank].size(); ++step)
        EXPECT_TRUE(equal(smooth[rank][step], repeated[rank][step])) << aborts_at << " rank " << rank;
    }
  }
}

TEST(PowerSgdReducer, GroupFormedAnewStartsWithoutErrors) {
  const Results fresh = train(2, 2, power_sgd(kPower));
  const SegmentFile first = SegmentFile::create().value(), second = SegmentFile::create().value();
  run_ranks(2, [&](int rank) {
    Member member(kShapes, power_sgd(kPower));
    member.join(first, rank, 2);
    for (int step = 10; step < 13; ++step) member.step(gradients_of(rank, step), 0.5);
    const std::unique_ptr<Group> old = std::move(member.group);
    member.join(second, rank, 2);
    for (int step = 0; step < 2; ++step) {
      EXPECT_TRUE(equal(member.step(gradients_of(rank, step), weight_of(rank, 2)),
                        fresh[static_cast<size_t>(rank)][static_cast<size_t>(step)]));
    }
  });
}

TEST(PowerSgdReducer, PassesThatAreDiscardedLeaveTheStateOfTheStepBefore) {
  const Results smooth = train(2, 4, power_sgd(kPower));
  run_members(2, kShapes, power_sgd(kPower), [&](int rank, Member& member) {
    for (int step = 0; step < 4; ++step) {
      member.backward(gradients_of(rank, 90 + step), 0.5, /*last=*/false);
      member.reducer->clear();
      EXPECT_TRUE(equal(member.step(gradients_of(rank, step), weight_of(rank, 2)),
                        smooth[static_cast<size_t>(rank)][static_cast<size_t>(step)]));
    }
  });
}

TEST(PowerSgdReducer, StepsThatAreNotFiniteLeaveTheStateOfTheStepBefore) {
  const Results smooth = train(2, 4, power_sgd(kPower));
  for (const bool is_flagged : {false, true}) {
    run_members(2, kShapes, power_sgd(kPower), [&](int rank, Member& member) {
      for (int step = 0; step < 4; ++step) {
        Gradients bad = gradients_of(rank, 90 + step);
        if (rank == 1 && !is_flagged) bad[0][3][4] = std::numeric_limits<float>::infinity();
        member.backward(bad, 0.5);
        const Gradients sums = member.finish({.not_finite = is_flagged ? 1.0 : 0.0});
        EXPECT_EQ(sums[0].isfinite().all().item<bool>(), is_flagged);
        EXPECT_TRUE(equal(member.step(gradients_of(rank, step), weight_of(rank, 2)),
                          smooth[static_cast<size_t>(rank)][static_cast<size_t>(step)]));
      }
    });
  }
}

TEST(PowerSgdReducer, ParameterThatNoRankUsesKeepsItsErrors) {
  const Results smooth = train(2, 3, power_sgd(kPower));
  run_members(2, kShapes, power_sgd(kPower), [&](int rank, Member& member) {
    for (int step = 0; step < 3; ++step) {
      EXPECT_TRUE(torch::equal(member.step(gradients_of(rank, step), weight_of(rank, 2))[4],
                               smooth[static_cast<size_t>(rank)][static_cast<size_t>(step)][4]));
      Gradients others = gradients_of(rank, 90 + step);
      others[4] = torch::Tensor();
      EXPECT_FALSE(member.step(others, 0.5)[4].defined());
    }
  });
}

TEST(PowerSgdReducer, AccumulatedPassesGiveTheResultOfOne) {
  const Results whole = train(2, 3, power_sgd(kPower));
  run_members(2, kShapes, power_sgd(kPower), [&](int rank, Member& member) {
    for (int step = 0; step < 3; ++step) {
      for (int pass = 0; pass < 4; ++pass) member.backward(gradients_of(rank, step), weight_of(rank, 2) / 4, pass == 3);
      const Gradients sums = member.finish();
      for (size_t i = 0; i < kShapes.size(); ++i)
        EXPECT_LT(distance(sums[i], whole[0][static_cast<size_t>(step)][i]), 1e-4);
    }
  });
}

TEST(PowerSgdReducer, GradientsCanBeChangedAndDetached) {
  run_members(2, kShapes, power_sgd(kPower), [](int rank, Member& member) {
    for (int step = 0; step < 2; ++step) {
      member.backward(gradients_of(rank, step), 0.5);
      member.reducer->finish({}, true);
      for (torch::Tensor& parameter : member.parameters) {
        parameter.mutable_grad().detach_();
        parameter.mutable_grad().mul_(2);
      }
      member.reducer->clear();
    }
  });
}

TEST(PowerSgdReducer, RowsBecomeOrthonormal) {
  const torch::Tensor a = random_tensor({50}, 1), b = random_tensor({50}, 2);
  // Rows that span two dimensions, one of them zero.
  torch::Tensor rows = torch::stack({a, a * 3, torch::zeros({50}), b, a - b * 1e-3});
  torch::Tensor same = rows.clone(), other_seed = rows.clone();
  EXPECT_TRUE(orthonormalize(rows, 5));
  EXPECT_LT((rows.mm(rows.t()) - torch::eye(5)).abs().max().item<double>(), 1e-6);
  for (const torch::Tensor& one : {a, b})  // The rows span what they did before.
    EXPECT_LT(distance(rows.t().mv(rows.mv(one)), one), 1e-5);
  EXPECT_TRUE(orthonormalize(same, 5));
  EXPECT_TRUE(torch::equal(rows, same));
  EXPECT_TRUE(orthonormalize(other_seed, 6));
  for (int row = 0; row < 5; ++row)  // Rows 1, 2 and 4 depend on those before.
    EXPECT_EQ(torch::equal(rows[row], other_seed[row]), row == 0) << row;
  torch::Tensor close = torch::stack({a, b}).to(torch::kDouble);
  close[1] = close[0] + close[1] * 1e-9;
  EXPECT_TRUE(orthonormalize(close, 5));
  EXPECT_LT((close.mm(close.t()) - torch::eye(2)).abs().max().item<double>(), 1e-12);
  torch::Tensor bad = torch::ones({2, 3});
  bad[1][1] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(orthonormalize(bad, 5));
  EXPECT_EQ(bad[0][0].item<float>(), 1);
  torch::Tensor square = torch::zeros({4, 4}, torch::kDouble);
  EXPECT_TRUE(orthonormalize(square, 5));
  EXPECT_LT((square.mm(square.t()) - torch::eye(4)).abs().max().item<double>(), 1e-12);
}

TEST(PowerSgdReducer, ParametersTravelWholeWhereFactorsSaveLittle) {
  const auto rank_of = [](const std::vector<int64_t>& sizes, const PowerSgdOptions& options) {
    const auto shape = factor_shape(torch::zeros(sizes), options);
    return shape ? shape->rank : 0;
  };
  EXPECT_EQ(rank_of({1000}, {.rank = 4}), 0);
  EXPECT_EQ(rank_of({100, 100}, {.rank = 4}), 4);
  EXPECT_EQ(rank_of({100, 100}, {.rank = 25}), 0);  // 5000 numbers for 10000.
  EXPECT_EQ(rank_of({100, 100}, {.rank = 25, .min_compression_rate = 1.9}), 25);
  EXPECT_EQ(rank_of({2, 100}, {.rank = 4, .min_compression_rate = 0.1}), 2);
  EXPECT_FALSE(factor_shape(torch::zeros({100, 100}, torch::kBFloat16), {}).has_value());
}

// -- Groups and options --

TEST(GradientReducer, CompressesInAGlooGroup) {
  for (const ReducerOptions& options : {ReducerOptions{.compression = Compression::kBFloat16}, power_sgd(kPower)}) {
    const Results shared = train(2, 3, options);
    const auto table = std::make_shared<LocalRendezvous>();
    run_ranks(2, [&](int rank) {
      Member member(kShapes, options);
      const auto group = join_backend_group(
          {.rank = rank, .world = 2, .run = "reducer", .rendezvous = table, .layout = member.reducer->layout()});
      member.reducer->attach(*group);
      for (int step = 0; step < 3; ++step) {
        EXPECT_TRUE(equal(member.step(gradients_of(rank, step), weight_of(rank, 2)),
                          shared[static_cast<size_t>(rank)][static_cast<size_t>(step)]));
      }
    });
  }
}

TEST(GradientReducer, LayoutsDifferWithTheCompression) {
  const auto layout = [](const ReducerOptions& options) { return Member(kShapes, options).reducer->layout(); };
  std::set<uint64_t> layouts;
  for (const ReducerOptions& options : all_compressions()) layouts.insert(layout(options));
  for (PowerSgdOptions other : {kPower, kPower}) {
    other.seed = layouts.size();
    layouts.insert(layout(power_sgd(other)));
  }
  EXPECT_EQ(layouts.size(), 6u);
  EXPECT_EQ(layout(power_sgd(kPower)), layout(power_sgd(kPower)));
}

TEST(GradientReducer, OptionsOutOfRangeAreRefusedByName) {
  const auto made = [](const ReducerOptions& options) { return [options] { Member({{3}}, options); }; };
  expect_refused(made({.bucket_bytes = 0}), "bucket_bytes is 0; it must be at least 1");
  expect_refused(made(power_sgd({.rank = 0})), "power_sgd.rank is 0; it must be at least 1");
  expect_refused(made(power_sgd({.start_step = -1})), "power_sgd.start_step is -1; it must be at least 0");
  expect_refused(made(power_sgd({.min_compression_rate = 0})),
                 "power_sgd.min_compression_rate is 0; it must be above 0");
}

}  // namespace
}  // namespace volador::train
