#include "runtime/duration_histogram.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

using namespace std::chrono_literals;

TEST(DurationHistogram, CountsEachInItsBucket) {
  DurationHistogram histogram;
  for (const auto took :
       {std::chrono::nanoseconds(-5), std::chrono::nanoseconds(0), std::chrono::nanoseconds(50us),
        std::chrono::nanoseconds(50us) + 1ns, std::chrono::nanoseconds(1s), std::chrono::nanoseconds(2s)})
    histogram.add(took);
  const auto counts = histogram.counts();
  EXPECT_EQ(counts.total, 6u);
  EXPECT_EQ(counts.in.front(), 3u);
  EXPECT_EQ(counts.in[1], 1u);
  EXPECT_EQ(counts.in[counts.in.size() - 2], 1u);
  EXPECT_EQ(counts.in.back(), 1u);
  EXPECT_NEAR(counts.sum_s, 3.0001, 1e-6);
}

}  // namespace
}  // namespace volador
