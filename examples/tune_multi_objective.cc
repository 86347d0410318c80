// Two objectives and a constraint: a network should be accurate and fast, and fit into memory. NSGA-II evolves the
// trials; the result is not a single best trial but the Pareto front of both objectives. Each trial "trains" a formula
// that stands for a model.
#include <volador/volador.h>

#include <cmath>
#include <cstdio>

void train(const tune::Config& config) {
  const auto width = static_cast<double>(config.integer("width"));
  const auto depth = static_cast<double>(config.integer("depth"));
  const double rate = std::abs(std::log10(config.real("lr")) + 3);
  const double error =
      0.02 + 0.1 * rate + 1.5 / std::sqrt(width * depth) + (config.text("activation") == "gelu" ? 0 : 0.02);
  const double milliseconds = 0.2 + width * depth / 400;
  const double megabytes = width * width * depth / 4e3;
  tune::report({{"error", error}, {"milliseconds", milliseconds}, {"megabytes_over", megabytes - 64}});
}

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  auto analysis = tune::run<&train>({
      .name = "multi_objective",
      .space = {{"lr", tune::loguniform(1e-5, 1e-1)},
                {"width", tune::lograndint(8, 513)},
                {"depth", tune::randint(1, 9)},
                {"activation", tune::choice({"relu", "gelu"})}},
      .objectives = {{"error", tune::Mode::kMin}, {"milliseconds", tune::Mode::kMin}},
      .constraints = {"megabytes_over"},
      .num_samples = 160,
      .searcher = tune::nsga2({.seed = 7, .population_size = 20}),
      .reuse_actors = true,
      .progress = tune::Progress::kLines,
  });
  const auto front = analysis.pareto_front();
  for (const tune::Trial* trial : front) {
    std::printf("error %.3f in %.2f ms with %s\n", trial->last_result.at("error"),
                trial->last_result.at("milliseconds"), trial->config.to_json().c_str());
  }
  std::printf("%zu trials on the front\n", front.size());
  return front.size() > 5 ? 0 : 1;
} catch (const volador::Exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
