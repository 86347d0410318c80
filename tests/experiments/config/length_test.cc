#include "experiments/config/length.h"

#include <gtest/gtest.h>

#include <limits>

namespace volador::experiments {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

int64_t batches(LengthUnit unit, int64_t amount, int64_t batch, int64_t records = 0) {
  const auto result = batches_of({unit, amount}, {.global_batch_size = batch, .records_per_epoch = records});
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result.value_or(-1);
}

TEST(Length, OfBatchesNeedsNoSizes) {
  EXPECT_EQ(batches(LengthUnit::kBatches, 900, 0), 900);
  EXPECT_EQ(batches(LengthUnit::kUnitless, 7, 0), 7);
}

TEST(Length, DropsAnIncompleteLastBatch) {
  EXPECT_EQ(batches(LengthUnit::kRecords, 10, 3), 3);
  EXPECT_EQ(batches(LengthUnit::kEpochs, 64, 64, 50'000), 64 * 50'000 / 64);
  EXPECT_EQ(batches(LengthUnit::kEpochs, 3, 7, 10), 30 / 7) << "the remainder of an epoch counts for the next one";
}

TEST(Length, OfLessThanABatchIsOneBatch) {
  EXPECT_EQ(batches(LengthUnit::kRecords, 2, 3), 1);
  EXPECT_EQ(batches(LengthUnit::kEpochs, 1, 64, 10), 1);
}

TEST(Length, OfNothingIsNothing) {
  EXPECT_EQ(batches(LengthUnit::kRecords, 0, 3), 0);
  EXPECT_EQ(batches(LengthUnit::kEpochs, 0, 0, 0), 0);
}

TEST(Length, IsExactForLargeNumbers) {
  EXPECT_EQ(batches(LengthUnit::kEpochs, kMost, 1 << 20, 1 << 20), kMost);
  EXPECT_EQ(batches(LengthUnit::kRecords, kMost, 2), kMost / 2);
  EXPECT_FALSE(batches_of({LengthUnit::kEpochs, kMost}, {.global_batch_size = 1, .records_per_epoch = 2}).has_value());
}

TEST(Length, SaysWhatIsMissing) {
  EXPECT_EQ(batches_of({LengthUnit::kRecords, 10}, {}).error().message,
            "10 records: hyperparameters.global_batch_size must be at least 1, got 0");
  EXPECT_EQ(batches_of({LengthUnit::kEpochs, 10}, {.global_batch_size = 1}).error().message,
            "10 epochs: records_per_epoch must be at least 1, got 0");
}

}  // namespace
}  // namespace volador::experiments
