#include "tune/tune.h"

// A parameter type without declared fields.
struct Data {
  int* pointer;
};
void train(const volador::tune::Config&, const Data&) {}
void program() { volador::tune::run(volador::tune::with_parameters<&train>(Data{}), {.num_samples = 2}); }
