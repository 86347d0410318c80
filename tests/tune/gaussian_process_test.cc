#include "tune/searchers/gaussian_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/random.h"
#include "tune/searchers/box_ascent.h"
#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;

// A positive definite matrix that depends on the distance, as in a process.
double entry(size_t i, size_t j) {
  const double apart = std::sin(static_cast<double>(i)) - std::sin(static_cast<double>(j));
  return std::exp(-apart * apart) + (i == j ? 0.1 : 0);
}
void fill_entries(size_t first, Panel& panel) {
  for (size_t i = 0; i < first + kPanel; ++i)
    for (size_t c = 0; c < kPanel; ++c) panel.row(i)[c] = entry(i, first + c);
}
std::vector<double> numbers(const Panel& panel, size_t rows) { return {panel.row(0), panel.row(0) + rows * kPanel}; }

// With the processor's vector instructions, and without.
class PanelTest : public ::testing::TestWithParam<PanelInstructions> {
 protected:
  void SetUp() override {
    if (!use_panel_instructions(GetParam())) GTEST_SKIP() << "this processor has no AVX2";
  }
  void TearDown() override { use_panel_instructions(PanelInstructions::kBest); }
};
class PanelFactorTest : public PanelTest {};
class GaussianProcessTest : public PanelTest {};
std::string name_of(const ::testing::TestParamInfo<PanelInstructions>& one) {
  return one.param == PanelInstructions::kBest ? "Best" : one.param == PanelInstructions::kAvx2 ? "Avx2" : "Plain";
}
constexpr PanelInstructions kAllInstructions[] = {PanelInstructions::kBest, PanelInstructions::kAvx2,
                                                  PanelInstructions::kPlain};
INSTANTIATE_TEST_SUITE_P(All, PanelFactorTest, ::testing::ValuesIn(kAllInstructions), name_of);
INSTANTIATE_TEST_SUITE_P(All, GaussianProcessTest, ::testing::ValuesIn(kAllInstructions), name_of);

TEST_P(PanelFactorTest, SolvesForEachRightSide) {
  for (const size_t n : {size_t{1}, size_t{7}, size_t{16}, size_t{45}, size_t{100}}) {
    PanelFactor factor;
    factor.extend(n, fill_entries);
    Panel sides(n);
    SeededRandom random(n);
    for (size_t i = 0; i < n; ++i)
      for (size_t c = 0; c < kPanel; ++c) sides.row(i)[c] = random.real();
    Panel solved = sides;
    factor.solve_lower(solved);
    factor.solve_upper(solved);
    for (size_t i = 0; i < n; ++i) {
      for (size_t c = 0; c < kPanel; ++c) {
        double again = 0;
        for (size_t j = 0; j < n; ++j) again += entry(i, j) * solved.row(j)[c];
        ASSERT_NEAR(again, sides.row(i)[c], 1e-9) << n << " " << i << " " << c;
      }
    }
  }
}

TEST_P(PanelFactorTest, GrownStepByStepIsTheOneMadeAtOnce) {
  PanelFactor at_once, grown;
  at_once.extend(90, fill_entries);
  for (size_t n = 1; n <= 90; n += n % 3 + 1) grown.extend(n, fill_entries);
  grown.truncate(37);
  grown.extend(90, fill_entries);
  Panel one(90), other(90);
  for (size_t i = 0; i < 90; ++i) one.row(i)[i % kPanel] = other.row(i)[i % kPanel] = 1;
  at_once.solve_lower(one);
  grown.solve_lower(other);
  EXPECT_EQ(numbers(one, 90), numbers(other, 90));
  EXPECT_EQ(at_once.log_determinant(), grown.log_determinant());
}

TEST_P(PanelFactorTest, KnowsTheDeterminant) {
  PanelFactor factor;
  factor.extend(2, fill_entries);
  EXPECT_NEAR(factor.log_determinant(), std::log(entry(0, 0) * entry(1, 1) - entry(0, 1) * entry(0, 1)), 1e-12);
}

TEST_P(PanelFactorTest, StaysFiniteWhereTheMatrixIsSingular) {
  PanelFactor factor;
  factor.extend(20, [](size_t first, Panel& panel) {
    for (size_t i = 0; i < first + kPanel; ++i)
      for (size_t c = 0; c < kPanel; ++c) panel.row(i)[c] = 1;
  });
  EXPECT_TRUE(std::isfinite(factor.log_determinant()));
}

TEST_P(PanelFactorTest, TheKernelIsWhatItsFormulaSays) {
  double squared[kPanel], kernel[kPanel], slope[kPanel];
  for (size_t c = 0; c < kPanel; ++c) squared[c] = c == 0 ? 0 : std::pow(10.0, static_cast<double>(c) - 8);
  matern_kernel(squared, 2, kernel, slope);
  for (size_t c = 0; c < kPanel; ++c) {
    const double r = std::sqrt(5 * squared[c]);
    EXPECT_NEAR(kernel[c], 2 * (1 + r + r * r / 3) * std::exp(-r), 1e-14 * kernel[c] + 1e-290) << squared[c];
    EXPECT_NEAR(slope[c], -5.0 / 3 * (1 + r) * std::exp(-r), 1e-14 * -slope[c] + 1e-290) << squared[c];
  }
}

// ---- The process.

const std::vector<Apartness> kApart = {Apartness::kNumbers, Apartness::kOptions, Apartness::kConditional};

Point random_point(Random& random) {
  return {random.real(), static_cast<double>(random.below(3)) / 3, random.below(3) == 0 ? kInactive : random.real()};
}
GpData random_data(size_t count, uint64_t seed) {
  SeededRandom random(seed);
  GpData data;
  for (size_t i = 0; i < count; ++i) {
    data.points.push_back(random_point(random));
    data.values.push_back(normal_deviate(random));
  }
  return data;
}
Criterion improvement(double best) { return {AcquisitionOptions{}, Acquisition::kEi, best}; }
const GpLengths kSome = {{0.5, -0.4, 1}, -0.2, -4};

TEST_P(GaussianProcessTest, GivesBackWhatItWasToldButForNoise) {
  const GpData data = random_data(40, 1);
  GaussianProcess process(kApart);
  process.learn(data, {{3, 3, 3}, 0, std::log(1e-6)});
  for (size_t i = 0; i < data.points.size(); ++i) EXPECT_NEAR(process.mean(data.points[i]), data.values[i], 0.01);
}

TEST_P(GaussianProcessTest, HopesForNothingMoreOfWhatIsCertain) {
  GpData data = random_data(40, 1);
  const GpLengths noisy = {{1, 1, 1}, 0, std::log(0.1)};
  GaussianProcess process(kApart);
  process.learn(data, noisy);
  const Point running = {0.4, 0, 0.6};
  data.values.push_back(process.mean(running));
  data.points.push_back(running);
  process.learn(data, noisy);
  const double uncertain = process.scores({running}, improvement(data.values.back()))[0];
  data.certain = 1;
  process.learn(data, noisy);
  EXPECT_LT(process.scores({running}, improvement(data.values.back()))[0], uncertain - 5);
  EXPECT_NEAR(process.mean(running), data.values.back(), 1e-3);
}

TEST_P(GaussianProcessTest, SlopesAreThoseOfTheScore) {
  GaussianProcess process(kApart);
  process.learn(random_data(50, 2), kSome);
  SeededRandom random(3);
  std::vector<Criterion> criteria;
  for (const Acquisition function : AcquisitionHedge::kFunctions)
    for (const double best : {-1.0, -8.0}) criteria.emplace_back(AcquisitionOptions{}, function, best);
  for (const Criterion& criterion : criteria) {  // Improvements are likely, and very unlikely.
    std::vector<Point> points;
    for (int i = 0; i < 10; ++i) points.push_back(random_point(random));
    std::vector<const Point*> at;
    for (const Point& point : points) at.push_back(&point);
    const auto slopes = process.slopes(at, criterion);
    const auto values = process.scores(points, criterion);
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_NEAR(slopes[i].value, values[i], 1e-9);
      for (size_t d = 0; d < kApart.size(); ++d) {
        if (kApart[d] == Apartness::kOptions || points[i][d] == kInactive) {
          EXPECT_EQ(slopes[i].by[d], 0);
          continue;
        }
        Point low = points[i], high = points[i];
        low[d] -= 1e-6;
        high[d] += 1e-6;
        const auto around = process.scores({low, high}, criterion);
        const double slope = (around[1] - around[0]) / 2e-6;
        EXPECT_NEAR(slopes[i].by[d], slope, 1e-4 * std::max(1.0, std::abs(slope))) << i << " " << d;
      }
    }
  }
}

TEST_P(GaussianProcessTest, FindsTheMostPromisingWithoutJudgingAll) {
  GaussianProcess process(kApart);
  process.learn(random_data(60, 4), kSome);
  SeededRandom random(5);
  std::vector<Point> points;
  for (int i = 0; i < 500; ++i) points.push_back(random_point(random));
  for (const Acquisition function : AcquisitionHedge::kFunctions) {
    const Criterion criterion({}, function, -1);
    const auto all = process.most_promising(points, criterion, points.size());
    const auto some = process.most_promising(points, criterion, 10);
    ASSERT_EQ(all.size(), 500U);
    EXPECT_LT(some.size(), 500U);
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(some[i].second, all[i].second);
  }
}

TEST_P(GaussianProcessTest, KnowsWhatItBelievedBefore) {
  const GpData data = random_data(40, 9);
  SeededRandom random(10);
  std::vector<Point> points;
  for (int i = 0; i < 20; ++i) points.push_back(random_point(random));
  GaussianProcess process(kApart);
  process.learn(data, kSome);
  const auto past = process.beliefs_so_far(points);
  ASSERT_EQ(past.size(), 40U);
  for (const size_t count : {size_t{1}, size_t{17}, size_t{40}}) {
    GaussianProcess then(kApart);
    then.learn({{data.points.begin(), data.points.begin() + static_cast<ptrdiff_t>(count)},
                {data.values.begin(), data.values.begin() + static_cast<ptrdiff_t>(count)}},
               kSome);
    const Criterion bound({.kappa = 1}, Acquisition::kLcb, 0);
    const auto scores = then.scores(points, bound);
    const PointBeliefs& beliefs = past[count - 1];
    for (size_t i = 0; i < points.size(); ++i) {
      EXPECT_NEAR(beliefs.means[i], then.mean(points[i]), 1e-9);
      EXPECT_NEAR(bound.score(beliefs.means[i], beliefs.variances[i]), scores[i], 1e-9);
    }
  }
}

TEST_P(GaussianProcessTest, OneThatLearntInStepsIsTheOneThatLearntAtOnce) {
  const GpData data = random_data(70, 6);
  GaussianProcess at_once(kApart), in_steps(kApart);
  for (const size_t count : {size_t{10}, size_t{30}, size_t{31}, size_t{70}}) {
    GpData some{{data.points.begin(), data.points.begin() + static_cast<ptrdiff_t>(count)},
                {data.values.begin(), data.values.begin() + static_cast<ptrdiff_t>(count)}};
    std::reverse(some.values.begin(), some.values.end());
    some.points.push_back({0.5, 0, 0.5});  // A running trial, absent the next time.
    some.values.push_back(0);
    some.certain = 1;
    in_steps.learn(some, kSome);
  }
  in_steps.learn(data, kSome);
  at_once.learn(data, kSome);
  EXPECT_EQ(in_steps.scores(data.points, improvement(-2)), at_once.scores(data.points, improvement(-2)));
}

TEST(LikeliestLengths, FollowSlopesThatAreRight) {
  const GpData data = random_data(45, 7);
  std::vector<double> slope, unused;
  const double here = log_likelihood(kApart, data, kSome, slope);
  for (size_t k = 0; k < slope.size(); ++k) {
    const auto moved = [&](double by) {
      GpLengths lengths = kSome;
      (k < 3 ? lengths.inverse_squares[k] : k == 3 ? lengths.signal : lengths.noise) += by;
      return log_likelihood(kApart, data, lengths, unused);
    };
    EXPECT_NEAR(slope[k], (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-5) << k;
  }
  EXPECT_GT(log_likelihood(kApart, data, likeliest_lengths(kApart, data, {kSome}), unused), here);
}

TEST(LikeliestLengths, TellWhichParameterCounts) {
  GpData data = random_data(60, 8);
  for (size_t i = 0; i < data.points.size(); ++i) data.values[i] = 1.4 * std::sin(9 * data.points[i][0]);
  const GpLengths found = likeliest_lengths(kApart, data, {{{0, 0, 0}}});
  EXPECT_GT(found.inverse_squares[0], found.inverse_squares[1] + 2);
  EXPECT_GT(found.inverse_squares[0], found.inverse_squares[2] + 2);
}

// ---- The ascent.

// Number of evaluated points until it is done.
int climb(BoxAscent& ascent, const std::function<double(const std::vector<double>&, std::vector<double>&)>& function) {
  int judged = 0;
  for (std::vector<double> slope; !ascent.done(); ++judged) {
    const double value = function(ascent.at(), slope);
    ascent.told(value, slope);
  }
  return judged;
}
double bent_valley(const std::vector<double>& x, std::vector<double>& slope) {  // Rosenbrock's, upside down.
  const double off = x[1] - x[0] * x[0];
  slope = {400 * off * x[0] + 2 * (1 - x[0]), -200 * off};
  return -100 * off * off - (1 - x[0]) * (1 - x[0]);
}

TEST(BoxAscent, FollowsABentValleyToItsEnd) {
  const BoxAscentOptions options{.low = {-2, -2}, .high = {2, 2}, .judged_max = 200};
  BoxAscent ascent(options, {-1.2, 1});
  EXPECT_LT(climb(ascent, bent_valley), 100);
  EXPECT_THAT(ascent.best(), Each(DoubleNear(1, 1e-3)));
}

TEST(BoxAscent, EndsOnTheEdgeWhereTheBestPointIs) {
  const BoxAscentOptions options{.low = {-2, -2}, .high = {0.5, 2}, .judged_max = 200};
  BoxAscent ascent(options, {-1.2, 1});
  climb(ascent, bent_valley);
  EXPECT_EQ(ascent.best()[0], 0.5);
  EXPECT_NEAR(ascent.best()[1], 0.25, 1e-4);
}

TEST(BoxAscent, JudgesNoMorePointsThanItMay) {
  const BoxAscentOptions options{.low = {-2, -2}, .high = {2, 2}, .judged_max = 5};
  BoxAscent ascent(options, {-1.2, 1});
  EXPECT_EQ(climb(ascent, bent_valley), 5);
}

TEST(BoxAscent, TurnsBackFromValuesThatAreNoNumbers) {
  const BoxAscentOptions options{.low = {-1}, .high = {3}, .first_step = 2};
  BoxAscent ascent(options, {0});
  climb(ascent, [](const auto& x, auto& slope) {
    slope = {-2 * (x[0] - 0.9)};
    return x[0] > 1 ? std::nan("") : -(x[0] - 0.9) * (x[0] - 0.9);
  });
  EXPECT_NEAR(ascent.best()[0], 0.9, 1e-3);
}

TEST(BoxAscent, StaysWhereTheStartIsNoNumber) {
  const BoxAscentOptions options{.low = {0}, .high = {1}};
  BoxAscent ascent(options, {0.3});
  EXPECT_EQ(climb(ascent,
                  [](const auto&, auto& slope) {
                    slope = {1};
                    return std::nan("");
                  }),
            1);
  EXPECT_EQ(ascent.best(), std::vector<double>{0.3});
}

TEST(BoxAscent, LeavesCoordinatesWithoutSlopeAlone) {
  const BoxAscentOptions options{.low = {0, 0}, .high = {1, 1}};
  BoxAscent ascent(options, {0.3, kInactive});
  climb(ascent, [](const auto& x, auto& slope) {
    slope = {1 - x[0], 0};
    return x[0] - x[0] * x[0] / 2;
  });
  EXPECT_EQ(ascent.best(), (std::vector<double>{1, kInactive}));
}

}  // namespace
}  // namespace volador::tune
