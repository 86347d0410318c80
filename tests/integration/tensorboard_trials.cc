// A run with curves, histograms and images, for tensorboard_test.py. Argument: the folder for its results; prints its
// directory.
#include <volador/volador.h>

#include <cstdio>
#include <vector>

namespace tune = volador::tune;

void train(const tune::Config& config) {
  for (int step = 1; step <= 3; ++step) {
    std::vector<double> weights;
    for (int i = 0; i <= 60; ++i) weights.push_back(step + i * 0.1);
    tune::add_histogram("layer/weights", weights);
    std::vector<uint8_t> pixels;  // Grows by one column per step: the size identifies the step.
    for (int i = 0; i < (2 + step) * 2; ++i)
      pixels.insert(pixels.end(), {static_cast<uint8_t>(10 * i), static_cast<uint8_t>(step), 255});
    tune::add_image("sample", tune::Image::rgb(2 + step, 2, pixels));
    tune::report({{"loss", config.real("lr") / step}});
  }
}

int main(int argc, char** argv) {
  auto cluster = volador::init(argc, argv);
  const auto analysis = tune::run<&train>({.name = "pictures",
                                           .space = {{"lr", tune::uniform(0.5, 1)}},
                                           .storage_path = argv[1],
                                           .progress = tune::Progress::kSilent,
                                           .trial_folder = "trial_{id}"});
  std::printf("%s\n", analysis.directory().c_str());
}
