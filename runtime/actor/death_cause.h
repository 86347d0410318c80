// Why an actor ended, in words.
#pragma once

#include <string>

#include "runtime/result.h"

namespace volador::protocol {
class ActorInfo;
class DeathCause;
}  // namespace volador::protocol

namespace volador {

// "exit code 3", "signal 11 (Segmentation fault)", "node b was lost"…; one line.
std::string describe(const protocol::DeathCause& cause);

// What a caller gets: names the actor, the node and the cause, then the last lines of its stderr, indented. kActorDied.
Error death_error(const protocol::ActorInfo& actor);

}  // namespace volador
