// Groups over Gloo, alone and between nodes that share memory. Ranks are threads, connected by the loopback interface.
#include "train/group/backend_group.h"
#include "train/group/node_wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

struct Ranks {
  explicit Ranks(int world, std::string run = "test/1") : world(world), run(std::move(run)) {}
  BackendOptions options(int rank) const {
    BackendOptions options;
    options.rank = rank;
    options.world = world;
    options.run = run;
    options.rendezvous = table;
    options.timeout = 60s;
    return options;
  }
  std::unique_ptr<Group> join(int rank) const { return join_backend_group(options(rank)); }

  int world;
  std::string run;
  std::shared_ptr<LocalRendezvous> table = std::make_shared<LocalRendezvous>();
};

BucketPlan three_buckets() {
  const BucketPlan plan = plan_buckets({{.name = "a", .elements = 1000},
                                        {.name = "b", .elements = 777},
                                        {.name = "c", .elements = 3},
                                        {.name = "d", .elements = 4096}},
                                       {.first_bytes = 17000, .bytes = 4000, .control_words = 2});
  EXPECT_EQ(plan.buckets.size(), 3u);
  return plan;
}

std::vector<torch::TensorOptions> types_of(const BucketPlan& plan) {
  return std::vector<torch::TensorOptions>(plan.buckets.size(), torch::TensorOptions(torch::kFloat));
}

// What a rank contributes to a bucket in a step.
torch::Tensor contribution(int rank, int step, size_t bucket, int64_t elements) {
  auto generator =
      at::detail::createCPUGenerator(static_cast<uint64_t>(rank * 1'000'003 + step * 101 + static_cast<int>(bucket)));
  return torch::randn({elements}, generator);
}

// Posts a step's contributions, in an order that differs between ranks and steps.
void post_step(GradientExchange& exchange, const BucketPlan& plan, int rank, int step) {
  std::vector<size_t> order(plan.buckets.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(static_cast<unsigned>(rank + 7 * step));
  std::shuffle(order.begin(), order.end(), random);
  for (const size_t bucket : order) {
    exchange.input(bucket).copy_(contribution(rank, step, bucket, plan.buckets[bucket].elements));
    exchange.post(bucket);
  }
}

// The results of some steps: a row of all buckets for each step.
std::vector<torch::Tensor> run_steps(Group& group, const BucketPlan& plan, int steps) {
  const auto exchange = group.exchange(plan, types_of(plan));
  std::vector<torch::Tensor> rows;
  for (int step = 0; step < steps; ++step) {
    post_step(*exchange, plan, group.rank(), step);
    exchange->finish();
    std::vector<torch::Tensor> buckets;
    for (size_t i = 0; i < plan.buckets.size(); ++i) buckets.push_back(exchange->result(i));
    rows.push_back(torch::cat(buckets));
  }
  return rows;
}

torch::Tensor expected_row(const BucketPlan& plan, int world, int step) {
  std::vector<torch::Tensor> buckets;
  for (size_t i = 0; i < plan.buckets.size(); ++i) {
    torch::Tensor sum = torch::zeros({plan.buckets[i].elements}, torch::kDouble);
    for (int rank = 0; rank < world; ++rank) sum += contribution(rank, step, i, plan.buckets[i].elements);
    buckets.push_back(sum.to(torch::kFloat));
  }
  return torch::cat(buckets);
}

// Returns when the rank waits in an operation.
CollectiveState until_waiting(const Group& group) {
  while (true) {
    CollectiveState state = group.state();
    if (!state.operation.empty()) return state;
    std::this_thread::yield();
  }
}

class GlooGroup : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, GlooGroup, ::testing::Values(1, 2, 3, 4));

TEST_P(GlooGroup, AllReduceSumsValuesOfEachType) {
  const Ranks ranks(GetParam());
  run_ranks(ranks.world, [&](int rank) {
    const auto group = ranks.join(rank);
    EXPECT_EQ(group->rank(), rank);
    EXPECT_EQ(group->world(), ranks.world);
    EXPECT_EQ(group->transport(), "gloo");
    const int sum = ranks.world * (ranks.world + 1) / 2;
    for (const auto type : {torch::kFloat, torch::kDouble, torch::kBFloat16, torch::kHalf, torch::kLong, torch::kInt}) {
      torch::Tensor tensor = torch::full({7, 5}, rank + 1, type).t();
      group->all_reduce(tensor);
      EXPECT_TRUE(torch::equal(tensor, torch::full({5, 7}, sum, type))) << type << "\n" << tensor;
    }
    torch::Tensor nothing = torch::zeros({0});
    group->all_reduce(nothing);
    group->barrier();
    EXPECT_EQ(group->state().operations, 7);
    EXPECT_EQ(group->state().operation, "");
  });
}

TEST_P(GlooGroup, BroadcastGivesTheRootsValuesToAll) {
  const Ranks ranks(GetParam());
  run_ranks(ranks.world, [&](int rank) {
    const auto group = ranks.join(rank);
    for (int root = 0; root < ranks.world; ++root) {
      torch::Tensor matrix = torch::full({3, 4}, static_cast<double>(rank)).t();
      group->broadcast(matrix, root);
      EXPECT_TRUE(torch::equal(matrix, torch::full({4, 3}, static_cast<double>(root))));
      torch::Tensor flags = torch::full({9}, rank == root, torch::kBool);
      group->broadcast(flags, root);
      EXPECT_TRUE(flags.all().item<bool>());
      torch::Tensor parameter = torch::full({2}, static_cast<double>(rank), torch::requires_grad());
      group->broadcast(parameter, root);
      EXPECT_EQ(parameter[1].item<double>(), root);
      EXPECT_TRUE(parameter.is_leaf());
      torch::Tensor scalar = torch::tensor(int64_t{rank});
      group->broadcast(scalar, root);
      EXPECT_EQ(scalar.item<int64_t>(), root);
    }
  });
}

TEST_P(GlooGroup, ExchangeSumsThreeBucketsToTheSameBitsOnAllRanks) {
  const Ranks ranks(GetParam());
  const BucketPlan plan = three_buckets();
  std::vector<std::vector<torch::Tensor>> rows(static_cast<size_t>(ranks.world));
  run_ranks(ranks.world, [&](int rank) {
    const auto group = ranks.join(rank);
    rows[static_cast<size_t>(rank)] = run_steps(*group, plan, 10);
  });
  for (int step = 0; step < 10; ++step) {
    const auto of_rank = [&](int rank) { return rows[static_cast<size_t>(rank)].at(static_cast<size_t>(step)); };
    EXPECT_TRUE(torch::allclose(of_rank(0), expected_row(plan, ranks.world, step), 1e-5, 1e-5));
    for (int rank = 1; rank < ranks.world; ++rank) EXPECT_TRUE(torch::equal(of_rank(0), of_rank(rank)));
  }
}

TEST_P(GlooGroup, TwoExchangesPostedInDifferentOrdersAreIndependent) {
  const Ranks ranks(GetParam());
  const BucketPlan plan = three_buckets();
  run_ranks(ranks.world, [&](int rank) {
    const auto group = ranks.join(rank);
    const std::unique_ptr<GradientExchange> exchanges[] = {group->exchange(plan, types_of(plan)),
                                                           group->exchange(plan, types_of(plan))};
    for (int step = 0; step < 10; ++step) {
      const int first = (rank + step) % 2;
      post_step(*exchanges[first], plan, rank, 2 * step + first);
      post_step(*exchanges[1 - first], plan, rank, 2 * step + 1 - first);
      for (const int which : {step % 2, 1 - step % 2}) {
        exchanges[which]->finish();
        std::vector<torch::Tensor> buckets;
        for (size_t i = 0; i < plan.buckets.size(); ++i) buckets.push_back(exchanges[which]->result(i));
        EXPECT_TRUE(
            torch::allclose(torch::cat(buckets), expected_row(plan, ranks.world, 2 * step + which), 1e-5, 1e-5));
      }
    }
  });
}

TEST(GlooGroupSums, EqualThoseInSharedMemoryBitForBitForTwoRanks) {
  const Ranks ranks(2);
  const BucketPlan plan = three_buckets();
  const SegmentFile file = SegmentFile::create().value();
  run_ranks(2, [&](int rank) {
    const auto gloo = ranks.join(rank);
    const auto shared = join_shared_group(
        {.segment = file.offer(), .rank = rank, .node_of_rank = {0, 0}, .arena_bytes = exchange_bytes(plan, 2)});
    const auto left = run_steps(*gloo, plan, 20), right = run_steps(*shared, plan, 20);
    for (size_t step = 0; step < 20; ++step) EXPECT_TRUE(torch::equal(left[step], right[step])) << "step " << step;
  });
}

TEST(GlooGroupLife, TheTableIsEmptyAfterJoiningAndGenerationsFollowOneAnother) {
  Ranks ranks(3);
  for (int generation = 1; generation <= 20; ++generation) {
    // The same name again must do as well: no address of the former generation is left.
    if (generation % 2 == 0) ranks.run = "test/" + std::to_string(generation);
    run_ranks(3, [&](int rank) {
      const auto group = ranks.join(rank);
      torch::Tensor tensor = torch::full({1000}, static_cast<double>(generation));
      group->all_reduce(tensor);
      EXPECT_EQ(tensor[999].item<double>(), 3 * generation);
      // Each rank leaves without a barrier: the last operation must be complete on the others nevertheless.
    });
    EXPECT_EQ(ranks.table->size(), 0u);
  }
}

TEST(GlooGroupLife, ASecondGenerationWorksBesideOneThatIsStuck) {
  Ranks first(3);
  Ranks second(2, "test/2");
  std::atomic<bool> is_over{false};
  run_ranks(3, [&](int rank) {
    auto group = first.join(rank);
    if (rank == 2) {  // Hangs.
      while (!is_over) std::this_thread::yield();
      return;
    }
    std::thread aborts([&] {
      until_waiting(*group);
      group->abort("rank 2 hangs");
    });
    EXPECT_THROW(group->barrier(), GroupAborted);
    aborts.join();
    group = second.join(rank);
    torch::Tensor tensor = torch::ones({3});
    group->all_reduce(tensor);
    EXPECT_EQ(tensor[0].item<double>(), 2);
    group->barrier();
    is_over = true;
  });
}

TEST(GlooGroupErrors, AbortByAnotherThreadEndsTheWaitForARankThatNeverEnters) {
  const Ranks ranks(2);
  std::atomic<bool> is_over{false};
  run_ranks(2, [&](int rank) {
    const auto group = ranks.join(rank);
    if (rank == 1) {
      while (!is_over) std::this_thread::yield();
      return;
    }
    CollectiveState seen;
    std::thread aborts([&] {
      seen = until_waiting(*group);
      group->abort("the node of rank 1 was lost");
    });
    torch::Tensor tensor = torch::ones({4});
    try {
      group->all_reduce(tensor);
      ADD_FAILURE() << "the operation was completed";
    } catch (const GroupAborted& e) {
      EXPECT_STREQ(e.what(), "the node of rank 1 was lost");
    }
    aborts.join();
    EXPECT_EQ(seen.operation, "all_reduce of 4 elements of Float");
    EXPECT_THAT(seen.waiting_for, IsEmpty());
    EXPECT_EQ(group->state().operation, "");
    EXPECT_THROW(group->barrier(), GroupAborted);
    EXPECT_THROW(group->broadcast(tensor, 0), GroupAborted);
    EXPECT_THROW(group->exchange(three_buckets(), types_of(three_buckets())), GroupAborted);
    is_over = true;
  });
}

TEST(GlooGroupErrors, AbortEndsAnExchange) {
  const Ranks ranks(2);
  const BucketPlan plan = three_buckets();
  std::atomic<bool> is_over{false};
  run_ranks(2, [&](int rank) {
    const auto group = ranks.join(rank);
    const auto exchange = group->exchange(plan, types_of(plan));
    if (rank == 1) {
      exchange->post(0);
      while (!is_over) std::this_thread::yield();
      return;
    }
    std::thread aborts([&] {
      EXPECT_THAT(until_waiting(*group).operation, HasSubstr("gradients of optimizer 0, bucket"));
      group->abort("rank 1 hangs");
    });
    post_step(*exchange, plan, rank, 0);
    EXPECT_THROW(exchange->finish(), GroupAborted);
    aborts.join();
    is_over = true;
  });
}

TEST(GlooGroupErrors, ARankThatEntersLateWritesNothingIntoATensorThatWasGivenUp) {
  const Ranks ranks(2);
  std::barrier<> both(2);
  run_ranks(2, [&](int rank) {
    const auto group = ranks.join(rank);
    torch::Tensor tensor = torch::full({100'000}, rank + 1.0);
    if (rank == 1) {
      both.arrive_and_wait();
      group->all_reduce(tensor);  // The operation of rank 0 goes on in the background.
      EXPECT_TRUE(torch::equal(tensor, torch::full({100'000}, 3.0)));
      EXPECT_THROW(group->barrier(), GroupAborted);
      both.arrive_and_wait();
      return;
    }
    std::thread aborts([&] {
      until_waiting(*group);
      group->abort("rank 1 hangs");
    });
    EXPECT_THROW(group->all_reduce(tensor), GroupAborted);
    aborts.join();
    both.arrive_and_wait();
    both.arrive_and_wait();
    EXPECT_TRUE(torch::equal(tensor, torch::ones({100'000})));
  });
}

TEST(GlooGroupErrors, ARankThatDropsItsGroupAbortsTheOthers) {
  const Ranks ranks(3);
  run_ranks(3, [&](int rank) {
    auto group = ranks.join(rank);
    group->barrier();
    if (rank == 2) {
      group.reset();
      return;
    }
    try {
      group->barrier();
      ADD_FAILURE() << "a barrier was passed without rank 2";
    } catch (const GroupAborted& e) {
      EXPECT_THAT(e.what(), HasSubstr("the connection to another rank failed"));
    }
    EXPECT_THROW(group->barrier(), GroupAborted);
  });
}

TEST(GlooGroupErrors, AnExchangeThatOutlivesItsGroupThrows) {
  const Ranks ranks(2);
  const BucketPlan plan = three_buckets();
  run_ranks(2, [&](int rank) {
    auto group = ranks.join(rank);
    const auto exchange = group->exchange(plan, types_of(plan));
    group.reset();
    post_step(*exchange, plan, rank, 0);
    EXPECT_THROW(exchange->finish(), GroupAborted);
  });
}

TEST(GlooGroupErrors, DifferentPlansAreRefusedOnAllRanks) {
  const Ranks ranks(3);
  run_ranks(3, [&](int rank) {
    const auto group = ranks.join(rank);
    const BucketPlan plan = plan_buckets({{.name = "a", .elements = rank == 1 ? 10 : 11}}, {});
    try {
      group->exchange(plan, types_of(plan));
      ADD_FAILURE() << "rank " << rank << " did not notice";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(e.what(),
                  AllOf(HasSubstr("rank 1 (1 buckets, 64 bytes)"), HasSubstr("rank 0 (1 buckets, 64 bytes)")));
    }
    EXPECT_THROW(group->barrier(), GroupAborted);
  });
}

TEST(GlooGroupErrors, DifferentLayoutsAreRefusedOnAllRanks) {
  const Ranks ranks(3);
  run_ranks(3, [&](int rank) {
    BackendOptions options = ranks.options(rank);
    options.layout = rank == 2 ? 7 : 8;
    try {
      join_backend_group(options);
      ADD_FAILURE() << "rank " << rank << " did not notice";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_THAT(e.what(), HasSubstr("the parameters of rank 2 differ from those of rank 0"));
    }
  });
}

TEST(GlooGroupErrors, AMissingRankEndsTheJoiningAfterItsLimit) {
  const Ranks ranks(2);
  BackendOptions options = ranks.options(1);
  options.join_timeout = 50ms;
  try {
    join_backend_group(options);
    FAIL() << "joined";
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("the gloo group of rank 1 of 2 at 127.0.0.1"), HasSubstr("50 ms"),
                                HasSubstr("no rank has set \"test/1/group/")));
  }
}

TEST(GlooGroupErrors, WhatTheRendezvousThrowsReachesTheCaller) {
  class Closed final : public Rendezvous {
    [[noreturn]] static void end() { throw Exception(Error{ErrorCode::kCancelled, "generation 2 has begun"}); }
    void set(const std::string&, const std::string&) override { end(); }
    std::optional<std::string> get(const std::string&) override { end(); }
    std::string wait(const std::string&, std::chrono::milliseconds) override { end(); }
    int64_t add(const std::string&, int64_t) override { end(); }
    void append(const std::string&, const std::string&) override { end(); }
    bool remove(const std::string&) override { end(); }
  };
  BackendOptions options = Ranks(2).options(0);
  options.rendezvous = std::make_shared<Closed>();
  try {
    join_backend_group(options);
    FAIL() << "joined";
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), ErrorCode::kCancelled);
  }
}

TEST(GlooGroupErrors, WrongArgumentsAreNamed) {
  const auto message_of = [](const auto& call) -> std::string {
    try {
      call();
      return "no exception";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
  };
  BackendOptions options = Ranks(1).options(0);
  const auto group = join_backend_group(options);
  torch::Tensor flags = torch::ones({2}, torch::kBool);
  EXPECT_THAT(message_of([&] { group->all_reduce(flags); }), HasSubstr("all_reduce of Bool"));
  EXPECT_THAT(message_of([&] { group->broadcast(flags, 1); }), HasSubstr("broadcast from rank 1: expected 0 to 0"));
  options.backend = "mpi";
  EXPECT_THAT(message_of([&] { join_backend_group(options); }), HasSubstr("got \"mpi\""));
  options.backend = "gloo";
  options.rank = 1;
  EXPECT_THAT(message_of([&] { join_backend_group(options); }), HasSubstr("rank 1 of 1"));
  options.rank = 0;
  options.rendezvous = nullptr;
  EXPECT_THAT(message_of([&] { join_backend_group(options); }), HasSubstr("rendezvous"));
}

TEST(NcclGroup, IsRefusedWithoutGpuOrPlugin) {
  BackendOptions options = Ranks(1).options(0);
  options.backend = "nccl";
  ::setenv("VOLADOR_NCCL_PLUGIN", "/nowhere/libvolador_nccl.so", 1);
  try {
    join_backend_group(options);
    FAIL() << "joined";
  } catch (const Exception& e) {
    EXPECT_THAT(e.what(),
                torch::cuda::is_available() ? HasSubstr("/nowhere/libvolador_nccl.so") : HasSubstr("needs a GPU"));
  }
  ::unsetenv("VOLADOR_NCCL_PLUGIN");
}

// Nodes of some ranks each, whose leaders are connected.
struct Nodes {
  explicit Nodes(std::vector<int> node_of_rank, int64_t arena_bytes = 0)
      : node_of_rank(std::move(node_of_rank)), leaders(this->node_of_rank.back() + 1), arena_bytes(arena_bytes) {
    for (int node = 0; node < leaders.world; ++node) files.push_back(SegmentFile::create().value());
  }
  int world() const { return static_cast<int>(node_of_rank.size()); }
  bool is_leader(int rank) const {
    return rank == 0 || node_of_rank[static_cast<size_t>(rank)] != node_of_rank[static_cast<size_t>(rank) - 1];
  }
  std::unique_ptr<Group> join(int rank) const {
    const int node = node_of_rank[static_cast<size_t>(rank)];
    return join_shared_group(
        {.segment = files[static_cast<size_t>(node)].offer(),
         .rank = rank,
         .node_of_rank = node_of_rank,
         .arena_bytes = arena_bytes,
         .wire = is_leader(rank)
                     ? join_node_wire(
                           {.node = node, .nodes = leaders.world, .run = leaders.run, .rendezvous = leaders.table})
                     : nullptr});
  }

  std::vector<int> node_of_rank;
  Ranks leaders;
  int64_t arena_bytes;
  std::vector<SegmentFile> files;
};

class HierarchicalGroup : public ::testing::TestWithParam<std::vector<int>> {};
INSTANTIATE_TEST_SUITE_P(Nodes, HierarchicalGroup,
                         ::testing::Values(std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1},
                                           std::vector<int>{0, 0, 0, 1}));

TEST_P(HierarchicalGroup, AllReduceAndBroadcastReachAllRanksFromEveryRoot) {
  const Nodes nodes(GetParam());
  run_ranks(nodes.world(), [&](int rank) {
    const auto group = nodes.join(rank);
    EXPECT_EQ(group->transport(), "shared memory and tls");
    const int sum = nodes.world() * (nodes.world() + 1) / 2;
    for (const auto type : {torch::kFloat, torch::kBFloat16, torch::kLong}) {
      torch::Tensor tensor = torch::full({300'000}, rank + 1, type);  // Several pieces.
      group->all_reduce(tensor);
      EXPECT_TRUE(torch::equal(tensor, torch::full({300'000}, sum, type))) << type;
    }
    for (int root = 0; root < nodes.world(); ++root) {
      torch::Tensor tensor = torch::full({300'000}, static_cast<double>(rank));
      group->broadcast(tensor, root);
      EXPECT_TRUE(torch::equal(tensor, torch::full({300'000}, static_cast<double>(root)))) << "root " << root;
      torch::Tensor flags = torch::full({3}, rank == root, torch::kBool);
      group->broadcast(flags, root);
      EXPECT_TRUE(flags.all().item<bool>());
      group->barrier();
    }
  });
}

TEST_P(HierarchicalGroup, ExchangeSumsToTheSameBitsOnAllRanks) {
  const BucketPlan plan = three_buckets();
  const Nodes nodes(GetParam(), exchange_bytes(plan, 3));
  std::vector<std::vector<torch::Tensor>> rows(static_cast<size_t>(nodes.world()));
  run_ranks(nodes.world(), [&](int rank) {
    const auto group = nodes.join(rank);
    rows[static_cast<size_t>(rank)] = run_steps(*group, plan, 20);
    group->barrier();
  });
  for (int step = 0; step < 20; ++step) {
    const auto of_rank = [&](int rank) { return rows[static_cast<size_t>(rank)].at(static_cast<size_t>(step)); };
    EXPECT_TRUE(torch::allclose(of_rank(0), expected_row(plan, nodes.world(), step), 1e-5, 1e-5));
    for (int rank = 1; rank < nodes.world(); ++rank) EXPECT_TRUE(torch::equal(of_rank(0), of_rank(rank)));
  }
}

TEST_P(HierarchicalGroup, TwoExchangesPostedInDifferentOrdersAreIndependent) {
  const BucketPlan plan = three_buckets();
  const Nodes nodes(GetParam(), 2 * exchange_bytes(plan, 3));
  run_ranks(nodes.world(), [&](int rank) {
    const auto group = nodes.join(rank);
    const std::unique_ptr<GradientExchange> exchanges[] = {group->exchange(plan, types_of(plan)),
                                                           group->exchange(plan, types_of(plan))};
    for (int step = 0; step < 10; ++step) {
      const int first = (rank + step) % 2;
      post_step(*exchanges[first], plan, rank, 2 * step + first);
      post_step(*exchanges[1 - first], plan, rank, 2 * step + 1 - first);
      for (const int which : {step % 2, 1 - step % 2}) {
        exchanges[which]->finish();
        std::vector<torch::Tensor> buckets;
        for (size_t i = 0; i < plan.buckets.size(); ++i) buckets.push_back(exchanges[which]->result(i));
        EXPECT_TRUE(
            torch::allclose(torch::cat(buckets), expected_row(plan, nodes.world(), 2 * step + which), 1e-5, 1e-5));
      }
    }
  });
}

TEST(HierarchicalGroupErrors, OperationsInTheMiddleOfAnExchangeAreRefused) {
  const BucketPlan plan = three_buckets();
  const Nodes nodes({0, 0, 1, 1}, exchange_bytes(plan, 2));
  run_ranks(4, [&](int rank) {
    const auto group = nodes.join(rank);
    const auto exchange = group->exchange(plan, types_of(plan));
    exchange->post(0);
    try {
      group->barrier();
      ADD_FAILURE() << "the barrier was entered";
    } catch (const Exception& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    }
    exchange->post(1);
    exchange->post(2);
    exchange->finish();
    group->barrier();
  });
}

TEST(HierarchicalGroupErrors, ANodeThatLeavesAbortsTheOthers) {
  const Nodes nodes({0, 0, 1, 1});
  run_ranks(4, [&](int rank) {
    auto group = nodes.join(rank);
    group->barrier();
    if (rank >= 2) {
      group.reset();
      return;
    }
    EXPECT_THROW(group->barrier(), GroupAborted);
  });
}

TEST(HierarchicalGroupErrors, AnOperationBetweenTheNodesThatWasGivenUpEndsOnTheOtherNodeToo) {
  const Nodes nodes({0, 1});
  std::barrier<> both(2);
  run_ranks(2, [&](int rank) {
    auto group = nodes.join(rank);
    torch::Tensor tensor = torch::full({200'000}, rank + 1.0);
    if (rank == 1) {
      both.arrive_and_wait();
      EXPECT_THROW(group->all_reduce(tensor), GroupAborted);
      EXPECT_THROW(group->barrier(), GroupAborted);
      return;
    }
    std::thread aborts([&] {
      until_waiting(*group);
      group->abort("rank 1 hangs");
    });
    EXPECT_THROW(group->all_reduce(tensor), GroupAborted);
    aborts.join();
    group.reset();
    both.arrive_and_wait();
  });
}

TEST(LocalRendezvous, AddsAppendsAndRemoves) {
  LocalRendezvous table;
  EXPECT_EQ(table.get("a"), std::nullopt);
  EXPECT_EQ(table.add("a", 2), 2);
  EXPECT_EQ(table.add("a", -5), -3);
  EXPECT_EQ(table.get("a"), "-3");
  table.append("b", std::string("x\0", 2));
  table.append("b", "y");
  EXPECT_EQ(table.wait("b", 0ms), std::string("x\0y", 3));
  EXPECT_THROW(table.add("b", 1), Exception);
  EXPECT_TRUE(table.remove("b"));
  EXPECT_FALSE(table.remove("b"));
  table.set("run/1/a", "");
  table.set("run/1/b", "");
  table.set("run/2/a", "");
  EXPECT_EQ(table.remove_prefix("run/1/"), 2u);
  EXPECT_EQ(table.size(), 2u);
}

TEST(LocalRendezvous, WaitReturnsWhenAnotherThreadSetsTheKeyAndEndsAtItsLimit) {
  LocalRendezvous table;
  std::thread sets([&] {
    table.set("a", "1");
    table.set("b", "2");
  });
  EXPECT_THAT(table.wait_all({"b", "a"}, 60s), ::testing::ElementsAre("2", "1"));
  sets.join();
  try {
    table.wait_all({"a", "c"}, 1ms);
    FAIL() << "\"c\" has a value";
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), ErrorCode::kTimeout);
    EXPECT_THAT(e.what(), HasSubstr("\"c\""));
  }
}

}  // namespace
}  // namespace volador::train
