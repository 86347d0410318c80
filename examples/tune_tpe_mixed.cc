// TPE with reals, integers, options, and parameters that exist only for some options. Each trial "trains" a formula
// that stands for a model, so that the program ends in seconds; ASHA stops poor trials early.
#include <volador/volador.h>

#include <cmath>
#include <cstdio>

void train(const tune::Config& config) {
  const bool adam = config.text("optimizer.name") == "adam";
  const double rate = std::abs(std::log10(config.real("lr")) + (adam ? 3 : 1.5));
  const double own =
      adam ? std::abs(config.real("optimizer.beta") - 0.95) * 4 : 0.3 * (1 - config.real("optimizer.momentum"));
  const double size = std::abs(std::log2(static_cast<double>(config.integer("width"))) - 7) / 4;
  const double floor = 0.05 + 0.2 * rate + 0.3 * own + 0.3 * size + (config.text("activation") == "gelu" ? 0 : 0.1);
  for (int epoch = 1; epoch <= 9; ++epoch) tune::report({{"loss", floor + 1.0 / epoch - 1.0 / 9}});
}

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  auto analysis = tune::run<&train>({
      .name = "tpe_mixed",
      .space = {{"lr", tune::loguniform(1e-5, 1.0)},
                {"width", tune::lograndint(8, 1025)},
                {"activation", tune::choice({"relu", "gelu", "tanh"})},
                {"optimizer", tune::choice({tune::SpaceNode{{"name", "adam"}, {"beta", tune::uniform(0.8, 1.0)}},
                                            tune::SpaceNode{{"name", "sgd"}, {"momentum", tune::uniform(0.0, 1.0)}}})}},
      .metric = "loss",
      .mode = tune::Mode::kMin,
      .num_samples = 60,
      .searcher = tune::tpe({.seed = 7}),
      .scheduler = tune::asha({.grace_period = 1, .max_t = 9, .reduction_factor = 3}),
      .reuse_actors = true,
      .progress = tune::Progress::kLines,
  });
  const auto& best = analysis.best_trial();
  std::printf("best loss %.3f with %s\n", best.last_result.at("loss"), best.config.to_json().c_str());
  return best.last_result.at("loss") < 0.5 ? 0 : 1;
} catch (const volador::Exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
