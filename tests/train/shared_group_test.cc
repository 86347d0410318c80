// Groups of ranks in shared memory. Ranks are threads, and processes where one of them dies.
#include "train/group/shared_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <numeric>
#include <random>

#include "runtime/result.h"
#include "tests/train/thread_ranks.h"

namespace volador::train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A node with `world` ranks.
struct Node {
  explicit Node(int world, int64_t arena_bytes = 0)
      : file(SegmentFile::create().value()), world(world), arena_bytes(arena_bytes) {}
  SharedGroupOptions options(int rank) const {
    return {.segment = file.offer(),
            .rank = rank,
            .node_of_rank = std::vector<int>(static_cast<size_t>(world), 0),
            .arena_bytes = arena_bytes};
  }
  std::unique_ptr<Group> join(int rank) const { return join_shared_group(options(rank)); }

  SegmentFile file;
  int world;
  int64_t arena_bytes;
};

// Three buckets, the last with control words.
BucketPlan three_buckets() {
  const BucketPlan plan = plan_buckets({{.name = "a", .elements = 1000},
                                        {.name = "b", .elements = 777},
                                        {.name = "c", .elements = 3},
                                        {.name = "d", .elements = 4096}},
                                       {.first_bytes = 17000, .bytes = 4000, .control_words = 2});
  EXPECT_EQ(plan.buckets.size(), 3u);
  return plan;
}

std::vector<torch::TensorOptions> types_of(const BucketPlan& plan, torch::ScalarType type = torch::kFloat) {
  return std::vector<torch::TensorOptions>(plan.buckets.size(), torch::TensorOptions(type));
}

// What a rank contributes to a bucket in a step.
torch::Tensor contribution(int rank, int step, size_t bucket, int64_t elements) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<uint64_t>(rank * 1'000'003 + step * 101 + static_cast<int>(bucket)));
  return torch::randn({elements}, generator);
}

torch::Tensor sum_in_order(int world, int step, size_t bucket, int64_t elements) {
  torch::Tensor sum = contribution(0, step, bucket, elements);
  for (int rank = 1; rank < world; ++rank) sum = sum + contribution(rank, step, bucket, elements);
  return sum;
}

class SharedGroup : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, SharedGroup, ::testing::Values(1, 2, 3, 4));

TEST_P(SharedGroup, AllReduceSumsValuesOfEachType) {
  const int world = GetParam();
  const Node node(world);
  run_ranks(world, [&](int rank) {
    const auto group = node.join(rank);
    EXPECT_EQ(group->rank(), rank);
    EXPECT_EQ(group->world(), world);
    const int sum = world * (world + 1) / 2;
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf, torch::kLong, torch::kInt}) {
      torch::Tensor tensor = torch::full({5, 7}, rank + 1, type);
      group->all_reduce(tensor);
      EXPECT_TRUE(torch::equal(tensor, torch::full({5, 7}, sum, type))) << type << "\n" << tensor;
    }
    EXPECT_EQ(group->state().operations, 6);
    group->barrier();
  });
}

TEST_P(SharedGroup, AllReduceOfSeveralPiecesAddsInTheOrderOfTheRanks) {
  const int world = GetParam();
  const Node node(world);
  const int64_t elements = 3 * (1 << 18) + 5;  // 3 MiB and 5 elements.
  run_ranks(world, [&](int rank) {
    const auto group = node.join(rank);
    torch::Tensor tensor = contribution(rank, 0, 0, elements);
    group->all_reduce(tensor);
    EXPECT_TRUE(torch::equal(tensor, sum_in_order(world, 0, 0, elements)));
  });
}

TEST_P(SharedGroup, BroadcastGivesTheRootsValuesToAll) {
  const int world = GetParam();
  const Node node(world);
  run_ranks(world, [&](int rank) {
    const auto group = node.join(rank);
    for (int root = 0; root < world; ++root) {
      torch::Tensor matrix = torch::full({3, 4}, static_cast<double>(rank)).t();
      group->broadcast(matrix, root);
      EXPECT_TRUE(torch::equal(matrix, torch::full({4, 3}, static_cast<double>(root))));
      torch::Tensor flags = torch::full({9}, rank == root, torch::kBool);
      group->broadcast(flags, root);
      EXPECT_TRUE(flags.all().item<bool>());
      torch::Tensor parameter = torch::full({2}, static_cast<double>(rank), torch::requires_grad());
      group->broadcast(parameter, root);
      EXPECT_EQ(parameter[1].item<double>(), root);
    }
  });
}

TEST_P(SharedGroup, ExchangeSumsInTheOrderOfTheRanksOverFiftySteps) {
  const int world = GetParam();
  const BucketPlan plan = three_buckets();
  const Node node(world, exchange_bytes(plan, world));
  run_ranks(world, [&](int rank) {
    const auto group = node.join(rank);
    const auto exchange = group->exchange(plan, types_of(plan));
    std::mt19937 random(static_cast<unsigned>(rank));
    std::vector<size_t> order(plan.buckets.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (int step = 0; step < 50; ++step) {
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t bucket : order) {
        exchange->input(bucket).copy_(contribution(rank, step, bucket, plan.buckets[bucket].elements));
        exchange->post(bucket);
        if (random() % 4 == 0) std::this_thread::yield();
      }
      exchange->finish();
      for (size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
        ASSERT_TRUE(
            torch::equal(exchange->result(bucket), sum_in_order(world, step, bucket, plan.buckets[bucket].elements)))
            << "rank " << rank << " step " << step << " bucket " << bucket;
      }
    }
    EXPECT_EQ(group->state().operations, 50);
  });
}

TEST_P(SharedGroup, ExchangeSumsOtherTypesThanFloat) {
  const int world = GetParam();
  const BucketPlan plan = plan_buckets({{.name = "a", .elements = 100, .element_bytes = 2}}, {});
  const Node node(world, exchange_bytes(plan, world));
  run_ranks(world, [&](int rank) {
    const auto group = node.join(rank);
    const auto exchange = group->exchange(plan, types_of(plan, torch::kBFloat16));
    exchange->input(0).fill_(rank + 0.5);
    exchange->post(0);
    exchange->finish();
    const double sum = world * (world - 1) / 2.0 + world * 0.5;
    EXPECT_TRUE(torch::equal(exchange->result(0), torch::full_like(exchange->result(0), sum)));
  });
}

TEST_P(SharedGroup, TwoExchangesAreIndependent) {
  const int world = GetParam();
  const BucketPlan plan = three_buckets();
  const Node node(world, 2 * exchange_bytes(plan, world));
  run_ranks(world, [&](int rank) {
    const auto group = node.join(rank);
    const std::unique_ptr<GradientExchange> exchanges[] = {group->exchange(plan, types_of(plan)),
                                                           group->exchange(plan, types_of(plan))};
    std::mt19937 random(static_cast<unsigned>(rank));
    for (int step = 0; step < 20; ++step) {
      std::vector<size_t> order = {0, 1, 2, 3, 4, 5};  // Bucket and exchange.
      std::shuffle(order.begin(), order.end(), random);
      for (const size_t both : order) {
        const size_t bucket = both / 2, which = both % 2;
        const int of_step = 2 * step + static_cast<int>(which);
        exchanges[which]->input(bucket).copy_(contribution(rank, of_step, bucket, plan.buckets[bucket].elements));
        exchanges[which]->post(bucket);
      }
      for (const int which : {step % 2, 1 - step % 2}) {
        exchanges[which]->finish();
        for (size_t bucket = 0; bucket < plan.buckets.size(); ++bucket) {
          ASSERT_TRUE(torch::equal(exchanges[which]->result(bucket),
                                   sum_in_order(world, 2 * step + which, bucket, plan.buckets[bucket].elements)));
        }
      }
    }
  });
}

TEST(SharedGroupErrors, DifferentOperationsAreNamedWithBothRanks) {
  const Node node(2);
  run_ranks(2, [&](int rank) {
    const auto group = node.join(rank);
    torch::Tensor tensor = torch::zeros({rank == 0 ? 3 : 4});
    try {
      group->all_reduce(tensor);
      ADD_FAILURE() << "rank " << rank << " did not notice";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 0 entered"), HasSubstr("rank 1 entered"),
                                  HasSubstr("3 elements of Float"), HasSubstr("4 elements of Float")));
    }
    EXPECT_THROW(group->barrier(), GroupAborted);
  });
}

TEST(SharedGroupErrors, BarrierAgainstBroadcastIsNamed) {
  const Node node(3);
  run_ranks(3, [&](int rank) {
    const auto group = node.join(rank);
    torch::Tensor tensor = torch::zeros({2});
    try {
      if (rank == 2) {
        group->broadcast(tensor, 1);
      } else {
        group->barrier();
      }
      ADD_FAILURE() << "rank " << rank << " did not notice";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 2 entered broadcast of 2 elements of Float from rank 1"),
                                  HasSubstr("entered barrier")));
    }
  });
}

TEST(SharedGroupErrors, DifferentLayoutsAreRefusedOnAllRanks) {
  const Node node(3);
  run_ranks(3, [&](int rank) {
    SharedGroupOptions options = node.options(rank);
    options.layout = rank == 1 ? 7 : 8;
    try {
      join_shared_group(options);
      ADD_FAILURE() << "rank " << rank << " did not notice";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(e.what(), AllOf(HasSubstr("rank 1"), HasSubstr(rank == 2 ? "rank 2" : "rank 0")));
    }
  });
}

TEST(SharedGroupErrors, MissingRanksAreNamedWhenTheTimeToJoinIsOver) {
  const Node node(3);
  SharedGroupOptions options = node.options(1);
  options.join_timeout = std::chrono::milliseconds(30);
  try {
    join_shared_group(options);
    FAIL() << "joined";
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(e.what(), HasSubstr("ranks 0, 2"));
  }
}

// Returns when the rank's operation waits, and what it waits for.
CollectiveState until_waiting(const Group& group) {
  while (true) {
    CollectiveState state = group.state();
    if (!state.operation.empty()) return state;
    std::this_thread::yield();
  }
}

TEST(SharedGroupErrors, AbortByAnotherThreadEndsTheWait) {
  const Node node(2);
  std::atomic<bool> is_over{false};
  run_ranks(2, [&](int rank) {
    const auto group = node.join(rank);
    if (rank == 1) {  // Never enters the operation.
      while (!is_over) std::this_thread::yield();
      EXPECT_THROW(group->barrier(), GroupAborted);
      return;
    }
    CollectiveState seen;
    std::thread aborts([&] {
      seen = until_waiting(*group);
      group->abort("the node of rank 1 was lost");
    });
    try {
      group->barrier();
      ADD_FAILURE() << "the barrier was passed";
    } catch (const GroupAborted& e) {
      EXPECT_STREQ(e.what(), "the node of rank 1 was lost");
    }
    aborts.join();
    is_over = true;
    EXPECT_EQ(seen.operation, "barrier");
    EXPECT_THAT(seen.waiting_for, ElementsAre(1));
    EXPECT_EQ(group->state().operation, "");
    EXPECT_THROW(group->barrier(), GroupAborted);
  });
}

TEST(SharedGroupErrors, AbortByAnotherRankEndsTheExchange) {
  const BucketPlan plan = three_buckets();
  const Node node(2, exchange_bytes(plan, 2));
  run_ranks(2, [&](int rank) {
    const auto group = node.join(rank);
    const auto exchange = group->exchange(plan, types_of(plan));
    if (rank == 1) {
      exchange->post(0);
      group->abort("rank 1 was asked to leave");
      EXPECT_THROW(exchange->finish(), GroupAborted);
      return;
    }
    for (size_t bucket = 0; bucket < 3; ++bucket) exchange->post(bucket);
    try {
      exchange->finish();
      ADD_FAILURE() << "the step was finished";
    } catch (const GroupAborted& e) {
      EXPECT_STREQ(e.what(), "rank 1 was asked to leave");
    }
  });
}

TEST(SharedGroupErrors, OperationsAfterAnAbortThrowEvenIfAllRanksEnterThem) {
  const Node node(2);
  std::barrier<> both(2);
  run_ranks(2, [&](int rank) {
    const auto group = node.join(rank);
    if (rank == 0) group->abort("a new generation begins");
    both.arrive_and_wait();
    EXPECT_THROW(group->barrier(), GroupAborted);
  });
}

TEST(SharedGroupErrors, DeathOfARanksProcessAbortsTheStep) {
  const BucketPlan plan = three_buckets();
  const Node node(2, exchange_bytes(plan, 2));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto group = node.join(1);
    const auto exchange = group->exchange(plan, types_of(plan));
    for (size_t bucket = 0; bucket < 3; ++bucket) exchange->post(bucket);
    exchange->finish();
    exchange->post(0);
    ::_exit(0);
  }
  int status = -1;
  std::thread reaps([&] { ::waitpid(child, &status, 0); });
  const auto group = node.join(0);
  const auto exchange = group->exchange(plan, types_of(plan));
  try {
    for (int step = 0; step < 2; ++step) {
      for (size_t bucket = 0; bucket < 3; ++bucket) exchange->post(bucket);
      exchange->finish();
      EXPECT_EQ(step, 0) << "the second step was finished without rank 1";
    }
  } catch (const GroupAborted& e) {
    EXPECT_THAT(e.what(), HasSubstr("the process of rank 1 (pid " + std::to_string(child) + ") has ended"));
    EXPECT_EQ(group->state().operations, 1);
  }
  reaps.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace volador::train
