// Calls that arrive with the request to start an actor.
#pragma once

#include "runtime/actor/call_runner.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

// Queues them on the runner as calls of the creator. The runner keeps their replies until the creator fetches them over
// its connection, as after a lost connection.
void run_opening(CallRunner& runner, const protocol::ActorSpec& spec, uint64_t epoch);

}  // namespace volador
