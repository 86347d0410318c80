#include "train/core/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <thread>

#include "runtime/result.h"

namespace volador::train {
namespace {

using Rows = std::vector<int64_t>;

// The global batch, put together from the shares of all ranks. Checks that the slices are as even as possible.
Rows batch_of(const DistributedSampler& sampler, int64_t epoch, int64_t position, int64_t global_batch, int world) {
  Rows batch;
  size_t least = SIZE_MAX;
  size_t most = 0;
  for (int rank = 0; rank < world; ++rank) {
    const Share share = sampler.share(epoch, position, global_batch, rank, world);
    batch.insert(batch.end(), share.rows.begin(), share.rows.end());
    least = std::min(least, share.rows.size());
    most = std::max(most, share.rows.size());
  }
  EXPECT_LE(most - least, 1U);
  EXPECT_EQ(sampler.share(epoch, position, global_batch, 0, world).batch_rows, static_cast<int64_t>(batch.size()));
  return batch;
}

Rows epoch_of(const DistributedSampler& sampler, int64_t epoch, int64_t global_batch, int world, int64_t position = 0) {
  Rows all;
  int64_t batches = 0;
  for (bool last = false; !last; ++batches) {
    const Share share = sampler.share(epoch, position, global_batch, world - 1, world);
    const Rows batch = batch_of(sampler, epoch, position, global_batch, world);
    all.insert(all.end(), batch.begin(), batch.end());
    position += share.batch_rows;
    last = share.last_of_epoch;
    if (share.batch_rows == 0) break;
  }
  EXPECT_EQ(batches, sampler.batches(global_batch, position - static_cast<int64_t>(all.size())));
  return all;
}

Rows naturals(int64_t size) {
  Rows rows;
  for (int64_t i = 0; i < size; ++i) rows.push_back(i);
  return rows;
}

std::optional<ErrorCode> code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Exception& exception) {
    return exception.code();
  }
  return {};
}

TEST(DistributedSampler, GivesEachSampleOnceAnEpochForEveryWorldAndSize) {
  for (const int64_t size : {1, 2, 7, 16, 31, 64, 97, 101, 360}) {
    const DistributedSampler sampler(size, {.seed = 5});
    const Rows order = shuffled_rows(size, 5, 3);
    for (const int64_t global_batch : {1, 3, 8, 13, 64, 1000}) {
      for (int world = 1; world <= 9; ++world) {
        const Rows all = epoch_of(sampler, 3, global_batch, world);
        EXPECT_EQ(all, order) << size << " rows, batch " << global_batch << ", world " << world;
        EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), static_cast<size_t>(size));
      }
    }
  }
}

TEST(DistributedSampler, ResumesAtEveryBatchWithAnotherWorldAndBatch) {
  const DistributedSampler sampler(103, {.seed = 9});
  const Rows order = shuffled_rows(103, 9, 2);
  for (int64_t position = 0; position < 103; position += 8) {
    for (int world = 1; world <= 9; ++world) {
      const Rows rest(order.begin() + position, order.end());
      EXPECT_EQ(epoch_of(sampler, 2, 8, world, position), rest);
      EXPECT_EQ(epoch_of(sampler, 2, 5 * world, world, position), rest);
    }
  }
}

// The order is part of what a checkpoint relies on: a changed value here breaks the resume of saved runs.
TEST(DistributedSampler, KeepsItsOrder) {
  EXPECT_EQ(shuffled_rows(10, 0, 0), (Rows{5, 8, 0, 1, 6, 3, 9, 4, 2, 7}));
  EXPECT_EQ(shuffled_rows(10, 0, 1), (Rows{1, 3, 5, 7, 6, 0, 8, 4, 9, 2}));
  EXPECT_EQ(shuffled_rows(10, 42, 0), (Rows{3, 7, 4, 5, 8, 9, 6, 2, 0, 1}));
  const Rows large = shuffled_rows(1000, 7, 5);
  EXPECT_EQ(Rows(large.begin(), large.begin() + 5), (Rows{518, 590, 232, 503, 846}));
}

TEST(DistributedSampler, SameSeedGivesTheSameOrderAndEpochsDiffer) {
  const DistributedSampler one(500, {.seed = 3});
  const DistributedSampler two(500, {.seed = 3});
  const DistributedSampler other(500, {.seed = 4});
  std::set<Rows> orders;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Rows order = epoch_of(one, epoch, 500, 1);
    EXPECT_EQ(order, epoch_of(two, epoch, 500, 1));
    EXPECT_NE(order, epoch_of(other, epoch, 500, 1));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 20U);
  EXPECT_EQ(epoch_of(one, 0, 500, 1), epoch_of(two, 0, 500, 1));  // Back to an earlier epoch.
}

TEST(DistributedSampler, PutsEachRowAtEachPlaceEquallyOften) {
  constexpr int kRows = 5;
  constexpr int kEpochs = 20'000;
  int counts[kRows][kRows] = {};
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const Rows order = shuffled_rows(kRows, 11, epoch);
    for (size_t place = 0; place < kRows; ++place) ++counts[place][order[place]];
  }
  // Expected 4,000 with a standard deviation of 57.
  for (const auto& place : counts)
    for (const int count : place) EXPECT_NEAR(count, kEpochs / kRows, 300);
}

TEST(DistributedSampler, WithoutShuffleKeepsTheNaturalOrder) {
  const DistributedSampler sampler(29, {.seed = 8, .shuffle = false});
  for (int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(epoch_of(sampler, epoch, 4, 3), naturals(29));
}

TEST(DistributedSampler, DropLastLeavesOutAShortBatch) {
  const DistributedSampler sampler(22, {.shuffle = false, .drop_last = true});
  EXPECT_EQ(sampler.batches(5), 4);
  EXPECT_EQ(epoch_of(sampler, 0, 5, 3), naturals(20));
  EXPECT_TRUE(sampler.share(0, 15, 5, 0, 3).last_of_epoch);
  EXPECT_FALSE(sampler.share(0, 10, 5, 0, 3).last_of_epoch);
  const Share past = sampler.share(0, 20, 5, 0, 3);
  EXPECT_TRUE(past.rows.empty());
  EXPECT_EQ(past.batch_rows, 0);
  EXPECT_TRUE(past.last_of_epoch);
  EXPECT_EQ(sampler.batches(11), 2);
  EXPECT_EQ(sampler.batches(23), 0);
  EXPECT_EQ(sampler.share(0, 0, 23, 0, 1).batch_rows, 0);
  EXPECT_EQ(epoch_of(sampler, 0, 11, 2), naturals(22));
}

TEST(DistributedSampler, ShortLastBatchLeavesSomeRanksWithoutRows) {
  const DistributedSampler sampler(18, {.shuffle = false});
  std::vector<size_t> counts;
  for (int rank = 0; rank < 4; ++rank) {
    const Share share = sampler.share(0, 16, 8, rank, 4);
    counts.push_back(share.rows.size());
    EXPECT_EQ(share.batch_rows, 2);
    EXPECT_TRUE(share.last_of_epoch);
  }
  EXPECT_EQ(counts, (std::vector<size_t>{1, 1, 0, 0}));
  EXPECT_EQ(sampler.batches(8), 3);
  EXPECT_EQ(sampler.batches(8, 16), 1);
  EXPECT_EQ(sampler.batches(8, 18), 0);
}

TEST(DistributedSampler, EmptyDataSetHasNoBatch) {
  const DistributedSampler sampler(0);
  EXPECT_EQ(sampler.batches(8), 0);
  const Share share = sampler.share(0, 0, 8, 0, 2);
  EXPECT_EQ(share.batch_rows, 0);
  EXPECT_TRUE(share.last_of_epoch);
}

TEST(DistributedSampler, SharesOutliveTheirEpochAndTheSampler) {
  auto sampler = std::make_unique<DistributedSampler>(100, SamplerOptions{.seed = 1});
  const Share early = sampler->share(0, 0, 100, 0, 1);
  (void)sampler->share(1, 0, 100, 0, 1);
  sampler.reset();
  EXPECT_EQ(Rows(early.rows.begin(), early.rows.end()), shuffled_rows(100, 1, 0));
}

TEST(DistributedSampler, ThreadsOfDifferentEpochsReadTheirOwnOrder) {
  const DistributedSampler sampler(50, {.seed = 2});
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (size_t i = 0; i < wrong.size(); ++i) {
    threads.emplace_back([&sampler, &wrong = wrong[i], i] {
      for (int64_t turn = 0; turn < 50; ++turn) {
        const int64_t epoch = static_cast<int64_t>(i) + turn % 3;
        const Share share = sampler.share(epoch, 0, 50, 0, 1);
        wrong += Rows(share.rows.begin(), share.rows.end()) != shuffled_rows(50, 2, epoch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(DistributedSampler, RefusesArgumentsOutOfRange) {
  const DistributedSampler sampler(10);
  const auto refused = ErrorCode::kInvalidArgument;
  EXPECT_EQ(code_of([] { const DistributedSampler negative(-1); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(-1, 0, 1, 0, 1); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, -1, 1, 0, 1); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, 11, 1, 0, 1); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, 0, 0, 0, 1); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, 0, 1, 0, 0); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, 0, 1, 2, 2); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, 0, 1, -1, 2); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.batches(0); }), refused);
  EXPECT_EQ(code_of([&] { (void)sampler.share(0, 10, 1, 0, 1); }), std::nullopt);
}

TEST(ShareOf, OwnsItsRows) {
  Share share = share_of({4, 2, 9});
  EXPECT_EQ(Rows(share.rows.begin(), share.rows.end()), (Rows{4, 2, 9}));
  EXPECT_EQ(share.batch_rows, 3);
}

}  // namespace
}  // namespace volador::train
