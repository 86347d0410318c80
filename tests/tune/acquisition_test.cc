#include "tune/searchers/acquisition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

double score_of(const AcquisitionOptions& options, double best, double mean, double deviation) {
  return Criterion(options, options.function, best).score(mean, deviation * deviation);
}

// By hand, with φ(0) = 0.3989423, φ(1) = 0.2419707, Φ(1) = 0.8413447.
TEST(Acquisition, ScoresAreThoseOfTheClosedForms) {
  const double at_best = 0.3989422804, one_below = 0.8413447461 + 0.2419707245;
  EXPECT_NEAR(score_of({.function = Acquisition::kEi}, 0, 0, 1), std::log(at_best), 1e-9);
  EXPECT_NEAR(score_of({.function = Acquisition::kEi}, 3, 1, 2), std::log(2 * one_below), 1e-9);
  EXPECT_NEAR(score_of({.function = Acquisition::kEi, .xi = 0.5}, 3.5, 1, 2), std::log(2 * one_below), 1e-9);
  EXPECT_NEAR(score_of({.function = Acquisition::kPi, .xi = 0}, 3, 1, 2), std::log(0.8413447461), 1e-9);
  EXPECT_NEAR(score_of({.function = Acquisition::kPi, .xi = 0}, 1, 3, 2), std::log(0.1586552539), 1e-9);
  EXPECT_NEAR(score_of({.function = Acquisition::kPi, .xi = 0.5}, 3.5, 1, 2), std::log(0.8413447461), 1e-9);
  EXPECT_NEAR(score_of({.function = Acquisition::kLcb}, 0, 1.5, 2), 1.96 * 2 - 1.5, 1e-12);
  EXPECT_NEAR(score_of({.function = Acquisition::kLcb, .kappa = 0}, 0, 1.5, 2), -1.5, 1e-12);
}

TEST(Acquisition, XiIsZeroForTheImprovementAloneAndAHundredthOtherwise) {
  const auto same = [](const AcquisitionOptions& options, Acquisition function, double xi) {
    AcquisitionOptions given = options;
    given.xi = xi;
    return Criterion(options, function, 1).score(2, 1) == Criterion(given, function, 1).score(2, 1);
  };
  EXPECT_TRUE(same({.function = Acquisition::kEi}, Acquisition::kEi, 0));
  EXPECT_TRUE(same({.function = Acquisition::kPi}, Acquisition::kPi, 0.01));
  EXPECT_TRUE(same({.function = Acquisition::kHedge}, Acquisition::kEi, 0.01));
}

TEST(Acquisition, IsSmoothAndFiniteWhereAnImprovementIsUnlikely) {
  for (const Acquisition function : AcquisitionHedge::kFunctions) {
    const Criterion criterion({.function = function}, function, 0);
    double before = criterion.score(3, 1);
    for (double mean = 3.01; mean < 60; mean += 0.01) {
      const double here = criterion.score(mean, 1);
      EXPECT_LT(here, before) << mean;
      EXPECT_LT(before - here, 0.7) << mean;
      before = here;
    }
  }
}

TEST(Acquisition, SlopesAreThoseOfTheScores) {
  for (const Acquisition function : AcquisitionHedge::kFunctions) {
    const Criterion criterion({.function = function}, function, 0.3);
    for (const double mean : {-2.0, 0.0, 0.5, 9.0}) {
      for (const double variance : {0.04, 1.0, 3.0}) {
        const auto slope = criterion.slope(mean, variance);
        EXPECT_EQ(slope.score, criterion.score(mean, variance));
        const double by_mean = (criterion.score(mean + 1e-6, variance) - criterion.score(mean - 1e-6, variance)) / 2e-6;
        const double by_variance =
            (criterion.score(mean, variance + 1e-7) - criterion.score(mean, variance - 1e-7)) / 2e-7;
        EXPECT_NEAR(slope.by_mean, by_mean, 1e-4 * std::max(1.0, std::abs(by_mean)));
        EXPECT_NEAR(slope.by_variance, by_variance, 1e-4 * std::max(1.0, std::abs(by_variance)));
      }
    }
  }
}

TEST(Acquisition, NoVarianceGivesMoreThanTheBound) {
  for (const Acquisition function : AcquisitionHedge::kFunctions) {
    const Criterion criterion({.function = function}, function, 0);
    for (const double mean : {-1.0, -0.01, 0.0, 1.0}) {
      for (const double variance : {0.0, 1e-6, 0.1, 1.0})
        EXPECT_LE(criterion.score(mean, variance), criterion.bound(mean, 1) + 1e-12) << mean << " " << variance;
    }
  }
}

TEST(Acquisition, RefusesOptionsOutOfRange) {
  EXPECT_TRUE(validate(AcquisitionOptions{}, "gp"));
  EXPECT_THAT(validate({.xi = -1}, "gp").error().message, HasSubstr("gp.xi: expected a number of at least 0, got -1"));
  EXPECT_THAT(validate({.kappa = NAN}, "trees").error().message, HasSubstr("trees.kappa: expected"));
}

// Three points: the one with the best mean, one that improves a little for sure, and an unknown one.
const PointBeliefs kThree = {{-1, -0.5, 0.5}, {1, 1e-4, 25}};

TEST(AcquisitionHedge, GainsAreMinusTheMeansOfWhatEachFunctionNominates) {
  const AcquisitionOptions options{.function = Acquisition::kHedge};
  AcquisitionHedge hedge(options);
  EXPECT_THAT(hedge.probabilities(), ElementsAre(1.0 / 3, 1.0 / 3, 1.0 / 3));
  // EI: 5 h(-0.1) = 1.76 of the last beats 1.08 and 0.49; LCB: 9.3 beats 2.96; PI: Φ(49) beats Φ(0.99).
  hedge.reward(kThree, 0, {{-2, -0.25, 0.5}, {1, 1, 1}});
  EXPECT_THAT(hedge.gains(), ElementsAre(-0.5, -0.5, 0.25));
  hedge.reward(kThree, 0, {{-2, -0.5, -1}, {1, 1, 1}}, 2);
  EXPECT_THAT(hedge.gains(), ElementsAre(1.5, 1.5, 1.25));
  const double total = 2 + std::exp(-0.25);
  EXPECT_NEAR(hedge.probabilities()[0], 1 / total, 1e-12);
  EXPECT_NEAR(hedge.probabilities()[2], std::exp(-0.25) / total, 1e-12);
}

TEST(AcquisitionHedge, DrawsByTheProbabilities) {
  AcquisitionHedge hedge({.function = Acquisition::kHedge});
  hedge.reward(kThree, 0, {{0, -1, 0}, {1, 1, 1}});
  SeededRandom random(1);
  int drawn[4] = {};
  for (int i = 0; i < 10'000; ++i) ++drawn[static_cast<int>(hedge.draw(random))];
  const double e = std::exp(1.0);
  EXPECT_NEAR(drawn[static_cast<int>(Acquisition::kPi)], 10'000 * e / (e + 2), 200);
  EXPECT_NEAR(drawn[static_cast<int>(Acquisition::kEi)], 10'000 / (e + 2), 200);
  EXPECT_EQ(drawn[static_cast<int>(Acquisition::kHedge)], 0);
}

}  // namespace
}  // namespace volador::tune
