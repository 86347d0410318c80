#include "tune/loop/time_left.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "runtime/random.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/saved_run.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/schedulers/hyperband_scheduler.h"
#include "tune/schedulers/median_stopping_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/searchers/recording_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/simulation/simulation.h"

namespace volador::tune {
namespace {

using ::testing::AllOf;
using ::testing::Ge;
using ::testing::Gt;
using ::testing::Le;
using ::testing::Lt;
using Place = RunPace::Place;

RunPace::Trial paced(Place place, int64_t step, double step_s) {
  return {.place = place,
          .step = step,
          .steps_seen = std::max<int64_t>(step, 1),
          .step_s = step_s,
          .step_s2 = step_s * step_s};
}

TEST(TimeLeft, ARunningTrialNeedsTheStepsUpToItsLimitAtItsOwnPace) {
  RunPace run{.trials = {paced(Place::kRunning, 9, 3)}, .steps_max = 40, .slots = 5};
  const auto left = estimate_time_left(run);
  ASSERT_TRUE(left);
  EXPECT_NEAR(left->seconds, 93, 5);
  EXPECT_THAT(left->low, AllOf(Gt(60), Lt(left->seconds)));
  EXPECT_THAT(left->high, AllOf(Gt(left->seconds), Lt(130)));
  run.trials[0].since_s = 2;
  EXPECT_LT(estimate_time_left(run)->seconds, left->seconds);
  run.trials.push_back(paced(Place::kRunning, 9, 30));
  EXPECT_NEAR(estimate_time_left(run)->seconds, 930, 50) << "each by its own pace";
}

// Five trials at step 9 of 40 beside many that were stopped at the first rung: 93 s; an estimate from the durations of
// ended trials gives 3 s.
TEST(TimeLeft, TakesTheStepThatTrialsHaveReachedIntoAccount) {
  RunPace run{.steps_max = 40,
              .rungs = {{.step = 1, .pass = 0.25}, {.step = 4, .pass = 0.25}, {.step = 16, .pass = 0.4}},
              .slots = 5};
  for (int i = 0; i < 40; ++i) run.trials.push_back(paced(Place::kEnded, 1, 3));
  for (int i = 0; i < 10; ++i) run.trials.push_back(paced(Place::kEnded, 4, 3));
  for (int i = 0; i < 5; ++i) run.trials.push_back(paced(Place::kRunning, 9, 3));
  const auto left = estimate_time_left(run);
  ASSERT_TRUE(left);
  EXPECT_THAT(left->seconds, AllOf(Ge(21), Le(110)));
  EXPECT_GT(left->high, 85) << "one of them may go to the end";
  EXPECT_GT(left->low, 12) << "all of them go to the rung at 16 at least";
}

TEST(TimeLeft, AddsStartsCheckpointsAndEndsOfEachTrial) {
  RunPace run{.trials = {paced(Place::kRunning, 1, 0.01), paced(Place::kEnded, 2, 0.01)},
              .to_start = 100,
              .steps_max = 2,
              .slots = 2};
  const double bare = estimate_time_left(run)->seconds;
  EXPECT_NEAR(bare, 1, 0.2);
  run.starts_s = {0.5};
  EXPECT_NEAR(estimate_time_left(run)->seconds, bare + 25, 3);
  run.stops_s = {0.3};
  EXPECT_NEAR(estimate_time_left(run)->seconds, bare + 40, 5);
  run.saving_of_step_s = 0.2;
  EXPECT_NEAR(estimate_time_left(run)->seconds, bare + 60, 7);
}

TEST(TimeLeft, SharesTrialsToComeAmongTheSlots) {
  RunPace run{.trials = {paced(Place::kRunning, 5, 1), paced(Place::kEnded, 10, 1), paced(Place::kQueued, 0, 0)},
              .to_start = 9,
              .steps_max = 10,
              .slots = 1};
  run.trials[2].steps_seen = 0;
  EXPECT_NEAR(estimate_time_left(run)->seconds, 105, 8);
  run.slots = 4;
  EXPECT_NEAR(estimate_time_left(run)->seconds, 30, 5);
  run.to_start = 100'000;
  EXPECT_NEAR(estimate_time_left(run)->seconds, 250'000, 20'000);
}

TEST(TimeLeft, SaysNothingWhereNothingRunsOrNothingIsKnown) {
  const RunPace known{.trials = {paced(Place::kRunning, 5, 1)}, .steps_max = 10, .slots = 2};
  ASSERT_TRUE(estimate_time_left(known));
  RunPace run = known;
  run.trials[0].place = Place::kQueued;
  EXPECT_FALSE(estimate_time_left(run)) << "nothing runs";
  run = known;
  run.trials[0].steps_seen = 0;
  EXPECT_FALSE(estimate_time_left(run)) << "no step has ended";
  run = known;
  run.steps_max.reset();
  EXPECT_FALSE(estimate_time_left(run)) << "no limit, and no trial has ended";
  run.trials.push_back(paced(Place::kEnded, 8, 1));
  EXPECT_TRUE(estimate_time_left(run));
  run = known;
  run.slots = 0;
  EXPECT_FALSE(estimate_time_left(run));
  run = known;
  run.to_start.reset();
  EXPECT_FALSE(estimate_time_left(run)) << "no end of trials";
}

TEST(TimeLeft, IsAtMostTheBudget) {
  RunPace run{.trials = {paced(Place::kRunning, 5, 1)}, .steps_max = 10, .slots = 2, .budget_left_s = 2};
  EXPECT_EQ(estimate_time_left(run), (TimeLeft{2, 2, 2}));
  run.budget_left_s = 100;
  EXPECT_LT(estimate_time_left(run)->high, 20);
  run.to_start.reset();
  EXPECT_EQ(estimate_time_left(run), (TimeLeft{100, 100, 100})) << "no end of trials: the budget ends them";
}

TEST(TimeLeft, IsTheSameForTheSameRun) {
  RunPace run{.trials = {paced(Place::kRunning, 5, 1), paced(Place::kEnded, 3, 1)},
              .to_start = 20,
              .steps_max = 10,
              .slots = 2};
  EXPECT_EQ(estimate_time_left(run), estimate_time_left(run));
}

// ---- Coverage: how often the true end lies in the interval.

double unit_normal(uint64_t seed, TrialId trial, int64_t step) {
  SeededRandom random(seed * 1'000'003 + trial.value() * uint64_t{7'919} + static_cast<uint64_t>(step));
  (void)random.next();
  const double u = std::max(random.real(), 1e-300);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * M_PI * random.real());
}

Workload noisy_workload(uint64_t seed, double step_s, double speed_sd, double noise_sd, double start_s, double save_s) {
  Workload workload = synthetic_workload({.seed = seed, .step_s = step_s, .speed_sd = speed_sd}).value();
  workload.seconds = [seed, noise_sd, inner = workload.seconds](const Workload::At& at) {
    return inner(at) * std::exp(noise_sd * unit_normal(seed, at.trial, at.step));
  };
  workload.start_s = start_s;
  workload.checkpoint_s = save_s;
  return workload;
}

struct Covered {
  int64_t inside = 0, all = 0, unknown = 0, below = 0, above = 0;
  double wide = 0, off = 0;  // Sums of high / low, and of the log error of the point estimate.
  double share() const { return static_cast<double>(inside) / static_cast<double>(all); }
};

void look(Covered& covered, const std::optional<TimeLeft>& left, double truth) {
  if (!left) {
    ++covered.unknown;
    return;
  }
  ++covered.all;
  covered.inside += left->low <= truth && truth <= left->high;
  covered.below += truth < left->low;
  covered.above += truth > left->high;
  covered.wide += std::log(left->high / std::max(left->low, 1e-9));
  covered.off += std::abs(std::log(left->seconds / truth));
}

void print(const std::string& name, const Covered& covered) {
  const auto n = static_cast<double>(covered.all);
  std::printf(
      "%-22s %4lld of %4lld inside (%.0f %%), %lld before, %lld after, %lld unknown; high/low %.2f, point off by "
      "%.2f\n",
      name.c_str(), static_cast<long long>(covered.inside), static_cast<long long>(covered.all), 100 * covered.share(),
      static_cast<long long>(covered.below), static_cast<long long>(covered.above),
      static_cast<long long>(covered.unknown), std::exp(covered.wide / n), std::exp(covered.off / n));
}

constexpr int kRunsEach = 24;
constexpr int kLooks = 19;  // Equally spaced over a run.

Covered coverage_of(const std::string& name, const std::function<SimulationOptions(uint64_t seed)>& of) {
  Covered covered;
  for (uint64_t seed = 1; seed <= kRunsEach; ++seed) {
    SimulationOptions options = of(seed);
    options.seed = seed;
    const double end = simulate(options).value().elapsed_s;
    int looks = 1;
    options.after_event = [&](BootTime at, const TrialLoop& loop) {
      const double seconds = std::chrono::duration<double>(at - BootTime{}).count();
      if (looks > kLooks || seconds < end * looks / (kLooks + 1)) return;
      while (looks <= kLooks && seconds >= end * looks / (kLooks + 1)) ++looks;
      look(covered, loop.time_left(at), end - seconds);
    };
    EXPECT_EQ(simulate(options).value().elapsed_s, end);
  }
  print(name, covered);
  return covered;
}

// ---- Recorded runs: journals of programs on a busy machine with two cores (tests/tune/data/time_left/README.md).

JournalContents recording(const std::string& file) {
  std::ifstream in("tests/tune/data/time_left/" + file + ".vlj", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  return parse_journal(bytes).value();
}

// Replays the events of a journal into a loop, as a resumed run does, and checks the estimate along the way.
void look_at(Covered& covered, const JournalContents& journal, LoopOptions options, const SchedulerFactory& scheduler) {
  std::vector<RecordedSuggestion> configs;
  for (const Trial& trial : suggested_trials(journal)) configs.push_back({trial.config});
  const int64_t samples = journal.header.total;
  options.metric = journal.header.metric;
  options.mode = journal.header.mode == "min" ? Mode::kMin : Mode::kMax;
  options.trial_key = journal.header.trial_key();
  auto searcher = std::make_unique<RecordingSearcher>(
      random_search()({.space = {{"x", uniform(0.0, 1.0)}}, .num_samples = samples}).value(), configs, samples);
  auto loop =
      TrialLoop::create(
          std::move(options), std::move(searcher),
          scheduler({.metric = journal.header.metric, .mode = options.mode, .seed = journal.header.seed}).value())
          .value();
  const std::vector<JournalEvent> events = effective_events(journal.records);
  const auto seconds = [](std::chrono::nanoseconds at) { return std::chrono::duration<double>(at).count(); };
  const double end = seconds(events.back().at);
  int looks = 1;
  (void)loop->begin(BootTime{});
  for (const JournalEvent& told : events) {
    const BootTime now = BootTime{} + told.at;
    (void)loop->handle(now, told.event, WallTime(told.wall));
    if (looks > kLooks || seconds(told.at) < end * looks / (kLooks + 1)) continue;
    while (looks <= kLooks && seconds(told.at) >= end * looks / (kLooks + 1)) ++looks;
    look(covered, loop->time_left(now), end - seconds(told.at));
  }
  EXPECT_TRUE(loop->ended()) << "the recording and the options of this test belong together";
}

// Step times of a recorded run, in another order for each seed.
Workload recorded_steps(const std::string& file, uint64_t seed, double start_s, double save_s) {
  std::map<TrialId, std::vector<double>> steps;
  for (const JournalEvent& told : effective_events(recording(file).records)) {
    if (const auto* result = std::get_if<ResultReported>(&told.event))
      steps[result->trial].push_back(std::chrono::duration<double>(result->duration).count());
  }
  std::vector<std::vector<double>> rows;
  for (auto& [trial, row] : steps) rows.push_back(std::move(row));
  Workload workload = synthetic_workload({.seed = seed}).value();
  workload.seconds = [seed, rows](const Workload::At& at) {
    SeededRandom of_trial(seed * 7'919 + at.trial.value()),
        of_step(seed * 104'729 + at.trial.value() + static_cast<uint64_t>(at.step) * 31);
    const std::vector<double>& row = rows[of_trial.below(rows.size())];
    return std::max(row[of_step.below(row.size())], 1e-6);
  };
  workload.start_s = start_s;
  workload.checkpoint_s = save_s;
  return workload;
}

struct CoverageCase {
  std::string name;
  std::function<SimulationOptions(uint64_t)> options;
};

// Ends of all runs, and of each kind: if all trials take the same time, more ends lie inside.
class Coverage {
 public:
  void add(const std::string& name, const Covered& covered, int64_t looks) {
    EXPECT_GE(covered.all, looks * 8 / 10) << name << ": mostly there is an estimate";
    EXPECT_GE(covered.share(), 0.80) << name;
    together_.inside += covered.inside;
    together_.all += covered.all;
  }
  ~Coverage() {
    std::printf("together               %.0f %%\n", 100 * together_.share());
    EXPECT_THAT(together_.share(), AllOf(Ge(0.80), Le(0.95)));
  }

 private:
  Covered together_;
};

const Space kCoveredSpace = {{"lr", uniform(0.0, 1.0)}};

SimulationOptions covered_run(SchedulerFactory scheduler, int64_t samples, int64_t slots, int64_t steps,
                              Workload workload) {
  return {.space = kCoveredSpace,
          .num_samples = samples,
          .scheduler = std::move(scheduler),
          .workload = std::move(workload),
          .slots = slots,
          .max_steps = steps};
}

// On simulated slots with many seeds, with recorded or synthetic step times.
TEST(TimeLeftCoverage, MostEndsOfSimulatedRunsLieInTheInterval) {
  const std::vector<CoverageCase> cases = {
      CoverageCase{"asha",
                   [](uint64_t seed) {
                     return covered_run(asha({.max_t = 27, .reduction_factor = 3}), 40, 4, 27,
                                        recorded_steps("digits_1", seed, 0.5, 0.1));
                   }},
      CoverageCase{"asha_large",
                   [](uint64_t seed) {
                     return covered_run(asha({.max_t = 64, .reduction_factor = 4}), 300, 16, 64,
                                        noisy_workload(seed, 1, 0.3, 0.2, 0.5, 0.1));
                   }},
      CoverageCase{"hyperband",
                   [](uint64_t seed) {
                     return covered_run(hyperband({.max_t = 27}), 80, 6, 27,
                                        recorded_steps("digits_1", seed, 0.5, 0.1));
                   }},
      CoverageCase{"hyperband_noisy",
                   [](uint64_t seed) {
                     return covered_run(hyperband({.max_t = 27}), 60, 4, 27,
                                        noisy_workload(seed, 1, 0.3, 0.2, 0.5, 0.1));
                   }},
      CoverageCase{
          "random",
          [](uint64_t seed) { return covered_run({}, 30, 4, 20, noisy_workload(seed, 1, 0.4, 0.3, 0.5, 0.1)); }},
      CoverageCase{"median_stopping",
                   [](uint64_t seed) {
                     return covered_run(median_stopping({}), 40, 4, 20, noisy_workload(seed, 1, 0.3, 0.2, 0.5, 0.1));
                   }},
      CoverageCase{"pbt",
                   [](uint64_t seed) {
                     return covered_run(pbt({.perturbation_interval = 5, .hyperparam_mutations = kCoveredSpace}), 12, 4,
                                        40, recorded_steps("pbt_1", seed, 0.1, 0.02));
                   }},
      CoverageCase{"short_steps", [](uint64_t seed) {
                     return covered_run(asha({.max_t = 9, .reduction_factor = 3}), 60, 4, 9,
                                        noisy_workload(seed, 0.01, 0.3, 0.2, 0.4, 0.05));
                   }}};
  Coverage coverage;
  for (const CoverageCase& one : cases) coverage.add(one.name, coverage_of(one.name, one.options), kRunsEach * kLooks);
}

struct RecordedCase {
  std::string name;
  std::vector<std::string> files;
  std::function<LoopOptions()> options;
  std::function<SchedulerFactory(const JournalContents&)> scheduler;
};

// The number in the journal's "ASHA max_t 27, factor 4".
int64_t max_t_of(const JournalContents& journal) {
  const std::string& text = journal.header.scheduler;
  return std::stoll(text.substr(text.find("max_t ") + 6));
}

TEST(TimeLeftCoverage, MostEndsOfRecordedRunsLieInTheInterval) {
  const std::vector<RecordedCase> cases = {
      RecordedCase{
          "asha",
          {"digits_1", "digits_2", "digits_3", "digits_4", "digits_5"},
          [] { return LoopOptions{.checkpoint = {.frequency = 3, .at_end = true, .num_to_keep = 1}}; },
          [](const JournalContents&) { return asha({.grace_period = 1, .max_t = 27, .reduction_factor = 3}); }},
      RecordedCase{"asha_even_steps",
                   {"sleep_asha_1", "sleep_asha_2", "sleep_asha_3", "sleep_asha_4"},
                   [] { return LoopOptions{.max_failures = 3, .checkpoint = {.num_to_keep = 1}}; },
                   [](const JournalContents& journal) {
                     return asha({.grace_period = 1, .max_t = max_t_of(journal), .reduction_factor = 4});
                   }},
      RecordedCase{"random",
                   {"sleep_1", "sleep_2", "sleep_3", "sleep_4"},
                   [] { return LoopOptions{.max_failures = 3, .checkpoint = {.num_to_keep = 1}}; },
                   [](const JournalContents&) { return fifo(); }},
      RecordedCase{
          "pbt",
          {"pbt_1", "pbt_2", "pbt_3", "pbt_4", "pbt_5"},
          [] {
            return LoopOptions{.stop = {{"training_iteration", 24}}, .checkpoint = {.at_end = true, .num_to_keep = 1}};
          },
          [](const JournalContents&) {
            return pbt({.perturbation_interval = 4,
                        .hyperparam_mutations = {{"lr", loguniform(1e-4, 0.1)}, {"momentum", uniform(0.0, 0.9)}}});
          }},
      RecordedCase{"short_steps",
                   {"short_1", "short_2", "short_3", "short_4"},
                   [] { return LoopOptions{.max_failures = 3, .checkpoint = {.num_to_keep = 1}}; },
                   [](const JournalContents& journal) {
                     return asha({.grace_period = 1, .max_t = max_t_of(journal), .reduction_factor = 4});
                   }},
      RecordedCase{"short_steps_that_save",
                   {"saves_1", "saves_2", "saves_3", "saves_4"},
                   [] { return LoopOptions{.max_failures = 3, .checkpoint = {.frequency = 1, .num_to_keep = 1}}; },
                   [](const JournalContents&) { return fifo(); }},
      RecordedCase{
          "very_short_steps",
          {"quadratic_1", "quadratic_2", "quadratic_3", "quadratic_4"},
          [] { return LoopOptions{.checkpoint = {.frequency = 5, .at_end = true, .num_to_keep = 1}}; },
          [](const JournalContents&) { return asha({.grace_period = 5, .max_t = 45, .reduction_factor = 3}); }}};
  Coverage coverage;
  for (const RecordedCase& one : cases) {
    Covered covered;
    for (const std::string& file : one.files) {
      const JournalContents journal = recording(file);
      look_at(covered, journal, one.options(), one.scheduler(journal));
    }
    print(one.name, covered);
    coverage.add(one.name, covered, static_cast<int64_t>(one.files.size()) * kLooks);
  }
}

}  // namespace
}  // namespace volador::tune
