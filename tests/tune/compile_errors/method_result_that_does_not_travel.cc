#include "volador/volador.h"

// A pointer is not valid in another process.
struct Box {
  std::unique_ptr<int> give() { return {}; }
};
VOLADOR_ACTOR(Box, &Box::give);
void program() { volador::actor<Box>().spawn(); }
