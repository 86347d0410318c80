// Calls that come to an actor with the order to start it.
#pragma once

#include "runtime/actor/call_runner.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

// Gives them to the runner as calls of who made the actor; their answers stay with it until he asks for them over his connection, as after
// one that was lost.
void run_opening(CallRunner& runner, const protocol::ActorSpec& spec, uint64_t epoch);

}  // namespace volador
