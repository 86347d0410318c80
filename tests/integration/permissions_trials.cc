// A run that writes every kind of result file, for permissions_test.py. Argument: the folder for its results; prints
// its directory.
#include <volador/volador.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace tune = volador::tune;

class Shrinks : public tune::Trainable {
  void setup(const tune::Config& config) override { rate_ = config.real("lr"); }
  tune::Metrics step() override {
    ++step_;
    std::printf("step %d\n", step_);
    std::fprintf(stderr, "step %d\n", step_);
    std::filesystem::create_directories(tune::artifacts_directory() / "deep");
    std::ofstream(tune::artifacts_directory() / "deep" / "notes.txt") << step_;
    return {{"loss", rate_ / step_}};
  }
  void save_checkpoint(const std::filesystem::path& directory) override {
    std::ofstream(directory / "state") << rate_ << ' ' << step_;
  }
  void load_checkpoint(const std::filesystem::path& directory) override {
    std::ifstream(directory / "state") >> rate_ >> step_;
  }

  double rate_ = 0;
  int step_ = 0;
};
VOLADOR_TRAINABLE(Shrinks);

int main(int argc, char** argv) try {
  auto cluster = volador::init(argc, argv);
  const auto analysis = tune::run<Shrinks>({
      .name = "kept",
      .space = {{"lr", tune::uniform(0.5, 1)}},
      .metric = "loss",
      .mode = tune::Mode::kMin,
      .num_samples = 4,
      .scheduler = tune::pbt({.perturbation_interval = 1, .hyperparam_mutations = {{"lr", tune::uniform(0.5, 1)}}}),
      .stop = {{"training_iteration", 4}},
      .checkpoint = {.frequency = 1, .at_end = true},
      .storage_path = argv[1],
      .progress = tune::Progress::kSilent,
      .log_to_file = true,
  });
  std::printf("%s\n", analysis.directory().c_str());
  return 0;
} catch (const volador::Exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
