// Why an actor ended, as reported to programs.
#pragma once

#include "runtime/language/reason.h"
#include "runtime/result.h"

namespace volador::protocol {
class ActorInfo;
class DeathCause;
}  // namespace volador::protocol

namespace volador {

// Names the actor, the node and the cause, followed by the indented last lines of its stderr.
Reason death_reason(const protocol::ActorInfo& actor);
// Returns the same text as a kActorDied error for callers.
Error death_error(const protocol::ActorInfo& actor);

}  // namespace volador
