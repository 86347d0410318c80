#include "train/core/bucket_plan.h"

#include <gtest/gtest.h>

namespace volador::train {
namespace {

ParameterShape floats(int64_t elements, int kind = 0) { return {"p", elements, 4, kind}; }

TEST(BucketPlan, GoesThroughTheParametersInReverseOrder) {
  const BucketPlan plan = plan_buckets({floats(10), floats(20), floats(30)}, {});
  ASSERT_EQ(plan.buckets.size(), 1u);
  ASSERT_EQ(plan.buckets[0].slots.size(), 3u);
  EXPECT_EQ(plan.buckets[0].slots[0].parameter, 2u);
  EXPECT_EQ(plan.buckets[0].slots[2].parameter, 0u);
}

TEST(BucketPlan, KeepsTheLimitsAndGivesALargerParameterABucketOfItsOwn) {
  const BucketPlan plan =
      plan_buckets({floats(100), floats(5000), floats(100), floats(100)}, {.first_bytes = 800, .bytes = 2000});
  ASSERT_EQ(plan.buckets.size(), 4u);
  EXPECT_EQ(plan.buckets[0].slots.size(), 1u);  // Padded to 112 floats: a second one would exceed 800 bytes.
  EXPECT_EQ(plan.buckets[2].elements, 5008);
}

TEST(BucketPlan, AlignsSlotsAtCacheLinesWithoutOverlap) {
  const BucketPlan plan = plan_buckets({floats(1), floats(17), floats(3)}, {.control_words = 5});
  int64_t end = 0;
  for (const BucketSlot& slot : plan.buckets[0].slots) {
    EXPECT_EQ(slot.offset % 16, 0);
    EXPECT_GE(slot.offset, end);
    end = slot.offset + slot.elements;
  }
  EXPECT_GE(plan.control_offset, end);
  EXPECT_LE(plan.control_offset + 5, plan.buckets[0].elements);
}

TEST(BucketPlan, DoesNotMixKinds) {
  const BucketPlan plan = plan_buckets({floats(4, 0), floats(4, 1), floats(4, 1), floats(4, 0)}, {});
  ASSERT_EQ(plan.buckets.size(), 3u);
  EXPECT_EQ(plan.buckets[1].kind, 1);
  EXPECT_EQ(plan.buckets[1].slots.size(), 2u);
}

TEST(BucketPlan, HasABucketForControlWordsWithoutParameters) {
  const BucketPlan plan = plan_buckets({}, {.control_words = 3});
  ASSERT_EQ(plan.buckets.size(), 1u);
  EXPECT_EQ(plan.control_offset, 0);
  EXPECT_GE(plan.buckets[0].elements, 3);
}

}  // namespace
}  // namespace volador::train
