#include "volador/volador.h"

// A pointer is not valid in another process.
int take(std::unique_ptr<int> x) { return *x; }
int program() { return volador::task<&take>(std::make_unique<int>(4)).submit().get(); }
