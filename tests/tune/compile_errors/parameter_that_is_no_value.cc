#include "tune/tune.h"

// A pointer is not valid in another process.
void train(const volador::tune::Config&, const std::unique_ptr<int>&) {}
void program() {
  volador::tune::run(volador::tune::with_parameters<&train>(std::make_unique<int>(2)), {.num_samples = 2});
}
