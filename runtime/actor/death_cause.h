// Why an actor ended, as programs are told.
#pragma once

#include "runtime/language/reason.h"
#include "runtime/result.h"

namespace volador::protocol {
class ActorInfo;
class DeathCause;
}  // namespace volador::protocol

namespace volador {

// Names the actor, the node and the cause, then the last lines of its stderr, indented.
Reason death_reason(const protocol::ActorInfo& actor);
// What a caller gets: the same as a text. kActorDied.
Error death_error(const protocol::ActorInfo& actor);

}  // namespace volador
