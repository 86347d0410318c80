#include "tests/tune/asha_quality.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace volador::tune::testing {
namespace {

TEST(Hartmann, HasItsLeastValueAtItsOptimum) {
  EXPECT_NEAR(hartmann6(kHartmannOptimum), kHartmannLeast, 1e-5);
  for (size_t i = 0; i < 6; ++i) {
    for (const double away : {-0.01, 0.01}) {
      SixReals x = kHartmannOptimum;
      x[i] += away;
      EXPECT_GT(hartmann6(x), kHartmannLeast) << i;
    }
  }
}

TEST(Hartmann, HasTheKnownValuesAtEachFidelity) {
  std::ifstream file("tests/tune/data/mf_hartmann_vectors.json");
  const auto known = nlohmann::json::parse(file);
  ASSERT_EQ(known.size(), 75U);
  for (const auto& one : known) {
    const MfSurface surface{"", one["bias"], 0};
    EXPECT_NEAR(mf_hartmann6(surface, one["x"].get<SixReals>(), one["z"], 3), one["value"], 1e-9) << one;
  }
}

TEST(Hartmann, IsWorseByItsNoiseAtLowFidelityOnly) {
  const MfSurface noisy{"", 0, 2};
  EXPECT_DOUBLE_EQ(mf_hartmann6(noisy, kHartmannOptimum, 1, -1.5), hartmann6(kHartmannOptimum) + 3);
  EXPECT_DOUBLE_EQ(mf_hartmann6(noisy, kHartmannOptimum, 10, 1.5), hartmann6(kHartmannOptimum) + 1.5);
  EXPECT_DOUBLE_EQ(mf_hartmann6(noisy, kHartmannOptimum, 100, 1.5), hartmann6(kHartmannOptimum));
}

// The figure asha_quality, with fewer seeds.
TEST(AshaQuality, EndsNearerToTheOptimumThanTrialsThatAllRunInFull) {
  const Quality random = search_quality(kMfSurfaces[0], {}, 5);
  for (const AshaVariant variant : {AshaVariant::kStopping, AshaVariant::kPromotion}) {
    const Quality asha = search_quality(kMfSurfaces[0], quality_asha(variant), 5);
    EXPECT_GT(asha.trials, 10 * random.trials);
    EXPECT_LT(1.4 * asha.regret, random.regret);
  }
}

}  // namespace
}  // namespace volador::tune::testing
