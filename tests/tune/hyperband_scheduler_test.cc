#include "tune/schedulers/hyperband_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "tune/space/config.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

Config hyperband_vectors() {
  std::ifstream file("tests/tune/data/hyperband_vectors.json");
  std::stringstream text;
  text << file.rdbuf();
  return Config::from_json(text.str()).value();
}

// A scheduler and the trials 1, 2, …, added when first used. Decisions are C, P, S and F; those about other trials are
// recorded.
struct Band {
  std::unique_ptr<HyperBandScheduler> scheduler;
  std::map<uint32_t, char> state;  // Last decision for each trial.

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

using Ladder = std::vector<HyperBandRung>;

// Table 1 of Li et al., JMLR 2018: R = 81, eta = 3, by the s of the bracket.
TEST(HyperBandLadder, IsTheTableOfThePaper) {
  const std::vector<Ladder> table{{{5, 81}},
                                  {{8, 27}, {2, 81}},
                                  {{15, 9}, {5, 27}, {1, 81}},
                                  {{34, 3}, {11, 9}, {3, 27}, {1, 81}},
                                  {{81, 1}, {27, 3}, {9, 9}, {3, 27}, {1, 81}}};
  ASSERT_EQ(hyperband_brackets(81, 3), 5);
  for (int s = 0; s < 5; ++s) EXPECT_EQ(hyperband_ladder(81, 3, s), table[static_cast<size_t>(s)]) << "s = " << s;
}

// Whole steps of r_i = R eta^(i - s), computed by hand.
TEST(HyperBandLadder, HasAsManyRungsAsThePaperWhereMaxTIsNoPowerOfEta) {
  ASSERT_EQ(hyperband_brackets(100, 3), 5);
  EXPECT_EQ(hyperband_ladder(100, 3, 0), (Ladder{{5, 100}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 1), (Ladder{{8, 33}, {2, 100}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 2), (Ladder{{15, 11}, {5, 33}, {1, 100}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 3), (Ladder{{34, 3}, {11, 11}, {3, 33}, {1, 100}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 4), (Ladder{{81, 1}, {27, 3}, {9, 11}, {3, 33}, {1, 100}}));
  ASSERT_EQ(hyperband_brackets(20, 3), 3) << "floor(log3 20) + 1";
  EXPECT_EQ(hyperband_ladder(20, 3, 2), (Ladder{{9, 2}, {3, 6}, {1, 20}}));
  EXPECT_EQ(hyperband_brackets(243, 3), 6) << "log(243) / log(3) is below 5 in floating point";
}

// int(min(r * eta, max_t)), starting at int(max_t / eta^s), as Ray Tune's _Bracket.
TEST(HyperBandLadder, HasTheRungsOfRayWhereAsked) {
  const auto ray = HyperBandRule::kRay;
  EXPECT_EQ(hyperband_ladder(100, 3, 1, ray), (Ladder{{8, 33}, {3, 99}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 2, ray), (Ladder{{15, 11}, {5, 33}, {2, 99}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 3, ray), (Ladder{{34, 3}, {12, 9}, {4, 27}, {2, 81}}));
  EXPECT_EQ(hyperband_ladder(100, 3, 4, ray), (Ladder{{81, 1}, {27, 3}, {9, 9}, {3, 27}, {1, 81}}));
}

TEST(HyperBandLadder, MergesRungsOfTheSameNumberOfSteps) {
  for (const HyperBandRule rule : {HyperBandRule::kFilled, HyperBandRule::kRay}) {
    for (const double eta : {1.1, 1.5, 2.0, 2.7, 3.0, 4.0, 10.0}) {
      for (const int64_t max_t : {1, 2, 5, 20, 27, 50, 81, 100, 150, 243, 300, 1000}) {
        for (int s = 0; s < hyperband_brackets(max_t, eta, rule); ++s) {
          const Ladder ladder = hyperband_ladder(max_t, eta, s, rule);
          if (rule == HyperBandRule::kFilled) {
            ASSERT_FALSE(ladder.empty()) << max_t << ' ' << eta << ' ' << s;
            EXPECT_EQ(ladder.back().steps, max_t);
          }
          EXPECT_LE(ladder.size(), static_cast<size_t>(s) + 1) << max_t << ' ' << eta;
          for (size_t i = 1; i < ladder.size(); ++i) {
            EXPECT_GT(ladder[i].steps, ladder[i - 1].steps);
            EXPECT_LE(ladder[i].trials, ladder[i - 1].trials);
            EXPECT_GE(ladder[i].trials, 1);
          }
        }
      }
    }
  }
}

TEST(HyperBandLadder, IsThatOfRaysTables) {
  const Config all = hyperband_vectors()["hyperband"];
  ASSERT_EQ(all.size(), 7u);
  for (const Config& table : all.items()) {
    const int64_t max_t = table.integer("max_t");
    const double eta = table.real("eta");
    const Config brackets = table["brackets"];
    EXPECT_EQ(hyperband_brackets(max_t, eta, HyperBandRule::kRay), static_cast<int>(brackets.size()))
        << table.to_json();
    for (const Config& bracket : brackets.items()) {
      std::vector<HyperBandRung> expected;
      const Config ladder = bracket["ladder"];
      for (const Config& rung : ladder.items()) expected.push_back({rung[0].integer(), rung[1].integer()});
      const auto s = static_cast<int>(bracket.integer("s"));
      EXPECT_EQ(hyperband_ladder(max_t, eta, s, HyperBandRule::kRay), expected) << bracket.to_json();
    }
  }
}

TEST(HyperBandLadder, LeavesOutABracketThatMaxTIsTooShortFor) {
  EXPECT_EQ(hyperband_brackets(20, 3, HyperBandRule::kRay), 4);
  EXPECT_TRUE(hyperband_ladder(20, 3, 3, HyperBandRule::kRay).empty());
  Band band(hyperband_as_ray({.max_t = 20, .eta = 3}));
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

class HyperBandHalving : public ::testing::TestWithParam<HyperBandRule> {
 protected:
  // Number of 8 trials (5 with max_t 9) that continue with eta 3: the paper rounds down, Ray Tune up.
  static size_t third_of_8() { return GetParam() == HyperBandRule::kRay ? 3 : 2; }
  static size_t third_of_5() { return GetParam() == HyperBandRule::kRay ? 2 : 1; }
};
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
    EXPECT_EQ(band.report(left.back(), step, 1000), 'C');  // The best overall continues at once.
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
  EXPECT_EQ(band.count('C'), 5 + static_cast<int>(third_of_8()));
}

TEST_P(HyperBandHalving, HalvesWhenTheTrialItWaitsForFails) {
  Band band({.max_t = 81, .rule = GetParam()});
  band.add(1, 13);
  for (uint32_t trial = 6; trial < 13; ++trial) band.report(trial, 27, trial);
  EXPECT_EQ(band.count('P'), 7);
  band.ended(13);
  EXPECT_EQ(band.scheduler->brackets()[1].live, static_cast<int64_t>(third_of_8()));
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
  EXPECT_EQ(band.state[5], third_of_5() == 2 ? 'C' : 'S');
  EXPECT_EQ(band.state[6], 'S');
}

TEST_P(HyperBandHalving, EndsATrialAtTheLastRungOnly) {
  Band band({.max_t = 100, .eta = 3, .rule = GetParam()});
  band.add(1, 5 + 8);
  for (uint32_t trial = 6; trial <= 13; ++trial) band.report(trial, 33, trial);
  const uint32_t first = 14 - static_cast<uint32_t>(third_of_8());
  const int64_t last = GetParam() == HyperBandRule::kRay ? 99 : 100;
  for (uint32_t trial = first; trial <= 13; ++trial) EXPECT_EQ(band.report(trial, last - 1, trial), 'C');
  for (uint32_t trial = first; trial <= 13; ++trial) band.report(trial, last, trial);
  EXPECT_EQ(band.count('F'), static_cast<int>(third_of_8()));
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
  EXPECT_EQ(band.count('S'), 4);
}

TEST(HyperBandScheduler, HalvesWithThoseThatCameWhenNoMoreCome) {
  Band band({.max_t = 9});
  band.add(1, 3 + 4);
  for (uint32_t trial = 4; trial <= 6; ++trial) EXPECT_EQ(band.report(trial, 3, trial), 'P');
  band.no_more();
  EXPECT_EQ(band.report(7, 3, 0), 'S');  // floor(4 / 3) continue.
  EXPECT_EQ(band.state[6], 'C');
  EXPECT_EQ(band.state[5], 'S');
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
