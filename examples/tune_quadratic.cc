// Minimises a quadratic function by gradient descent and tunes learning rate and momentum for the fastest convergence.
// Each trial runs in its own process and saves a checkpoint every fifth step; the best one is read at the end.
#include <volador/volador.h>

#include <cmath>
#include <cstdio>
#include <fstream>

class Descend : public tune::Trainable {
  void setup(const tune::Config& config) override {
    rate_ = config.real("lr");
    momentum_ = config.real("momentum");
  }
  tune::Metrics step() override {
    vx_ = momentum_ * vx_ - rate_ * 2 * (x_ - 3);
    vy_ = momentum_ * vy_ - rate_ * 20 * (y_ + 1);
    x_ += vx_;
    y_ += vy_;
    return {{"height", (x_ - 3) * (x_ - 3) + 10 * (y_ + 1) * (y_ + 1)}};
  }
  void save_checkpoint(const std::filesystem::path& directory) override {
    std::ofstream(directory / "point") << x_ << ' ' << y_ << ' ' << vx_ << ' ' << vy_;
  }
  void load_checkpoint(const std::filesystem::path& directory) override {
    std::ifstream(directory / "point") >> x_ >> y_ >> vx_ >> vy_;
  }

  double rate_ = 0, momentum_ = 0;
  double x_ = 0, y_ = 0, vx_ = 0, vy_ = 0;
};
VOLADOR_TRAINABLE(Descend);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);

  auto analysis = tune::run<Descend>({
      .name = "quadratic",
      .space = {{"lr", tune::loguniform(1e-4, 1e-1)}, {"momentum", tune::uniform(0.0, 0.95)}},
      .metric = "height",
      .mode = tune::Mode::kMin,
      .num_samples = 20,
      .scheduler = tune::asha({.grace_period = 5, .max_t = 45, .reduction_factor = 3}),
      .checkpoint = {.frequency = 5, .at_end = true, .num_to_keep = 1},
      .seed = 7,
  });

  const auto& best = analysis.best_trial();
  double x = 0, y = 0;
  std::ifstream(analysis.best_checkpoint().path() / "point") >> x >> y;
  std::printf("best %s: height %g at (%.3f, %.3f), the lowest point is (3, -1)\n", best.config.to_json().c_str(),
              best.last_result.at("height"), x, y);
  std::printf("results: %s\n", analysis.directory().c_str());
  return best.last_result.at("height") < 1 ? 0 : 1;
} catch (const volador::Exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
