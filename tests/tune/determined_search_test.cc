#include "tune/determined/determined_search.h"
#include "tests/how_many.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace volador::tune::determined {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using json = nlohmann::json;

const json& search_vectors() {
  static const json all = [] {
    std::ifstream in("tests/tune/data/determined_vectors.json");
    return json::parse(in);
  }();
  return all;
}

Hyperparameters of(const std::string& text) { return Hyperparameters::from(Config::from_json(text).value()).value(); }
const std::string kOne = R"({"x": {"type": "double", "minval": 0, "maxval": 1}})";

double metric_of(const std::string& name, int64_t trial) {
  const auto t = static_cast<double>(trial);
  if (name == "const") return 1;
  if (name == "inc") return 0.01 * (t + 1);
  if (name == "dec") return -0.01 * (t + 1);
  return static_cast<double>(37 * trial % 101) / 101;
}

using Lengths = std::vector<std::vector<int64_t>>;

Lengths simulated(const SearchOptions& options, const std::function<double(int64_t)>& metric,
                  const EarlyExit& exit = {}) {
  const auto search = Search::create(options, of(kOne), 7).value();
  return simulate_fifo(*search, metric, exit);
}

// ---- Random numbers and draws.

TEST(DeterminedRandom, GivesNumpysStreams) {
  const json& all = search_vectors()["random"];
  Random a(42), b(84), c(999), d(999), e(1234);
  for (const json& value : all["nprand_seed42_intn10"]) EXPECT_EQ(a.below(10), value.get<int64_t>());
  for (const json& value : all["nprand_seed84_int_-10_10"]) EXPECT_EQ(b.below(20) - 10, value.get<int64_t>());
  for (const json& value : all["nprand_seed999_intn_2^31"]) EXPECT_EQ(c.below(int64_t{1} << 31), value.get<int64_t>());
  for (const json& value : all["nprand_seed999_int64n_2^60-10"])
    EXPECT_EQ(d.below((int64_t{1} << 60) - 10), value.get<int64_t>());
  for (const json& value : all["nprand_seed1234_unit"]) EXPECT_EQ(e.unit(), value.get<double>());
}

TEST(DeterminedRandom, AnEmptyRangeDrawsNothingAndAStateGoesOn) {
  Random a(5), b(5);
  EXPECT_EQ(a.up_to(0), 0U);
  EXPECT_EQ(a.bits32(), b.bits32());
  const std::string state = a.state();
  Random c(0);
  ASSERT_TRUE(c.restore(state).has_value());
  for (int i = 0; i < 700; ++i) EXPECT_EQ(c.bits32(), a.bits32());
  EXPECT_FALSE(c.restore(state.substr(0, state.size() / 2)).has_value());
  EXPECT_FALSE(c.restore("").has_value());
}

TEST(DeterminedSampling, DrawsTheSameTrials) {
  const Hyperparameters space = of(search_vectors()["sampling"]["space"].dump());
  int checked = 0;
  for (const auto& [seed, creates] : search_vectors()["sampling"]["creates"].items()) {
    const auto search =
        Search::create({.name = "random", .max_trials = 5}, space, static_cast<uint32_t>(std::stoul(seed))).value();
    size_t i = 0;
    for (const Operation& operation : search->initial_operations()) {
      const auto* create = std::get_if<Create>(&operation);
      if (create == nullptr) continue;
      const json& expected = creates.at(i++);
      EXPECT_EQ(create->request, expected["request_id"].get<std::string>()) << seed;
      EXPECT_EQ(create->trial_seed, expected["trial_seed"].get<uint32_t>()) << seed;
      for (const auto& [name, value] : expected["hparams"].items()) {
        const Config& got = *create->hyperparameters.find(name);
        if (name == "log") {
          EXPECT_DOUBLE_EQ(got.real(), value.get<double>()) << seed;
        } else {
          EXPECT_EQ(json::parse(got.to_json()), value) << seed << " " << name;
        }
        ++checked;
      }
    }
    EXPECT_EQ(i, creates.size());
  }
  EXPECT_EQ(checked, 125);
}

TEST(DeterminedSampling, NestedMapsAreDrawnInOrder) {
  const Hyperparameters space =
      of(R"({"z": 1, "a": {"y": {"type": "int", "minval": 3, "maxval": 3}, "b": {"type": "const", "val": [1]}}})");
  Random random(1);
  EXPECT_EQ(space.sample(random).to_json(), R"({"a":{"b":[1],"y":3},"z":1})");
}

TEST(DeterminedSampling, NamesWhatIsWrong) {
  const auto message = [](const std::string& text) {
    return Hyperparameters::from(Config::from_json(text).value()).error().message;
  };
  EXPECT_THAT(message(R"({"a": {"type": "real"}})"), HasSubstr("hyperparameters.a: type: expected const"));
  EXPECT_THAT(message(R"({"n": {"a": {"type": "int", "minval": 2, "maxval": 1}}})"),
              HasSubstr("hyperparameters.n.a: expected minval"));
  EXPECT_THAT(message(R"({"a": {"type": "int", "minval": 2}})"), HasSubstr("hyperparameters.a: "));
  EXPECT_THAT(message(R"({"a": {"type": "categorical", "vals": []}})"), HasSubstr("at least one value"));
  EXPECT_THAT(message(R"({"a": {"type": "int", "minval": 1, "maxval": 2, "count": 0}})"),
              HasSubstr("count: expected at least 1"));
}

// ---- Grids.

std::vector<double> axis(const std::string& text) {
  const Hyperparameters space = of("{\"a\": " + text + "}");
  std::vector<double> out;
  const std::vector<Config> values = grid_values("a", space.all().at("a")).value();
  for (const Config& value : values) out.push_back(value.real());
  return out;
}

TEST(DeterminedGrid, HasTheValuesOfEachAxis) {
  const auto whole = [](int low, int high, int count) {
    return axis("{\"type\":\"int\",\"minval\":" + std::to_string(low) + ",\"maxval\":" + std::to_string(high) +
                ",\"count\":" + std::to_string(count) + "}");
  };
  EXPECT_THAT(whole(0, 2, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(whole(0, 2, 100), ElementsAre(0, 1, 2));
  EXPECT_THAT(whole(0, 20, 7), ElementsAre(0, 3, 7, 10, 13, 17, 20));
  EXPECT_THAT(whole(1, 10, 4), ElementsAre(1, 4, 7, 10));
  EXPECT_THAT(whole(-5, 0, 3), ElementsAre(-5, -3, 0));
  EXPECT_THAT(whole(0, 5, 1), ElementsAre(3));
  EXPECT_THAT(whole(-5, 0, 1), ElementsAre(-3));
  EXPECT_THAT(whole(-4, -2, 3), ElementsAre(-4, -3, -2));
  EXPECT_THAT(whole(16, 128, 5), ElementsAre(16, 44, 72, 100, 128));
  EXPECT_THAT(axis(R"({"type":"double","minval":0.1,"maxval":0.5,"count":3})"),
              ElementsAre(0.1, 0.30000000000000004, 0.5));
  EXPECT_THAT(axis(R"({"type":"log","base":10,"minval":-5,"maxval":-3,"count":3})"),
              ElementsAre(::testing::DoubleEq(1e-5), ::testing::DoubleEq(1e-4), ::testing::DoubleEq(1e-3)));
  EXPECT_THAT(axis(R"({"type":"log","base":10,"minval":-4,"maxval":-1,"count":1})"),
              ElementsAre(::testing::DoubleEq(0.0031622776601683794)));
}

TEST(DeterminedGrid, TheFirstAxisIsTheSlowestAndTheLastPointStartsFirst) {
  const Hyperparameters space = of(
      R"({"1": {"type":"int","minval":0,"maxval":20,"count":3}, "2": {"type":"int","minval":0,"maxval":10,"count":3}, "c": "k"})");
  std::vector<std::pair<int64_t, int64_t>> points;
  const std::vector<Config> all = space.grid().value();
  for (const Config& point : all) points.emplace_back(point.integer("1"), point.integer("2"));
  EXPECT_THAT(points,
              ElementsAre(std::pair(0, 0), std::pair(0, 5), std::pair(0, 10), std::pair(10, 0), std::pair(10, 5),
                          std::pair(10, 10), std::pair(20, 0), std::pair(20, 5), std::pair(20, 10)));
  const auto search = Search::create({.name = "grid", .max_concurrent_trials = 2}, space, 1).value();
  std::vector<int64_t> first;
  for (const Operation& operation : search->initial_operations()) {
    if (const auto* create = std::get_if<Create>(&operation)) first.push_back(create->hyperparameters.integer("2"));
  }
  EXPECT_THAT(first, ElementsAre(10, 5));
  EXPECT_THAT(of(kOne).grid().error().message, HasSubstr("hyperparameters.x: count: a grid search needs"));
  std::string axes;
  for (const int count : {2, 2, 3, 3, 4, 5})
    axes += (axes.empty() ? "" : ",") + std::string("\"") + static_cast<char>('a' + axes.size() % 26) +
            std::to_string(axes.size()) + R"(":{"type":"double","minval":0,"maxval":1,"count":)" +
            std::to_string(count) + "}";
  EXPECT_EQ(of("{" + axes + "}").grid().value().size(), 720U);
}

// ---- Brackets.

TEST(DeterminedBrackets, AreThoseOfEveryCase) {
  const json& lengths = search_vectors()["rung_lengths"];
  const std::map<std::string, AdaptiveMode> modes{{"aggressive", AdaptiveMode::kAggressive},
                                                  {"standard", AdaptiveMode::kStandard},
                                                  {"conservative", AdaptiveMode::kConservative}};
  size_t cases = 0;
  for (const json& one : search_vectors()["adaptive_brackets"]) {
    const SearchOptions options{.name = "adaptive_asha",
                                .max_length = one[1],
                                .max_trials = one[2],
                                .max_concurrent_trials = one[5],
                                .divisor = one[3],
                                .max_rungs = one[4],
                                .mode = modes.at(one[0])};
    std::vector<Bracket> expected;
    for (const json& bracket : one[6]) {
      const std::string key = std::to_string(options.max_length) + " " +
                              std::to_string(static_cast<int>(options.divisor)) + " " +
                              std::to_string(bracket[0].get<int64_t>());
      expected.push_back({bracket[0], bracket[1], bracket[2], lengths.at(key).get<std::vector<int64_t>>()});
    }
    ASSERT_EQ(adaptive_brackets(options), expected) << one.dump();
    ++cases;
  }
  EXPECT_EQ(cases, 1890U);
}

TEST(DeterminedBrackets, MayBeGiven) {
  const auto brackets =
      adaptive_brackets({.name = "adaptive_asha", .max_length = 1000, .max_trials = 200, .bracket_rungs = {1, 3, 2}});
  ASSERT_EQ(brackets.size(), 3U);
  EXPECT_EQ(brackets[0].trials, 128);
  EXPECT_EQ(brackets[1].trials, 48);
  EXPECT_EQ(brackets[2].trials, 24);
  EXPECT_EQ(brackets[0].concurrent, 6);
}

// ---- Simulations.

TEST(DeterminedAsha, RunsEveryTrialToTheLengthsOfEveryCase) {
  size_t cases = 0;
  for (const json& one : search_vectors()["asha_simulations"]) {
    const SearchOptions options{.name = "async_halving",
                                .max_length = one[3],
                                .max_trials = one[4],
                                .max_concurrent_trials = one[5],
                                .smaller_is_better = one[7],
                                .divisor = one[2],
                                .stop_once = one[0],
                                .num_rungs = one[1]};
    const std::string metric = one[6];
    EXPECT_EQ(simulated(options, [&](int64_t t) { return metric_of(metric, t); }), one[8].get<Lengths>())
        << "stop_once " << options.stop_once << " rungs " << options.num_rungs << " trials " << options.max_trials
        << " at once " << options.max_concurrent_trials << " " << metric << " smaller " << options.smaller_is_better;
    ++cases;
  }
  EXPECT_EQ(cases, 128U);
}

TEST(DeterminedAdaptive, RunsEveryTrialToTheLengthsOfEveryCase) {
  const std::map<std::string, AdaptiveMode> modes{{"aggressive", AdaptiveMode::kAggressive},
                                                  {"standard", AdaptiveMode::kStandard},
                                                  {"conservative", AdaptiveMode::kConservative}};
  for (const json& one : search_vectors()["adaptive_simulations"]) {
    const json& opts = one[2];
    const SearchOptions options{.name = "adaptive_asha",
                                .max_length = one[0],
                                .max_trials = one[1],
                                .max_concurrent_trials = opts.value("mct", 16),
                                .divisor = opts.value("div", 4.0),
                                .stop_once = one[3],
                                .max_rungs = opts.value("maxr", 5),
                                .mode = modes.at(opts.value("mode", "standard"))};
    const std::string metric = one[4];
    EXPECT_EQ(simulated(options, [&](int64_t t) { return metric_of(metric, t); }), one[5].get<Lengths>())
        << opts.dump() << options.stop_once;
  }
}

SearchOptions promoting() {
  return {.name = "async_halving", .max_length = 9000, .max_trials = 12, .divisor = 3, .num_rungs = 3};
}
Lengths times(const std::vector<std::pair<int, std::vector<int64_t>>>& runs) {
  Lengths out;
  for (const auto& [count, lengths] : runs) out.insert(out.end(), static_cast<size_t>(count), lengths);
  return out;
}

TEST(DeterminedAsha, ATrialThatExitsEarlyCountsAsTheWorst) {
  const auto rising = [](int64_t t) { return 0.01 * static_cast<double>(t + 1); };
  EXPECT_EQ(simulated(promoting(), rising, {2, 1}), times({{1, {1000, 3000, 9000}}, {3, {1000, 3000}}, {8, {1000}}}));
  const std::vector<double> mixed{.10, .11, .12, .01, .02, .03, .04, .05, .06, .07, .08, .09};
  EXPECT_EQ(simulated(promoting(), [&](int64_t t) { return mixed[static_cast<size_t>(t)]; }, {2, 0}),
            times({{1, {1000, 3000}}, {2, {1000}}, {1, {1000, 3000, 9000}}, {3, {1000, 3000}}, {5, {1000}}}));
}

TEST(DeterminedAsha, StopsInTheOrderOfArrival) {
  SearchOptions options = promoting();
  options.stop_once = true;
  const auto robin = [](int64_t t) { return 0.01 * static_cast<double>(t % 4 + 1); };
  const std::vector<int64_t> full{1000, 3000, 9000}, one{1000};
  EXPECT_EQ(simulated(options, robin), times({{1, full}, {3, one}, {1, full}, {3, one}, {1, full}, {3, one}}));
  EXPECT_EQ(simulated(options, robin, {4, 1}),
            times({{1, full}, {3, one}, {1, {1000, 3000}}, {3, one}, {1, full}, {3, one}}));
  options.smaller_is_better = false;
  EXPECT_EQ(simulated(options, robin),
            times({{4, full}, {2, one}, {1, {1000, 3000}}, {1, full}, {2, one}, {1, {1000, 3000}}, {1, full}}));
  EXPECT_EQ(simulated(options, robin, {3, 1}),
            times({{3, full}, {1, {1000, 3000}}, {2, one}, {2, full}, {2, one}, {2, full}}));
}

// ---- The rest of a search.

TEST(DeterminedSearch, ReplacesInvalidTrialsOfRandomAndAshaOnly) {
  for (const auto& [name, replaced] : {std::pair("random", true), {"async_halving", true}, {"single", false}}) {
    const auto search =
        Search::create(
            {.name = name, .max_length = 9, .max_trials = 2, .max_concurrent_trials = 2, .divisor = 3, .num_rungs = 2},
            of(kOne), 3)
            .value();
    const Operations first = search->initial_operations();
    const RequestId request = std::get<Create>(first[0]).request;
    search->created(request);
    Operations after = search->exited(request, ExitReason::kInvalidHp);
    EXPECT_EQ(search->counts().invalid, 1);
    const Operations closed = search->closed(request);  // Random replaces it then.
    after.insert(after.end(), closed.begin(), closed.end());
    const auto creates = std::count_if(after.begin(), after.end(),
                                       [](const Operation& one) { return std::holds_alternative<Create>(one); });
    EXPECT_EQ(creates, replaced ? 1 : 0) << name;
    EXPECT_TRUE(search->exited(request, ExitReason::kInvalidHp).empty()) << "a repeated exit";
  }
}

TEST(DeterminedSearch, ShutsDownOnceAllAreClosed) {
  for (const bool fails : {false, true}) {
    const auto search =
        Search::create({.name = "random", .max_length = 5, .max_trials = 3, .max_concurrent_trials = 1}, of(kOne), 3)
            .value();
    Operations now = search->initial_operations();
    int trials = 0;
    while (!std::holds_alternative<Shutdown>(now.back())) {
      ASSERT_LT(++trials, 9);
      const RequestId request = std::get<Create>(now[0]).request;
      search->created(request);
      search->trained(request, 5);
      const Operations after = fails ? search->exited(request, ExitReason::kErrored) : search->validated(request, 0.5);
      EXPECT_TRUE(after.empty()) << "its Close came with its Create";
      EXPECT_DOUBLE_EQ(search->progress(), trials / 3.0);
      now = search->closed(request);
      EXPECT_TRUE(search->closed(request).empty()) << "a repeated end";
    }
    EXPECT_EQ(trials, 3);
    EXPECT_EQ(std::get<Shutdown>(now.back()).failure, fails);
    EXPECT_EQ(search->progress(), 1);
  }
}

// Trials respond in any order; a copy from a snapshot continues identically.
TEST(DeterminedSearch, GoesOnTheSameFromASnapshotTakenAfterAnyEvent) {
  const Hyperparameters space = of(
      R"({"x": {"type": "double", "minval": 0, "maxval": 1, "count": 5}, "y": {"type": "int", "minval": 1, "maxval": 4, "count": 4}})");
  for (const SearchOptions& options :
       {SearchOptions{.name = "single", .max_length = 27},
        SearchOptions{.name = "random", .max_length = 27, .max_trials = 12, .max_concurrent_trials = 3},
        SearchOptions{.name = "grid", .max_length = 27, .max_concurrent_trials = 3},
        SearchOptions{
            .name = "adaptive_asha", .max_length = 27, .max_trials = 20, .max_concurrent_trials = 6, .divisor = 3},
        SearchOptions{.name = "adaptive_asha",
        .max_length = 27,
        .max_trials = 20,
        .max_concurrent_trials = 6,
        .divisor = 3,
        .stop_once = true}}) {
    auto search = Search::create(options, space, 11).value();
    std::vector<Operation> open;
    const auto take = [&open](const Operations& more) { open.insert(open.end(), more.begin(), more.end()); };
    Random dice(5);
    take(search->initial_operations());
    int events = 0;
    bool ended = false;
    while (!open.empty()) {
      ASSERT_LT(++events, 1000);
      std::unique_ptr<Search> copy;
      if (events % how_many(1, 7) == 0) {
        const std::string state = search->snapshot();
        copy = Search::create(options, space, 99).value();
        ASSERT_TRUE(copy->restore(state).has_value()) << options.name;
        ASSERT_EQ(copy->snapshot(), state);
      }
      // A trial's operations stay in order.
      size_t pick = static_cast<size_t>(dice.below(static_cast<int64_t>(open.size())));
      const auto request = [](const Operation& one) {
        return std::visit(
            [](const auto& kind) -> std::string {
              if constexpr (requires { kind.request; })
                return kind.request;
              else
                return "";
            },
            one);
      };
      for (size_t i = 0; i < pick; ++i) {
        if (request(open[i]) == request(open[pick])) pick = i;
      }
      const Operation operation = open[pick];
      open.erase(open.begin() + static_cast<ptrdiff_t>(pick));
      const double metric = dice.unit();
      const bool exits = dice.below(12) == 0;
      const auto tell = [&](Search& one) -> Operations {
        if (std::holds_alternative<Create>(operation)) return one.created(request(operation));
        if (std::holds_alternative<Close>(operation)) return one.closed(request(operation));
        if (!std::holds_alternative<ValidateAfter>(operation)) return {};
        if (!exits) return one.validated(request(operation), metric);
        Operations all = one.exited(request(operation), ExitReason::kErrored);
        const Operations closed = one.closed(request(operation));
        all.insert(all.end(), closed.begin(), closed.end());
        return all;
      };
      ended = ended || std::holds_alternative<Shutdown>(operation);
      take(tell(*search));
      if (copy) {
        (void)tell(*copy);
        ASSERT_EQ(copy->snapshot(), search->snapshot()) << options.name;
      }
      EXPECT_GE(search->progress(), 0);
      EXPECT_LE(search->progress(), 1);
    }
    EXPECT_TRUE(ended) << options.name;
    const std::string whole = search->snapshot();
    for (const size_t length : {size_t{0}, whole.size() / 3, whole.size() - 1})
      EXPECT_FALSE(search->restore(whole.substr(0, length)).has_value());
    EXPECT_EQ(search->snapshot(), whole);
  }
}

TEST(DeterminedSearch, RefusesOptionsOutOfRange) {
  const auto message = [](const SearchOptions& options) {
    return Search::create(options, of(kOne), 1).error().message;
  };
  EXPECT_THAT(
      message({.name = "bayes"}),
      HasSubstr("searcher.name: expected single, random, grid, async_halving, adaptive_asha or custom, got \"bayes\""));
  EXPECT_THAT(message({.max_length = 0}), HasSubstr("searcher.max_length"));
  EXPECT_THAT(message({.name = "random", .max_trials = 0}), HasSubstr("searcher.max_trials"));
  EXPECT_THAT(message({.name = "random", .max_concurrent_trials = -1}), HasSubstr("searcher.max_concurrent_trials"));
  EXPECT_THAT(message({.name = "adaptive_asha", .divisor = 1}), HasSubstr("searcher.divisor"));
  EXPECT_THAT(message({.name = "adaptive_asha", .bracket_rungs = {0}}), HasSubstr("searcher.bracket_rungs"));
}

TEST(DeterminedSearch, ASnapshotOfTwoSearchesDoesNotCrash) {
  const SearchOptions options{.name = "async_halving",
                              .max_length = 9,
                              .max_trials = 4,
                              .max_concurrent_trials = 2,
                              .divisor = 2,
                              .num_rungs = 2};
  const auto one = Search::create(options, of(kOne), 1).value(), other = Search::create(options, of(kOne), 2).value();
  for (Search* search : {one.get(), other.get()}) {
    for (const Operation& operation : search->initial_operations()) {
      if (const auto* create = std::get_if<Create>(&operation)) search->created(create->request);
    }
  }
  json mixed = json::parse(one->snapshot());
  mixed["method"] = json::parse(other->snapshot())["method"];
  ASSERT_TRUE(one->restore(mixed.dump()).has_value());
  for (const auto& [request, trial] : one->trials()) {
    EXPECT_TRUE(one->validated(request, 1).empty());
    one->closed(request);
  }
  mixed["trials"].push_back(mixed["trials"][0]);
  EXPECT_THAT(one->restore(mixed.dump()).error().message, HasSubstr("a trial stands in it twice"));
}

// ---- Rungs.

TEST(DeterminedRungs, HaveTheTrialsThatReachedThem) {
  const SearchOptions options{
      .name = "async_halving", .max_length = 16, .max_trials = 8, .smaller_is_better = false, .num_rungs = 2};
  const auto search = Search::create(options, of(kOne), 7).value();
  EXPECT_EQ(search->rungs().size(), 2u);
  EXPECT_EQ(search->rungs()[0].length, 4);
  simulate_fifo(*search, [](int64_t trial) { return static_cast<double>(trial); });
  const std::vector<SearchRung> rungs = search->rungs();
  ASSERT_EQ(rungs.size(), 2u);
  EXPECT_EQ(rungs[1].length, 16);
  ASSERT_EQ(rungs[0].members.size(), 8u);
  EXPECT_EQ(rungs[0].awaited, 0);
  int64_t passed = 0;
  for (size_t i = 0; i < rungs[0].members.size(); ++i) {
    const SearchRung::Member& member = rungs[0].members[i];
    EXPECT_LE(member.metric, rungs[0].members[i == 0 ? 0 : i - 1].metric);  // Best first: larger is better.
    EXPECT_TRUE(member.act == Act::kPassed || member.act == Act::kStopped);
    passed += member.act == Act::kPassed;
  }
  EXPECT_EQ(static_cast<size_t>(passed), rungs[1].members.size());
  EXPECT_GT(passed, 0);
  for (const SearchRung::Member& member : rungs[1].members) EXPECT_EQ(member.act, Act::kFinished);
}

TEST(DeterminedRungs, LeaveOutTrialsThatEndedWithoutAMetric) {
  const SearchOptions options{.name = "async_halving", .max_length = 16, .max_trials = 4, .num_rungs = 2};
  const auto search = Search::create(options, of(kOne), 7).value();
  simulate_fifo(*search, [](int64_t trial) { return static_cast<double>(trial); }, {.trial = 1, .operation = 0});
  EXPECT_EQ(search->rungs()[0].members.size(), 3u);
}

TEST(DeterminedRungs, AreThoseOfEachBracket) {
  const SearchOptions options{.name = "adaptive_asha", .max_length = 64, .max_trials = 16};
  const auto search = Search::create(options, of(kOne), 7).value();
  const std::vector<Bracket> brackets = adaptive_brackets(options);
  std::vector<int64_t> lengths, expected;
  for (const SearchRung& rung : search->rungs()) {
    EXPECT_LT(rung.bracket, static_cast<int64_t>(brackets.size()));
    lengths.push_back(rung.length);
  }
  for (const Bracket& bracket : brackets)
    expected.insert(expected.end(), bracket.lengths.begin(), bracket.lengths.end());
  EXPECT_EQ(lengths, expected);
  EXPECT_TRUE(
      Search::create({.name = "random", .max_length = 4, .max_trials = 2}, of(kOne), 1).value()->rungs().empty());
}

}  // namespace
}  // namespace volador::tune::determined
