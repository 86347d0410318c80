#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>
#include <volador/volador.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <thread>

#include "tests/bench/figure.h"
#include "tests/tune/asha_appendix.h"
#include "tests/tune/asha_quality.h"
#include "tune/loop/trial_loop.h"
#include "tune/results/experiment_journal.h"
#include "tune/results/experiment_resume.h"

namespace volador::bench {
namespace {

// One step of a second, or many empty ones.
class Sleeper : public tune::Trainable {
 public:
  void setup(const tune::Config& config) override {
    seconds_ = config.real("seconds");
    steps_ = config.integer("steps");
  }
  tune::Metrics step() override {
    if (seconds_ > 0) std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    return {{"score", static_cast<double>(++done_)}, {"done", done_ >= steps_ ? 1.0 : 0.0}};
  }

 private:
  double seconds_ = 0;
  int64_t steps_ = 1;
  int64_t done_ = 0;
};
VOLADOR_TRAINABLE(Sleeper);

// Seconds that tune::run takes; results are written as JSON, CSV and TensorBoard events to a folder that is removed.
double run_seconds(int64_t trials, double seconds, int64_t steps) {
  const auto storage = std::filesystem::temp_directory_path() / fmt::format("volador-bench-results-{}", getpid());
  const auto begin = std::chrono::steady_clock::now();
  (void)tune::run<Sleeper>({
      .name = "bench",
      .space = {{"seconds", seconds}, {"steps", steps}},
      .num_samples = trials,
      .storage_path = storage,
      .progress = tune::Progress::kSilent,
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::filesystem::remove_all(storage);
  return took.count();
}

Measured tune_overhead_16() {
  return {.values = {run_seconds(640, 1.0, 1)},
          .baselines = {40.0},
          .note = "640 trials of 1 s on 16 slots cannot take less than 40 s"};
}

Measured tune_reports_all_loggers() {
  constexpr int64_t kTrials = 16;
  constexpr int64_t kSteps = 3'000;
  Measured measured{.note = "no baseline; Ray Tune makes 530-650 on such a machine"};
  for (int run = 0; run < 3; ++run)
    measured.values.push_back(static_cast<double>(kTrials * kSteps) / run_seconds(kTrials, 0, kSteps));
  return measured;
}

// ---- Trial loop alone, in virtual time.

struct Simulated {
  int64_t events = 0;
  double seconds = 0;  // CPU time of this core.
};

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// ASHA 1-81, factor 3, random search over 4 parameters, 64 slots. The curves cost almost nothing.
Simulated simulate_search(int64_t trials, bool with_journal) {
  std::string bytes;
  tune::SimulationOptions options{.space = {{"a", tune::uniform(0, 1)},
                                            {"b", tune::loguniform(1e-4, 1)},
                                            {"c", tune::randint(0, 100)},
                                            {"d", tune::choice({"x", "y", "z"})}},
                                  .num_samples = trials,
                                  .scheduler = tune::asha({.grace_period = 1, .max_t = 81, .reduction_factor = 3}),
                                  .workload = {.value =
                                                   [](const auto& at) {
                                                     return static_cast<double>(at.index * 7919 % 1'000'003) -
                                                            1.0 / static_cast<double>(at.step);
                                                   },
                                               .seconds = [](const auto&) { return 1.0; }},
                                  .slots = 64,
                                  .max_steps = 81};
  if (with_journal) {
    options.on_event = [&bytes](std::chrono::nanoseconds at, const tune::Event& event) {
      tune::append_journal_record(bytes, tune::JournalEvent{at, at, event});
      if (bytes.size() > size_t{1} << 20) bytes.clear();
    };
  }
  const double begin = cpu_seconds();
  const auto report = tune::simulate(options).value();
  return {report.events, cpu_seconds() - begin};
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

Measured tune_sim_100k() {
  constexpr int64_t kTrials = 100'000;
  const Simulated few = simulate_search(1'000, false);
  const double before = peak_bytes();
  Measured measured;
  Simulated many;
  for (int run = 0; run < 3; ++run) {
    many = simulate_search(kTrials, false);
    measured.values.push_back(static_cast<double>(many.events) / many.seconds);
  }
  const auto nanoseconds = [](const Simulated& one) { return 1e9 * one.seconds / static_cast<double>(one.events); };
  measured.note = fmt::format(
      "no baseline; {:.1f} events a trial, {:.0f} ns an event with 100,000 trials and {:.0f} with 1,000; peak {:.0f} "
      "bytes a trial",
      static_cast<double>(many.events) / kTrials, nanoseconds(many), nanoseconds(few),
      (peak_bytes() - before) / kTrials);
  return measured;
}

Measured tune_sim_100k_journal() {
  Measured measured{.note = "no baseline; as tune_sim_100k, each event encoded for the journal too"};
  for (int run = 0; run < 3; ++run) {
    const Simulated one = simulate_search(100'000, true);
    measured.values.push_back(static_cast<double>(one.events) / one.seconds);
  }
  return measured;
}

// Reads the journal of 10,000 trials with 100 reports each and replays it into the loop; without result files.
Measured tune_resume_10k() {
  constexpr int64_t kTrials = 10'000, kSteps = 100;
  const tune::Space space = {{"a", tune::uniform(0, 1)},
                             {"b", tune::loguniform(1e-4, 1)},
                             {"c", tune::randint(0, 100)},
                             {"d", tune::choice({"x", "y", "z"})}};
  std::string bytes = "VLJRNL01";
  tune::append_journal_record(bytes,
                              tune::JournalHeader{.name = "bench", .metric = "value", .mode = "max", .total = kTrials});
  tune::SimulationOptions options{.space = space,
                                  .num_samples = kTrials,
                                  .workload = {.value =
                                                   [](const auto& at) {
                                                     return static_cast<double>(at.index * 7919 % 1'000'003) -
                                                            1.0 / static_cast<double>(at.step);
                                                   },
                                               .seconds = [](const auto&) { return 1.0; }},
                                  .slots = 64,
                                  .max_steps = kSteps};
  options.on_event = [&bytes](std::chrono::nanoseconds at, const tune::Event& event) {
    tune::append_journal_record(bytes, tune::JournalEvent{at, at, event});
  };
  (void)tune::simulate(options).value();
  Measured measured;
  for (int run = 0; run < 3; ++run) {
    const double begin = cpu_seconds();
    const auto journal = tune::parse_journal(bytes).value();
    auto loop = tune::TrialLoop::create(
                    {.metric = "value", .stop = tune::max_steps(kSteps)},
                    tune::random_search()({.space = space, .metric = "value", .num_samples = kTrials}).value(),
                    tune::fifo()({.metric = "value"}).value())
                    .value();
    loop->reuse(loop->begin(BootTime{}));
    for (const tune::JournalEvent& told : tune::effective_events(journal.records))
      loop->reuse(loop->handle(BootTime{} + told.at, told.event));
    measured.values.push_back(cpu_seconds() - begin);
    if (!loop->ended()) measured.note = "the loop has not ended: ";
  }
  measured.note +=
      fmt::format("no baseline; processor time for {:.0f} MB of journal", static_cast<double>(bytes.size()) / 1e6);
  return measured;
}

// The ASHA paper's appendix over a hundred seeds, with as many threads as cores.
Measured asha_appendix() {
  constexpr uint64_t kSeeds = 100;
  const auto published = tune::testing::published_appendix(VOLADOR_SOURCE_FOLDER);
  std::vector<tune::testing::AppendixCell> ours(published.size());
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(1U, std::thread::hardware_concurrency()); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < ours.size(); at = next++)
        ours[at] = tune::testing::simulated_appendix(published[at], kSeeds, kSeeds);
    });
  }
  for (std::thread& thread : threads) thread.join();
  double finished = 0, first = 0, over_overlap = 1e9, over_barrier = 1e9, within = 0;
  for (size_t at = 0; at < ours.size(); ++at) {
    const auto& [sd, drop, asha, overlap, barrier] = ours[at];
    const double off_finished = std::abs(asha.finished / published[at].asha.finished - 1);
    const double off_first = std::abs(asha.first / published[at].asha.first - 1);
    within += off_finished <= 0.15 && off_first <= 0.2 && asha.finished > overlap.finished &&
              overlap.finished > barrier.finished;
    finished = std::max(finished, off_finished);
    first = std::max(first, off_first);
    over_overlap = std::min(over_overlap, asha.finished / overlap.finished);
    over_barrier = std::min(over_barrier, overlap.finished / barrier.finished);
  }
  return {.values = {within},
          .baselines = {static_cast<double>(published.size())},
          .note = fmt::format("all cells; {} seeds: finished at most {:.1f} % off the paper's, first at most {:.1f} %; "
                              "ASHA over overlapping halving at "
                              "least {:.2f}, that over one bracket after the other {:.2f}",
                              kSeeds, 100 * finished, 100 * first, over_overlap, over_barrier)};
}

// Ratio of the regret of random search with full trials to that of ASHA; 40 seeds.
Measured asha_quality() {
  constexpr uint64_t kSeeds = 40;
  Measured measured{.baselines = {1.7}, .note = "regret of random search over ASHA's, the default surface; aim 1.7."};
  for (const tune::testing::MfSurface& surface : tune::testing::kMfSurfaces) {
    const auto random = tune::testing::search_quality(surface, {}, kSeeds);
    const auto stopping = tune::testing::search_quality(surface, tune::testing::quality_asha(), kSeeds);
    const auto promotion =
        tune::testing::search_quality(surface, tune::testing::quality_asha(tune::AshaVariant::kPromotion), kSeeds);
    if (measured.values.empty()) measured.values = {random.regret / stopping.regret};
    measured.note += fmt::format(
        " {}: random {:.3f} ({:.0f} trials), ASHA {:.3f} ({:.0f}), with promotion {:.3f} ({:.0f});", surface.name,
        random.regret, random.trials, stopping.regret, stopping.trials, promotion.regret, promotion.trials);
  }
  measured.note.pop_back();
  return measured;
}

}  // namespace

std::vector<Figure> tune_figures() {
  return {{"asha_quality", "times", true, asha_quality},
          {"asha_appendix", "cells as published", true, asha_appendix},
          {"tune_sim_100k", "events/s", true, tune_sim_100k},
          {"tune_sim_100k_journal", "events/s", true, tune_sim_100k_journal},
          {"tune_resume_10k", "s", false, tune_resume_10k},
          {"tune_overhead_16", "s", false, tune_overhead_16},
          {"tune_reports_all_loggers", "results/s", true, tune_reports_all_loggers}};
}

}  // namespace volador::bench
