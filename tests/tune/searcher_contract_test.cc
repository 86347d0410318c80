// Guarantees of every searcher for any sequence of events, on which the loop and the replay of a journal depend.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/random.h"
#include "tests/how_many.h"
#include "tune/searchers/bohb_searcher.h"
#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/halton_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/search_wrappers.h"
#include "tune/searchers/sobol_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/trees_searcher.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

struct SearcherCase {
  const char* name;
  SearcherFactory factory;
  Space space;
  Goals goals = {};
};
void PrintTo(const SearcherCase& one, std::ostream* out) { *out << one.name; }

constexpr int64_t kSamples = 40;

const Space kMixed = {{"lr", loguniform(1e-4, 1e-1)},
                      {"momentum", uniform(0, 1)},
                      {"decay", quniform(0, 1, 0.25)},
                      {"width", randint(8, 65)},
                      {"units", qlograndint(8, 512, 8)},
                      {"noise", randn(0, 2)},
                      {"activation", choice({"relu", "gelu", "tanh"})},
                      {"optimizer", choice({SpaceNode{{"name", "adam"}, {"beta", uniform(0.8, 1)}},
                                            SpaceNode{{"name", "sgd"}, {"nesterov", choice({true, false})}}})},
                      {"depth", 2}};
const Space kFew = {{"a", randint(0, 4)},
                    {"b", choice({SpaceNode{{"x", qrandint(0, 6, 2)}}, SpaceNode("none")})},
                    {"c", choice({"u", "v", "w"})}};
const Space kPair = {{"rate", loguniform(1e-4, 1)},
                     {"kind", choice({SpaceNode{{"x", uniform(0, 1)}}, SpaceNode("none")})}};
const Space kGrid = {{"a", grid_search({1, 2})}, {"b", grid_search({"x", "y"})}, {"lr", loguniform(1e-4, 1e-1)}};

// Whether a node may produce the value.
bool admits(const SpaceNode& node, const Config& value) {
  if (node.constant() != nullptr) return value == *node.constant();
  if (node.map() != nullptr) {
    for (const SpaceEntry& entry : *node.map()) {
      const Config* inner = value.find(entry.name);
      if (inner == nullptr || !admits(entry.value, *inner)) return false;
    }
    return value.size() == node.map()->size();
  }
  if (node.domain() == nullptr) return false;
  const auto any = [&](const std::vector<SpaceNode>& options) {
    return std::any_of(options.begin(), options.end(), [&](const SpaceNode& option) { return admits(option, value); });
  };
  if (const auto* choice = std::get_if<ChoiceDomain>(node.domain())) return any(choice->options);
  if (const auto* grid = std::get_if<GridDomain>(node.domain())) return any(grid->options);
  if (const auto* real = std::get_if<RealDomain>(node.domain())) {
    if (value.kind() != Config::Kind::kReal) return false;
    const double v = value.real();
    if (!real->q) return v >= real->low && v < real->high;
    return v >= real->low && v <= real->high && std::abs(v / *real->q - std::round(v / *real->q)) < 1e-9;
  }
  if (const auto* integer = std::get_if<IntegerDomain>(node.domain())) {
    if (value.kind() != Config::Kind::kInteger) return false;
    const int64_t v = value.integer();
    if (!integer->q) return v >= integer->low && v < integer->high;
    return v >= integer->low && v <= integer->high && v % *integer->q == 0;
  }
  return std::holds_alternative<NormalDomain>(*node.domain()) && value.kind() == Config::Kind::kReal &&
         std::isfinite(value.real());
}

class SearcherContract : public ::testing::TestWithParam<SearcherCase> {
 protected:
  std::unique_ptr<Searcher> make(int64_t num_samples = kSamples, uint64_t seed = 9) const {
    auto made = GetParam().factory({.space = GetParam().space,
                                    .metric = "m",
                                    .mode = Mode::kMin,
                                    .num_samples = num_samples,
                                    .seed = seed,
                                    .goals = GetParam().goals});
    return made ? std::move(*made) : throw std::runtime_error(made.error().message);
  }

  static std::string text(const Result<Suggestion>& suggestion) {
    if (!suggestion) return to_string(suggestion.error());
    if (suggestion->kind == Suggestion::Kind::kWait) return "wait";
    if (suggestion->kind == Suggestion::Kind::kExhausted) return "exhausted";
    return suggestion->config.to_json();
  }
};

double odd_value(Random& random) {
  constexpr double kOdd[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::max(),
                             std::numeric_limits<double>::lowest(),
                             0.0,
                             -0.0};
  return random.below(3) == 0 ? kOdd[random.below(std::size(kOdd))] : random.real() * 2 - 1;
}

// One move of an experiment whose trials fail, report nothing, repeat their end and end out of order. Returns the
// suggestion.
class Unruly {
 public:
  explicit Unruly(uint64_t seed, bool several = false) : random_(seed), several_(several) {}

  std::string move(Searcher& searcher, const std::function<std::string(const Result<Suggestion>&)>& text) {
    const uint64_t dice = random_.below(10);
    const double value = odd_value(random_);
    const auto pick = static_cast<int64_t>(random_.below(static_cast<uint64_t>(std::max<int64_t>(next_, 1))));
    if (dice < 4 || next_ == 0) {
      const auto suggestion = searcher.suggest(next_);
      if (suggestion && suggestion->kind == Suggestion::Kind::kConfig) ++next_;
      if (suggestion && suggestion->kind == Suggestion::Kind::kWait && next_ > 0)
        searcher.on_complete(next_ - 1, std::nullopt);
      return text(suggestion);
    }
    const std::optional<double> metric = dice % 2 == 0 ? std::optional(value) : std::nullopt;
    if (dice < 7) searcher.on_result({pick, ++step_, metric});
    if (dice >= 7) searcher.on_complete(pick, dice == 9 ? std::nullopt : std::optional(ended(pick, metric)));
    return "-";
  }

 private:
  Observation ended(int64_t pick, std::optional<double> metric) {
    Observation last{pick, ++step_, metric};
    if (!several_) return last;
    last.objectives = {metric.value_or(std::numeric_limits<double>::quiet_NaN()), odd_value(random_)};
    last.constraints = {odd_value(random_)};
    return last;
  }

  SeededRandom random_;
  bool several_;
  int64_t next_ = 0, step_ = 0;
};

TEST_P(SearcherContract, SuggestsValuesOfTheSpaceOnly) {
  const auto searcher = make();
  SeededRandom random(1);
  for (int64_t i = 0; i < kSamples; ++i) {
    const auto suggestion = searcher->suggest(i);
    ASSERT_TRUE(suggestion.has_value()) << to_string(suggestion.error());
    ASSERT_EQ(suggestion->kind, Suggestion::Kind::kConfig) << i;
    for (const SpaceEntry& entry : GetParam().space.entries()) {
      const Config* value = suggestion->config.find(entry.name);
      ASSERT_NE(value, nullptr) << entry.name;
      EXPECT_TRUE(admits(entry.value, *value)) << entry.name << " " << value->to_json();
    }
    searcher->on_complete(i, Observation{i, 1, random.real()});
  }
}

TEST_P(SearcherContract, SuggestsTheSameEachTime) {
  for (uint64_t seed = 1; seed <= how_many(5U, 1U); ++seed) {
    const auto first = make(-1);
    const auto second = make(-1);
    Unruly a(seed, !GetParam().goals.empty()), b(seed, !GetParam().goals.empty());
    for (int i = 0; i < 150; ++i)
      ASSERT_EQ(a.move(*first, text), b.move(*second, text)) << "seed " << seed << " move " << i;
    EXPECT_EQ(first->snapshot(), second->snapshot());
  }
}

TEST_P(SearcherContract, GoesOnTheSameFromASnapshotTakenAfterAnyEvent) {
  constexpr size_t kMoves = 100;
  const auto original = make(-1);
  Unruly unruly(6, !GetParam().goals.empty());
  std::vector<std::string> said;
  std::vector<std::string> states;
  std::vector<Unruly> moves;
  for (size_t i = 0; i < kMoves; ++i) {
    said.push_back(unruly.move(*original, text));
    states.push_back(original->snapshot());
    moves.push_back(unruly);
  }
  for (size_t cut = 0; cut < kMoves; cut += how_many(3, 17)) {
    const auto copy = make(-1);
    const auto restored = copy->restore(states[cut]);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    ASSERT_EQ(copy->snapshot(), states[cut]);
    Unruly rest = moves[cut];
    for (size_t i = cut + 1; i < kMoves; ++i)
      ASSERT_EQ(rest.move(*copy, text), said[i]) << "cut " << cut << " move " << i;
    ASSERT_EQ(copy->snapshot(), states.back());
  }
}

TEST_P(SearcherContract, EndsAfterAsManyAsItSaid) {
  const auto searcher = make();
  const auto total = searcher->total();
  ASSERT_TRUE(total.has_value());
  for (int64_t i = 0; i < *total; ++i) {
    ASSERT_EQ(searcher->suggest(i).value().kind, Suggestion::Kind::kConfig) << i;
    searcher->on_complete(i, Observation{i, 1, 0.5});
  }
  for (int again = 0; again < 3; ++again)
    EXPECT_EQ(searcher->suggest(*total).value().kind, Suggestion::Kind::kExhausted);
}

TEST_P(SearcherContract, GivesTheSameWhateverTheResultsWhereItDoesNotLearn) {
  const auto silent = make();
  if (silent->learns()) return;
  const auto told = make();
  SeededRandom random(2);
  for (int64_t i = 0; i < kSamples; ++i) {
    EXPECT_EQ(text(silent->suggest(i)), text(told->suggest(i)));
    told->on_complete(i, Observation{i, 1, odd_value(random)});
  }
}

TEST_P(SearcherContract, TakesResultsOfTrialsItDoesNotKnow) {
  const auto searcher = make();
  const std::string state = searcher->snapshot();
  for (const int64_t index : {int64_t{-1}, int64_t{7}, std::numeric_limits<int64_t>::max()}) {
    searcher->on_result({index, 1, 0.5});
    searcher->on_complete(index, Observation{index, 1, 0.5});
    searcher->on_complete(index, std::nullopt);
  }
  EXPECT_EQ(searcher->snapshot(), state);
}

TEST_P(SearcherContract, RefusesATornSnapshotAndStaysAsItWas) {
  const auto original = make(-1);
  Unruly unruly(4, !GetParam().goals.empty());
  for (int i = 0; i < 40; ++i) (void)unruly.move(*original, text);
  const std::string whole = original->snapshot();
  const auto other = make(-1);
  const std::string before = other->snapshot();
  for (size_t length = 0; length < whole.size(); length += how_many(1, 11))
    ASSERT_FALSE(other->restore(whole.substr(0, length)).has_value()) << length;
  for (const char* bad : {"[]", "7", "null", R"({"version":99})"}) EXPECT_FALSE(other->restore(bad).has_value()) << bad;
  EXPECT_EQ(other->snapshot(), before);
}

TEST_P(SearcherContract, SurvivesADamagedSnapshot) {
  const auto original = make(-1);
  Unruly unruly(4, !GetParam().goals.empty());
  for (int i = 0; i < 40; ++i) (void)unruly.move(*original, text);
  const std::string whole = original->snapshot();
  SeededRandom random(4);
  for (int i = 0; i < how_many(300, 60); ++i) {
    std::string damaged = whole;
    damaged[random.below(damaged.size())] = "0123456789-{}[]\",eaN"[random.below(20)];
    const auto copy = make(-1);
    if (!copy->restore(damaged)) continue;
    (void)copy->suggest(3);
  }
}

TEST_P(SearcherContract, GrowsWithItsTrialsAndNotWithTheirResults) {
  const auto grown = [&](int64_t steps) {
    const auto searcher = make(-1);
    for (int64_t i = 0; i < 10; ++i) {
      (void)searcher->suggest(i);
      for (int64_t step = 1; step <= steps; ++step) searcher->on_result({i, step, 0.5 / static_cast<double>(step)});
      searcher->on_complete(i, Observation{i, steps, 0.5});
    }
    return searcher->snapshot().size();
  };
  EXPECT_LT(grown(how_many(10'000, 1'000)), grown(10) * 3 / 2);
}

TEST_P(SearcherContract, SaysWhatItIs) { EXPECT_FALSE(make()->describe().empty()); }

INSTANTIATE_TEST_SUITE_P(
    All, SearcherContract,
    ::testing::Values(
        SearcherCase{"Random", random_search(), kMixed}, SearcherCase{"Grid", random_search(), kGrid},
        SearcherCase{"Halton", halton_search(), kMixed},
        SearcherCase{"HaltonPlain", halton_search({.scramble = false}), kMixed},
        SearcherCase{"HaltonGrid", halton_search(), kGrid},
        SearcherCase{"PointsFirst", points_to_evaluate({{{"lr", 0.01}, {"width", 9}}, {{"momentum", 0.5}}}), kMixed},
        SearcherCase{"LimitedToThree", concurrency_limiter({.max_concurrent = 3}, random_search()), kMixed},
        SearcherCase{"LimitedToBatches", concurrency_limiter({.max_concurrent = 4, .batch = true}, random_search()),
                     kMixed},
        SearcherCase{"Repeated", repeater({.repeat = 3}, random_search()), kMixed},
        SearcherCase{"RepeatedGrid", repeater({.repeat = 2}, random_search()), kGrid},
        SearcherCase{
            "AllOfThem",
            concurrency_limiter({.max_concurrent = 5}, repeater({.repeat = 2}, points_to_evaluate({{{"width", 64}}}))),
            kMixed},
        SearcherCase{"TpeInOrder", deterministic({.window = 3}, tpe({.n_startup_trials = 4})), kMixed},
        SearcherCase{"GpInOrder", deterministic({.window = 2}, gp({.n_startup_trials = 4})), kFew},
        SearcherCase{"Nsga2InOrder",
                     deterministic({.window = 4}, nsga2({.population_size = 4})),
                     kMixed,
                     {{{"m", Mode::kMin}, {"size", Mode::kMax}}, {"memory"}}},
        SearcherCase{"Forbidding",
                     forbid([](const Config& c) { return c.real("momentum") < 0.3; }, tpe({.n_startup_trials = 4})),
                     kMixed},
        SearcherCase{
            "TpeGoals", tpe({.n_startup_trials = 4}), kMixed, {{{"m", Mode::kMin}, {"size", Mode::kMax}}, {"memory"}}},
        SearcherCase{"TpeConstraints", tpe({.n_startup_trials = 4}), kPair, {{}, {"memory"}}},
        SearcherCase{
            "GpGoals", gp({.n_startup_trials = 4}), kFew, {{{"m", Mode::kMin}, {"size", Mode::kMax}}, {"memory"}}},
        SearcherCase{"GpConstraints", gp({.n_startup_trials = 4, .history_max = 20}), kPair, {{}, {"memory"}}},
        SearcherCase{"Tpe", tpe(), kMixed},
        SearcherCase{"TpeSingle", tpe({.n_startup_trials = 4, .multivariate = false}), kMixed},
        SearcherCase{"TpeJoint", tpe({.n_startup_trials = 4, .group = false, .history_max = 50}), kMixed},
        SearcherCase{"TpeFew", tpe({.n_startup_trials = 4}), kFew},
        SearcherCase{"TpeGrid", tpe({.n_startup_trials = 4}), kGrid},
        SearcherCase{"TpeAfterPoints", points_to_evaluate({{{"lr", 0.01}, {"width", 9}}}, tpe({.n_startup_trials = 4})),
                     kMixed},
        SearcherCase{"TpeRepeated", repeater({.repeat = 2}, tpe({.n_startup_trials = 3})), kMixed},
        SearcherCase{"Sobol", sobol_search(), kMixed},
        SearcherCase{"SobolGrid", sobol_search({.scramble = false}), kGrid},
        SearcherCase{"Gp", gp({.n_startup_trials = 12, .history_max = 20}), kPair},
        SearcherCase{"GpFew", gp({.n_startup_trials = 4}), kFew},
        SearcherCase{"GpHedge", gp({.n_startup_trials = 12, .acquisition = {.function = Acquisition::kHedge}}), kPair},
        SearcherCase{"GpSampled",
                     gp({.n_startup_trials = 20,
                         .acquisition = {.function = Acquisition::kLcb},
                         .optimizer = GpOptimizer::kSampling}),
                     kPair},
        SearcherCase{"Trees", trees({.n_startup_trials = 24, .history_max = 20}), kMixed},
        SearcherCase{"TreesFew",
                     trees({.kind = TreeKind::kRandomForest,
                            .n_startup_trials = 4,
                            .acquisition = {.function = Acquisition::kHedge}}),
                     kFew},
        SearcherCase{
            "TreesGoals",
            trees({.kind = TreeKind::kBoosted, .n_startup_trials = 4, .acquisition = {.function = Acquisition::kPi}}),
            kFew,
            {{{"m", Mode::kMin}, {"size", Mode::kMax}}, {"memory"}}},
        SearcherCase{"Cmaes", cmaes(), kMixed}, SearcherCase{"CmaesSmall", cmaes({.population = 4}), kFew},
        SearcherCase{"CmaesGrid", cmaes({.population = 4, .restarts = CmaesRestarts::kNone}), kGrid},
        SearcherCase{"Bohb", bohb({.random_fraction = 0.1}), kPair},
        SearcherCase{"BohbMixed", bohb({.max_t = 9}), kMixed},
        SearcherCase{"BohbFew", bohb({.max_t = 9, .random_fraction = 0, .history_max = 20}), kFew},
        SearcherCase{"BohbGrid", bohb({.max_t = 27}), kGrid},
        SearcherCase{"Nsga2", nsga2({.population_size = 6}), kMixed},
        SearcherCase{"Nsga2Few", nsga2({.population_size = 4}), kFew},
        SearcherCase{"Nsga2Grid", nsga2({.population_size = 3, .crossover = Nsga2Crossover::kUniform}), kGrid},
        SearcherCase{"Nsga2Goals",
                     nsga2({.population_size = 5}),
                     kMixed,
                     {{{"m", Mode::kMin}, {"size", Mode::kMax}}, {"memory"}}},
        SearcherCase{"GridOfConstantDraws", random_search({.seed = 3, .constant_grid_search = true}), kGrid}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace volador::tune
