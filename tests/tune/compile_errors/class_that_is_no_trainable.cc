#include "tune/tune.h"

// A class that is not derived from tune::Trainable.
struct Model {};
VOLADOR_TRAINABLE(Model);
