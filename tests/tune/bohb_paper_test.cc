// BOHB compared with results of its paper's formulas (Falkner, Klein, Hutter, ICML 2018: algorithms 1 and 2, equation
// 3), computed by hand, and with the tables of HyperBand, whose brackets it opens in reverse order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/searchers/bohb_searcher.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;

// ---- Brackets.

struct PaperBand {
  std::unique_ptr<Scheduler> scheduler;
  std::map<uint32_t, char> said = {};  // Decision for each trial: Continue, Stop, Finish, Pause.

  PaperBand(int64_t max_t, double eta)
      : scheduler(hyperband_for_bohb({.max_t = max_t, .eta = eta})({.metric = "m", .mode = Mode::kMax}).value()) {}

  auto brackets() const { return dynamic_cast<HyperBandScheduler&>(*scheduler).brackets(); }
  void add(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto trial = static_cast<uint32_t>(said.size());
      scheduler->on_trial_add(TrialId(trial));
      said[trial] = 'C';
    }
  }
  void report(uint32_t trial, int64_t step, double value) {
    said[trial] = "CSFP"[static_cast<int>(scheduler->on_report({TrialId(trial), step, value}).value())];
    for (const Order& order : scheduler->take_orders()) {
      if (const auto* resume = std::get_if<ResumeOrder>(&order)) said[resume->trial.value()] = 'C';
      if (const auto* end = std::get_if<EndOrder>(&order))
        said[end->trial.value()] = end->decision == Decision::kStop ? 'S' : 'F';
    }
    scheduler->check_invariants();
  }
  std::string all() const {
    std::string text;
    for (const auto& [trial, one] : said) text += one;
    return text;
  }
};

Config tables() {
  std::ifstream file("tests/tune/data/hyperband_vectors.json");
  std::stringstream text;
  text << file.rdbuf();
  return Config::from_json(text.str()).value()["hyperband"];
}

TEST(HyperBandForBohb, OpensTheBracketsOfEachTableFromTheLargestAndThenAgain) {
  const Config all = tables();
  ASSERT_EQ(all.size(), 7U);
  for (const Config& table : all.items()) {
    PaperBand band(table.integer("max_t"), table.real("eta"));
    const Config brackets = table["brackets"];
    std::vector<std::vector<int64_t>> expected, got;
    for (size_t i = brackets.size(); i-- > 0;) {  // Both rules start brackets alike in these tables.
      const Config first = brackets[i]["ladder"][0];
      expected.push_back({brackets[i].integer("s"), first[0].integer(), first[1].integer()});
      band.add(first[0].integer());
    }
    for (const auto& bracket : band.brackets()) got.push_back({bracket.s, bracket.live, bracket.milestone});
    EXPECT_EQ(got, expected) << table.to_json();
    band.add(1);
    EXPECT_EQ(band.brackets().back().s, static_cast<int>(brackets.size()) - 1) << "it begins again";
    EXPECT_EQ(band.brackets().size(), brackets.size() + 1);
  }
}

// 81 steps, eta 3: s_max = log3 81 = 4; n = ceil(5 / (s + 1) * 3^s), r = 81 / 3^s for s = 4 to 0.
TEST(HyperBandForBohb, HasTheBracketsThatAlgorithm1Gives) {
  PaperBand band(81, 3);
  band.add(81 + 34 + 15 + 8 + 5);
  std::vector<int64_t> trials, steps;
  for (const auto& bracket : band.brackets()) {
    trials.push_back(bracket.live);
    steps.push_back(bracket.milestone);
  }
  EXPECT_THAT(trials, ElementsAre(81, 34, 15, 8, 5));
  EXPECT_THAT(steps, ElementsAre(1, 3, 9, 27, 81));
}

// 9 steps, eta 3. s = 2: 9 trials with 1 step, the best 3 with 3, the best one with 9. s = 1: ceil(3 / 2 * 3) = 5 with
// 3 steps, the best one with 9. s = 0: 3 with 9.
TEST(HyperBandForBohb, DecidesTheBracketsOfNineStepsAsByHand) {
  PaperBand band(9, 3);
  band.add(17);
  const std::vector<double> value{0.4,           0.9, 0.1, 0.7, 0.3, 0.8,           0.2, 0.6, 0.5,
                                  /* s 1 */ 0.3, 0.5, 0.1, 0.4, 0.2, /* s 0 */ 0.1, 0.2, 0.3};
  for (uint32_t trial = 0; trial < 8; ++trial) band.report(trial, 1, value[trial]);
  EXPECT_EQ(band.all(),
            "PPPPPPPPC"
            "CCCCC"
            "CCC")
      << "it waits for the ninth";
  band.report(8, 1, value[8]);
  EXPECT_EQ(band.all(),
            "SCSCSCSSS"
            "CCCCC"
            "CCC")
      << "0.9, 0.8 and 0.7 go on";
  for (const uint32_t trial : {1U, 3U, 5U}) band.report(trial, 3, trial == 3 ? 1.0 : value[trial]);
  EXPECT_EQ(band.all(),
            "SSSCSSSSS"
            "CCCCC"
            "CCC")
      << "one of three, by what it reports now";
  for (uint32_t trial = 9; trial < 14; ++trial) band.report(trial, 3, value[trial]);
  EXPECT_EQ(band.all(),
            "SSSCSSSSS"
            "SCSSS"
            "CCC")
      << "floor(5 / 3) = 1";
  for (const uint32_t trial : {3U, 10U, 14U, 15U, 16U}) band.report(trial, 9, value[trial]);
  EXPECT_EQ(band.all(),
            "SSSFSSSSS"
            "SFSSS"
            "FFF");
}

// ---- The model.

TEST(BohbModel, CountsResultsAtTheBudgetsOfTheBrackets) {
  EXPECT_THAT(bohb_budgets(81, 3), ElementsAre(1, 3, 9, 27, 81));
  EXPECT_THAT(bohb_budgets(1000, 10), ElementsAre(1, 10, 100, 1000));
  EXPECT_THAT(bohb_budgets(100, 3), ElementsAre(1, 3, 11, 33, 100));
  EXPECT_THAT(bohb_budgets(1, 3), ElementsAre(1));
}

// N_min = d + 1; good: max(N_min, q N); others: max(N_min, N - good); q = 0.15.
TEST(BohbModel, DividesResultsAsEquation3) {
  const auto split = [](int64_t results, int64_t parameters, int64_t least = 0) {
    return bohb_split(results, parameters, {.min_points_in_model = least});
  };
  EXPECT_EQ(split(3, 1), std::nullopt);
  EXPECT_EQ(split(4, 1), (BohbSplit{2, 2}));
  EXPECT_EQ(split(13, 1), (BohbSplit{2, 11})) << "0.15 of 13 is 1.95";
  EXPECT_EQ(split(20, 1), (BohbSplit{3, 17}));
  EXPECT_EQ(split(100, 1), (BohbSplit{15, 85}));
  EXPECT_EQ(split(13, 6), std::nullopt);
  EXPECT_EQ(split(14, 6), (BohbSplit{7, 7}));
  EXPECT_EQ(split(46, 6), (BohbSplit{7, 39}));
  EXPECT_EQ(split(54, 6), (BohbSplit{8, 46}));
  EXPECT_EQ(split(19, 1, 10), std::nullopt);
  EXPECT_EQ(split(20, 1, 10), (BohbSplit{10, 10}));
  EXPECT_EQ(bohb_split(10, 1, {.top_n_percent = 99}), (BohbSplit{8, 2})) << "the others keep as many as a model needs";
}

const Space kLine = {{"x", uniform(0, 1)}};

std::unique_ptr<Searcher> on_a_line(const BohbOptions& options) {
  return std::move(*bohb(options)({.space = kLine, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = 7}));
}
void tell(Searcher& searcher, int64_t index, double x, int64_t step, double value) {
  searcher.on_start(index, Config{{"x", x}});
  searcher.on_result({index, step, value});
}

// For the same seed, random proposals are equal and modelled ones are not.
TEST(BohbModel, BeginsOnceABudgetHasTwiceParametersPlusOne) {
  const auto model = on_a_line({.max_t = 9, .random_fraction = 0}),
             random = on_a_line({.max_t = 9, .random_fraction = 1});
  std::string drawn;
  for (int64_t i = 0; i < 7; ++i) {
    const double x = model->suggest(i).value().config.real("x");
    drawn += x == random->suggest(i).value().config.real("x") ? 'r' : 'm';
    // Each trial has results at two budgets except for the first: 3 steps have one result fewer.
    model->on_result({i, 1, x});
    if (i > 0) model->on_result({i, 3, x});
  }
  EXPECT_EQ(drawn, "rrrrmmm");
}

double normal_below(double z) { return 0.5 * std::erfc(-z * M_SQRT1_2); }

// The good values are 0.1 and 0.3, the others 0.7 and 0.9. Bandwidth by the normal reference rule: 1.06 * 0.1 *
// 2^(-1/5). Draws are normal around a good value, 3 bandwidths wide, within the range.
struct Line {
  double width = 3 * 1.06 * 0.1 * std::pow(2, -0.2);
  double below(double x) const {
    double sum = 0;
    for (const double good : {0.1, 0.3}) {
      const double low = normal_below(-good / width), high = normal_below((1 - good) / width);
      sum += (normal_below((x - good) / width) - low) / (high - low) / 2;
    }
    return sum;
  }
  static void fill(Searcher& searcher) {
    tell(searcher, 0, 0.7, 1, 3);
    tell(searcher, 1, 0.1, 1, 1);
    tell(searcher, 2, 0.9, 1, 4);
    tell(searcher, 3, 0.3, 1, 2);
  }
};

// Kolmogorov-Smirnov distance between the draws and a distribution; above 1.63 / sqrt(n) with probability 0.01.
double distance(std::vector<double> drawn, const std::function<double(double)>& below) {
  std::sort(drawn.begin(), drawn.end());
  double largest = 0;
  const auto count = static_cast<double>(drawn.size());
  for (size_t i = 0; i < drawn.size(); ++i) {
    const double expected = below(drawn[i]);
    largest = std::max({largest, std::abs(expected - static_cast<double>(i) / count),
                        std::abs(static_cast<double>(i + 1) / count - expected)});
  }
  return largest;
}

constexpr int64_t kDraws = 2000;
std::vector<double> drawn_by(const BohbOptions& options) {
  const auto searcher = on_a_line(options);
  Line::fill(*searcher);
  std::vector<double> drawn;
  for (int64_t i = 4; i < 4 + kDraws; ++i) drawn.push_back(searcher->suggest(i).value().config.real("x"));
  return drawn;
}

TEST(BohbModel, DrawsFromTheKernelsOfTheGoodMadeWider) {
  const auto drawn = drawn_by({.max_t = 9, .num_samples = 1, .random_fraction = 0});
  const Line line;
  EXPECT_LT(distance(drawn, [&](double x) { return line.below(x); }), 1.63 / std::sqrt(kDraws));
  EXPECT_GT(distance(drawn, [](double x) { return x; }), 0.2) << "the distance tells distributions apart";
}

// log l - log g decreases from 0 to 1 here, so that the smallest of 64 draws is the best.
TEST(BohbModel, TakesTheDrawWhereGoodOverOthersIsLargest) {
  const auto drawn = drawn_by({.max_t = 9, .random_fraction = 0});
  const Line line;
  EXPECT_LT(distance(drawn, [&](double x) { return 1 - std::pow(1 - line.below(x), 64); }), 1.63 / std::sqrt(kDraws));
}

TEST(BohbModel, AThirdIsRandom) {
  const auto drawn = drawn_by({.max_t = 9});
  const Line line;
  const auto mixed = [&](double x) { return x / 3 + 2.0 / 3 * (1 - std::pow(1 - line.below(x), 64)); };
  EXPECT_LT(distance(drawn, mixed), 1.63 / std::sqrt(kDraws));
}

}  // namespace
}  // namespace volador::tune
