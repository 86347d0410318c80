#include "tune/tune.h"

// A function with captures cannot be sent to other processes.
void program() {
  double rate = 0.1;
  volador::tune::run(
      [rate](const volador::tune::Config&) {
        volador::tune::report({{"rate", rate}});
      },
      {.num_samples = 2});
}
