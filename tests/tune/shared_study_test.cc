#include "tune/study/shared_study.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/random.h"
#include "tests/how_many.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using State = StudyTrialState;

constexpr int64_t kStart = 1'000'000;

StudyDefinition line(std::string searcher = "tpe:n_startup_trials=4") {
  return {.name = "line",
          .space = R"({"x":{"uniform":[-5,5]}})",
          .searcher = std::move(searcher),
          .metrics = {"loss"},
          .modes = {"min"},
          .lease_s = 60};
}
SharedStudy make(StudyDefinition definition) {
  auto study = SharedStudy::create(std::move(definition), kStart);
  EXPECT_TRUE(study) << study.error().message;
  return std::move(*study);
}
std::string refusal(StudyDefinition definition) {
  const auto study = SharedStudy::create(std::move(definition), kStart);
  return study ? "" : study.error().message;
}
std::vector<int64_t> numbers(const SharedStudy::Asked& asked) {
  std::vector<int64_t> out;
  for (const StudyTrial& trial : asked.trials) out.push_back(trial.number);
  return out;
}
double loss(const StudyTrial& trial) { return std::pow(trial.config.real("x") - 2, 2); }

// The state that a new head restores from the events.
SharedStudy replayed(const StudyDefinition& definition, const std::vector<StudyEvent>& events) {
  SharedStudy study = make(definition);
  for (const StudyEvent& event : events) {
    const auto done = study.replay(from_bytes<StudyEvent>(to_bytes(event)).value());
    EXPECT_TRUE(done) << done.error().message;
  }
  return study;
}

TEST(SharedStudy, FindsTheMinimumForItsWorkers) {
  SharedStudy study = make(line());
  for (int round = 0; round < 20; ++round) {
    const auto asked = study.ask({.count = 3}, kStart).value();
    for (const StudyTrial& trial : asked.trials)
      ASSERT_TRUE(study.tell({.number = trial.number, .values = {loss(trial)}}, kStart));
  }
  ASSERT_EQ(study.best().size(), 1U);
  EXPECT_LT(study.trials()[static_cast<size_t>(study.best()[0])].values[0], 0.05);
  EXPECT_THAT(study.counts(), ElementsAre(0, 0, 60, 0, 0));
}

TEST(SharedStudy, RepeatedRequestsGetTheSameAnswerAndDoNothing) {
  SharedStudy study = make(line());
  const auto asked = study.ask({.request = "a", .count = 2, .worker = "w"}, kStart);
  ASSERT_TRUE(study.tell({.request = "t", .number = 0, .values = {1}}, kStart));
  const std::string before = study.snapshot();
  (void)study.take_events();
  const auto again = study.ask({.request = "a", .count = 2, .worker = "w"}, kStart + 5000);
  EXPECT_EQ(to_bytes(again->trials), to_bytes(asked->trials));
  EXPECT_EQ(study.tell({.request = "t", .number = 0, .values = {1}}, kStart + 5000)->ended_ms, kStart);
  EXPECT_EQ(study.snapshot(), before);
  EXPECT_THAT(study.take_events(), IsEmpty());
  EXPECT_THAT(study.ask({.request = "a", .count = 3, .worker = "w"}, kStart).error().message,
              HasSubstr("request_id: \"a\" was another request"));
  EXPECT_THAT(study.tell({.request = "a", .number = 1, .values = {1}}, kStart).error().message,
              HasSubstr("was another request"));
}

TEST(SharedStudy, WhoeverTellsFirstCounts) {
  SharedStudy study = make(line("random"));
  (void)study.ask({.count = 3}, kStart);
  ASSERT_TRUE(study.tell({.number = 2, .values = {0.5}}, kStart));  // Out of order.
  ASSERT_TRUE(study.tell({.number = 0, .values = {0.25}}, kStart));
  EXPECT_TRUE(study.tell({.number = 0, .values = {0.25}}, kStart + 1));
  EXPECT_THAT(study.tell({.number = 0, .values = {0.75}}, kStart).error().message,
              HasSubstr("has ended (complete, 0.25)"));
  EXPECT_THAT(study.tell({.number = 0, .state = State::kFail}, kStart).error().message,
              HasSubstr("whoever tells first counts"));
  EXPECT_EQ(study.tell({.number = 3, .values = {1}}, kStart).error().code, ErrorCode::kNotFound);
  EXPECT_THAT(study.best(), ElementsAre(0));
}

TEST(SharedStudy, ValuesThatAreNoNumbersFailTheTrial) {
  SharedStudy study = make(line());
  (void)study.ask({.count = 5}, kStart);
  const auto failed = study.tell({.number = 0, .values = {std::nan("")}}, kStart);
  EXPECT_EQ(failed->state, State::kFail);
  EXPECT_EQ(failed->reason, "loss was nan, which is no finite number");
  EXPECT_EQ(study.tell({.number = 1, .values = {-INFINITY}}, kStart)->state, State::kFail);
  EXPECT_EQ(study.tell({.number = 2, .state = State::kFail, .reason = "out of memory"}, kStart)->reason,
            "out of memory");
  EXPECT_TRUE(study.tell({.number = 0, .values = {std::nan("")}}, kStart));
  EXPECT_THAT(study.best(), IsEmpty());
  EXPECT_THAT(study.tell({.number = 3, .values = {1, 2}}, kStart).error().message,
              HasSubstr("has 2 values; study line has 1 metric"));
  EXPECT_THAT(study.tell({.number = 3}, kStart).error().message, HasSubstr("has 0 values"));
  EXPECT_THAT(study.tell({.number = 3, .state = State::kRunning}, kStart).error().message,
              HasSubstr("expected complete, pruned or fail, got running"));
  EXPECT_THAT(study.tell({.number = 3, .state = State::kFail, .values = {1}}, kStart).error().message,
              HasSubstr("a failed trial has none"));
}

TEST(SharedStudy, ATrialWhoseWorkerFallsSilentIsGivenOutAgainThenFails) {
  StudyDefinition definition = line("random");
  definition.max_retries = 1;
  SharedStudy study = make(definition);
  (void)study.ask({.count = 2, .worker = "lost"}, kStart);
  EXPECT_EQ(study.deadline_ms(), kStart + 60'000);
  study.end_leases(kStart + 59'999);
  EXPECT_EQ(study.counts()[1], 2);
  ASSERT_TRUE(study.report({.number = 1}, kStart + 30'000));  // A heartbeat.
  study.end_leases(kStart + 60'000);
  EXPECT_EQ(study.trials()[0].state, State::kWaiting);
  EXPECT_THAT(study.trials()[0].reason, HasSubstr("its worker lost said nothing for 60 s"));
  EXPECT_EQ(study.trials()[1].state, State::kRunning);
  const auto again = study.ask({.count = 2, .worker = "other"}, kStart + 61'000);
  EXPECT_THAT(numbers(*again), ElementsAre(0, 2));
  EXPECT_EQ(again->trials[0].attempt, 2);
  EXPECT_EQ(to_bytes(again->trials[0].config), to_bytes(study.trials()[0].config));
  study.end_leases(kStart + 121'000);
  EXPECT_EQ(study.trials()[0].state, State::kFail);
  EXPECT_EQ(study.trials()[0].reason, "given out 2 times, each time its worker said nothing for 60 s");
  EXPECT_EQ(reason_of(study.trials()[0]).text(Language::kChinese), "已分配 2 次，每次其 worker 都有 60 秒没有响应");
}

TEST(SharedStudy, AWorkerThatWasThoughtLostMayStillReportAndTell) {
  SharedStudy study = make(line("random"));
  (void)study.ask({.count = 2}, kStart);
  study.end_leases(kStart + 60'000);
  EXPECT_EQ(study.counts()[0], 2);
  EXPECT_EQ(study.report({.number = 0, .step = 1, .value = 3}, kStart + 61'000)->decision, "continue");
  EXPECT_EQ(study.trials()[0].state, State::kRunning);
  ASSERT_TRUE(study.tell({.number = 1, .values = {1}}, kStart + 61'000));
  EXPECT_THAT(numbers(*study.ask({}, kStart + 61'000)), ElementsAre(2));
}

TEST(SharedStudy, LeasesBeginAnewWhereTheHeadWasAway) {
  SharedStudy study = make(line("random"));
  (void)study.ask({}, kStart);
  study.resume(kStart + 500'000);
  EXPECT_EQ(study.deadline_ms(), kStart + 560'000);
  StudyDefinition forever = line("random");
  forever.lease_s = 0;
  SharedStudy patient = make(forever);
  (void)patient.ask({}, kStart);
  EXPECT_EQ(patient.deadline_ms(), std::nullopt);
}

TEST(SharedStudy, SaysWhenThereIsNoMore) {
  StudyDefinition definition = line("random");
  definition.max_trials = 2;
  definition.max_retries = 0;
  SharedStudy study = make(definition);
  const auto all = study.ask({.count = 5}, kStart);
  EXPECT_EQ(all->trials.size(), 2U);
  EXPECT_FALSE(all->done);
  EXPECT_EQ(all->reason, "all 2 trials were given out");
  EXPECT_TRUE(study.ask({}, kStart)->done);  // Running trials are not handed out again.
  definition.max_retries = 1;
  SharedStudy careful = make(definition);
  (void)careful.ask({.count = 2}, kStart);
  const auto wait = careful.ask({.request = "w"}, kStart);
  EXPECT_FALSE(wait->done);
  EXPECT_THAT(wait->reason, HasSubstr("2 run, and one whose worker falls silent is given out again"));
  careful.end_leases(kStart + 60'000);
  EXPECT_EQ(careful.ask({.request = "w"}, kStart + 60'000)->trials.size(),
            1U);  // A response without trials is not stored.
  StudyDefinition grid = line("grid");
  grid.space = R"({"a":{"grid_search":[1,2]}})";
  grid.lease_s = 0;
  SharedStudy over = make(grid);
  EXPECT_EQ(over.ask({.count = 9}, kStart)->trials.size(), 2U);
  EXPECT_TRUE(over.ask({}, kStart)->done);
}

TEST(SharedStudy, ASchedulerStopsTheWorse) {
  StudyDefinition definition = line("random");
  definition.scheduler = "asha:grace_period=1,max_t=9,reduction_factor=3";
  SharedStudy study = make(definition);
  (void)study.ask({.count = 4}, kStart);
  for (int64_t number = 0; number < 3; ++number)
    ASSERT_TRUE(study.report({.number = number, .step = 1, .value = static_cast<double>(number)}, kStart));
  const auto worst = study.report({.number = 3, .step = 1, .value = 10}, kStart);
  EXPECT_TRUE(worst->should_stop);
  EXPECT_EQ(worst->decision, "prune");
  EXPECT_THAT(worst->reason, HasSubstr("others do better at step 1"));
  EXPECT_EQ(study.report({.number = 3, .step = 1, .value = 0}, kStart)->decision, "prune");  // The standing decision.
  const auto pruned = study.tell({.number = 3, .state = State::kPruned}, kStart);
  EXPECT_THAT(pruned->values, ElementsAre(10));
  EXPECT_EQ(study.report({.number = 3, .step = 2, .value = 0}, kStart)->decision, "finish");
  EXPECT_THAT(study.best(), IsEmpty());  // Complete ones only.
  EXPECT_EQ(study.report({.number = 0, .step = 9, .value = 0}, kStart)->decision, "finish");
}

TEST(SharedStudy, RefusesReportsThatSayNothing) {
  SharedStudy study = make(line("random"));
  (void)study.ask({}, kStart);
  EXPECT_THAT(study.report({.number = 0, .step = -1}, kStart).error().message, HasSubstr("report.step"));
  EXPECT_EQ(study.report({.number = 7, .step = 1}, kStart).error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(study.report({.number = 0, .step = 1, .value = std::nan("")}, kStart));
}

TEST(SharedStudy, TakesAnInfinityForNoResultAsRunsDo) {
  SharedStudy study = make(line("random"));
  for (int64_t number = 0; number < 3; ++number) {
    (void)study.ask({}, kStart);
    const double value = number == 0 ? std::nan("") : number == 1 ? INFINITY : -INFINITY;
    ASSERT_TRUE(study.report({.number = number, .step = 1, .value = value}, kStart));
    const auto told = study.tell({.number = number, .values = {value}}, kStart);
    ASSERT_TRUE(told) << told.error().message;
    EXPECT_TRUE(std::isnan(told->reported));
    EXPECT_EQ(told->state, State::kFail);
    EXPECT_THAT(told->reason, HasSubstr("no finite number"));
  }
  EXPECT_THAT(study.best(), IsEmpty());
}

TEST(SharedStudy, KeepsTheFrontOfSeveralMetrics) {
  StudyDefinition definition = line("nsga2");
  definition.metrics = {"error", "ms"};
  definition.modes = {"min", "min"};
  SharedStudy study = make(definition);
  (void)study.ask({.count = 4}, kStart);
  const std::vector<std::vector<double>> values{{1, 4}, {3, 3}, {2, 2}, {4, 1}};
  for (int64_t number = 0; number < 4; ++number)
    ASSERT_TRUE(study.tell({.number = number, .values = values[static_cast<size_t>(number)]}, kStart));
  EXPECT_THAT(study.best(), ElementsAre(0, 2, 3));
  EXPECT_THAT(study.report({.number = 0, .step = 1}, kStart).error().message,
              HasSubstr("of which nothing decides before the end"));
}

TEST(SharedStudy, RefusesDefinitionsByName) {
  const auto with = [](auto change) {
    StudyDefinition definition = line();
    change(definition);
    return refusal(definition);
  };
  EXPECT_THAT(with([](auto& d) { d.name = "a/b"; }), HasSubstr("study.name: expected 1 to 64 letters"));
  EXPECT_THAT(with([](auto& d) { d.name = ".."; }), HasSubstr("study.name"));
  EXPECT_THAT(with([](auto& d) { d.space = "{"; }), HasSubstr("study.space"));
  EXPECT_THAT(with([](auto& d) { d.space = "\"" + std::string(40'000, 'x') + "\""; }),
              HasSubstr("study.space: 40002 bytes of JSON; at most 32768"));
  EXPECT_THAT(with([](auto& d) { d.searcher = "tpf"; }), HasSubstr("study.searcher: there is no searcher \"tpf\""));
  EXPECT_THAT(with([](auto& d) { d.scheduler = "hyperband"; }),
              HasSubstr("pauses trials, which workers that ask and tell cannot"));
  EXPECT_THAT(with([](auto& d) { d.modes = {"least"}; }), HasSubstr("expected min or max, got \"least\""));
  EXPECT_THAT(with([](auto& d) { d.metrics.clear(), d.modes.clear(); }),
              HasSubstr("study.objectives: expected 1 to 8"));
  EXPECT_THAT(with([](auto& d) {
                d.searcher = "cmaes", d.metrics = {"a", "b"}, d.modes = {"min", "min"};
              }),
              HasSubstr("learns from one metric: take tpe, gp or nsga2"));
  EXPECT_THAT(with([](auto& d) { d.max_trials = 20'001; }),
              HasSubstr("study.max_trials: expected 0 to 20000, got 20001"));
  EXPECT_THAT(with([](auto& d) { d.lease_s = -1; }), HasSubstr("study.lease_s"));
  EXPECT_THAT(with([](auto& d) {
                d.space = "{";
                for (int i = 0; i < 201; ++i)
                  d.space += fmt::format("{}\"p{}\":{{\"uniform\":[0,1]}}", i == 0 ? "" : ",", i);
                d.space += "}";
              }),
              HasSubstr("201 parameters"));
  EXPECT_THAT(make(line()).ask({.count = 101}, kStart).error().message,
              HasSubstr("ask.count: expected 1 to 100, got 101"));
}

// Random requests, most of them valid.
std::vector<StudyEvent> live(SharedStudy& study, uint64_t seed, int64_t& now) {
  SeededRandom random(seed);
  std::vector<StudyEvent> events;
  for (int step = 0; step < 300; ++step) {
    now += static_cast<int64_t>(random.below(8000));
    const auto number = static_cast<int64_t>(random.below(study.trials().size() + 1));
    const std::string request = random.below(2) == 0 ? "" : fmt::format("r{}", random.below(200));
    switch (random.below(6)) {
      case 0:
        (void)study.ask({.request = request, .count = 1 + static_cast<int64_t>(random.below(3)), .worker = "w"}, now);
        break;
      case 1:
        (void)study.tell(
            {.request = request, .number = number, .values = {random.below(20) == 0 ? NAN : random.real()}}, now);
        break;
      case 2:
        (void)study.tell(
            {.request = request, .number = number, .state = random.below(2) == 0 ? State::kPruned : State::kFail}, now);
        break;
      case 3:
        study.end_leases(now);
        break;
      default:
        (void)study.report({.request = request,
                            .number = number,
                            .step = static_cast<int64_t>(random.below(6)),
                            .value = random.real()},
                           now);
        break;
    }
    for (StudyEvent& event : study.take_events()) events.push_back(std::move(event));
  }
  return events;
}

TEST(SharedStudy, AReplayComesToTheSameStateByteForByte) {
  for (const char* searcher : {"random", "tpe:n_startup_trials=3", "gp:n_startup_trials=3", "cmaes",
                               "nsga2:population_size=4", "bohb:max_t=9", "sobol"}) {
    for (uint64_t seed = 1; seed <= how_many(2U, 1U); ++seed) {
      SCOPED_TRACE(fmt::format("{} seed {}", searcher, seed));
      StudyDefinition definition = line(searcher);
      definition.scheduler = "asha:grace_period=1,max_t=5,reduction_factor=2";
      SharedStudy study = make(definition);
      int64_t now = kStart;
      const auto events = live(study, seed, now);
      ASSERT_GT(events.size(), 100U);
      SharedStudy again = replayed(definition, events);
      EXPECT_EQ(again.snapshot(), study.snapshot());
      EXPECT_EQ(again.differences(), 0);
      // Restored from a snapshot, both continue alike.
      auto restored = SharedStudy::restore(definition, study.snapshot());
      ASSERT_TRUE(restored) << restored.error().message;
      EXPECT_EQ(restored->snapshot(), study.snapshot());
      EXPECT_EQ(restored->counts(), study.counts());
      EXPECT_EQ(restored->deadline_ms(), study.deadline_ms());
      int64_t now2 = now;
      (void)live(study, seed + 10, now);
      (void)live(*restored, seed + 10, now2);
      EXPECT_EQ(restored->snapshot(), study.snapshot());
    }
  }
}

TEST(SharedStudy, WhatWasGivenOutStaysWhereTheSearcherWouldSuggestAnother) {
  SharedStudy study = make(line("random"));
  (void)study.ask({.count = 2}, kStart);
  auto events = study.take_events();
  events[0].configs[1] = Config{{"x", 4.5}};
  SharedStudy again = replayed(line("random"), events);
  EXPECT_EQ(again.trials()[1].config.real("x"), 4.5);
  EXPECT_EQ(again.differences(), 1);
}

TEST(SharedStudy, RefusesAJournalThatDoesNotFit) {
  SharedStudy study = make(line("random"));
  EXPECT_THAT(study.replay({.kind = StudyEvent::Kind::kTold, .numbers = {0}, .values = {1}}).error().message,
              HasSubstr("trial 0 was not asked for"));
  EXPECT_EQ(study.replay({.kind = StudyEvent::Kind::kTold}).error().code, ErrorCode::kInternal);
  EXPECT_FALSE(SharedStudy::restore(line("random"), "torn"));
}

TEST(SharedStudy, ForgetsOldRequestsAtItsLimit) {
  SharedStudy study = make(line("random"));
  (void)study.ask({.request = "first"}, kStart);
  for (size_t i = 0; i < StudyLimits::kRequests; ++i) (void)study.ask({.request = fmt::format("r{}", i)}, kStart);
  EXPECT_THAT(numbers(*study.ask({.request = "r0"}, kStart)), ElementsAre(1));
  EXPECT_THAT(numbers(*study.ask({.request = "first"}, kStart)),
              ElementsAre(static_cast<int64_t>(StudyLimits::kRequests) + 1));
}

}  // namespace
}  // namespace volador::tune
