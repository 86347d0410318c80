#include "volador/volador.h"

// A deferred response cannot be stored for a retry.
struct Desk {
  volador::Deferred<int> ask() { return {}; }
};
VOLADOR_ACTOR(Desk, &Desk::ask);
void program() { volador::actor<Desk>().max_task_retries(3).spawn(); }
