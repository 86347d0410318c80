#include <fmt/format.h>
#include <unistd.h>
#include <volador/volador.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "tests/bench/figure.h"

namespace volador::bench {
namespace {

// One step of a second, or many of nothing.
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

// Seconds from the call of tune::run to its return; results with JSON and CSV go to a folder that is removed.
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

Measured tune_overhead() {
  return {.values = {run_seconds(640, 1.0, 1)}, .baselines = {40.0}, .note = "640 trials of 1 s on 16 slots cannot take less than 40 s"};
}

Measured tune_reports() {
  constexpr int64_t kTrials = 16;
  constexpr int64_t kSteps = 3'000;
  Measured measured{.note = "no baseline; Ray Tune makes 530-650 on such a machine"};
  for (int run = 0; run < 3; ++run) measured.values.push_back(static_cast<double>(kTrials * kSteps) / run_seconds(kTrials, 0, kSteps));
  return measured;
}

}  // namespace

std::vector<Figure> tune_figures() { return {{"tune_overhead", "s", false, tune_overhead}, {"tune_reports", "results/s", true, tune_reports}}; }

}  // namespace volador::bench
