// One seed gives one set of configurations, regardless of the order in which trials end and of the number that run at
// once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "runtime/random.h"
#include "tune/searchers/bohb_searcher.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

const Space kTimedSpace = {{"x", uniform(-5, 5)}, {"lr", loguniform(1e-4, 1)}, {"kind", choice({"a", "b", "c"})}};

double timed_value(const Config& config) {
  const double x = config.real("x") - 1;
  return x * x + std::abs(std::log10(config.real("lr")) + 2) + (config.text("kind") == "b" ? 0 : 1);
}

std::unique_ptr<Searcher> make_timed(const SearcherFactory& factory) {
  return factory({.space = kTimedSpace, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = 5}).value();
}

// Returns the configurations of `count` trials on `slots` slots; `timing` determines which running trial ends next, how
// soon a free slot is filled, and which trials fail. `reopen`: the searcher is occasionally replaced by a copy of its
// snapshot.
std::vector<std::string> timed_run(const SearcherFactory& factory, int64_t count, size_t slots, uint64_t timing,
                                   bool reopen = false) {
  auto searcher = make_timed(factory);
  SeededRandom random(timing);
  std::vector<std::string> configs;
  std::vector<std::pair<int64_t, Config>> running;
  bool waits = false;
  while (static_cast<int64_t>(configs.size()) < count) {
    const bool may_ask = running.size() < slots && !waits;
    if (may_ask && (running.empty() || random.below(3) > 0)) {
      const auto index = static_cast<int64_t>(configs.size());
      const auto suggestion = searcher->suggest(index).value();
      waits = suggestion.kind == Suggestion::Kind::kWait;
      if (waits && running.empty()) {
        ADD_FAILURE() << "it waits for nothing";
        return configs;
      }
      if (waits) continue;
      configs.push_back(suggestion.config.to_json());
      running.emplace_back(index, suggestion.config);
      continue;
    }
    const auto place = running.begin() + static_cast<std::ptrdiff_t>(random.below(running.size()));
    const auto [index, config] = *place;
    running.erase(place);
    for (int64_t step = 1; step <= 2; ++step) searcher->on_result({index, step, timed_value(config)});
    const bool fails = index % 7 == 3;
    searcher->on_complete(index, fails ? std::nullopt : std::optional(Observation{index, 2, timed_value(config)}));
    waits = false;
    if (reopen && random.below(4) == 0) {
      auto copy = make_timed(factory);
      EXPECT_TRUE(copy->restore(searcher->snapshot()));
      searcher = std::move(copy);
    }
  }
  return configs;
}

struct TimedCase {
  const char* name;
  SearcherFactory inner;
};
void PrintTo(const TimedCase& one, std::ostream* out) { *out << one.name; }

class Deterministic : public ::testing::TestWithParam<TimedCase> {};
INSTANTIATE_TEST_SUITE_P(
    All, Deterministic,
    ::testing::Values(TimedCase{"Tpe", tpe({.n_startup_trials = 5})}, TimedCase{"Cmaes", cmaes()},
                      TimedCase{"Gp", gp({.n_startup_trials = 5})},
                      TimedCase{"Bohb", bohb({.max_t = 2, .eta = 2, .min_points_in_model = 4, .random_fraction = 0})},
                      TimedCase{"TpeAfterPoints", points_to_evaluate({{{"x", 1.0}}}, tpe({.n_startup_trials = 5}))}),
    [](const auto& one) { return std::string(one.param.name); });

TEST_P(Deterministic, GivesTheSameConfigurationsWhateverTheTiming) {
  const auto factory = deterministic({.window = 4}, GetParam().inner);
  const auto expected = timed_run(factory, 24, 4, 0);
  ASSERT_EQ(expected.size(), 24U);
  for (uint64_t timing = 1; timing <= 12; ++timing) {
    EXPECT_EQ(timed_run(factory, 24, 1 + timing % 8, timing, timing % 2 == 0), expected) << "timing " << timing;
  }
}

TEST_P(Deterministic, LearnsAllTheSame) {
  const auto factory = deterministic({.window = 4}, GetParam().inner);
  const auto random = timed_run(random_search(), 24, 1, 0);
  std::set<std::string> seen(random.begin(), random.end());
  EXPECT_NE(timed_run(factory, 24, 4, 0), random);
  // Proposals of the searcher follow from results: other values, other proposals.
  auto one = make_timed(factory), other = make_timed(factory);
  bool differ = false;
  for (int64_t i = 0; i < 24; ++i) {
    const Config a = one->suggest(i).value().config, b = other->suggest(i).value().config;
    differ = differ || !(a == b);
    one->on_complete(i, Observation{i, 2, timed_value(a)});
    other->on_complete(i, Observation{i, 2, -timed_value(b)});
  }
  EXPECT_TRUE(differ);
}

// Without the wrapper the guarantee does not hold: shows that the test above can fail.
TEST(DeterministicSearcher, IsNeededWhereTrialsEndInAnotherOrder) {
  std::set<std::vector<std::string>> runs;
  for (uint64_t timing = 0; timing < 8; ++timing) runs.insert(timed_run(tpe({.n_startup_trials = 5}), 24, 4, timing));
  EXPECT_GT(runs.size(), 1U);
}

TEST(DeterministicSearcher, WaitsForTheTrialsOfItsWindowOnly) {
  const auto searcher = make_timed(deterministic({.window = 2}, tpe()));
  const auto kind = [&](int64_t index) { return searcher->suggest(index).value().kind; };
  EXPECT_EQ(kind(0), Suggestion::Kind::kConfig);
  EXPECT_EQ(kind(1), Suggestion::Kind::kConfig);
  EXPECT_EQ(kind(2), Suggestion::Kind::kWait);
  searcher->on_complete(1, Observation{1, 1, 0.5});
  EXPECT_EQ(kind(2), Suggestion::Kind::kWait) << "trial 0 still runs";
  searcher->on_complete(0, std::nullopt);
  EXPECT_EQ(kind(2), Suggestion::Kind::kConfig);
}

TEST(DeterministicSearcher, LeavesASearcherThatDoesNotLearnAsItIs) {
  const auto searcher = make_timed(deterministic({.window = 1}, random_search()));
  EXPECT_FALSE(searcher->learns());
  for (int64_t i = 0; i < 5; ++i) EXPECT_EQ(searcher->suggest(i).value().kind, Suggestion::Kind::kConfig);
}

TEST(DeterministicSearcher, RefusesAWindowOutOfRange) {
  const auto made = deterministic({.window = 0}, tpe())({.space = kTimedSpace, .metric = "m"});
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("deterministic.window: expected 1 to 10000 trials, got 0"));
}

}  // namespace
}  // namespace volador::tune
