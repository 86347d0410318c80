#include "volador/volador.h"

// Other processes cannot look up a function without a name.
int program() {
  return volador::task<[](int x) { return x * 2; }>(4).submit().get();
}
