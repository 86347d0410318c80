#include "tune/searchers/trees_searcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "tests/how_many.h"
#include "tests/tune/searcher_runs.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

constexpr TreeKind kTreeKinds[] = {TreeKind::kRandomForest, TreeKind::kExtraTrees, TreeKind::kBoosted};

std::unique_ptr<Searcher> made_of(const SearcherFactory& factory, const Space& space, uint64_t seed) {
  return factory({.space = space, .metric = "m", .mode = Mode::kMin, .num_samples = -1, .seed = seed}).value();
}

// Numbers on two scales, an integer and options.
const Space kTraining = {{"kind", choice({"a", "b", "c", "d"})},
                         {"layers", randint(1, 9)},
                         {"rate", loguniform(1e-5, 1)},
                         {"decay", uniform(0, 1)}};
double training_loss(const Config& config) {
  return std::abs(config.real("layers") - 6) / 5 + (config.text("kind") == "c" ? 0 : 0.5) +
         std::pow(std::log10(config.real("rate")) + 3, 2) / 2 + std::abs(config.real("decay") - 0.3);
}

constexpr uint32_t kSearches = how_many(4U, 1U);

TEST(Trees, EachKindFindsBetterTrialsThanRandomSearch) {
  double random = 0;
  for (uint64_t seed = 0; seed < kSearches; ++seed)
    random += least(search(*made_of(random_search(), kTraining, seed), 50, training_loss), training_loss) / kSearches;
  for (const TreeKind kind : kTreeKinds) {
    double found = 0;
    for (uint64_t seed = 0; seed < kSearches; ++seed)
      found +=
          least(search(*made_of(trees({.kind = kind}), kTraining, seed), 50, training_loss), training_loss) / kSearches;
    EXPECT_LT(found, kind == TreeKind::kBoosted ? random : random / 2) << static_cast<int>(kind);
  }
}

TEST(Trees, EachAcquisitionFunctionFindsBetterTrialsThanRandomSearch) {
  double random = 0;
  for (uint64_t seed = 0; seed < kSearches; ++seed)
    random += least(search(*made_of(random_search(), kTraining, seed), 50, training_loss), training_loss) / kSearches;
  for (const Acquisition function : {Acquisition::kPi, Acquisition::kLcb, Acquisition::kHedge}) {
    double found = 0;
    for (uint64_t seed = 0; seed < kSearches; ++seed) {
      const auto searcher = made_of(trees({.acquisition = {.function = function}}), kTraining, seed);
      found += least(search(*searcher, 50, training_loss), training_loss) / kSearches;
    }
    EXPECT_LT(found, function == Acquisition::kPi ? random : random / 2) << static_cast<int>(function);
  }
}

TEST(Trees, OneThatIsToldTheSameTrialsGoesOnTheSame) {
  for (const Acquisition function : {Acquisition::kEi, Acquisition::kHedge}) {
    const TreesOptions options{.acquisition = {.function = function}};
    const auto first = made_of(trees(options), kTraining, 3);
    const auto configs = search(*first, 25, training_loss);
    const auto second = made_of(trees(options), kTraining, 3);
    for (int64_t i = 0; i < 25; ++i) {
      const Config& config = configs[static_cast<size_t>(i)];
      ASSERT_TRUE(second->skip(i, config));
      second->on_complete(i, Observation{i, 1, training_loss(config)});
    }
    // Points of configurations differ in the last digits from those that were proposed.
    const Config one = first->suggest(25).value().config, other = second->suggest(25).value().config;
    EXPECT_EQ(one.text("kind"), other.text("kind"));
    EXPECT_EQ(one.integer("layers"), other.integer("layers"));
    EXPECT_NEAR(one.real("decay"), other.real("decay"), 1e-9);
  }
}

TEST(Trees, SpreadsABatch) {
  const Space space = {{"x", uniform(0, 1)}, {"y", uniform(0, 1)}};
  const auto searcher = made_of(trees(), space, 2);
  (void)search(*searcher, 20, [](const Config& config) {
    return std::pow(config.real("x") - 0.3, 2) + std::pow(config.real("y") - 0.6, 2);
  });
  std::vector<Config> batch;
  for (int64_t i = 20; i < 26; ++i) batch.push_back(searcher->suggest(i).value().config);
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const double apart = std::hypot(batch[i].real("x") - batch[j].real("x"), batch[i].real("y") - batch[j].real("y"));
      EXPECT_GT(apart, 1e-3) << i << " " << j;
    }
  }
}

TEST(Trees, ProposesNoConfigurationTwiceBeforeAllWereTried) {
  const Space space = {{"a", randint(0, 6)}, {"b", choice({"x", "y", "z"})}};
  std::set<std::string> seen;
  const auto value = [](const Config& config) { return std::abs(config.real("a") - 2); };
  for (const Config& config : search(*made_of(trees({.n_startup_trials = 1}), space, 1), 18, value))
    EXPECT_TRUE(seen.insert(config.to_json()).second);
}

TEST(Trees, RefusesOptionsOutOfRange) {
  const auto refusal = [](const TreesOptions& options) {
    const auto made = trees(options)({.space = kTraining, .metric = "m", .num_samples = 1});
    return made ? std::string() : made.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_THAT(refusal({.n_startup_trials = 0}), HasSubstr("trees.n_startup_trials: expected at least 1, got 0"));
  EXPECT_THAT(refusal({.history_max = 19}), HasSubstr("trees.history_max: expected at least 20, got 19"));
  EXPECT_THAT(refusal({.acquisition = {.xi = -1}}), HasSubstr("trees.xi: expected a number of at least 0, got -1"));
}

}  // namespace
}  // namespace volador::tune
