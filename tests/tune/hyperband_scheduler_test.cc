#include "tune/hyperband_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tune/config.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

Config hyperband_vectors() {
  std::ifstream file("tests/tune/data/hyperband_vectors.json");
  std::stringstream text;
  text << file.rdbuf();
  return Config::from_json(text.str()).value();
}

// A scheduler and the trials 1, 2, …, added as they are named. C, P, S and F as decisions; what became of others is
// kept.
struct Band {
  std::unique_ptr<HyperBandScheduler> scheduler;
  std::map<uint32_t, char> state;  // What was last said of each.

  explicit Band(const HyperBandOptions& options, Mode mode = Mode::kMax)
      : scheduler(HyperBandScheduler::create(options, {.metric = "m", .mode = mode}).value()) {}

  void add(uint32_t first, uint32_t last) {
    for (uint32_t trial = first; trial <= last; ++trial) {
      scheduler->on_trial_add(TrialId(trial));
      state[trial] = 'C';
    }
  }
  char report(uint32_t trial, int64_t step, double value) {
    state[trial] = letter(scheduler->on_report({TrialId(trial), step, value}).value());
    settle();
    return state[trial];
  }
  void ended(uint32_t trial) {
    scheduler->on_complete(TrialId(trial));
    settle();
  }
  void no_more() {
    scheduler->on_no_more_trials();
    settle();
  }
  int count(char wanted) const {
    int number = 0;
    for (const auto& [trial, said] : state) number += said == wanted;
    return number;
  }

 private:
  static char letter(Decision decision) { return "CSFP"[static_cast<int>(decision)]; }
  void settle() {
    for (const Order& order : scheduler->take_orders()) {
      if (const auto* resume = std::get_if<ResumeOrder>(&order)) state[resume->trial.value()] = 'C';
      if (const auto* end = std::get_if<EndOrder>(&order)) state[end->trial.value()] = letter(end->decision);
    }
    scheduler->check_invariants();
  }
};

HyperBandOptions hyperband_as_ray(HyperBandOptions options) {
  options.rule = HyperBandRule::kRay;
  return options;
}

TEST(HyperBandLadder, IsThatOfTheTables) {
  const Config all = hyperband_vectors()["hyperband"];
  ASSERT_EQ(all.size(), 7u);
  for (const Config& table : all.items()) {
    const int64_t max_t = table.integer("max_t");
    const double eta = table.real("eta");
    const Config brackets = table["brackets"];
    EXPECT_EQ(hyperband_brackets(max_t, eta), static_cast<int>(brackets.size())) << table.to_json();
    for (const Config& bracket : brackets.items()) {
      std::vector<HyperBandRung> expected;
      const Config ladder = bracket["ladder"];
      for (const Config& rung : ladder.items()) expected.push_back({rung[0].integer(), rung[1].integer()});
      EXPECT_EQ(hyperband_ladder(max_t, eta, static_cast<int>(bracket.integer("s"))), expected) << bracket.to_json();
    }
  }
}

TEST(HyperBandLadder, LeavesOutABracketThatMaxTIsTooShortFor) {
  EXPECT_EQ(hyperband_brackets(20, 3), 4);
  EXPECT_TRUE(hyperband_ladder(20, 3, 3).empty());
  Band band({.max_t = 20, .eta = 3});
  band.add(1, 100);
  for (const auto& bracket : band.scheduler->brackets()) EXPECT_LT(bracket.s, 3);
}

TEST(HyperBandScheduler, FillsTheBracketOfFullRunsFirst) {
  Band band({.max_t = 81});
  band.add(1, 5 + 8 + 15 + 34 + 81 + 1);
  const auto brackets = band.scheduler->brackets();
  ASSERT_EQ(brackets.size(), 6u);
  std::vector<int64_t> live, milestones;
  for (const auto& bracket : brackets) {
    live.push_back(bracket.live);
    milestones.push_back(bracket.milestone);
  }
  EXPECT_THAT(live, ::testing::ElementsAre(5, 8, 15, 34, 81, 1));
  EXPECT_THAT(milestones, ::testing::ElementsAre(81, 27, 9, 3, 1, 81));
}

class HyperBandHalving : public ::testing::TestWithParam<HyperBandRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, HyperBandHalving, ::testing::Values(HyperBandRule::kFilled, HyperBandRule::kRay));

TEST_P(HyperBandHalving, HalvesWhenTheLastTrialArrives) {
  Band band({.max_t = 81, .rule = GetParam()});
  band.add(1, 5 + 8 + 15 + 34 + 81);
  const uint32_t first = 5 + 8 + 15 + 34 + 1;
  std::vector<uint32_t> left;
  for (uint32_t trial = first; trial < first + 81; ++trial) left.push_back(trial);
  int64_t step = 1;
  for (const size_t next : {27u, 9u, 3u, 1u}) {
    for (size_t i = 0; i + 1 < left.size(); ++i) EXPECT_EQ(band.report(left[i], step, static_cast<double>(i)), 'P');
    EXPECT_EQ(band.report(left.back(), step, 1000), 'C');  // The best of all goes on at once.
    left.erase(left.begin(), left.end() - static_cast<std::ptrdiff_t>(next));
    step *= 3;
    EXPECT_EQ(band.scheduler->brackets().back().live, static_cast<int64_t>(next));
    EXPECT_EQ(band.scheduler->brackets().back().milestone, step);
    for (const uint32_t trial : left) EXPECT_EQ(band.state[trial], 'C') << trial;
  }
  EXPECT_EQ(band.count('S'), 80);
  EXPECT_EQ(band.report(left[0], 81, 1), 'F');
}

TEST_P(HyperBandHalving, StopsTheWorstThoughItArrivesLast) {
  Band band({.max_t = 81, .rule = GetParam()});
  band.add(1, 13);
  for (uint32_t trial = 6; trial < 13; ++trial) EXPECT_EQ(band.report(trial, 27, 100.0 - trial), 'P');
  EXPECT_EQ(band.report(13, 27, 0), 'S');
  EXPECT_EQ(band.count('C'), 5 + 3);
}

TEST_P(HyperBandHalving, HalvesWhenTheTrialItWaitsForFails) {
  Band band({.max_t = 81, .rule = GetParam()});
  band.add(1, 13);
  for (uint32_t trial = 6; trial < 13; ++trial) band.report(trial, 27, trial);
  EXPECT_EQ(band.count('P'), 7);
  band.ended(13);
  EXPECT_EQ(band.scheduler->brackets()[1].live, 3);
  EXPECT_EQ(band.count('P'), 0);
}

TEST_P(HyperBandHalving, KeepsATrialThatIsTooFarAheadWaiting) {
  Band band({.max_t = 81, .rule = GetParam()});
  band.add(1, 5 + 8 + 15 + 34 + 81);
  for (uint32_t trial = 63; trial < 143; ++trial) EXPECT_EQ(band.report(trial, 1, trial), 'P');
  EXPECT_EQ(band.report(143, 4, 143), 'P');
  EXPECT_EQ(band.state[142], 'C');
}

TEST_P(HyperBandHalving, MinimisesWithTheSignTurned) {
  Band band({.max_t = 9, .rule = GetParam()}, Mode::kMin);
  band.add(1, 3 + 5);
  for (uint32_t trial = 4; trial < 8; ++trial) band.report(trial, 3, trial);
  EXPECT_EQ(band.report(8, 3, std::nan("")), 'S');
  EXPECT_EQ(band.state[4], 'C');
  EXPECT_EQ(band.state[5], 'C');
  EXPECT_EQ(band.state[6], 'S');
}

// Bracket 0 has 4 full runs; bracket 1 halves at 4.
TEST(HyperBandRayRule, EndsTheLastRungTogether) {
  for (const bool stop : {true, false}) {
    Band band(hyperband_as_ray({.max_t = 8, .eta = 2, .stop_last_trials = stop}));
    band.add(1, 8);
    for (uint32_t trial = 1; trial <= 4; ++trial) EXPECT_EQ(band.report(trial, 4, trial), 'C');
    for (uint32_t trial = 5; trial <= 8; ++trial) band.report(trial, 4, 10 * (trial - 4));
    EXPECT_EQ(band.state[5], 'S');
    EXPECT_EQ(band.state[6], 'S');
    EXPECT_EQ(band.state[7], 'C');
    EXPECT_EQ(band.state[8], 'C');
    for (const uint32_t trial : {1, 2, 3, 4, 7})
      EXPECT_EQ(band.report(trial, 8, 1), !stop ? 'C' : trial == 4 ? 'F' : 'P');
    EXPECT_EQ(band.report(8, 8, 1), stop ? 'F' : 'C');
    EXPECT_EQ(band.count('F'), stop ? 6 : 0);
  }
}

TEST(HyperBandRayRule, HalvesWithThoseThatAreThere) {
  Band band(hyperband_as_ray({.max_t = 81}));
  band.add(1, 5 + 3);
  band.ended(6);
  EXPECT_EQ(band.report(7, 27, 1), 'P');
  EXPECT_EQ(band.report(8, 27, 2), 'C');
  EXPECT_EQ(band.state[7], 'C');
}

TEST(HyperBandRayRule, LetsALateTrialJoinAtTheRung) {
  Band band(hyperband_as_ray({.max_t = 81}));
  band.add(1, 5 + 7);
  for (uint32_t trial = 6; trial <= 12; ++trial) band.report(trial, 27, trial);
  band.add(13, 13);
  EXPECT_EQ(band.report(13, 27, 1), 'C');
  EXPECT_EQ(band.report(13, 27 + 81, 1), 'P');
}

TEST(HyperBandScheduler, WaitsForABracketToFill) {
  Band band({.max_t = 9});
  band.add(1, 3 + 4);
  for (uint32_t trial = 4; trial <= 7; ++trial) EXPECT_EQ(band.report(trial, 3, trial), 'P');
  band.add(8, 8);
  EXPECT_EQ(band.report(8, 3, 8), 'C');
  EXPECT_EQ(band.state[7], 'C');
  EXPECT_EQ(band.count('S'), 3);
}

TEST(HyperBandScheduler, HalvesWithThoseThatCameWhenNoMoreCome) {
  Band band({.max_t = 9});
  band.add(1, 3 + 4);
  for (uint32_t trial = 4; trial <= 6; ++trial) EXPECT_EQ(band.report(trial, 3, trial), 'P');
  band.no_more();
  EXPECT_EQ(band.report(7, 3, 0), 'S');  // ⌈4 / 3⌉ go on.
  EXPECT_EQ(band.state[6], 'C');
  EXPECT_EQ(band.state[5], 'C');
  EXPECT_EQ(band.state[4], 'S');
}

TEST(HyperBandScheduler, EndsAFullRunAtOnce) {
  Band band({.max_t = 9});
  band.add(1, 3);
  EXPECT_EQ(band.report(2, 8, 1), 'C');
  EXPECT_EQ(band.report(2, 9, 1), 'F');
  EXPECT_EQ(band.state[1], 'C');
}

TEST(HyperBandScheduler, NamesTheOptionThatIsOutOfRange) {
  const auto message = [](const HyperBandOptions& options, const std::string& metric = "m") {
    const auto made = HyperBandScheduler::create(options, {.metric = metric});
    return made ? std::string("accepted") : made.error().message;
  };
  EXPECT_THAT(message({.max_t = 0}), HasSubstr("hyperband.max_t: expected 1 to 2^53 steps, got 0"));
  EXPECT_THAT(message({.eta = 1}), HasSubstr("hyperband.eta: expected a number above 1, got 1"));
  EXPECT_THAT(message({.eta = std::nan("")}), HasSubstr("got nan"));
  EXPECT_THAT(message({.max_t = 1'000'000'000'000, .eta = 2}), HasSubstr("brackets of more than 2^32 trials"));
  EXPECT_THAT(message({.max_t = 81, .eta = std::nextafter(1.0, 2.0)}), HasSubstr("use a larger eta"));
  EXPECT_THAT(message({}, ""), HasSubstr("set .metric"));
  EXPECT_EQ(message({.max_t = 1}), "accepted");
}

}  // namespace
}  // namespace volador::tune
