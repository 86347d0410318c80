#include "volador/volador.h"

// The overload is ambiguous.
struct Box {
  int take(int x) { return x; }
  double take(double x) { return x; }
};
#ifdef NAMED
VOLADOR_ACTOR(Box, static_cast<int (Box::*)(int)>(&Box::take), static_cast<double (Box::*)(double)>(&Box::take));
int program() { return volador::actor<Box>().spawn().call<static_cast<int (Box::*)(int)>(&Box::take)>(4).get(); }
#else
int program(const volador::ActorHandle<Box>& box) { return box.call<&Box::take>(4).get(); }
#endif
