#include "volador/volador.h"

// An answer that comes later cannot be kept for a caller that asks again.
struct Desk {
  volador::Deferred<int> ask() { return {}; }
};
VOLADOR_ACTOR(Desk, &Desk::ask);
void program() { volador::actor<Desk>().max_task_retries(3).spawn(); }
