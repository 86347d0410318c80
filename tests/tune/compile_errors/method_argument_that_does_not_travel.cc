#include "volador/volador.h"

// A pointer is not valid in another process.
struct Box {
  int take(std::unique_ptr<int> x) { return *x; }
};
VOLADOR_ACTOR(Box, &Box::take);
int program() { return volador::actor<Box>().spawn().call<&Box::take>(std::make_unique<int>(4)).get(); }
