// Program for tests of the best trial: five trials with scripted values, some of them equal, falling, absent or NaN.
// Prints the expected results as one line of JSON: the best trial by the last values and by the best values.
#include <fmt/format.h>
#include <volador/volador.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// No value: the report lacks the metric.
const std::vector<std::vector<std::optional<double>>>& script() {
  static const std::vector<std::vector<std::optional<double>>> kScript = {
      {0.9, 0.2, 0.1},  // The best value overall, as in the fifth trial; the first trial counts.
      {0.3, 0.8, 0.6},  // The best last value, as in the third trial.
      {0.2, 0.4, 0.6},  {0.3, 0.5, std::nullopt},  // 0.5 is its last value.
      {0.9, 0.9, kNan},
  };
  return kScript;
}

// The first two trials report last: the order of reports must not matter.
void scripted(const tune::Config& config) {
  const auto row = static_cast<size_t>(config.integer("row"));
  if (row < 2) std::this_thread::sleep_for(std::chrono::milliseconds(400));
  for (const std::optional<double>& value : script().at(row)) {
    tune::Metrics result{{"other", 1}};
    if (value) result.set("score", *value);
    tune::report(result);
  }
}

std::string answer(const tune::Analysis& analysis, tune::Scope scope) {
  const auto best = analysis.find_best({.scope = scope});
  return fmt::format(R"({{"trial": "{}", "value": {}, "step": {}, "config": {}}})", to_string(best->trial->id),
                     best->value, best->step, analysis.best_config({.scope = scope}).to_json());
}

int main(int argc, char** argv) {
  const auto cluster = volador::init(argc, argv);
  const auto analysis = tune::run<&scripted>({.name = "scripted",
                                              .space = {{"row", tune::grid_search({0, 1, 2, 3, 4})}},
                                              .metric = "score",
                                              .mode = tune::Mode::kMax,
                                              .resources_per_trial = {.cpus = 0.25},
                                              .progress = tune::Progress::kSilent});
  fmt::print("{{\"directory\": \"{}\", \"best\": {}, \"best_so_far\": {}}}\n", analysis.directory().string(),
             answer(analysis, tune::Scope::kLast), answer(analysis, tune::Scope::kAll));
  return analysis.best_trial().id == analysis.find_best({})->trial->id ? 0 : 1;
}
