#include "tune/determined/determined_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/tune/trial_simulator.h"
#include "tune/searchers/added_configs.h"

namespace volador::tune::determined {
namespace {

using ::testing::HasSubstr;
using json = nlohmann::json;

const Space kOneReal = {{"x", uniform(0.0, 1.0)}};

double in_tune_metric(const std::string& name, int64_t trial) {
  const auto t = static_cast<double>(trial);
  if (name == "const") return 1;
  if (name == "inc") return 0.01 * (t + 1);
  if (name == "dec") return -0.01 * (t + 1);
  return static_cast<double>(37 * trial % 101) / 101;
}

struct InTunePair {
  std::unique_ptr<Searcher> searcher;
  std::unique_ptr<Scheduler> scheduler;
};
InTunePair made_in_tune(const SearchOptions& options, const Space& space = kOneReal, Mode mode = Mode::kMin,
                        uint64_t seed = 7) {
  const InTune search = in_tune(options);
  InTunePair out;
  out.searcher = search.searcher({.space = space, .metric = "m", .mode = mode, .seed = seed}).value();
  out.scheduler = search.scheduler({.metric = "m", .mode = mode, .seed = seed}).value();
  return out;
}

// Each trial's lengths if all trials train at once, first in first out, as in simulate_fifo().
std::vector<std::vector<int64_t>> in_order(const InTunePair& pair, const std::vector<int64_t>& rungs,
                                           const std::function<double(int64_t)>& metric) {
  std::vector<std::vector<int64_t>> lengths;
  std::vector<TrialId> ids;
  std::map<TrialId, int64_t> numbers;
  std::deque<int64_t> queue;  // Trials that train to their next rung.
  std::vector<int64_t> step;
  const auto ask = [&] {
    while (true) {
      const auto suggestion = pair.searcher->suggest(static_cast<int64_t>(ids.size())).value();
      if (suggestion.kind != Suggestion::Kind::kConfig) return;
      const auto number = static_cast<int64_t>(ids.size());
      ids.push_back(TrialId::of(1, number));
      numbers[ids.back()] = number;
      lengths.emplace_back();
      step.push_back(0);
      pair.scheduler->on_trial_add(ids.back());
      queue.push_back(number);
    }
  };
  const auto obey = [&] {
    for (const Order& order : pair.scheduler->take_orders()) {
      if (const auto* resume = std::get_if<ResumeOrder>(&order)) queue.push_back(numbers.at(resume->trial));
      if (const auto* end = std::get_if<EndOrder>(&order)) pair.scheduler->on_complete(end->trial);
    }
  };
  ask();
  while (!queue.empty()) {
    const int64_t number = queue.front();
    queue.pop_front();
    const auto at = static_cast<size_t>(number);
    const auto next = std::upper_bound(rungs.begin(), rungs.end(), step[at]);
    Decision decision = Decision::kContinue;
    for (auto rung = next; rung != rungs.end() && decision == Decision::kContinue; ++rung) {
      step[at] = *rung;
      const auto told = pair.scheduler->take_decisions().size();
      EXPECT_EQ(told, 0U);
      decision = pair.scheduler->on_report({.trial = ids[at], .step = *rung, .value = metric(number)}).value();
      if (pair.scheduler->take_decisions().empty()) continue;  // Not a rung of its bracket.
      lengths[at].push_back(*rung);
      if (decision == Decision::kContinue) {
        queue.push_back(number);  // At the end of the queue.
        break;
      }
    }
    if (decision == Decision::kFinish || decision == Decision::kStop) pair.scheduler->on_complete(ids[at]);
    obey();
    ask();
    pair.scheduler->check_invariants();
  }
  return lengths;
}

// The test vectors of the pure search, run through searcher and scheduler as in a run.
TEST(DeterminedInTune, RunsEveryTrialToTheLengthsOfEveryCase) {
  std::ifstream in("tests/tune/data/determined_vectors.json");
  const json vectors = json::parse(in);
  int cases = 0;
  for (const json& one : vectors["asha_simulations"]) {
    const SearchOptions options{.name = "async_halving",
                                .max_length = one[3],
                                .max_trials = one[4],
                                .max_concurrent_trials = one[5],
                                .divisor = one[2],
                                .stop_once = one[0],
                                .num_rungs = one[1]};
    const bool smaller = one[7];
    const std::string metric = one[6];
    std::vector<int64_t> rungs = rung_lengths(options.num_rungs, options.divisor, options.max_length);
    if (std::adjacent_find(rungs.begin(), rungs.end()) != rungs.end())
      continue;  // Validated twice at one step: no
                 // second report.
    EXPECT_EQ(in_order(made_in_tune(options, kOneReal, smaller ? Mode::kMin : Mode::kMax), rungs,
                       [&](int64_t t) { return in_tune_metric(metric, t); }),
              one[8].get<std::vector<std::vector<int64_t>>>())
        << one.dump();
    ++cases;
  }
  EXPECT_GT(cases, 100);
}

TEST(DeterminedInTune, DrawsTheTrialsOfItsRandomStream) {
  const Space space = {
      {"lr", loguniform(1e-4, 1e-1)}, {"width", randint(8, 65)}, {"kind", choice({"a", "b"})}, {"net", {{"depth", 2}}}};
  const auto direct = Search::create({.name = "random", .max_length = 3, .max_trials = 5},
                                     Hyperparameters::from(hyperparameters_of(space, false).value()).value(), 7)
                          .value();
  const InTunePair pair = made_in_tune({.name = "random", .max_length = 3, .max_trials = 5}, space);
  EXPECT_EQ(pair.searcher->total(), 5);
  int64_t index = 0;
  for (const Operation& operation : direct->initial_operations()) {
    const auto* create = std::get_if<Create>(&operation);
    if (create == nullptr) continue;
    const Config config = pair.searcher->suggest(index)->config;
    EXPECT_EQ(config, create->hyperparameters);
    EXPECT_EQ(config.integer("net.depth"), 2);
    pair.scheduler->on_trial_add(TrialId::of(1, index++));
  }
  EXPECT_EQ(index, 5);
}

TEST(DeterminedInTune, GridHasEveryPoint) {
  const Space space = {{"a", grid_search({1.5, 2.5})}, {"b", randint(0, 3)}};
  const InTunePair pair = made_in_tune({.name = "grid", .max_length = 1, .max_concurrent_trials = 0}, space);
  EXPECT_EQ(pair.searcher->total(), 6);
  std::set<std::string> points;
  for (int64_t i = 0; i < 6; ++i) {
    points.insert(pair.searcher->suggest(i)->config.to_json());
    pair.scheduler->on_trial_add(TrialId::of(1, i));
  }
  EXPECT_EQ(points.size(), 6U);
  EXPECT_EQ(pair.searcher->suggest(6)->kind, Suggestion::Kind::kExhausted);
}

TEST(DeterminedInTune, SaysWhatCannotBe) {
  const auto message = [](const SearchOptions& options, const Space& space) {
    const auto searcher = in_tune(options).searcher({.space = space, .metric = "m", .mode = Mode::kMin, .seed = 7});
    return searcher ? "accepted" : searcher.error().message;
  };
  EXPECT_THAT(message({.name = "random"}, {{"net", {{"x", randn()}}}}),
              HasSubstr("space.net.x: randn(0, 1) is no kind of hyperparameter"));
  EXPECT_THAT(message({.name = "random"}, {{"x", grid_search({1, 2})}}),
              HasSubstr("use choice, or the searcher \"grid\""));
  EXPECT_THAT(message({.name = "random"}, {{"x", choice({SpaceNode(uniform(0, 1)), SpaceNode("no")})}}),
              HasSubstr("give constants to choose from"));
  EXPECT_THAT(message({.name = "grid"}, {{"x", uniform(0.0, 1.0)}}), HasSubstr("x: count: a grid search needs"));
  EXPECT_THAT(message({.name = "adaptive"}, kOneReal), HasSubstr("searcher.name: expected single"));
  EXPECT_THAT(in_tune({}).scheduler({.metric = "m"}).error().message, HasSubstr("goes with its searcher"));
}

TEST(DeterminedInTune, AnAddedConfigurationRunsInFullBesideTheSearch) {
  const InTune search = in_tune({.name = "adaptive_asha", .max_length = 9, .max_trials = 8, .divisor = 3});
  auto searcher = std::make_unique<AddedConfigs>(
      search.searcher({.space = kOneReal, .metric = "m", .mode = Mode::kMin, .seed = 7}).value());
  const auto scheduler = search.scheduler({.metric = "m", .mode = Mode::kMin, .seed = 7}).value();
  ASSERT_TRUE(searcher->add({{"x", 0.5}}));
  EXPECT_EQ(searcher->suggest(0)->config.real("x"), 0.5);
  const TrialId id = TrialId::of(1, 0);
  scheduler->on_trial_add(id);
  for (int64_t step = 1; step < 9; ++step) EXPECT_EQ(scheduler->on_report({id, step, 1e9}), Decision::kContinue);
  EXPECT_EQ(scheduler->on_report({id, 9, 1e9}), Decision::kFinish);
}

// The loop with failures, lost nodes, pauses and requests: every search ends, and a restored one continues.
TEST(DeterminedInTune, EndsWhateverHappensToItsTrials) {
  for (const char* name : {"single", "random", "async_halving", "adaptive_asha"}) {
    for (const bool stop_once : {false, true}) {
      for (uint64_t seed = 1; seed <= 6; ++seed) {
        InTunePair pair = made_in_tune({.name = name,
                                        .max_length = 9,
                                        .max_trials = 12,
                                        .max_concurrent_trials = 4,
                                        .divisor = 3,
                                        .stop_once = stop_once,
                                        .num_rungs = 3},
                                       kOneReal, Mode::kMax, seed);
        const std::string fresh = pair.scheduler->snapshot();
        EXPECT_TRUE(pair.scheduler->restore(fresh));
        EXPECT_EQ(pair.scheduler->snapshot(), fresh);
        auto loop = TrialLoop::create(
                        {.metric = "accuracy", .trial_key = seed, .max_failures = 1, .checkpoint = {.frequency = 1}},
                        std::move(pair.searcher), std::move(pair.scheduler))
                        .value();
        tune::testing::TrialSimulator simulator(
            {.seed = seed, .faults = {.crash = 0.05, .repeated = 0.1, .nan = 0.02}, .pauses = 3}, *loop);
        EXPECT_EQ(simulator.run(), "") << name << " " << stop_once << " " << seed;
        const auto total = loop->counts().total;
        EXPECT_EQ(static_cast<int64_t>(loop->trials().size()), total) << name << " " << stop_once << " " << seed;
        EXPECT_FALSE(loop->ending());
      }
    }
  }
}

TEST(DeterminedInTune, ASnapshotGoesOnAsTheOriginal) {
  const SearchOptions options{
      .name = "adaptive_asha", .max_length = 27, .max_trials = 20, .max_concurrent_trials = 5, .divisor = 3};
  InTunePair one = made_in_tune(options);
  std::vector<TrialId> ids;
  std::vector<int64_t> steps;
  SeededRandom random(3);
  const auto move = [&](const InTunePair& pair, size_t dice, double value) {
    std::string said;
    const auto suggestion = pair.searcher->suggest(static_cast<int64_t>(ids.size())).value();
    said += suggestion.kind == Suggestion::Kind::kConfig ? suggestion.config.to_json() : "-";
    if (suggestion.kind == Suggestion::Kind::kConfig)
      pair.scheduler->on_trial_add(TrialId::of(1, static_cast<int64_t>(ids.size())));
    if (!ids.empty()) {
      const size_t at = dice % ids.size();
      said += std::to_string(static_cast<int>(pair.scheduler->on_report({ids[at], steps[at] + 1, value}).value()));
    }
    said += std::to_string(pair.scheduler->take_orders().size());
    (void)pair.scheduler->take_decisions();
    return said;
  };
  const auto note = [&](size_t dice) {
    if (!ids.empty()) ++steps[dice % ids.size()];
  };
  for (int i = 0; i < 300; ++i) {
    const auto dice = static_cast<size_t>(random.next());
    const double value = random.real();
    InTunePair other = made_in_tune(options);
    ASSERT_TRUE(other.scheduler->restore(one.scheduler->snapshot()));
    ASSERT_EQ(other.scheduler->snapshot(), one.scheduler->snapshot());
    const size_t before = ids.size();
    const std::string said = move(one, dice, value);
    ASSERT_EQ(move(other, dice, value), said) << i;
    ASSERT_EQ(other.scheduler->snapshot(), one.scheduler->snapshot()) << i;
    note(dice);
    if (said.front() == '{') {
      ids.push_back(TrialId::of(1, static_cast<int64_t>(before)));
      steps.push_back(0);
    }
  }
  EXPECT_GT(ids.size(), 5U);
  EXPECT_FALSE(one.scheduler->restore("{\"version\":1}"));
}

}  // namespace
}  // namespace volador::tune::determined
