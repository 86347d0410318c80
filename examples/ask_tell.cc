// Uses a searcher in a loop of its own, without trials and processes, to find the minimum of Branin's function. The
// study is saved halfway and restored, as a restarted program would do.
#include <volador/volador.h>

#include <cmath>
#include <cstdio>
#include <numbers>

namespace {

double branin(const tune::Config& config) {
  constexpr double kPi = std::numbers::pi;
  const double x = config.real("x"), y = config.real("y");
  return std::pow(y - 5.1 / (4 * kPi * kPi) * x * x + 5 / kPi * x - 6, 2) + 10 * (1 - 1 / (8 * kPi)) * std::cos(x) + 10;
}

tune::Study make_study() {
  return tune::Study(
      {.space = {{"x", tune::uniform(-5, 10)}, {"y", tune::uniform(0, 15)}}, .searcher = tune::gp({.seed = 7})});
}

}  // namespace

int main() try {
  auto study = make_study();
  study.add({{"x", 0.0}, {"y", 5.0}}, 20.6);  // Known from an earlier run.
  for (int i = 0; i < 20; ++i) {
    const auto trial = study.ask();
    study.tell(trial, branin(trial.config));
  }

  auto again = make_study();
  again.restore(study.snapshot());
  for (int i = 0; i < 20; ++i) {
    const auto first = again.ask(), second = again.ask();  // Two at once, told in any order.
    again.tell(second, branin(second.config));
    again.tell(first, branin(first.config));
  }
  std::printf("after %d trials: %.3f at %s, the lowest is 0.398\n", static_cast<int>(again.size()), again.best()->value,
              again.best()->trial.config.to_json().c_str());
  return again.best()->value < 0.45 ? 0 : 1;
} catch (const volador::Exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
